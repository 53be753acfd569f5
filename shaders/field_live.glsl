// The live field: hash grid (Müller et al. 2022, section 3) and MLP for each fragment; avatar3d.field.definition defines it. With
// FIELD_SPLIT coarse levels, view and motion come from the vertices, in their share of the network's first layer.
// The tables lie level after level in one array; FEATURES is the type of an entry, LEVEL_MASK the entries of a level less one.
uniform vec3 field_box_min;
uniform vec3 field_box_scale;

#if TABLE == TABLE_BUFFER
uniform samplerBuffer field_table;

FEATURES fetch_features(uint entry) {
    return FEATURES(texelFetch(field_table, int(entry)));
}
#elif TABLE == TABLE_TEXTURE
uniform sampler2D field_table;

FEATURES fetch_features(uint entry) {
    return FEATURES(texelFetch(field_table, ivec2(int(entry) & (TABLE_WIDTH - 1), int(entry) / TABLE_WIDTH), 0));
}
#else
layout(std430, binding = TABLE_BINDING) readonly buffer FieldTable { STORED field_entries[]; };

FEATURES fetch_features(uint entry) {
#if HALF_NUMBERS && CHANNELS == 1
    vec2 pair = unpackHalf2x16(field_entries[entry >> 1u]);
    return FEATURES((entry & 1u) == 0u ? pair.x : pair.y);
#elif HALF_NUMBERS && CHANNELS == 2
    return FEATURES(unpackHalf2x16(field_entries[entry]));
#elif HALF_NUMBERS
    return FEATURES(vec4(unpackHalf2x16(field_entries[entry].x), unpackHalf2x16(field_entries[entry].y)));
#else
    return FEATURES(field_entries[entry]);
#endif
}
#endif

FEATURES trilinear(uvec4 lower, uvec4 upper, uint offset, vec3 fraction) {
    FEATURES front = mix(
        mix(fetch_features(offset + lower.x), fetch_features(offset + lower.y), fraction.x),
        mix(fetch_features(offset + lower.z), fetch_features(offset + lower.w), fraction.x),
        fraction.y);
    FEATURES back = mix(
        mix(fetch_features(offset + upper.x), fetch_features(offset + upper.y), fraction.x),
        mix(fetch_features(offset + upper.z), fetch_features(offset + upper.w), fraction.x),
        fraction.y);
    return mix(front, back, fraction.z);
}

FEATURES dense_level(vec3 unit, uint resolution, uint offset) {
    vec3 scaled = unit * float(resolution);
    vec3 cell = min(floor(scaled), vec3(float(resolution - 1u)));
    uint side = resolution + 1u;
    uint corner = uint(cell.x) + side * (uint(cell.y) + side * uint(cell.z));
    uvec4 lower = corner + uvec4(0u, 1u, side, side + 1u);
    return trilinear(lower, lower + side * side, offset, scaled - cell);
}

FEATURES hashed_level(vec3 unit, uint resolution, uint offset) {
    vec3 scaled = unit * float(resolution);
    vec3 cell = min(floor(scaled), vec3(float(resolution - 1u)));
    uint x = uint(cell.x);
    uint y = uint(cell.y) * 2654435761u;
    uint z = uint(cell.z) * 805459861u;
    uvec4 across = uvec4(x ^ y, (x + 1u) ^ y, x ^ (y + 2654435761u), (x + 1u) ^ (y + 2654435761u));
    return trilinear(
        (across ^ z) & LEVEL_MASK, (across ^ (z + 805459861u)) & LEVEL_MASK, offset, scaled - cell);
}

#include "field_network"

#include "field_bound.glsl"

vec3 unit_place(vec3 where) {
    return clamp((where - field_box_min) * field_box_scale, 0.0, 1.0);
}

#if FIELD == FIELD_SPLIT
vec4 field(vec3 where, vec4 share[HIDDEN_ROWS]) {
    return bounded(field_network(unit_place(where), share));
}
#else
vec4 field(vec3 where, vec3 d) {
    return bounded(field_network(unit_place(where), d));
}
#endif
