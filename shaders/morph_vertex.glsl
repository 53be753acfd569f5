// Moves a resting vertex by the active weights, its eye, and the head; rig.pose_vertices in Python is its definition.
in vec3 neutral;
in float share;  // of the head's turn about the neck
in float eyeball;  // 0 none, 1 left, 2 right

uniform samplerBuffer displacements;  // of each expression, of each vertex
uniform vec2 active_weights[WEIGHTS];  // expression, weight
uniform int active_count;
uniform mat3 eye_rotation[2];
uniform vec3 eye_centre[2];
uniform mat3 head_rotation;
uniform vec3 head_shift;
uniform vec3 translation;

out vec4 place;

void main() {
    vec3 posed = neutral;
    for (int index = 0; index < active_count; ++index) {
        int row = int(active_weights[index].x) * VERTICES + gl_VertexID;
        posed += active_weights[index].y * texelFetch(displacements, row).xyz;
    }
    if (eyeball > 0.5) {
        int side = int(eyeball) - 1;
        posed = eye_rotation[side] * (neutral - eye_centre[side]) + eye_centre[side];
    }
    vec3 turned = head_rotation * posed + head_shift;
    place = vec4(share * turned + (1.0 - share) * (posed + translation), 1.0);
}
