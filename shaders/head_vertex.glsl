// Places the head's posed vertices on the screen; posing and shade are done once a frame by the scene.
// SOFT draws the outline in by half a pixel. FIN places a strip of one pixel along an edge of the outline instead of a triangle:
// its alpha falls from one on the drawn-in outline to zero half a pixel outside of the true one, which is a box filter's coverage.
// EDGES finds the outline itself, where the GPU morphed the head: strips of all edges are drawn, and all but the outline's vanish.
#define FIN_INDEX (gl_VertexID >> 2)  // a strip has four vertices in a row: inner ends, outer ends
#include "eyes.glsl"
#include "view_direction.glsl"
#if FIELD == FIELD_VERTICES || FIELD == FIELD_SPLIT
#include "vertex_field.glsl"
#endif

#if EDGES
#include "edges.glsl"
#elif FIN
in vec3 position_a;  // both ends of the edge
in vec3 normal_a;
in vec3 position_b;
in vec3 normal_b;
in vec3 opposite;  // the third corner of the face that is seen
in vec3 shade;  // of the vertex's own end, as all that follows
in vec3 canonical;
in vec2 uv;
in float field_weight;
in float row;
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
#if FIELD == FIELD_VERTICES
out vec3 surface_residual;
#elif FIELD == FIELD_SPLIT
out vec4 surface_share[HIDDEN_ROWS];
#elif FIELD == FIELD_PIXELS
out vec3 surface_view;  // direction in the local frame
#endif
#if FIELD == FIELD_SPLIT || FIELD == FIELD_PIXELS
out vec4 surface_canonical;  // place in the neutral head, field weight
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
    float outer = float((gl_VertexID >> 1) & 1);
    bool second = (gl_VertexID & 1) == 1;
#if EDGES
#if STEREO == STEREO_PASSES
    int edge = FIN_INDEX;
#else
    int edge = FIN_INDEX - EYE * fins_of_first;
#endif
    if (!read_edge(edge, second, eye[EYE])) {
        gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
        return;
    }
#endif
    int vertex = int(row);
    vec3 position = second ? position_b : position_a;
    vec3 normal = second ? normal_b : normal_a;
#else
    int vertex = gl_VertexID;
#endif
    surface_uv = uv;
    surface_shade = shade;
#if FIELD == FIELD_VERTICES
    surface_residual = field_weight * vertex_change(vertex, view_direction(position, normal, eye[EYE])).rgb;
#elif FIELD == FIELD_SPLIT
    field_vertex_share(vertex, view_direction(position, normal, eye[EYE]), surface_share);
#elif FIELD == FIELD_PIXELS
    surface_view = view_direction(position, normal, eye[EYE]);
#endif
#if FIELD == FIELD_SPLIT || FIELD == FIELD_PIXELS
    surface_canonical = vec4(canonical, field_weight);
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
