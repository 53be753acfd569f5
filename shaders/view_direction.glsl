// Direction to the eye in the local frame (tangent, bitangent, normal); scene.view_directions in Python is its definition.
vec3 view_direction(vec3 position, vec3 normal, vec3 eye) {
    vec3 toward = normalize(eye - position);
    vec3 tangent = cross(vec3(0.0, 1.0, 0.01), normal);
    tangent /= max(length(tangent), 1e-6);
    vec3 bitangent = cross(normal, tangent);
    return vec3(dot(toward, tangent), dot(toward, bitangent), dot(toward, normal));
}
