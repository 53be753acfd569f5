// One texture, lit at the vertices.
in vec3 surface_shade;
in vec2 surface_uv;
uniform sampler2D color;
out vec4 shown;

void main() {
    shown = vec4(texture(color, surface_uv).rgb * surface_shade, 1.0);
}
