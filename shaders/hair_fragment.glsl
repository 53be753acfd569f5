// Colour and opacity of one hair level; BASE_LEVEL is opaque, two-sided, and where CUT, cut where its opacity is under one half.
// FOLDED: one texture holds both, and what the field changes of the opacity.
in vec2 surface_uv;
in vec3 surface_shade;
#if FIELD == FIELD_VERTICES
in vec4 surface_change;
#elif FIELD == FIELD_SPLIT
in vec4 surface_share[HIDDEN_ROWS];
#elif FIELD == FIELD_PIXELS
in vec3 surface_view;
#endif
#if FIELD == FIELD_SPLIT || FIELD == FIELD_PIXELS
in vec3 surface_canonical;
#include "field_live.glsl"
#endif

uniform float level_layer;
#if FOLDED
uniform sampler2DArray hair_folded;
#else
uniform sampler2D hair_color;
uniform sampler2DArray hair_opacity;
uniform float level_occlusion;
#endif

out vec4 premultiplied;

void main() {
#if FIELD == FIELD_VERTICES
    vec4 change = surface_change;
#elif FIELD == FIELD_SPLIT
    vec4 change = field(surface_canonical, surface_share);
#elif FIELD == FIELD_PIXELS
    vec4 change = field(surface_canonical, normalize(surface_view));
#else
    vec4 change = vec4(0.0);
#endif
#if FOLDED
    vec4 texel = texture(hair_folded, vec3(surface_uv, level_layer));
    vec3 albedo = COLOR(texel.rgb);
    float alpha = texel.a;
#else
    vec3 albedo = COLOR(texture(hair_color, surface_uv).rgb) * level_occlusion;
    float alpha = clamp(texture(hair_opacity, vec3(surface_uv, level_layer)).r + change.a, 0.0, 1.0);
#endif
#if BASE_LEVEL
#if CUT
    if (alpha < HAIR_CUT) discard;
#endif
    alpha = 1.0;
    float side = gl_FrontFacing ? 1.0 : BACK_FACE_SHADE;
#else
    float side = 1.0;
#endif
    vec3 color = albedo * side * surface_shade + change.rgb;
    premultiplied = vec4(max(color, vec3(0.0)) * alpha, alpha);
}
