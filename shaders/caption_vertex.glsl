// A rectangle in clip space.
uniform vec2 corner, size;
out vec2 place;

void main() {
    place = vec2(gl_VertexID & 1, gl_VertexID >> 1);
    gl_Position = vec4(corner + place * size, 0.0, 1.0);
}
