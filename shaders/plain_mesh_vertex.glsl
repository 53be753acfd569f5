// The head as any viewer draws it: the control of every measurement (see avatar3d.bench.control).
in vec3 position;
in vec3 shade;
in vec2 uv;
uniform mat4 view_projection;
out vec3 surface_shade;
out vec2 surface_uv;

void main() {
    surface_shade = shade;
    surface_uv = uv;
    gl_Position = view_projection * vec4(position, 1.0);
}
