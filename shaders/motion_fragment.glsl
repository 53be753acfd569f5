// How far a point of the surface moved on the screen since before: pixels, x to the right, y downward; or with NDC, all three
// normalised device coordinates.
in vec4 clip_now;
in vec4 clip_before;

uniform vec2 viewport;  // pixels

out vec4 motion;

void main() {
    vec3 moved = clip_now.xyz / clip_now.w - clip_before.xyz / clip_before.w;
#if NDC
    motion = vec4(moved, 1.0);
#else
    motion = vec4(vec2(moved.x, -moved.y) * 0.5 * viewport, 0.0, 1.0);
#endif
}
