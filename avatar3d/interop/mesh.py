"""A posed avatar as one still mesh for programs without blendshapes: PLY with vertex colours, OBJ with textures.

Units are metres, +Y up, +Z out of the face. Colours are the texture's own, without the photo's light and the field.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from avatar3d.avatar import Avatar
from avatar3d.color import linear_to_srgb, srgb_to_linear, to_u8
from avatar3d.errors import InputError
from avatar3d.files import replacing
from avatar3d.geometry import smooth_normals
from avatar3d.head.rig import head_transform, pose_vertices
from avatar3d.motion.code import MotionCode

OPAQUE = 128  # opacity from which a texel of the hair's base is kept, as the renderers cut it


@dataclass
class _Surface:
    """One textured piece: vertices (V, 3) m, normals (V, 3), uv (V, 2) glTF, faces (F, 3), texture (H, W, 3) u8 sRGB."""

    name: str
    vertices: np.ndarray
    normals: np.ndarray
    uv: np.ndarray
    faces: np.ndarray
    texture: np.ndarray


def export_mesh(avatar: Avatar, motion: MotionCode, path: str | Path, hair: bool = True) -> list[Path]:
    """Write the avatar as the motion code poses it; returns the files written, the mesh first.

    The suffix picks the format: .ply (binary, one colour a vertex) or .obj (with .mtl and one PNG a surface beside it, named
    after it). hair: add the hair's opaque base layer. Raises InputError on another suffix or an unwritable path.
    """
    target = Path(path)
    write = _WRITERS.get(target.suffix.lower())
    if write is None:
        known = " or ".join(_WRITERS)
        raise InputError(f"cannot export to {target}: the suffix {target.suffix!r} is unknown; name a {known} file")
    return write(_surfaces(avatar, motion, hair), target)


def posed_texture(avatar: Avatar, motion: MotionCode) -> np.ndarray:
    """(H, W, 3) u8 sRGB base colour with the texture deltas that the motion code activates."""
    height, width = avatar.base_color.shape[:2]
    log_ratio = np.zeros((height, width, 3), np.float32)
    for delta in avatar.texture_deltas:
        activation = delta.activation(motion.weights)
        if activation > 0:
            for channel in range(3):
                plane = Image.fromarray(np.ascontiguousarray(delta.log_ratio[..., channel], dtype=np.float32))
                log_ratio[..., channel] += activation * np.asarray(plane.resize((width, height), Image.Resampling.BILINEAR))
    if not log_ratio.any():
        return avatar.base_color
    return to_u8(linear_to_srgb(srgb_to_linear(avatar.base_color) * np.exp(log_ratio)))


def _surfaces(avatar: Avatar, motion: MotionCode, hair: bool) -> list[_Surface]:
    vertices = pose_vertices(avatar.vertices, avatar.expression, motion, avatar.head_weight, avatar.joints, avatar.vertex_part)
    normals = smooth_normals(vertices, avatar.faces, avatar.weld)
    surfaces = [_Surface("head", vertices, normals, avatar.uv, avatar.faces, posed_texture(avatar, motion))]
    if hair and avatar.hair is not None:
        shells = avatar.hair
        rotation, shift = head_transform(motion, avatar.joints)
        base = (shells.base + shells.levels[0] * shells.extent) @ rotation.T + shift
        faces = shells.faces[sampled(shells.opacity[0], shells.uv[shells.faces].mean(1)) >= OPAQUE]
        if len(faces):
            base = base.astype(np.float32)
            color = to_u8(linear_to_srgb(srgb_to_linear(shells.color) * shells.occlusion[0]))
            normals = smooth_normals(base, shells.faces, shells.weld)
            surfaces.append(_Surface("hair", base, normals, shells.uv, faces, color))
    return surfaces


def sampled(picture: np.ndarray, uv: np.ndarray) -> np.ndarray:
    """Nearest texels (N, ...) of a picture (H, W, ...) at (N, 2) UV in glTF's convention."""
    height, width = picture.shape[:2]
    column = np.clip((uv[:, 0] * width).astype(int), 0, width - 1)
    row = np.clip((uv[:, 1] * height).astype(int), 0, height - 1)
    return picture[row, column]


def _write_ply(surfaces: list[_Surface], target: Path) -> list[Path]:
    vertex = np.dtype([("place", "<f4", 3), ("normal", "<f4", 3), ("color", "u1", 3)])
    face = np.dtype([("count", "u1"), ("corners", "<i4", 3)])
    rows, triangles, start = [], [], 0
    for surface in surfaces:
        row = np.empty(len(surface.vertices), vertex)
        row["place"], row["normal"] = surface.vertices, surface.normals
        row["color"] = sampled(surface.texture, surface.uv)
        rows.append(row)
        triangle = np.empty(len(surface.faces), face)
        triangle["count"], triangle["corners"] = 3, surface.faces + start
        triangles.append(triangle)
        start += len(row)
    names = [f"property float {name}" for name in ("x", "y", "z", "nx", "ny", "nz")]
    names += [f"property uchar {name}" for name in ("red", "green", "blue")]
    header = [
        "ply",
        "format binary_little_endian 1.0",
        "comment avatar3d, metres",
        f"element vertex {start}",
        *names,
        f"element face {sum(len(triangle) for triangle in triangles)}",
        "property list uchar int vertex_indices",
        "end_header",
    ]
    with replacing(target) as temporary:
        body = b"".join(part.tobytes() for part in (*rows, *triangles))
        temporary.write_bytes("\n".join(header).encode() + b"\n" + body)
    return [target]


def _write_obj(surfaces: list[_Surface], target: Path) -> list[Path]:
    library = target.with_suffix(".mtl")
    pictures = [target.with_name(f"{target.stem}_{surface.name}.png") for surface in surfaces]
    lines = ["# avatar3d, metres", f"mtllib {library.name}"]
    materials = []
    start = 1
    for surface, picture in zip(surfaces, pictures, strict=True):
        lines += [f"o {surface.name}", f"usemtl {surface.name}"]
        lines += ["v {:.6f} {:.6f} {:.6f}".format(*row) for row in surface.vertices.tolist()]
        lines += [f"vt {u:.6f} {1 - v:.6f}" for u, v in surface.uv.tolist()]
        lines += ["vn {:.4f} {:.4f} {:.4f}".format(*row) for row in surface.normals.tolist()]
        corners = (surface.faces + start).tolist()
        lines += ["f {0}/{0}/{0} {1}/{1}/{1} {2}/{2}/{2}".format(*row) for row in corners]
        start += len(surface.vertices)
        materials += [f"newmtl {surface.name}", "Kd 1 1 1", "Ks 0 0 0", f"map_Kd {picture.name}", ""]
        with replacing(picture) as temporary:
            Image.fromarray(surface.texture).save(temporary, "PNG")
    with replacing(library) as temporary:
        temporary.write_text("\n".join(materials), encoding="utf-8")
    with replacing(target) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [target, library, *pictures]


_WRITERS: dict[str, Callable[[list[_Surface], Path], list[Path]]] = {".ply": _write_ply, ".obj": _write_obj}
