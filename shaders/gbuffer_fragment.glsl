// Keeps what the live field's shading needs to know of the nearest surface, for gbuffer.glsl to read: a pixel is then shaded
// once, and pixels of small triangles are not shaded beside them in vain.
in vec2 surface_uv;
in vec3 surface_shade;
in vec3 surface_view;
in vec4 surface_canonical;

layout(location = 0) out vec4 look;  // uv, view direction's first two numbers
layout(location = 1) out vec4 light;  // shade, field weight; negative where the view direction's third number is
layout(location = 2) out vec4 place;  // in the neutral head

void main() {
    vec3 d = normalize(surface_view);
    look = vec4(surface_uv, d.xy * 0.5 + 0.5);
    light = vec4(surface_shade, d.z < 0.0 ? -surface_canonical.w : surface_canonical.w);
    place = vec4(surface_canonical.xyz, 1.0);
}
