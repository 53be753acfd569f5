// Colour of the head's surface, or with DEPTH_ONLY none; DETAIL adds gloss (eyes, teeth, tongue), FADED the fading rim of the bust.
// GBUFFER takes what the surface is from images drawn before.
#if GBUFFER
#include "gbuffer.glsl"
#else
in vec2 surface_uv;
in vec3 surface_shade;
#if FIELD == FIELD_VERTICES
in vec3 surface_residual;
#elif FIELD == FIELD_SPLIT
in vec4 surface_share[HIDDEN_ROWS];
#elif FIELD == FIELD_PIXELS
in vec3 surface_view;
#endif
#if FIELD == FIELD_SPLIT || FIELD == FIELD_PIXELS
in vec4 surface_canonical;
#endif
#endif
#if DETAIL
in vec3 surface_normal;
in vec3 surface_toward;
in vec3 surface_gloss;
uniform vec3 light_direction;
#endif

#if FIN
in float surface_fin;
#endif

uniform sampler2D base_color;
#include "texture_deltas.glsl"
#if FIELD == FIELD_SPLIT || FIELD == FIELD_PIXELS
#include "field_live.glsl"
#endif

out vec4 premultiplied;

void main() {
#if GBUFFER
    read_gbuffer();
#endif
#if FADED
    if (surface_gloss.z < MIN_ALPHA) discard;
#endif
#if DEPTH_ONLY
    premultiplied = vec4(0.0);
#else
    vec3 color = COLOR(texture(base_color, surface_uv).rgb) * delta_factor(surface_uv) * surface_shade;
#if DETAIL && GLOSS
    if (surface_gloss.x > 0.0) {
        vec3 halfway = normalize(light_direction + normalize(surface_toward));
        color += surface_gloss.x * pow(max(dot(normalize(surface_normal), halfway), 0.0), surface_gloss.y);
    }
#endif
#if FIELD == FIELD_VERTICES
    color += surface_residual;
#elif FIELD == FIELD_SPLIT
    color += surface_canonical.w * field(surface_canonical.xyz, surface_share).rgb;
#elif FIELD == FIELD_PIXELS
    if (surface_canonical.w > 0.0) color += surface_canonical.w * field(surface_canonical.xyz, normalize(surface_view)).rgb;
#endif
    color = max(color, vec3(0.0));
#if FIN
    premultiplied = vec4(color, 1.0) * clamp(surface_fin, 0.0, 1.0);
#elif FADED
    float alpha = min(surface_gloss.z, 1.0);  // interpolation may overshoot at a face's edge
    premultiplied = vec4(color * alpha, alpha);
#else
    premultiplied = vec4(color, 1.0);
#endif
#endif
}
