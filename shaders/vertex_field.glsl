// The field at a vertex, whose share of the network's first layer lies in a buffer; avatar3d.rendering.lod.fold defines it.
uniform samplerBuffer field_hidden;
#include "field_vertex_network"
#include "field_bound.glsl"

#if FIELD == FIELD_VERTICES
vec4 vertex_change(int vertex, vec3 d) {
    return bounded(field_vertex_network(vertex, d));
}
#endif
