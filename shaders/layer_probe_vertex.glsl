// Writes a layer, to see whether a driver compiles that.
#include "eyes.glsl"

in vec3 point;

void main() {
    place(view_projection[EYE] * vec4(point - eye[EYE], 1.0), EYE);
}
