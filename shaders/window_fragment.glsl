// The lower left share of a linear picture, encoded for a window without an sRGB framebuffer.
uniform sampler2D picture;
uniform vec2 share, last;
in vec2 place;
out vec4 shown;

void main() {
    vec3 linear = texture(picture, min(place * share, last)).rgb;  // what lies beyond was drawn at another time
    shown = vec4(mix(linear * 12.92, 1.055 * pow(linear, vec3(1.0 / 2.4)) - 0.055, greaterThan(linear, vec3(0.0031308))), 1.0);
}
