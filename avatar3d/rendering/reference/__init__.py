"""The definition of the picture: torch shading over a rasteriser on the CPU, differentiable in its textures."""
