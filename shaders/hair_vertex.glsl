// Places one hair level: base + offset · extent, moved with the head.
#include "eyes.glsl"
#include "view_direction.glsl"
#if FIELD == FIELD_VERTICES || FIELD == FIELD_SPLIT
#include "vertex_field.glsl"
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
#if FIELD == FIELD_VERTICES
out vec4 surface_change;
#elif FIELD == FIELD_SPLIT
out vec4 surface_share[HIDDEN_ROWS];
#elif FIELD == FIELD_PIXELS
out vec3 surface_view;
#endif
#if FIELD == FIELD_SPLIT || FIELD == FIELD_PIXELS
out vec3 surface_canonical;
#endif

void main() {
    vec3 canonical = base + level_offset * extent;
    vec3 position = head_rotation * canonical + head_translation;
    surface_uv = uv;
    surface_shade = shade;
#if FIELD != FIELD_NONE
    vec3 d = view_direction(position, head_rotation * normal, eye[EYE]);
#endif
#if FIELD == FIELD_VERTICES
    surface_change = vertex_change(gl_VertexID + int(level_layer) * VERTICES, d);
#elif FIELD == FIELD_SPLIT
    field_vertex_share(gl_VertexID + int(level_layer) * VERTICES, d, surface_share);
#elif FIELD == FIELD_PIXELS
    surface_view = d;
#endif
#if FIELD == FIELD_SPLIT || FIELD == FIELD_PIXELS
    surface_canonical = canonical;
#endif
    place(view_projection[EYE] * vec4(position, 1.0), EYE);
}
