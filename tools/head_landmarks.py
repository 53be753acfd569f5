"""Place MediaPipe's 468 face landmarks on a head model: render it, run the landmarker, cast back, average, regularise."""

from __future__ import annotations

import itertools
import struct
import zipfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

from avatar3d.avatar import LANDMARKS
from avatar3d.face import FaceTracker
from avatar3d.head.model import EYES, MOUTH_BAG, SKIN, TEETH, TONGUE, HeadModel

PICTURE_PX = 768
YAWS_DEG = (-40, -27, -14, 0, 14, 27, 40)
PITCHES_DEG = (-15, 0, 15)
CAMERA_DISTANCE_M = 0.7
FACE_CENTRE_M = np.array([0.0, -0.035, 0.0])
MIN_FACING = 0.35  # a landmark on a surface turned further away slides along the silhouette
SPREAD_FLOOR_M, SPREAD_DOUBT_M = 0.0005, 0.006
SMOOTHNESS = 0.15  # of the canonical face's Laplacian against the casts
MIDDLE_M = 3e-5  # vertices this near to x = 0 are on the plane of symmetry
NORMAL_PENALTY_M = 0.003  # keeps a lip point off the inside of the mouth

VERTEX_SHADER = """#version 330
in vec3 place; in vec3 normal; in vec3 canonical; in vec4 paint;
out vec3 v_normal; out vec3 v_canonical; out vec4 v_paint;
uniform mat4 view_projection; uniform mat3 turn;
void main() {
    v_normal = turn * normal; v_canonical = canonical; v_paint = paint;
    gl_Position = view_projection * vec4(place, 1.0);
}"""
FRAGMENT_SHADER = """#version 330
in vec3 v_normal; in vec3 v_canonical; in vec4 v_paint;
layout(location = 0) out vec4 colour; layout(location = 1) out vec4 hit;
uniform vec3 light;
void main() {
    vec3 n = normalize(v_normal);
    float shade = 0.42 + 0.62 * max(dot(n, light), 0.0);
    colour = vec4(min(v_paint.rgb * shade, vec3(1.0)), 1.0);
    hit = vec4(v_canonical, v_paint.a > 0.5 ? n.z : -1.0);
}"""


def canonical_face(bundle: Path) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (468,3) in metres and triangles (898,3) of MediaPipe's canonical face, from the bundle's geometry metadata."""
    with zipfile.ZipFile(bundle) as archive:
        data = archive.read("geometry_pipeline_metadata_landmarks.binarypb")
    for _, wire, value in _messages(data):
        if wire != 2:
            continue
        fields = list(_messages(value))
        numbers = b"".join(v if w == 2 else struct.pack("<I", v) if w == 0 else v for f, w, v in fields if f == 3)
        if len(numbers) != LANDMARKS * 5 * 4:
            continue
        indices: list[int] = []
        for number, wire_type, content in fields:
            if number == 4:
                indices += [content] if wire_type == 0 else _varints(content)
        vertices = np.frombuffer(numbers, "<f4").reshape(LANDMARKS, 5)[:, :3]
        return vertices.astype(np.float64) * 0.01, np.array(indices).reshape(-1, 3)
    raise SystemExit(f"{bundle} holds no canonical face")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            return value, at


def _varints(data: bytes) -> list[int]:
    values, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        values.append(value)
    return values


def _messages(data: bytes) -> list[tuple[int, int, int | bytes]]:
    """Fields (number, wire type, value) of one protocol buffer message."""
    fields: list[tuple[int, int, int | bytes]] = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(data, at)
            fields.append((key >> 3, wire, value))
            continue
        size = {1: 8, 5: 4}.get(wire)
        if size is None:
            size, at = _varint(data, at)
        fields.append((key >> 3, wire, data[at : at + size]))
        at += size
    return fields


class Studio:
    """Renders the painted head and, beside each pixel, its place on the template."""

    def __init__(self, model: HeadModel) -> None:
        import moderngl

        self.model = model
        self.fine = model.subdivided(1)
        other = np.isin(model.part, [EYES, TEETH, TONGUE])
        used, inverse = np.unique(model.faces[other], return_inverse=True)
        select = sp.csr_matrix((np.ones(len(used)), (np.arange(len(used)), used)), (len(used), len(model.vertices)))
        self.matrix = sp.vstack([self.fine.matrix, select]).tocsr()
        self.faces = np.vstack([self.fine.faces, inverse.reshape(-1, 3) + len(self.fine.uv)]).astype(np.int32)
        self.weld = np.r_[self.fine.weld, len(self.fine.uv) + np.arange(len(used))]
        self.canonical = self.matrix @ model.vertices
        self.paint = self._paint(used)
        self.context = moderngl.create_standalone_context(backend="egl")
        self.context.enable(moderngl.DEPTH_TEST)
        self.program = self.context.program(vertex_shader=VERTEX_SHADER, fragment_shader=FRAGMENT_SHADER)
        size = (PICTURE_PX, PICTURE_PX)
        self.target = self.context.framebuffer(
            [self.context.renderbuffer(size, 4), self.context.renderbuffer(size, 4, dtype="f4")],
            self.context.depth_renderbuffer(size),
        )

    def _paint(self, others: np.ndarray) -> np.ndarray:
        model = self.model
        colour = np.tile([0.80, 0.62, 0.53, 1.0], (len(model.vertices), 1))
        for name, tint in (("lips", (0.62, 0.32, 0.32)), ("brows", (0.25, 0.18, 0.14))):
            w = model.regions[name][:, None]
            colour[:, :3] = colour[:, :3] * (1 - w) + np.array(tint) * w
        colour[model.vertex_part == MOUTH_BAG] = [0.30, 0.13, 0.13, 0.0]
        colour[model.vertex_part == TEETH] = [0.85, 0.83, 0.78, 0.0]
        colour[model.vertex_part == TONGUE] = [0.65, 0.32, 0.32, 0.0]
        radii = model.eye_radii(model.vertices)
        for side, index in enumerate(model.eye_vertices):
            polar, _ = model.eye_uv[side].polar(model.uv[index])
            limit = model.iris_radius / radii[side]
            colour[index] = [0.92, 0.90, 0.88, 0.0]
            colour[index[polar < limit * 1.03]] = [0.33, 0.24, 0.17, 0.0]
            colour[index[polar < limit * 0.55]] = [0.05, 0.04, 0.04, 0.0]
        skin = np.asarray(self.fine.matrix @ colour)
        return np.vstack([skin, colour[others]])

    def render(self, vertices: np.ndarray, turn: np.ndarray, light: np.ndarray, tone: float) -> tuple[np.ndarray, np.ndarray]:
        """Picture (S,S,3) uint8 and casts (S,S,4): template place and facing (negative where not skin)."""
        place = self.matrix @ vertices
        corner = place[self.faces]
        cross = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
        normal = np.zeros_like(place)
        for k in range(3):
            np.add.at(normal, self.weld[self.faces[:, k]], cross)
        normal = normal[self.weld]
        normal /= np.linalg.norm(normal, axis=1, keepdims=True) + 1e-12
        paint = self.paint.copy()
        paint[:, :3] *= tone
        data = np.hstack([place, normal, self.canonical, paint]).astype("f4")
        vertex_buffer = self.context.buffer(data.tobytes())
        index_buffer = self.context.buffer(self.faces.astype("i4").tobytes())
        array = self.context.vertex_array(
            self.program, [(vertex_buffer, "3f 3f 3f 4f", "place", "normal", "canonical", "paint")], index_buffer
        )
        view = np.eye(4)
        view[:3, :3] = turn
        view[:3, 3] = -turn @ FACE_CENTRE_M - [0, 0, CAMERA_DISTANCE_M]
        focal, near, far = 2 * CAMERA_DISTANCE_M / 0.30, 0.1, 2.0
        projection = np.array(
            [
                [focal, 0, 0, 0],
                [0, focal, 0, 0],
                [0, 0, -(far + near) / (far - near), -2 * far * near / (far - near)],
                [0, 0, -1, 0],
            ]
        )
        self.target.use()
        self.target.clear(0.35, 0.35, 0.38, 1.0)
        self.program["view_projection"].write((projection @ view).T.astype("f4").tobytes())
        self.program["turn"].write(turn.T.astype("f4").tobytes())
        self.program["light"].write((light / np.linalg.norm(light)).astype("f4").tobytes())
        self.context.clear(0.35, 0.35, 0.38, 1.0)
        array.render()
        colour = np.frombuffer(self.target.read(components=3, attachment=0), np.uint8).reshape(PICTURE_PX, PICTURE_PX, 3)
        cast = np.frombuffer(self.target.read(components=4, attachment=1, dtype="f4"), np.float32)
        for resource in (array, vertex_buffer, index_buffer):
            resource.release()
        return colour[::-1].copy(), cast.reshape(PICTURE_PX, PICTURE_PX, 4)[::-1]


def turn_matrix(yaw_deg: float, pitch_deg: float) -> np.ndarray:
    """Rotation (3,3) of the head: yaw about +Y, then pitch about the camera's +X."""
    a, b = np.radians(yaw_deg), np.radians(pitch_deg)
    about_y = np.array([[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]])
    about_x = np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])
    return about_x @ about_y


def sitters(model: HeadModel) -> list[tuple[np.ndarray, np.ndarray, float]]:
    """Heads to render: neutral vertices with expression, light direction, skin tone."""

    def person(**weights: float) -> np.ndarray:
        coefficients = np.zeros(len(model.identity_names), np.float32)
        for name, value in weights.items():
            coefficients[model.identity_names.index("macro/" + name.replace("_", "-"))] = value
        return model.shape(coefficients)

    jaw = np.zeros(52, np.float32)
    jaw[model.expression_names.index("jawOpen")] = 0.2
    average = model.vertices
    return [
        (average, np.array([0.25, 0.35, 0.9]), 1.0),
        (average + model.expression_offsets(jaw), np.array([-0.25, 0.35, 0.9]), 1.0),
        (person(african_male_young=0.5, caucasian_male_young=0.2), np.array([0.1, 0.5, 0.8]), 0.6),
        (person(asian_female_young=0.5), np.array([-0.4, 0.3, 0.9]), 1.05),
        (person(universal_male_old_averagemuscle_averageweight=0.4), np.array([0.4, 0.2, 0.9]), 0.9),
    ]


def cast_landmarks(model: HeadModel, tracker: FaceTracker) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean template places (468,3), their spread (468,) in metres and the number of casts (468,)."""
    studio = Studio(model)
    gathered: list[list[np.ndarray]] = [[] for _ in range(LANDMARKS)]
    for (vertices, light, tone), yaw, pitch in itertools.product(sitters(model), YAWS_DEG, PITCHES_DEG):
        picture, cast = studio.render(vertices, turn_matrix(yaw, pitch), light, tone)
        boxes = tracker.detect(picture)
        if not boxes:
            continue
        points = tracker.landmarks(picture, boxes[0]).points_px[:LANDMARKS]
        column, row = np.floor(points[:, :2]).astype(int).T
        inside = (row >= 0) & (row < PICTURE_PX) & (column >= 0) & (column < PICTURE_PX)
        for k in np.flatnonzero(inside):
            *place, facing = cast[row[k], column[k]]
            if facing > MIN_FACING:
                gathered[k].append(np.array([facing**2, *place]))
    places, spread = np.zeros((LANDMARKS, 3)), np.full(LANDMARKS, np.inf)
    count = np.zeros(LANDMARKS, int)
    for k, casts in enumerate(gathered):
        if len(casts) < 5:
            continue
        weight, points = np.array(casts)[:, 0], np.array(casts)[:, 1:]
        distance = np.linalg.norm(points - np.median(points, 0), axis=1)
        near = distance <= max(2.5 * np.median(distance), 0.001)
        places[k] = np.average(points[near], axis=0, weights=weight[near])
        spread[k] = np.sqrt(np.average(((points[near] - places[k]) ** 2).sum(1), weights=weight[near]))
        count[k] = near.sum()
    return places, spread, count


def similarity(source: np.ndarray, target: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """`source` (N,3) moved onto `target` by the best rotation, scale and shift (Umeyama 1991)."""
    weight = weight / weight.sum()
    source_mean, target_mean = weight @ source, weight @ target
    a, b = source - source_mean, target - target_mean
    u, s, vt = np.linalg.svd((a * weight[:, None]).T @ b)
    signs = np.array([1, 1, np.sign(np.linalg.det(u @ vt))])
    scale = (s * signs).sum() / ((a**2).sum(1) @ weight)
    return scale * a @ (u * signs) @ vt + target_mean


def vertex_normals(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Unit area-weighted normals (N,3)."""
    corner = vertices[faces]
    cross = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    normal = np.zeros_like(vertices)
    for k in range(3):
        np.add.at(normal, faces[:, k], cross)
    return normal / (np.linalg.norm(normal, axis=1, keepdims=True) + 1e-12)


def closest_on_triangles(point: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Barycentric coordinates (T,3) of the closest place to `point` on each triangle (T,3,3) (Ericson 2005, section 5.1.5)."""
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    ab, ac = b - a, c - a

    def dots(origin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        offset = point - origin
        return (ab * offset).sum(1), (ac * offset).sum(1)

    (d1, d2), (d3, d4), (d5, d6) = dots(a), dots(b), dots(c)
    va, vb, vc = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
    total = va + vb + vc + 1e-30
    bary = np.stack([1 - vb / total - vc / total, vb / total, vc / total], 1)
    zero = np.zeros_like(d1)

    def place(where: np.ndarray, *weights: np.ndarray) -> None:
        bary[where] = np.stack(weights, 1)[where]

    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.nan_to_num(d1 / (d1 - d3))
        place((vc <= 0) & (d1 >= 0) & (d3 <= 0), 1 - t, t, zero)
        t = np.nan_to_num(d2 / (d2 - d6))
        place((vb <= 0) & (d2 >= 0) & (d6 <= 0), 1 - t, zero, t)
        t = np.nan_to_num((d4 - d3) / ((d4 - d3) + (d5 - d6)))
        place((va <= 0) & (d4 - d3 >= 0) & (d5 - d6 >= 0), zero, 1 - t, t)
    place((d1 <= 0) & (d2 <= 0), zero + 1, zero, zero)
    place((d3 >= 0) & (d4 <= d3), zero, zero + 1, zero)
    place((d6 >= 0) & (d5 <= d6), zero, zero, zero + 1)
    return bary


def closest_on_edges(point: np.ndarray, corners: np.ndarray, opposite: np.ndarray) -> np.ndarray:
    """Barycentric coordinates (T,3) of the closest place on each triangle's edge across from corner `opposite` (T,)."""
    rows = np.arange(len(corners))
    first, second = (opposite + 1) % 3, (opposite + 2) % 3
    a, b = corners[rows, first], corners[rows, second]
    t = np.clip(((point - a) * (b - a)).sum(1) / (((b - a) ** 2).sum(1) + 1e-30), 0, 1)
    bary = np.zeros((len(corners), 3))
    bary[rows, first], bary[rows, second] = 1 - t, t
    return bary


def embed(model: HeadModel, bundle: Path) -> dict[str, np.ndarray]:
    """The landmark arrays of the asset."""
    places, spread, count = cast_landmarks(model, FaceTracker(bundle))
    canonical, triangles = canonical_face(bundle)
    mirror = np.array([np.argmin(((canonical - p * [-1, 1, 1]) ** 2).sum(1)) for p in canonical])
    weight = count / np.maximum(spread, SPREAD_FLOOR_M) ** 2 * SPREAD_FLOOR_M**2
    weight[spread > SPREAD_DOUBT_M] *= 0.05
    both = weight + weight[mirror]
    places = (places * weight[:, None] + places[mirror] * [-1, 1, 1] * weight[mirror][:, None]) / np.maximum(both, 1e-12)[
        :, None
    ]
    weight = np.minimum(both / 2, 20.0) / 20.0
    rest = similarity(canonical, places, weight)
    edges = np.unique(np.sort(np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]), 1), axis=0)
    adjacency = sp.coo_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), (LANDMARKS, LANDMARKS))
    adjacency = adjacency + adjacency.T
    laplacian = sp.diags(np.asarray(adjacency.sum(1)).ravel()) - adjacency
    smooth = SMOOTHNESS * laplacian.T @ laplacian
    system = (sp.diags(weight + 1e-6) + smooth).tocsc()
    placed = np.stack([spsolve(system, (weight + 1e-6) * places[:, k] + smooth @ rest[:, k]) for k in range(3)], 1)
    seen = np.isfinite(spread)
    print(
        f"{seen.sum()} landmarks cast, spread median {1e3 * np.median(spread[seen]):.2f} mm, "
        f"regularisation moved median {1e3 * np.median(np.linalg.norm(placed - places, axis=1)[seen]):.2f} mm"
    )

    normals = vertex_normals(placed, triangles)
    skin = np.flatnonzero(model.part == SKIN)
    corners = model.vertices[model.faces[skin]].astype(np.float64)
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    face_normal = cross / (np.linalg.norm(cross, axis=1, keepdims=True) + 1e-20)
    aside = np.abs(corners[..., 0]) > MIDDLE_M
    on_middle, off_middle = aside.sum(1) == 1, aside.argmax(1)
    tri, bary = np.zeros((LANDMARKS, 3), np.int64), np.zeros((LANDMARKS, 3))
    snapped = np.zeros(LANDMARKS)
    for k in range(LANDMARKS):
        if mirror[k] < k:
            tri[k], bary[k] = model.mirror[tri[mirror[k]]], bary[mirror[k]]
            continue
        # A point of the middle stays on an edge of the middle.
        target = placed[k] * [0, 1, 1] if mirror[k] == k else placed[k]
        coordinates = closest_on_edges(target, corners, off_middle) if mirror[k] == k else closest_on_triangles(target, corners)
        distance = np.linalg.norm((corners * coordinates[..., None]).sum(1) - target, axis=1)
        distance[~on_middle & (mirror[k] == k)] = np.inf
        best = np.argmin(distance + NORMAL_PENALTY_M * (1 - face_normal @ normals[k]))
        tri[k], bary[k], snapped[k] = model.faces[skin[best]], coordinates[best], distance[best]
    print(f"snapped to the skin by median {1e3 * np.median(snapped):.2f} mm, at most {1e3 * snapped.max():.2f} mm")
    return {
        "landmark_tri": tri.astype(np.uint16),
        "landmark_bary": bary.astype(np.float32),
        "landmark_confidence": weight.astype(np.float32),
        "landmark_mirror": mirror.astype(np.uint16),
    }
