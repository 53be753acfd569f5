// Irradiance of nine coefficients to the power of the shade; scene.shade_of in Python is its definition.
uniform vec3 light[9];
uniform float shading_power;

vec3 shade_of(vec3 n) {
    vec3 irradiance = light[0] + light[1] * n.x + light[2] * n.y + light[3] * n.z + light[4] * (n.x * n.y)
        + light[5] * (n.y * n.z) + light[6] * (3.0 * n.z * n.z - 1.0) + light[7] * (n.x * n.z) + light[8] * (n.x * n.x - n.y * n.y);
    return pow(clamp(irradiance, MIN_IRRADIANCE, MAX_IRRADIANCE), vec3(shading_power));
}
