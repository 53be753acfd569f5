// Places the corners of what an eye cannot see, given in normalised device coordinates, on the near plane.
#include "eyes.glsl"

in vec2 corner;
in float side;  // the eye's number

void main() {
    place(vec4(corner, -1.0, 1.0), int(side));
}
