// Places one hair level: base + offset · extent, moved with the head.
#include "eyes.glsl"
#include "view_direction.glsl"

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
#if FIELD != FIELD_NONE
out vec3 surface_view;
#endif
#if FIELD == FIELD_LIVE
out vec3 surface_canonical;
#endif

void main() {
    vec3 canonical = base + level_offset * extent;
    vec3 position = head_rotation * canonical + head_translation;
    surface_uv = uv;
    surface_shade = shade;
#if FIELD != FIELD_NONE
    surface_view = view_direction(position, head_rotation * normal, eye[EYE]);
#endif
#if FIELD == FIELD_LIVE
    surface_canonical = canonical;
#endif
    place(view_projection[EYE] * vec4(position, 1.0), EYE);
}
