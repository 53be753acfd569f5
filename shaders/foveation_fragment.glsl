// The coarse picture outside of the sharp inset; over the SEAM its share grows from nothing to all.
in vec2 pixel;
in vec2 coarse_uv;

uniform sampler2D coarse;
uniform vec2 limit;  // of texture coordinates: the coarse picture fills a part of its texture
#if SEAM
uniform vec4 inset;  // left, bottom, right, top of what stays sharp
uniform vec2 seam;  // width, height

layout(location = 0, index = 0) out vec4 color;
layout(location = 0, index = 1) out vec4 kept;  // of what is there already
#else
#if DEPTH
uniform sampler2D coarse_depth;
#endif
layout(location = 0) out vec4 color;
#endif

void main() {
    vec2 uv = min(coarse_uv, limit);
    color = texture(coarse, uv);
#if SEAM
    vec2 beyond = max(max(inset.xy - pixel, pixel - inset.zw), 0.0) / seam;
    float share = smoothstep(0.0, 1.0, length(beyond));
    color *= share;
    kept = vec4(1.0 - share);
#elif DEPTH
    gl_FragDepth = texture(coarse_depth, uv).r;
#endif
}
