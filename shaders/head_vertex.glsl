// Places the head's posed vertices on the screen; posing and shade are done once a frame by the scene.
#include "view_direction.glsl"

in vec3 position;
in vec3 normal;
in vec3 shade;
in vec3 canonical;
in vec2 uv;
in float alpha;
in float field_weight;
in vec2 gloss;

uniform mat4 view_projection;
uniform vec3 eye;

out vec2 surface_uv;
out vec3 surface_shade;
#if FIELD != FIELD_NONE
out vec4 surface_view;  // view direction in the local frame, field weight
#endif
#if FIELD == FIELD_LIVE
out vec3 surface_canonical;
#endif
#if DETAIL
out vec3 surface_normal;
out vec3 surface_position;
out vec3 surface_gloss;  // strength, exponent, alpha
#endif

void main() {
    surface_uv = uv;
    surface_shade = shade;
#if FIELD != FIELD_NONE
    surface_view = vec4(view_direction(position, normal, eye), field_weight);
#endif
#if FIELD == FIELD_LIVE
    surface_canonical = canonical;
#endif
#if DETAIL
    surface_normal = normal;
    surface_position = position;
    surface_gloss = vec3(gloss, alpha);
#endif
    gl_Position = view_projection * vec4(position, 1.0);
}
