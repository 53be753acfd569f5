// Colour and opacity of one hair level; BASE_LEVEL is opaque, two-sided, and where CUT, cut where its opacity is under one half.
in vec2 surface_uv;
in vec3 surface_shade;
#if FIELD != FIELD_NONE
in vec3 surface_view;
#endif
#if FIELD == FIELD_LIVE
in vec3 surface_canonical;
#endif

uniform float level_layer;
#if FOLDED
uniform sampler2DArray hair_folded;
#else
uniform sampler2D hair_color;
uniform sampler2DArray hair_opacity;
uniform float level_occlusion;
#endif
#include "field.glsl"

out vec4 premultiplied;

void main() {
#if FOLDED
    // Square roots spread eight bits over dark colours as the eye does, and cost less to undo than sRGB.
    vec4 texel = texture(hair_folded, vec3(surface_uv, level_layer));
    vec3 albedo = texel.rgb * texel.rgb;
    vec4 change = vec4(0.0);
    float alpha = texel.a;
#else
    vec3 albedo = COLOR(texture(hair_color, surface_uv).rgb) * level_occlusion;
    float alpha = texture(hair_opacity, vec3(surface_uv, level_layer)).r;
#if FIELD == FIELD_LIVE
    vec4 change = field(surface_canonical, normalize(surface_view));
#elif FIELD == FIELD_BAKED
    vec4 change = field(vec3(surface_uv, level_layer), normalize(surface_view));
#else
    vec4 change = vec4(0.0);
#endif
    alpha = clamp(alpha + change.a, 0.0, 1.0);
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
