// Colour and opacity of one hair level; BASE_LEVEL is opaque, two-sided, and where CUT, cut where its opacity is under one half.
in vec2 surface_uv;
in vec3 surface_shade;
#if FIELD == FIELD_LIVE
in vec3 surface_view;
in vec3 surface_canonical;
#elif FIELD == FIELD_BAKED
in vec3 surface_residual;
#endif

uniform float level_layer;
#if FIELD == FIELD_LIVE
uniform sampler2D hair_color;
uniform sampler2DArray hair_opacity;
uniform float level_occlusion;
#include "field_live.glsl"
#else
uniform sampler2DArray hair_folded;
#endif

out vec4 premultiplied;

void main() {
#if FIELD == FIELD_LIVE
    vec3 albedo = COLOR(texture(hair_color, surface_uv).rgb) * level_occlusion;
    vec4 change = field(surface_canonical, normalize(surface_view));
    vec3 residual = change.rgb;
    float alpha = clamp(texture(hair_opacity, vec3(surface_uv, level_layer)).r + change.a, 0.0, 1.0);
#else
    vec4 texel = texture(hair_folded, vec3(surface_uv, level_layer));
    vec3 albedo = COLOR(texel.rgb);
    float alpha = texel.a;
#if FIELD == FIELD_BAKED
    vec3 residual = surface_residual;
#else
    vec3 residual = vec3(0.0);
#endif
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
    vec3 color = albedo * side * surface_shade + residual;
    premultiplied = vec4(max(color, vec3(0.0)) * alpha, alpha);
}
