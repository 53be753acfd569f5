// Places one hair level: base + offset · extent, moved with the head.
#include "eyes.glsl"
#include "view_direction.glsl"
#if FIELD == FIELD_BAKED
#include "field_vertex.glsl"
uniform float level_layer;
#endif

in vec3 base;
in vec3 extent;
in vec3 normal;
in vec3 shade;
in vec2 uv;

uniform mat3 head_rotation;
uniform vec3 head_translation;
uniform float level_offset;

out vec2 surface_uv;
out vec3 surface_shade;
#if FIELD == FIELD_LIVE
out vec3 surface_view;
out vec3 surface_canonical;
#elif FIELD == FIELD_BAKED
out vec3 surface_residual;
#endif

void main() {
    vec3 canonical = base + level_offset * extent;
    vec3 position = head_rotation * canonical + head_translation;
    surface_uv = uv;
    surface_shade = shade;
#if FIELD == FIELD_LIVE
    surface_view = view_direction(position, head_rotation * normal, eye[EYE]);
    surface_canonical = canonical;
#elif FIELD == FIELD_BAKED
    int vertex = gl_VertexID + int(level_layer) * VERTICES;
    surface_residual = vertex_residual(vertex, view_direction(position, head_rotation * normal, eye[EYE]));
#endif
    place(view_projection[EYE] * vec4(position, 1.0), EYE);
}
