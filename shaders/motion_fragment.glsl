// How many pixels a point of the surface moved on the screen since before, x to the right, y downward.
in vec4 clip_now;
in vec4 clip_before;

uniform vec2 viewport;  // pixels

out vec4 motion;

void main() {
    vec2 moved = (clip_now.xy / clip_now.w - clip_before.xy / clip_before.w) * 0.5 * viewport;
    motion = vec4(moved.x, -moved.y, 0.0, 1.0);
}
