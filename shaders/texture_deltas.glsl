// Factor of the base colour that the motion code asks for: exp of the DELTAS active log ratios.
#if DELTAS > 0
uniform sampler2D delta_0;
uniform vec4 delta_activation;
#endif
#if DELTAS > 1
uniform sampler2D delta_1;
#endif
#if DELTAS > 2
uniform sampler2D delta_2;
#endif
#if DELTAS > 3
uniform sampler2D delta_3;
#endif

vec3 delta_factor(vec2 uv) {
#if DELTAS > 0
    vec3 log_ratio = delta_activation.x * texture(delta_0, uv).rgb;
#if DELTAS > 1
    log_ratio += delta_activation.y * texture(delta_1, uv).rgb;
#endif
#if DELTAS > 2
    log_ratio += delta_activation.z * texture(delta_2, uv).rgb;
#endif
#if DELTAS > 3
    log_ratio += delta_activation.w * texture(delta_3, uv).rgb;
#endif
    return exp(log_ratio);
#else
    return vec3(1.0);
#endif
}
