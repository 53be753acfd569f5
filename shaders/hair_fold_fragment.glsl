// One texture of all that a hair level shows: colour, occlusion and residual as they are in the resting head's light, opacity.
in vec2 surface_uv;
in vec3 surface_shade;

uniform sampler2D hair_color;
uniform sampler2DArray hair_opacity;
uniform float level_layer;
uniform float level_occlusion;
#include "field.glsl"

out vec4 folded;

void main() {
    vec3 color = COLOR(texture(hair_color, surface_uv).rgb) * level_occlusion;
    float alpha = texture(hair_opacity, vec3(surface_uv, level_layer)).r;
#if FIELD == FIELD_BAKED
    vec4 change = field(vec3(surface_uv, level_layer), vec3(0.0, 0.0, MEAN_FACING));
    color += change.rgb / max(surface_shade, vec3(MIN_SHADE));
    alpha += change.a;
#endif
    folded = vec4(sqrt(clamp(color, 0.0, 1.0)), clamp(alpha, 0.0, 1.0));
}
