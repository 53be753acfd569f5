"""Vertex and index buffers of a head and its hair: what a motion code moves, and which faces are drawn of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.rendering.culling.backface import heights
from avatar3d.rendering.culling.screen_region import may_show
from avatar3d.rendering.opengl.arrays import BufferTexture
from avatar3d.rendering.opengl.avatar.face_order import FADED, FaceOrder, Range, any_of, nearest_first, whole_range
from avatar3d.rendering.opengl.gpu_morph import GpuMorph
from avatar3d.rendering.opengl.scope import GlScope
from avatar3d.rendering.opengl.stereo import EYES
from avatar3d.rendering.outline import MAX_FINS, STRIP_FLOATS, STRIP_TRIANGLES, STRIP_VERTICES, Outline, strips
from avatar3d.rendering.scene import Layout, Scene

EDGE_TRIANGLES = (0, 1, 2, 2, 1, 3)  # of the four vertices that edges.glsl makes of an edge


class AvatarBuffers:
    """Buffers of one avatar. The context must be current in every call.

    posed_buffer: (V, 9) f32 position, normal, shade, as last written; resting_buffer: (V, 9) canonical position, uv, alpha, field
    weight, gloss. indices: the faces that were sent last; groups: (first, count) of them in drawing order, see face_order.GROUPS, and
    within each by where the live form evaluates the field. hair_resting, hair_shade: of the hair's vertices, where there is hair.
    fins: strips of the outline that were sent last, fin_indices: their triangles.
    """

    def __init__(self, scope: GlScope, avatar: Avatar, layout: Layout) -> None:
        self._scope, self._avatar, self._layout = scope, avatar, layout
        self._posed = np.zeros((len(avatar.vertices), 9), np.float32)
        self._resting = np.concatenate(
            [avatar.vertices, avatar.uv, avatar.vertex_alpha[:, None], avatar.field_weight[:, None], layout.gloss], axis=1
        ).astype(np.float32)
        self.order = FaceOrder.of(avatar, layout)
        self._skin_faces = layout.order[: layout.skin_count]
        self.posed_buffer = self._reserved(self._posed.nbytes)
        self.resting_buffer = self._filled(self._resting)
        self.indices = scope.keep(scope.context.buffer(self.order.faces.tobytes(), dynamic=True))
        self._every_face: Any = None
        self.groups: dict[str, list[Range]] = {}
        self.outline = Outline.of(layout.faces[: layout.skin_count], avatar.weld)
        self.fins = self._reserved(STRIP_VERTICES * STRIP_FLOATS * 4)
        corners = np.arange(EYES * MAX_FINS, dtype=np.int32)[:, None] * STRIP_VERTICES
        self.fin_indices = self._filled(corners + np.array(STRIP_TRIANGLES, np.int32))
        self.hair_resting: Any = None
        self.hair_shade: Any = None
        if avatar.hair is not None:
            hair = avatar.hair
            self.hair_resting = self._filled(
                np.concatenate([hair.base, hair.extent, layout.hair_normals, hair.uv], axis=1).astype(np.float32)
            )
            self.hair_shade = self._reserved(len(hair.base) * 12)

    def _filled(self, values: np.ndarray) -> Any:
        return self._scope.keep(self._scope.context.buffer(values.tobytes()))

    def _reserved(self, size: int) -> Any:
        return self._scope.keep(self._scope.context.buffer(reserve=size, dynamic=True))

    def empty_indices(self) -> Any:
        """A buffer for faces that `refill` sends."""
        return self._reserved(12)

    def sort_faces(self, source: np.ndarray) -> None:
        """Draw faces by where the live form evaluates the field from now on, see FaceOrder.of."""
        self.order = FaceOrder.of(self._avatar, self._layout, source)
        if self._every_face is not None:
            self._every_face.write(self.order.faces.tobytes())

    # --- what the GPU morphs

    @property
    def morph(self) -> GpuMorph:
        """What poses the head on the GPU, made at the first use."""
        scope = self._scope
        return scope.once(
            "morph",
            lambda: scope.keep(GpuMorph(scope.context, self._avatar, self._layout, self.posed_buffer, self.hair_shade)),
        )

    def every_face(self) -> Any:
        """Indices of all faces in drawing order."""
        if self._every_face is None:
            self._every_face = self._filled(self.order.faces)
        return self._every_face

    def as_textures(self) -> dict[str, BufferTexture]:
        """{sampler: array} of what the GPU finds the outline from: vertices as posed and at rest, and edges (shaders/edges.glsl)."""
        scope = self._scope

        def array(values: Any, channels: int = 1) -> BufferTexture:
            return scope.keep(BufferTexture(scope.context, values, channels))

        return {
            "moving": scope.once("moving", lambda: array(self.posed_buffer)),
            "resting": scope.once("resting", lambda: array(self.resting_buffer)),
            "edges": scope.once("edges", lambda: array(self._edge_rows())),
        }

    def _edge_rows(self) -> np.ndarray:
        rows = np.zeros((len(self.outline.sides), 2, 4), np.float32)  # whole numbers under 2^24 are exact
        rows[..., :3] = np.where(self.outline.sides[..., None] < 0, -1, self.outline.corners)
        return rows.reshape(-1, 4)

    def edge_indices(self) -> Any:
        """Two triangles for each edge, for one eye and then for the other."""
        first = 4 * np.arange(EYES * len(self.outline.sides), dtype=np.int32)
        triangles = first[:, None] + np.array(EDGE_TRIANGLES, np.int32)
        return self._scope.once("edge indices", lambda: self._filled(triangles))

    # --- what is sent for a frame

    def write_posed(self, scene: Scene) -> None:
        """Send what a motion code moved."""
        self._posed[:, 0:3] = scene.vertices
        self._posed[:, 3:6] = scene.normals
        self._posed[:, 6:9] = scene.shade
        self.posed_buffer.write(self._posed)
        if scene.hair is not None:
            self.hair_shade.write(np.ascontiguousarray(scene.hair.shade, np.float32))

    def draw_all_faces(self) -> None:
        """Note the groups of `every_face`, for programs that leave it to the driver which are seen."""
        self.groups = self.order.groups_of(np.arange(len(self.order.faces)))

    def send_faces(
        self, scene: Scene, cameras: Sequence[Camera], edge_on: Sequence[float], codes: np.ndarray | None = None
    ) -> list[np.ndarray]:
        """Send the head's faces that any of the cameras may see from the front, and note their groups.

        edge_on: of each camera, the height under which a face counts as seen from both sides (backface.edge_on_m3). codes:
        outcodes of the vertices, to leave out what shows nowhere. Returns which faces of the skin each eye does see from the
        front, for its outline.
        """
        order = self.order
        above = [heights(scene.planes, camera.center) for camera in cameras]
        seen = any_of([each > -margin for each, margin in zip(above, edge_on, strict=True)])
        kept = seen.take(order.order)
        kept[order.lashes] = True  # seen from both sides
        if codes is not None:
            kept &= may_show(codes, order.corners)
        drawn = np.flatnonzero(kept)
        self.groups = order.groups_of(drawn)
        faces = order.faces.take(drawn, axis=0)
        for group in FADED:
            first, count = (number // 3 for number in whole_range(self.groups[group]))
            fading = faces[first : first + count]
            faces[first : first + count] = fading[nearest_first(scene.vertices, fading, [camera.center for camera in cameras])]
        refill(self.indices, faces)
        return [each.take(self._skin_faces) > 0 for each in above]

    def send_fins(self, scene: Scene, facing: Sequence[np.ndarray]) -> tuple[int, int]:
        """Send strips along the outline of each eye, from what `send_faces` returned; (strips of the first eye, of all)."""
        planes = scene.planes.take(self._skin_faces, axis=1)
        outlines = [self.outline.fins(seen, planes, scene.vertices) for seen in facing]
        fins = np.concatenate(outlines) if len(outlines) > 1 else outlines[0]
        if len(fins):
            refill(self.fins, strips(fins, self._posed, self._resting))
        return len(outlines[0]), len(fins)


def refill(buffer: Any, values: np.ndarray) -> None:
    """Replace a buffer's content and size: what is still being drawn keeps the old memory, and no more is asked for than is used."""
    if values.nbytes:
        buffer.orphan(values.nbytes)
        buffer.write(values)
