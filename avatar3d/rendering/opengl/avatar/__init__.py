"""An avatar on the GPU: buffers, textures and the programs of each way to draw it; what draws them is `opengl.renderer`."""
