// Keeps what the network gives inside of the field's bounds: colour, opacity.
vec4 bounded(vec4 raw) {
    return raw / (1.0 + abs(raw)) * FIELD_BOUND;
}
