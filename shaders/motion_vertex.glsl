// A vertex now, with its places on the screen now and before.
in vec3 position;
in vec3 position_before;

uniform mat4 view_projection;
uniform mat4 view_projection_before;

out vec4 clip_now;
out vec4 clip_before;

void main() {
    clip_now = view_projection * vec4(position, 1.0);
    clip_before = view_projection_before * vec4(position_before, 1.0);
    gl_Position = clip_now;
}
