// Letters on a dark ground, as the window's pixels have them: sRGB, straight alpha.
uniform sampler2D letters;
in vec2 place;
out vec4 shown;

void main() {
    float covered = texture(letters, vec2(place.x, 1.0 - place.y)).r;
    shown = vec4(mix(vec3(0.08), vec3(0.93), covered), mix(0.75, 1.0, covered));
}
