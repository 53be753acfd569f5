// The baked field: residual q0.rgb + q1 · d, opacity change q0.a; where = (uv, layer).
// FIELD_Q0 and FIELD_Q1 decode a sample; they are the identity but for 8-bit textures.
uniform sampler2DArray field_q0;
uniform sampler2DArray field_q1;

vec4 field(vec3 where, vec3 d) {
    vec4 constant = FIELD_Q0(texture(field_q0, where));
    return vec4(constant.rgb + dot(FIELD_Q1(texture(field_q1, where)).rgb, d), constant.a);
}
