"""The part of a picture that a headset's lenses or frame hide: written first as the nearest depth, so that nothing is shaded there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from avatar3d.camera import Camera
from avatar3d.errors import InputError
from avatar3d.rendering.opengl.shaders import assemble
from avatar3d.rendering.opengl.stereo import Stereo

MAX_CORNERS = 60_000  # headsets give some hundred
_FLOATS = 3  # of a corner: its place and its eye


def hidden_triangles(tangents: np.ndarray, triangles: np.ndarray, camera: Camera) -> np.ndarray:
    """(3 M, 2) f32 corners for `draw`, of (M, 3) triangles between tangents (N, 2) of an eye's view, x right, y up.

    Tangents hold for any part of the eye's view: a cropped camera sees its part of the mesh. As xrGetVisibilityMaskKHR gives it.
    """
    left, right, up, down = camera.fov_tangents()
    low, high = np.array([left, down]), np.array([right, up])
    return ((2 * np.asarray(tangents, np.float64) - low - high) / (high - low))[triangles].reshape(-1, 2).astype(np.float32)


def rectangle(left: float, right: float, down: float, up: float) -> np.ndarray:
    """(6, 2) f32 corners of a rectangle in normalised device coordinates."""
    corners = [(left, down), (right, down), (left, up), (left, up), (right, down), (right, up)]
    return np.array(corners, np.float32)


class HiddenArea:
    """Owns a program for each way to draw both eyes, and a buffer; its context must be current in every call."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._buffer = context.buffer(reserve=4 * _FLOATS * 256, dynamic=True)
        self._programs: dict[Stereo, Any] = {}

    def draw(self, areas: Sequence[np.ndarray | None], stereo: Stereo) -> None:
        """Fill the triangles (N, 2) of each eye with the nearest depth; colour stays. The viewport is set already.

        Raises InputError on arrays that are no triangles.
        """
        rows = [_rows(area, side) for side, area in enumerate(areas) if area is not None]
        corners = np.concatenate(rows) if rows else np.zeros((0, _FLOATS), np.float32)
        if not len(corners):
            return
        context = self._context
        if corners.nbytes > self._buffer.size:
            self._forget()
            self._buffer = context.buffer(reserve=corners.nbytes, dynamic=True)
        self._buffer.orphan()
        self._buffer.write(corners)
        # A blend that keeps the colour: moderngl's colour masks do not reach framebuffers that it did not make.
        context.enable_only(context.DEPTH_TEST | context.BLEND)
        context.blend_func = context.ZERO, context.ONE
        context.depth_func = "1"  # always
        self._vertex_array(stereo).render(vertices=len(corners))

    def _vertex_array(self, stereo: Stereo) -> Any:
        if stereo not in self._programs:
            defines = {"STEREO": f"STEREO_{stereo.upper()}", "FIN": 0}
            program = self._context.program(
                vertex_shader=assemble("hidden_vertex.glsl", defines), fragment_shader=assemble("hidden_fragment.glsl", {})
            )
            content = ("2f 1f", "corner", "side") if "side" in program else ("2f 4x", "corner")
            self._programs[stereo] = program, self._context.vertex_array(program, [(self._buffer, *content)])
        return self._programs[stereo][1]

    def _forget(self) -> None:
        for resources in self._programs.values():
            for resource in reversed(resources):
                resource.release()
        self._programs.clear()
        self._buffer.release()

    def release(self) -> None:
        """Free the GL objects."""
        self._forget()


def _rows(area: np.ndarray, side: int) -> np.ndarray:
    """(N, 3) f32 corners with their eye's number."""
    corners = np.asarray(area, np.float32)
    if corners.ndim != 2 or corners.shape[1] != 2 or len(corners) % 3 or len(corners) > MAX_CORNERS:
        raise InputError(f"a hidden area of shape {corners.shape} was given; expected (N, 2), three corners a triangle")
    if not np.isfinite(corners).all():
        raise InputError("a hidden area has corners that are no numbers")
    return np.column_stack([corners, np.full(len(corners), side, np.float32)])
