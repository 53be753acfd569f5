// Lays rectangles, in pixels of an eye's picture (0 at the lower left), over it.
in vec2 corner;

uniform vec2 size;  // pixels of the picture
uniform vec2 scale;  // texture coordinates a pixel

out vec2 pixel;
out vec2 coarse_uv;

void main() {
    pixel = corner;
    coarse_uv = corner * scale;
    gl_Position = vec4(corner / size * 2.0 - 1.0, 0.0, 1.0);
}
