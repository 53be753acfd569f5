// The varyings of head_fragment.glsl as gbuffer_fragment.glsl kept them, one pixel for one.
uniform sampler2D gbuffer_look;
uniform sampler2D gbuffer_light;
uniform sampler2D gbuffer_place;

vec2 surface_uv;
vec3 surface_shade;
vec3 surface_view;
vec4 surface_canonical;

void read_gbuffer() {
    ivec2 pixel = ivec2(gl_FragCoord.xy);
    vec4 look = texelFetch(gbuffer_look, pixel, 0);
    vec4 light = texelFetch(gbuffer_light, pixel, 0);
    vec2 across = look.zw * 2.0 - 1.0;
    float ahead = sqrt(max(1.0 - dot(across, across), 0.0));
    surface_uv = look.xy;
    surface_shade = light.rgb;
    surface_view = vec3(across, light.a < 0.0 ? -ahead : ahead);
    surface_canonical = vec4(texelFetch(gbuffer_place, pixel, 0).xyz, abs(light.a));
}
