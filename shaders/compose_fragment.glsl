// Puts what was shaded into the picture, at its depth.
uniform sampler2D gathered_shaded;
uniform sampler2D gathered_depth;
uniform vec2 gathered_origin;  // of the viewport in the picture, pixels

out vec4 premultiplied;

void main() {
    ivec2 pixel = ivec2(gl_FragCoord.xy - gathered_origin);
    float depth = texelFetch(gathered_depth, pixel, 0).r;
    if (depth >= 1.0) discard;
    gl_FragDepth = depth;
    premultiplied = texelFetch(gathered_shaded, pixel, 0);
}
