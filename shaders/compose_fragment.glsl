// Puts what was shaded into the picture, at its depth.
uniform sampler2D gbuffer_shaded;
uniform sampler2D gbuffer_depth;
uniform vec2 gbuffer_origin;  // of the viewport in the picture, pixels

out vec4 premultiplied;

void main() {
    ivec2 pixel = ivec2(gl_FragCoord.xy - gbuffer_origin);
    float depth = texelFetch(gbuffer_depth, pixel, 0).r;
    if (depth >= 1.0) discard;
    gl_FragDepth = depth;
    premultiplied = texelFetch(gbuffer_shaded, pixel, 0);
}
