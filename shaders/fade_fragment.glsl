// A share of what was drawn on a sheet of its own, pixel for pixel (see avatar3d.rendering.opengl.fade).
uniform sampler2D sheet;
uniform ivec2 corner;  // of the area in the picture that lies on the sheet's lower left
uniform float share;
out vec4 premultiplied;

void main() {
    premultiplied = share * texelFetch(sheet, ivec2(gl_FragCoord.xy) - corner, 0);
}
