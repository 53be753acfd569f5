// An edge of the skin as a strip's vertex needs it, read from where the GPU morphed the head; in the place of attributes.
uniform samplerBuffer edges;  // two entries an edge, one for the face on each side: its ends and the vertex opposite; negative: no face
uniform samplerBuffer moving;  // of each vertex position, normal, shade
uniform samplerBuffer resting;  // of each vertex canonical, uv, alpha, field_weight, gloss

vec3 position_a;
vec3 normal_a;
vec3 position_b;
vec3 normal_b;
vec3 opposite;
vec3 shade;
vec3 canonical;
vec2 uv;
float field_weight;
float row;

float read(samplerBuffer rows, float vertex, int column) {
    return texelFetch(rows, 9 * int(vertex) + column).r;
}

vec3 read_three(samplerBuffer rows, float vertex, int column) {
    return vec3(read(rows, vertex, column), read(rows, vertex, column + 1), read(rows, vertex, column + 2));
}

bool is_seen(vec3 corner, vec3 viewer) {
    if (corner.x < 0.0) return false;
    vec3 a = read_three(moving, corner.x, 0);
    vec3 across = cross(read_three(moving, corner.y, 0) - a, read_three(moving, corner.z, 0) - a);
    return dot(across, viewer - a) > 0.0;
}

// Whether a viewer sees just one side of an edge; then all is filled in for the end that is asked for.
bool read_edge(int edge, bool second, vec3 viewer) {
    vec3 one = texelFetch(edges, 2 * edge).xyz;
    vec3 other = texelFetch(edges, 2 * edge + 1).xyz;
    bool seen = is_seen(one, viewer);
    if (seen == is_seen(other, viewer)) return false;
    vec3 corner = seen ? one : other;
    position_a = read_three(moving, corner.x, 0);
    normal_a = read_three(moving, corner.x, 3);
    position_b = read_three(moving, corner.y, 0);
    normal_b = read_three(moving, corner.y, 3);
    opposite = read_three(moving, corner.z, 0);
    row = second ? corner.y : corner.x;
    shade = read_three(moving, row, 6);
    canonical = read_three(resting, row, 0);
    uv = vec2(read(resting, row, 3), read(resting, row, 4));
    field_weight = read(resting, row, 6);
    return true;
}
