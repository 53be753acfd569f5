// The field at a vertex, whose share of the network's first layer lies in a buffer; avatar3d.render.fold defines it.
uniform samplerBuffer field_hidden;
#include "field_vertex_network"

vec3 vertex_residual(int vertex, vec3 d) {
    vec3 raw = field_vertex_network(vertex, d).rgb;
    return raw / (1.0 + abs(raw)) * FIELD_BOUND.rgb;
}
