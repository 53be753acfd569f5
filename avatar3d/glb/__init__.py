"""The avatar's file: a valid glTF 2.0 binary that any viewer shows, with the neural parts in the extension AVATAR3D_neural.

Core glTF holds the mesh by parts, the 52 ARKit morph targets (sparse), a skin that bends the neck, eye and jaw nodes, the
base colour and a few hair layers. The extension, an object at the document's root, adds the rest and names the core's
buffer views where the data is there already. Its version 2, with A = {bufferView, type: u8 u16 u32 f16 f32, shape} and
P = {bufferView, mimeType, width, height}; a P with a step for each channel, or an A of u8 with one for each first index, holds
values (byte - 128) * step; T = {step, levels [P]}:

    version, light [9][3], shadingPower, validYawDeg [2], provenance {}, photoCamera {}, photoMotion {},
    reach {rest [52], full [52], answers [N][52], corrections [N][52]}: avatar3d.motion.retarget
    mesh     vertices uv weld headWeight vertexAlpha fieldWeight landmarkTriangles landmarkBarycentric: A
             joints {name: [3]}; primitives [{mesh, primitive, part, firstVertex, vertexCount}]: the core's, whose
             indices count from firstVertex; faceRuns [[primitive, faces]]: the original order of the faces
    texture  baseColor confidence: P; deltas [{name, row: A, bias, logRatio: P + step}]
    hair     base extent uv weld faces levels occlusion: A; color: P (its rgb); opacity [P]: grey, or the alpha of rgba
    field    boxMin boxMax tables motionProjection: A; resolutions []; layers [{weight: A, bias: A}]; colorBound alphaBound
    baked    skinQ0 hairQ0: T; weights: A; psnrSkinDb psnrHairDb psnrMovedSkinDb psnrMovedHairDb (null: not measured);
             motion [{row: A, limits [2], skin hair: T, where it changes them}]

Version 1, which is read as well, has a view term in textures of its own, skinQ1 hairQ1: T, and no motion.
Losses of one write and read: field tables to 16-bit floats, or with `byte_field=True` tables and weights to 8 bits; texture
deltas, baked textures and how they move to 8 bits of each channel (off by its largest magnitude / 253 at most, or how a texture
moves by MOTION_STEP); with `jpeg=True` the base colour to JPEG of quality 95. The rest is exact. Nothing in the file is executable.
"""

from __future__ import annotations

import logging
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np

import avatar3d
from avatar3d.avatar import Avatar
from avatar3d.errors import InputError, WorkError
from avatar3d.files import write_bytes
from avatar3d.glb.core import Core
from avatar3d.glb.extension import EXTENSION, EXTENSION_VERSION, extension
from avatar3d.glb.gltf_reader import GltfReader, read_file
from avatar3d.glb.gltf_writer import GltfWriter
from avatar3d.glb.plain import plain_avatar
from avatar3d.glb.read import avatar_of
from avatar3d.text import printable

DEFAULT_JPEG_QUALITY = 95  # without chroma subsampling: about 1/255 rms on skin
_LOG = logging.getLogger(__name__)  # printed on stderr unless a program says where its log goes


def write_glb(
    avatar: Avatar,
    path: str | Path,
    jpeg: bool | int = False,
    byte_field: bool = False,
    smallest: bool = False,
    encoded_color: bytes | None = None,
) -> None:
    """Write the avatar; the same avatar gives the same bytes.

    jpeg: store the base colour as JPEG of this quality (1 to 100), True for DEFAULT_JPEG_QUALITY: a quarter of the size of
    the exact PNG. byte_field: store the field's tables and weights in 8 bits (field.int8), a quarter of a megabyte less. smallest:
    take longer over the pictures, for fewer bytes of the same pixels. encoded_color: a JPEG that shows the base colour, stored as
    it is. Raises InputError when `path` cannot be written, WorkError when the avatar holds numbers that the file cannot (not finite,
    outside their range in avatar3d.glb.table, or tables over 65504).
    """
    _require_finite(avatar, "avatar")
    writer = GltfWriter(f"avatar3d {avatar3d.__version__}", smallest)
    color = avatar.base_color
    if encoded_color is not None:
        base_color = writer.encoded(encoded_color, "image/jpeg", color)
    elif jpeg:
        base_color = writer.jpeg(color, DEFAULT_JPEG_QUALITY if jpeg is True else jpeg)
    else:
        base_color = writer.picture(color)
    core = Core(writer, avatar, base_color)
    core.write()
    writer.document["extensionsUsed"] = [EXTENSION]
    writer.document["extensions"] = {EXTENSION: extension(writer, avatar, core, byte_field)}
    write_bytes(path, writer.to_bytes())


def read_glb(path: str | Path) -> Avatar:
    """The avatar in a file that `write_glb` made.

    Raises InputError, one sentence, when the file cannot be read or is larger than 256 MiB, and as `parse_glb` does.
    """
    return parse_glb(read_file(path), path)


def parse_glb(data: bytes, name: str | Path) -> Avatar:
    """The avatar in the bytes of such a file; `name` is what errors call it.

    Without the extension the core glTF is read, and a warning logged that says so. Raises InputError, one sentence, when they are not
    a GLB, are truncated, damaged or compressed, would take too much memory, hold no ARKit morph targets, or were written by a newer
    version.
    """
    reader = GltfReader(data, name)
    extensions = reader.document.get("extensions")
    content = extensions.get(EXTENSION) if isinstance(extensions, dict) else None
    if not isinstance(content, dict):
        avatar = plain_avatar(reader)
        _LOG.warning(
            "avatar3d: %s has no %s (another program wrote it), so it is drawn by its mesh, targets and textures alone: the last rung,"
            " blendshape, without the photo's light and what changes with the view",
            printable(str(name)), EXTENSION,
        )  # fmt: skip
        return avatar
    version = reader.integer(content, "version", 1, 2**31)
    if version > EXTENSION_VERSION:
        raise InputError(
            f"{name} was written by a newer avatar3d ({EXTENSION} version {version}, this one reads "
            f"{EXTENSION_VERSION}); update avatar3d"
        )
    try:
        return avatar_of(reader, content)
    except InputError as error:
        if str(name) in str(error):
            raise
        raise InputError(f"{name}: {error}") from error


def _require_finite(value: object, name: str) -> None:
    """Raise WorkError when a float array anywhere in the avatar is not finite."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise WorkError(f"cannot write {name}: it holds a value that is not finite; enrol the photo again")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _require_finite(item, f"{name}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            _require_finite(item, f"{name}.{key}")
    elif is_dataclass(value):
        for part in fields(value):
            _require_finite(getattr(value, part.name), f"{name}.{part.name}")
