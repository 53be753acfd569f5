// Lays the hair's faces out over their texture.
in vec2 uv;
in vec3 shade;

out vec2 surface_uv;
out vec3 surface_shade;

void main() {
    surface_uv = uv;
    surface_shade = shade;
    gl_Position = vec4(uv * 2.0 - 1.0, 0.0, 1.0);
}
