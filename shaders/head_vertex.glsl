// Places the head's posed vertices on the screen; posing and shade are done once a frame by the scene.
// SOFT draws the outline in by half a pixel. FIN places a strip of one pixel along an edge of the outline instead of a triangle:
// its alpha falls from one on the drawn-in outline to zero half a pixel outside of the true one, which is a box filter's coverage.
#include "eyes.glsl"
#include "view_direction.glsl"

#if FIN
in vec3 position_a;
in vec3 normal_a;
in vec3 shade_a;
in vec3 canonical_a;
in vec2 uv_a;
in float field_weight_a;
in vec3 position_b;
in vec3 normal_b;
in vec3 shade_b;
in vec3 canonical_b;
in vec2 uv_b;
in float field_weight_b;
in vec3 opposite;  // the third corner of the face that is seen
#else
in vec3 position;
in vec3 normal;
in vec3 shade;
in vec3 canonical;
in vec2 uv;
in float alpha;
in float field_weight;
in vec2 gloss;
#endif

#if SOFT
uniform vec2 viewport;  // pixels
#endif

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
out vec3 surface_toward;  // the eye, not normalised
out vec3 surface_gloss;  // strength, exponent, alpha
#endif
#if FIN
out float surface_fin;
#endif

#if SOFT
// A vertex on the screen, drawn in by half a pixel where its normal lies across the view.
vec4 drawn_in(vec3 point, vec3 across) {
    vec4 clip = view_projection[EYE] * vec4(point, 1.0);
    vec4 ahead = view_projection[EYE] * vec4(point + 0.001 * across, 1.0);
    vec2 outward = (ahead.xy / ahead.w - clip.xy / clip.w) * viewport;
    float outline = clamp(1.0 - 2.0 * abs(dot(normalize(eye[EYE] - point), across)), 0.0, 1.0);
    clip.xy -= outward / max(length(outward), 1e-6) * outline / viewport * clip.w;
    return clip;
}
#endif

void main() {
#if FIN
    bool second = (gl_VertexID & 1) == 1;
    float outer = float(gl_VertexID >> 1);
    vec3 position = second ? position_b : position_a;
    vec3 normal = second ? normal_b : normal_a;
    vec3 shade = second ? shade_b : shade_a;
    vec3 canonical = second ? canonical_b : canonical_a;
    vec2 uv = second ? uv_b : uv_a;
    float field_weight = second ? field_weight_b : field_weight_a;
#endif
    surface_uv = uv;
    surface_shade = shade;
#if FIELD != FIELD_NONE
    surface_view = vec4(view_direction(position, normal, eye[EYE]), field_weight);
#endif
#if FIELD == FIELD_LIVE
    surface_canonical = canonical;
#endif
#if DETAIL
    surface_normal = normal;
    surface_toward = eye[EYE] - position;
    surface_gloss = vec3(gloss, alpha);
#endif
#if SOFT
    vec4 clip = drawn_in(position, normal);
#else
    vec4 clip = view_projection[EYE] * vec4(position, 1.0);
#endif
#if FIN
    vec4 a = drawn_in(position_a, normal_a);
    vec4 b = drawn_in(position_b, normal_b);
    vec4 c = view_projection[EYE] * vec4(opposite, 1.0);
    vec2 along = (b.xy / b.w - a.xy / a.w) * viewport;
    vec2 away = normalize(vec2(along.y, -along.x) + vec2(1e-6, 0.0));
    away *= dot(away, (c.xy / c.w - a.xy / a.w) * viewport) > 0.0 ? -1.0 : 1.0;
    clip.xy += away * outer * 2.0 / viewport * clip.w;
    surface_fin = 1.0 - outer;
#endif
    place(clip, EYE);
}
