"""Realtime drawing in OpenGL through moderngl: an avatar's buffers, textures and programs, and the ways to draw them."""
