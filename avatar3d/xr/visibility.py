"""What of each eye's view the headset hides: XR_KHR_visibility_mask, as triangles of tangents."""

from __future__ import annotations

from ctypes import byref, c_uint32
from typing import Any

import numpy as np

from avatar3d.camera import Camera
from avatar3d.rendering.opengl.hidden_area import MAX_CORNERS, hidden_triangles
from avatar3d.xr import openxr

EXTENSION = "XR_KHR_visibility_mask"


class VisibilityMasks:
    """The masks of a session whose instance has EXTENSION enabled; `read` at the start and when the runtime says so."""

    def __init__(self, instance: Any, session: Any, kind: Any) -> None:
        self._session, self._kind = session, kind
        self._get = openxr.instance_function(instance, "xrGetVisibilityMaskKHR", openxr.load().PFN_xrGetVisibilityMaskKHR)
        self._meshes: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def read(self, eye: int) -> None:
        """Ask for an eye's mask. Raises pyopenxr's exceptions."""
        xr = openxr.load()
        hidden = xr.VisibilityMaskTypeKHR.HIDDEN_TRIANGLE_MESH.value
        mask = xr.VisibilityMaskKHR()
        openxr.check(self._get(self._session, self._kind.value, eye, hidden, byref(mask)))
        self._meshes.pop(eye, None)
        vertices, indices = mask.vertex_count_output, mask.index_count_output
        if not 0 < vertices <= MAX_CORNERS or not 3 <= indices <= MAX_CORNERS:
            return  # nothing is hidden, or nothing that a headset would tell
        places, order = (xr.Vector2f * vertices)(), (c_uint32 * indices)()
        mask.vertex_capacity_input, mask.index_capacity_input = vertices, indices
        mask.vertices, mask.indices = places, order
        openxr.check(self._get(self._session, self._kind.value, eye, hidden, byref(mask)))
        tangents = np.frombuffer(places, np.float32).reshape(-1, 2).copy()
        triangles = np.frombuffer(order, np.uint32)[: indices - indices % 3].reshape(-1, 3).astype(np.int64)
        if (triangles < vertices).all() and np.isfinite(tangents).all():
            self._meshes[eye] = tangents, triangles

    def __bool__(self) -> bool:
        return bool(self._meshes)

    def hidden(self, eye: int, camera: Camera) -> np.ndarray | None:
        """(N, 2) corners for RealtimeRenderer.draw of what an eye does not see of a camera of its view; None: it sees all."""
        if eye not in self._meshes:
            return None
        with np.errstate(over="ignore"):  # triangles that reach too far for single precision hide nothing
            triangles = hidden_triangles(*self._meshes[eye], camera).reshape(-1, 3, 2)
        meets = ((triangles.min(1) < 1) & (triangles.max(1) > -1) & np.isfinite(triangles).all(1)).all(1)
        return triangles[meets].reshape(-1, 2) if meets.any() else None
