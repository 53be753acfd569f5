// Factor of the base colour that the motion code asks for: exp of the active log ratios.
#if DELTAS > 0
uniform sampler2D delta_0;
uniform sampler2D delta_1;
uniform sampler2D delta_2;
uniform sampler2D delta_3;
uniform vec4 delta_activation;
#endif

vec3 delta_factor(vec2 uv) {
    vec3 log_ratio = vec3(0.0);
#if DELTAS > 0
    if (delta_activation.x > 0.0) log_ratio += delta_activation.x * texture(delta_0, uv).rgb;
    if (delta_activation.y > 0.0) log_ratio += delta_activation.y * texture(delta_1, uv).rgb;
    if (delta_activation.z > 0.0) log_ratio += delta_activation.z * texture(delta_2, uv).rgb;
    if (delta_activation.w > 0.0) log_ratio += delta_activation.w * texture(delta_3, uv).rgb;
    log_ratio = exp(log_ratio);
    return log_ratio;
#else
    return vec3(1.0);
#endif
}
