"""Morphs a head on the GPU: of a motion code only the active weights and a few transforms are sent, no vertex.

Two passes without fragments (transform feedback, OpenGL 3.0) fill the buffers that are filled from a Scene otherwise: the first
places the vertices, the second sums the moved faces that meet at each, which gives the very normals of `scene.vertex_normals`,
and lights them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.head.model import EYES
from avatar3d.head.rig import gaze_angles, head_transform
from avatar3d.motion.code import ARKIT_NAMES
from avatar3d.motion.rotation import eye_rotation
from avatar3d.rendering.opengl.arrays import BufferTexture
from avatar3d.rendering.opengl.shaders import assemble
from avatar3d.rendering.scene import MAX_IRRADIANCE, MIN_IRRADIANCE, Layout, Scene

# Texture units of the two passes; what draws binds its own anew.
UNITS = {"displacements": 0, "places": 0, "corners": 1}


class GpuMorph:
    """Buffers and programs for one avatar. moving: the buffer of (V, 9) f32 position, normal, shade; hair_shade: of (N, 3) f32.

    The context must be current in every call. Raises InputError where the driver's buffers are too small.
    """

    def __init__(self, context: Any, avatar: Avatar, layout: Layout, moving: Any, hair_shade: Any | None) -> None:
        self._context, self._avatar, self._owned = context, avatar, list[Any]()
        self._moving, self._hair_shade = moving, hair_shade
        # Without a window, GL has nothing to draw into, and refuses even what draws nothing.
        self._nowhere = self._keep(context.framebuffer([self._keep(context.renderbuffer((1, 1)))]))
        count = len(avatar.vertices)
        defines = {
            "VERTICES": count,
            "WEIGHTS": len(ARKIT_NAMES),
            "MIN_IRRADIANCE": MIN_IRRADIANCE,
            "MAX_IRRADIANCE": MAX_IRRADIANCE,
        }
        self._place = self._program("morph", {**defines}, ["place"])
        self._light = self._program("light", {**defines, "RIGID": 0}, ["moved_place", "moved_normal", "moved_shade"])

        # Eyeballs turn about their own centres, split as `rig.place_eyes` splits them.
        middle = (avatar.joints["leftEye"][0] + avatar.joints["rightEye"][0]) / 2
        eyeball = np.where(layout.vertex_part == EYES, np.where(avatar.vertices[:, 0] > middle, 1, 2), 0)
        resting = np.concatenate([avatar.vertices, avatar.head_weight[:, None], eyeball[:, None]], axis=1)
        self._places = self._keep(context.buffer(reserve=count * 16))
        self._posing = self._vertex_array(self._place, [(self._buffer(resting), "3f 1f 1f", "neutral", "share", "eyeball")])
        displacements = np.zeros((len(ARKIT_NAMES), count, 4), np.float32)
        displacements[..., :3] = avatar.expression
        self._textures = {"displacements": self._array(displacements.reshape(-1, 4))}

        adjacency = layout.adjacency
        corners = np.zeros((len(adjacency.meeting), 4), np.float32)  # whole numbers under 2^24 are exact
        corners[:, :3] = adjacency.corners[:, adjacency.meeting].T
        ends = np.append(adjacency.starts, len(adjacency.meeting))
        first = np.append(ends[:-1], 0)[adjacency.owner]  # the owner of no face, −1, takes the last: none
        many = np.append(np.diff(ends), 0)[adjacency.owner]
        self._textures["corners"] = self._array(corners)
        self._textures["places"] = self._keep(BufferTexture(context, self._places, 4))
        meeting = self._buffer(np.stack([first, many], axis=1), np.int32)
        self._lighting = self._vertex_array(
            self._light, [(self._places, "3f 4x", "place"), (meeting, "2i", "meeting")]
        )  # fmt: skip
        self._programs = [self._place, self._light]
        if layout.hair_normals is not None:
            self._rigid = self._program("light", {**defines, "RIGID": 1}, ["moved_shade"])
            self._hair = self._vertex_array(self._rigid, [(self._buffer(layout.hair_normals), "3f", "resting_normal")])
            self._programs.append(self._rigid)
        for program in self._programs:
            if "light" in program:
                program["light"].write(np.asarray(avatar.light, np.float32).tobytes())
                program["shading_power"].value = float(avatar.shading_power)
            for name, unit in UNITS.items():
                if name in program:
                    self._textures[name].assign(program, name, unit)
        centres = np.asarray([avatar.joints["leftEye"], avatar.joints["rightEye"]], np.float32)
        self._place["eye_centre"].write(centres.tobytes())

    def _keep(self, resource: Any) -> Any:
        self._owned.append(resource)
        return resource

    def _buffer(self, values: np.ndarray, dtype: type = np.float32) -> Any:
        return self._keep(self._context.buffer(np.ascontiguousarray(values, dtype).tobytes()))

    def _array(self, values: np.ndarray) -> Any:
        return self._keep(BufferTexture(self._context, values))

    def _program(self, kind: str, defines: dict[str, object], varyings: list[str]) -> Any:
        return self._keep(self._context.program(vertex_shader=assemble(f"{kind}_vertex.glsl", defines), varyings=varyings))

    def _vertex_array(self, program: Any, content: list[tuple[Any, ...]]) -> Any:
        return self._keep(self._context.vertex_array(program, content))

    def run(self, scene: Scene) -> None:
        """Fill the buffers for a scene of the avatar; reads none of the scene's posed arrays."""
        motion, joints = scene.motion, self._avatar.joints
        weights = np.asarray(motion.weights, np.float32)
        active = np.flatnonzero(weights)
        pairs = np.zeros((len(weights), 2), np.float32)
        pairs[: len(active)] = np.stack([active, weights[active]], axis=1)
        rotation, shift = head_transform(motion, joints)
        eyes = [eye_rotation(*angles) for angles in gaze_angles(motion)]
        place = self._place
        place["active_weights"].write(pairs.tobytes())
        place["active_count"].value = len(active)
        place["eye_rotation"].write(b"".join(np.asarray(eye.T, np.float32).tobytes() for eye in eyes))
        turned = np.asarray(rotation.T, np.float32).tobytes()
        place["head_rotation"].write(turned)
        place["head_shift"].write(np.asarray(shift, np.float32).tobytes())
        place["translation"].write(np.asarray(motion.translation, np.float32).tobytes())
        self._nowhere.use()
        self._textures["displacements"].use(UNITS["displacements"])
        self._posing.transform(self._places, self._context.POINTS)
        for name in ("places", "corners"):
            self._textures[name].use(UNITS[name])
        self._lighting.transform(self._moving, self._context.POINTS)
        if self._hair_shade is not None:
            self._rigid["head_rotation"].write(turned)
            self._hair.transform(self._hair_shade, self._context.POINTS)

    def release(self) -> None:
        """Free the GL objects."""
        for resource in reversed(self._owned):
            resource.release()
        self._owned.clear()
