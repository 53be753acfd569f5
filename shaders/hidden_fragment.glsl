// Only the depth counts: the colour is blended away.
out vec4 none;

void main() {
    none = vec4(0.0);
}
