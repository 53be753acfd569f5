// The eyes that a draw call places vertices for: one, or both at once, each an instance (see avatar3d.rendering.opengl.stereo).
#if STEREO == STEREO_LAYERS
#ifdef GL_ARB_shader_viewport_layer_array
#extension GL_ARB_shader_viewport_layer_array : require
#else
#extension GL_AMD_vertex_shader_layer : require
#endif
#endif

#if STEREO == STEREO_PASSES
#define EYES 1
#define EYE 0
#else
#define EYES 2
#if FIN
uniform int fins_of_first;  // first come the strips of the first eye's outline, then those of the second's
#define EYE int(FIN_INDEX >= fins_of_first)
#else
#define EYE gl_InstanceID
#endif
#endif

uniform mat4 view_projection[EYES];
uniform vec3 eye[EYES];

invariant gl_Position;  // programs that draw the same faces give them the same depth, however many eyes they draw for

// Put an eye's clip coordinates into its layer, or into its half of the picture, of which nothing may leave.
void place(vec4 clip, int index) {
#if STEREO == STEREO_LAYERS
    gl_Layer = index;
#elif STEREO == STEREO_SIDES
    clip.x = 0.5 * clip.x + (float(index) - 0.5) * clip.w;
    gl_ClipDistance[0] = index == 0 ? -clip.x : clip.x;
#endif
    gl_Position = clip;
}
