"""Measure the fit against a real 3D scan with two real cameras 49 degrees apart: the sample `james` (menpo3d, BSD-3).

    tools/measure_fit.py james.obj james.jpg

The scan's texture coordinates lie in both photos, so a direct linear transform gives both cameras. A head is fitted to one
photo with its camera; its landmarks are compared with the other photo's, and its surface with the scan. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import cv2
import numpy as np
from PIL import Image
from scipy.spatial import cKDTree

from avatar3d.face import FaceTracker
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.fitting.fit import FaceFit, fit_face
from avatar3d.head.landmarks import fitting_head
from avatar3d.head.mediapipe import DEPTH_POINTS, MESH_POINTS
from avatar3d.head.model import HeadModel

SCAN_SAMPLES = 6  # random points on each scan triangle
ICP_ROUNDS = 40
ICP_KEEP = 90  # percentile of distances that steers the alignment


def read_scan(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Vertices (V, 3) mm, texture coordinates (T, 2), faces (F, 3) and their texture corners (F, 3) of an OBJ."""
    vertices, texture, faces, corners = [], [], [], []
    for line in path.read_text().splitlines():
        word, *rest = line.split() or [""]
        if word == "v":
            vertices.append([float(value) for value in rest[:3]])
        elif word == "vt":
            texture.append([float(value) for value in rest[:2]])
        elif word == "f":
            pairs = [corner.split("/") for corner in rest]
            faces.append([int(pair[0]) - 1 for pair in pairs])
            corners.append([int(pair[1]) - 1 for pair in pairs])
    return np.array(vertices), np.array(texture), np.array(faces), np.array(corners)


def direct_linear_transform(points: np.ndarray, pixels: np.ndarray) -> np.ndarray:
    """(3, 4) projection from (N, 3) points and (N, 2) pixels (Hartley and Zisserman, algorithm 7.1)."""
    middle, scale = points.mean(0), points.std()
    middle_px, scale_px = pixels.mean(0), pixels.std()
    world, image = (points - middle) / scale, (pixels - middle_px) / scale_px
    lifted = np.c_[world, np.ones(len(world))]
    zero = np.zeros_like(lifted)
    rows = np.concatenate([np.c_[lifted, zero, -image[:, :1] * lifted], np.c_[zero, lifted, -image[:, 1:] * lifted]])
    solution = np.linalg.svd(rows.T @ rows)[2][-1].reshape(3, 4)
    to_unit = np.diag([1 / scale, 1 / scale, 1 / scale, 1.0])
    to_unit[:3, 3] = -middle / scale
    to_pixels = np.array([[scale_px, 0, middle_px[0]], [0, scale_px, middle_px[1]], [0, 0, 1]])
    return to_pixels @ solution @ to_unit


def decompose(projection: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Intrinsics, rotation and translation of a (3, 4) projection in front of which the point `inside` lies."""
    intrinsics, rotation, centre = cv2.decomposeProjectionMatrix(projection)[:3]
    intrinsics = intrinsics / intrinsics[2, 2]
    signs = np.diag(np.sign(np.diag(intrinsics)))
    intrinsics, rotation = intrinsics @ signs, signs @ rotation
    translation = -rotation @ (centre[:3] / centre[3]).ravel()
    if (rotation @ inside + translation)[2] < 0:
        rotation, translation = -rotation, -translation
    return intrinsics, rotation, translation


def similarity(source: np.ndarray, target: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Scale, rotation, shift with target ≈ scale · source @ rotation + shift (Umeyama 1991)."""
    a, b = source.mean(0), target.mean(0)
    u, values, vt = np.linalg.svd((source - a).T @ (target - b))
    turn = np.diag([1, 1, np.sign(np.linalg.det(u @ vt))])
    rotation = u @ turn @ vt
    scale = float((values * np.diag(turn)).sum() / ((source - a) ** 2).sum())
    return scale, rotation, b - scale * a @ rotation


def scan_distance(surface: np.ndarray, start: np.ndarray, targets: np.ndarray, scan: np.ndarray) -> float:
    """Mean distance, mm, of `surface` (N, 3) to the scan after a similarity (points `start` → `targets`) and ICP."""
    tree = cKDTree(scan)
    scale, rotation, shift = similarity(start, targets)
    moved = scale * surface @ rotation + shift
    for _ in range(ICP_ROUNDS):
        distance, index = tree.query(moved)
        keep = distance < np.percentile(distance, ICP_KEEP)
        scale, rotation, shift = similarity(moved[keep], scan[index[keep]])
        moved = scale * moved @ rotation + shift
    return float(tree.query(moved)[0].mean())


def depth_errors(points: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """How far (468, 3) m of the head frame stand out of (468, 3) mm of the scan after a similarity, by part of the face, mm."""
    scale, rotation, shift = similarity(targets, points)
    off = 1000 * (points - (scale * targets @ rotation + shift))[:, 2]
    return {name: round(float(off[list(indices)].mean()), 2) for name, indices in DEPTH_POINTS.items()}


def measure(obj: Path, photo: Path, head: HeadModel, tracker: FaceTracker) -> dict[str, object]:
    """The figures of goals: fit residual, held-out camera, distance to the scan, for the fit from either photo."""
    vertices, texture, faces, corners = read_scan(obj)
    with Image.open(photo) as picture:
        rgb = np.array(picture.convert("RGB"))
    height, width = rgb.shape[:2]
    pairs = np.unique(np.stack([faces.ravel(), corners.ravel()], 1), axis=0)
    pixels = texture[pairs[:, 1]] * (width, height)
    pixels[:, 1] = height - pixels[:, 1]
    rng = np.random.default_rng(0)
    weights = rng.dirichlet([1, 1, 1], (len(faces), SCAN_SAMPLES))
    scan = np.concatenate([vertices, (vertices[faces][:, None] * weights[..., None]).sum(2).reshape(-1, 3)])

    projections, landmarks, blendshapes = [], [], []
    for side in (0, 1):
        inside = (pixels[:, 0] < width / 2) == (side == 0)
        projections.append(direct_linear_transform(vertices[pairs[inside, 0]], pixels[inside]))
        left = side * (width // 2)
        tracked = tracker.track(np.ascontiguousarray(rgb[:, left : left + width // 2]))
        points = tracked.landmarks.points_px + np.array([left, 0, 0])
        landmarks.append(FaceLandmarks(points, tracked.landmarks.presence))
        blendshapes.append(tracked.blendshapes)
    true_points = _triangulate(projections, [item.points_px[:MESH_POINTS, :2] for item in landmarks])

    report: dict[str, object] = {}
    used = np.unique(head.landmark_tri)
    for side in (0, 1):
        intrinsics, rotation, translation = decompose(projections[side], vertices.mean(0))
        pinhole = np.array([[intrinsics[0, 0], 0, intrinsics[0, 2]], [0, intrinsics[1, 1], intrinsics[1, 2]], [0, 0, 1]])
        fit = fit_face(landmarks[side], blendshapes[side], width, height, None, head, intrinsics=pinhole)
        other = _held_out(fit, head, true_points, rotation, translation, projections[1 - side], landmarks[1 - side])
        posed = fit.vertices + head.expression_offsets(fit.expression)
        report[f"from_photo_{side}"] = {
            "residual_iod_pct": round(fit.residual_iod_pct, 3),
            "held_out_iod_pct": round(other, 3),
            "scan_mm": round(scan_distance(posed[used], head.landmark_points(posed), true_points, scan), 3),
            "scan_mm_neutral": round(
                scan_distance(fit.neutral_vertices[used], head.landmark_points(fit.neutral_vertices), true_points, scan), 3
            ),
            "too_far_forward_mm": depth_errors(head.landmark_points(posed), true_points),
        }
    report["template_scan_mm"] = round(
        scan_distance(head.vertices[used], head.landmark_points(head.vertices), true_points, scan), 3
    )
    return report


def _triangulate(projections: list[np.ndarray], pixels: list[np.ndarray]) -> np.ndarray:
    points = []
    for a, b in zip(*pixels, strict=True):
        rows = [xy[axis] * p[2] - p[axis] for xy, p in ((a, projections[0]), (b, projections[1])) for axis in (0, 1)]
        solution = np.linalg.svd(np.array(rows))[2][-1]
        points.append(solution[:3] / solution[3])
    return np.array(points)


def _held_out(
    fit: FaceFit, head: HeadModel, true_points: np.ndarray, rotation: np.ndarray, translation: np.ndarray,
    other_projection: np.ndarray, other: FaceLandmarks,
) -> float:  # fmt: skip
    """Mean landmark error in the other photo, % of its eye distance; only the depth's scale is taken from the scan."""
    posed = fit.vertices + head.expression_offsets(fit.expression)
    local = fit.camera.to_camera(head.landmark_points(posed))
    scale = (true_points @ rotation.T + translation)[:, 2].mean() / local[:, 2].mean()
    world = (local * scale - translation) @ np.linalg.inv(rotation).T
    projected = np.c_[world, np.ones(len(world))] @ other_projection.T
    error = np.linalg.norm(projected[:, :2] / projected[:, 2:] - other.points_px[:MESH_POINTS, :2], axis=1)
    return float(100 * error.mean() / other.iod_px)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("obj", type=Path)
    parser.add_argument("photo", type=Path)
    parser.add_argument("--landmarker", type=Path, help="face_landmarker.task, by default the one of `avatar3d models`")
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.obj, arguments.photo, fitting_head(), FaceTracker(arguments.landmarker)), indent=2))


if __name__ == "__main__":
    main()
