// Letters on a dark ground, of the upper share of their picture.
uniform sampler2D letters;
uniform float share;
uniform vec3 back, ink;  // linear
uniform float back_alpha;
in vec2 place;
out vec4 premultiplied;

void main() {
    float covered = texture(letters, vec2(place.x, (1.0 - place.y) * share)).r;
    premultiplied = vec4(mix(back * back_alpha, ink, covered), mix(back_alpha, 1.0, covered));
}
