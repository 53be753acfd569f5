"""The control of every measurement: the same head as any viewer draws it, one textured mesh without a field or shells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.rendering.opengl.avatar.program import matrix_bytes
from avatar3d.rendering.opengl.raw_gl import GL_SRGB8_ALPHA8
from avatar3d.rendering.opengl.shaders import assemble
from avatar3d.rendering.opengl.viewports import fill
from avatar3d.rendering.scene import Scene


class PlainMesh:
    """Head and outside of the hair's base, each with an sRGB texture, trilinear, lit at the vertices; two draws a view.

    It is given the scenes that the renderer is given, so that posing costs the same; its context must be current.
    """

    def __init__(self, context: Any, avatar: Avatar, faces: np.ndarray) -> None:
        self.context = context
        self.program = context.program(
            vertex_shader=assemble("plain_mesh_vertex.glsl", {}), fragment_shader=assemble("plain_mesh_fragment.glsl", {})
        )
        self.parts = [self._part(avatar.uv, faces, avatar.base_color)]
        if avatar.hair is not None:
            self.parts.append(self._part(avatar.hair.uv, avatar.hair.faces, avatar.hair.color))

    def _part(self, uv: np.ndarray, faces: np.ndarray, rgb: np.ndarray) -> tuple[Any, Any, Any]:
        context = self.context
        height, width = rgb.shape[:2]
        rgba = np.concatenate([rgb, np.full((height, width, 1), 255, np.uint8)], axis=2)
        texture = context.texture((width, height), 4, rgba.tobytes(), internal_format=GL_SRGB8_ALPHA8)
        texture.build_mipmaps()
        texture.filter = (context.LINEAR_MIPMAP_LINEAR, context.LINEAR)
        moving = context.buffer(reserve=len(uv) * 24, dynamic=True)
        fixed = context.buffer(np.ascontiguousarray(uv, np.float32).tobytes())
        indices = context.buffer(np.ascontiguousarray(faces, np.int32).tobytes())
        content = [(moving, "3f 3f", "position", "shade"), (fixed, "2f", "uv")]
        return moving, context.vertex_array(self.program, content, indices, index_element_size=4), texture

    def draw(
        self, scene: Scene, cameras: Sequence[Camera], framebuffer: Any, viewports: Sequence[tuple[int, int, int, int]]
    ) -> None:
        """Draw a scene into areas of a framebuffer."""
        context = self.context
        places = [(scene.vertices, scene.shade)]
        if scene.hair is not None:
            places.append((scene.hair.vertices(0), scene.hair.shade))
        for (moving, _, _), (vertices, shade) in zip(self.parts, places, strict=True):
            moving.write(np.concatenate([vertices, shade], axis=1).astype(np.float32))
        context.enable_only(context.DEPTH_TEST | context.CULL_FACE)
        context.cull_face, context.depth_func = "back", "<"
        framebuffer.use()
        framebuffer.depth_mask = True
        at_once = fill([framebuffer], viewports)
        if at_once:
            framebuffer.clear(depth=1.0)
        for camera, viewport in zip(cameras, viewports, strict=True):
            framebuffer.viewport = viewport
            if not at_once:
                framebuffer.clear(depth=1.0, viewport=viewport)
            self.program["view_projection"].write(matrix_bytes(camera.projection_matrix() @ camera.view_matrix()))
            for _, vertex_array, texture in self.parts:
                texture.use(0)
                vertex_array.render()
