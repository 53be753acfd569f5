// A rectangle in the scene: a corner and two sides, metres.
uniform mat4 view_projection;
uniform vec3 corner, right, up;
out vec2 place;

void main() {
    place = vec2(gl_VertexID & 1, gl_VertexID >> 1);
    gl_Position = view_projection * vec4(corner + place.x * right + place.y * up, 1.0);
}
