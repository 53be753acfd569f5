// Normal and shade of a moved vertex, from the faces that meet there (scene.vertex_normals), or with RIGID from its resting normal.
#include "shade.glsl"

#if RIGID
in vec3 resting_normal;
uniform mat3 head_rotation;
#else
in vec3 place;
in ivec2 meeting;  // first of the faces in `corners`, and how many
uniform samplerBuffer places;
uniform samplerBuffer corners;  // three vertices of each face
out vec3 moved_place;
out vec3 moved_normal;
#endif
out vec3 moved_shade;

void main() {
#if RIGID
    moved_shade = shade_of(head_rotation * resting_normal);
#else
    vec3 total = vec3(0.0);
    for (int index = 0; index < meeting.y; ++index) {
        ivec3 corner = ivec3(texelFetch(corners, meeting.x + index).xyz);
        vec3 a = texelFetch(places, corner.x).xyz;
        total += cross(texelFetch(places, corner.y).xyz - a, texelFetch(places, corner.z).xyz - a);
    }
    float size = length(total);
    moved_place = place;
    moved_normal = size > 1e-20 ? total / size : vec3(0.0, 0.0, 1.0);
    moved_shade = shade_of(moved_normal);
#endif
}
