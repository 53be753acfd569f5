"""Screen motion of every visible point between two frames, for headsets that reproject; drawn beside the picture when asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from avatar3d.camera import Camera
from avatar3d.rendering.lod.hair_levels import visible_faces
from avatar3d.rendering.opengl.avatar.program import matrix_bytes, vector_bytes
from avatar3d.rendering.opengl.shaders import assemble
from avatar3d.rendering.scene import Scene


class MotionVectors:
    """Owns the program and the buffers for avatars of one layout; its context must be current in every call.

    ndc: motion in normalised device coordinates, (x, y, z) with y up, as headsets want it, in place of pixels.

    Head and hair base are drawn, where the base is not cut: what writes depth. Morphs, gaze, head pose and camera all count.
    """

    def __init__(self, context: Any, scene: Scene, ndc: bool = False) -> None:
        self.context = context
        self._program = context.program(
            vertex_shader=assemble("motion_vertex.glsl", {}),
            fragment_shader=assemble("motion_fragment.glsl", {"NDC": int(ndc)}),
        )
        layout = scene.layout
        self._parts = [self._part(len(scene.vertices), layout.faces[: layout.opaque_count])]
        if scene.hair is not None:
            self._parts.append(self._part(len(scene.hair.shells.base), visible_faces(scene.hair.shells).solid))

    def _part(self, count: int, faces: np.ndarray) -> tuple[Any, Any, Any, Any]:
        now, before = (self.context.buffer(reserve=count * 12, dynamic=True) for _ in range(2))
        indices = self.context.buffer(np.ascontiguousarray(faces, np.int32).tobytes())
        content = [(now, "3f", "position"), (before, "3f", "position_before")]
        return now, before, indices, self.context.vertex_array(self._program, content, indices, index_element_size=4)

    def draw(self, before: tuple[Scene, Camera], now: tuple[Scene, Camera], framebuffer: Any, clear: bool = True) -> None:
        """Fill a framebuffer with a float colour (two channels or more) and depth: pixels moved since `before`, alpha one.

        x to the right, y downward; where nothing is seen alpha is zero. Depth is the picture's own. clear: empty it first.
        """
        (old_scene, old_camera), (scene, camera) = before, now
        places = [(scene.vertices, old_scene.vertices)]
        if scene.hair is not None and old_scene.hair is not None:
            places.append((scene.hair.vertices(0), old_scene.hair.vertices(0)))
        context, program = self.context, self._program
        program["view_projection"].write(matrix_bytes(camera.projection_matrix() @ camera.view_matrix()))
        program["view_projection_before"].write(matrix_bytes(old_camera.projection_matrix() @ old_camera.view_matrix()))
        if "viewport" in program:
            program["viewport"].write(vector_bytes((camera.width, camera.height)))
        framebuffer.use()
        framebuffer.viewport = (0, 0, camera.width, camera.height)
        framebuffer.depth_mask = True
        if clear:
            framebuffer.clear(0.0, 0.0, 0.0, 0.0, depth=1.0, viewport=framebuffer.viewport)
        context.enable_only(context.DEPTH_TEST)
        context.depth_func = "<"
        for (buffer, buffer_before, _, vertex_array), (place, place_before) in zip(self._parts, places, strict=True):
            buffer.write(np.ascontiguousarray(place, np.float32))
            buffer_before.write(np.ascontiguousarray(place_before, np.float32))
            vertex_array.render()

    def release(self) -> None:
        """Free every GL object."""
        for part in self._parts:
            for resource in reversed(part):
                resource.release()
        self._program.release()
