// The baked field: residual q0.rgb + q1 · d, opacity change q0.a; where = (uv, layer).
uniform sampler2DArray field_q0;
uniform sampler2DArray field_q1;

vec4 field(vec3 where, vec3 d) {
    vec4 constant = texture(field_q0, where);
    return vec4(constant.rgb + dot(texture(field_q1, where).rgb, d), constant.a);
}
