"""Every number and picture of the extension AVATAR3D_neural in one table: its place, type, range, unit and meaning.

The reader and the writer check by it (avatar3d.glb.records), the fuzzer draws numbers about its limits, and docs/avatar-file.md
is made of it. Ranges are several times what enrolment makes of any photo seen, and narrow enough that nothing within overflows
32-bit floats on the way to a picture.
"""

from __future__ import annotations

from dataclasses import dataclass

Dimension = int | str  # a length, or the name of one that several rows share
Bound = float | str  # "V" is one under the number of vertices that V stands for

# Lengths that rows share, with the most that is read of each and what it counts.
DIMENSIONS: dict[str, tuple[int, str]] = {
    "V": (200_000, "vertices"),
    "N": (100_000, "vertices of the hair's grid"),
    "F": (200_000, "triangles of the hair's grid"),
    "K": (12, "hair levels"),
    "L": (32, "levels of the hash grid"),
    "T": (2**20, "entries of each level's table"),
    "C": (16, "features of an entry"),
    "M": (64, "numbers that the motion code is projected to"),
    "A": (16, "answers that are known"),
}
MAX_FACES = 250_000  # triangles of the head, and those of its hair once for each level, together; enrolment makes 34,000
MAX_WEIGHTS = 8192  # of the MLP together: a driver compiles 20,000 for minutes; enrolment trains 2,200
MAX_HEIGHT_M = 2.0  # of a place from the eyes: a head with its bust is half a metre


@dataclass(frozen=True)
class Number:
    """One number, or an array of them, of the extension.

    path: its members' names from the extension's object on, [] for each entry of a list. kinds: none for a number in the JSON
    text, else the types that an array in a buffer view may have. shape: of lists in the text and of arrays; a name in
    DIMENSIONS is any length, None too. low, high: the range, inclusive. null: may be null, for what was not measured.
    optional: may be missing. whole: a whole number.
    """

    path: str
    kinds: tuple[str, ...]
    shape: tuple[Dimension | None, ...]
    low: float
    high: Bound
    unit: str
    meaning: str
    null: bool = False
    optional: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Picture:
    """One picture of the extension, or each of a list.

    path: as of a Number. modes: Pillow's that are read. drawn_bytes: what each of its pixels adds to the peak of a process that draws
    it (decoded, as floats while being made ready, and as textures; measured on pictures of 1024²), with each_level once for each
    hair level; see avatar3d.glb.budget.
    """

    path: str
    modes: tuple[str, ...]
    drawn_bytes: int
    meaning: str
    optional: bool = False
    each_level: bool = False


_F32, _INDEX = ("f32",), ("u16", "u32")
_UV_SLACK = 0.01  # beyond the picture's edge, where sampling clamps

NUMBERS: tuple[Number, ...] = (
    Number("version", (), (), 1, 2, "", "of the extension; a newer one is refused", whole=True),
    Number("light", (), (9, 3), -10, 10, "1", "irradiance in nine harmonics by red, green, blue; its mean on the face is 1"),
    Number("shadingPower", (), (), 0, 2, "1", "exponent of the shade that the texture was freed of"),
    Number("validYawDeg", (), (2,), -180, 180, "°", "from and to which yaw the photo supports the look"),
    Number("mesh.vertices", _F32, ("V", 3), -MAX_HEIGHT_M, MAX_HEIGHT_M, "m", "places at rest, head frame"),
    Number("mesh.uv", _F32, ("V", 2), -_UV_SLACK, 1 + _UV_SLACK, "1", "places in the textures, glTF's convention"),
    Number("mesh.weld", _INDEX, ("V",), 0, "V", "", "the first vertex at the same place"),
    Number("mesh.headWeight", _F32, ("V",), 0, 1, "1", "share of the head's turn about the neck"),
    Number("mesh.vertexAlpha", _F32, ("V",), 0, 1, "1", "cover; the bust fades out below"),
    Number("mesh.fieldWeight", _F32, ("V",), 0, 1, "1", "how far the field acts"),
    Number("mesh.joints.neck", (), (3,), -MAX_HEIGHT_M, MAX_HEIGHT_M, "m", "about which the head turns"),
    Number("mesh.joints.head", (), (3,), -MAX_HEIGHT_M, MAX_HEIGHT_M, "m", "upper end of the neck"),
    Number("mesh.joints.jaw", (), (3,), -MAX_HEIGHT_M, MAX_HEIGHT_M, "m", "the jaw's hinge"),
    Number("mesh.joints.leftEye", (), (3,), -MAX_HEIGHT_M, MAX_HEIGHT_M, "m", "centre of the subject's left eyeball"),
    Number("mesh.joints.rightEye", (), (3,), -MAX_HEIGHT_M, MAX_HEIGHT_M, "m", "centre of the right one"),
    Number("mesh.targets", _F32, (52, "V", 3), -0.5, 0.5, "m", "the core's 52 morph targets POSITION, in ARKit's order"),
    Number(
        "mesh.landmarkTriangles", _INDEX, (468, 3), 0, "V", "", "vertices of the triangle that a MediaPipe landmark lies in"
    ),
    Number("mesh.landmarkBarycentric", _F32, (468, 3), -1, 2, "1", "its place there"),
    Number("texture.deltas[].row", _F32, (52,), -100, 100, "1", "by which weights activate the delta"),
    Number("texture.deltas[].bias", (), (), -100, 100, "1", "added to that"),
    Number("texture.deltas[].logRatio.step", (), (3,), 0, 0.1, "1", "of a byte, natural log of the linear colour's ratio"),
    Number("hair.base", _F32, ("N", 3), -MAX_HEIGHT_M, MAX_HEIGHT_M, "m", "places of level 0 at rest, head frame"),
    Number("hair.extent", _F32, ("N", 3), -0.5, 0.5, "m", "from there to level 1"),
    Number("hair.uv", _F32, ("N", 2), -_UV_SLACK, 1 + _UV_SLACK, "1", "places in the hair's pictures"),
    Number("hair.weld", _INDEX, ("N",), 0, "N", "", "the first vertex at the same place"),
    Number("hair.faces", _INDEX, ("F", 3), 0, "N", "", "triangles, counter-clockwise from outside"),
    Number("hair.levels", _F32, ("K",), 0, 2, "extents", "where each level lies, rising"),
    Number("hair.occlusion", _F32, ("K",), 0, 2, "1", "linear multiplier of each level's colour"),
    Number("field.boxMin", _F32, (3,), -10, 10, "m", "corner of the hash grid, head frame"),
    Number("field.boxMax", _F32, (3,), -10, 10, "m", "the opposite corner"),
    Number("field.resolutions[]", (), (), 1, 65536, "cells", "a side of each grid level", whole=True),
    Number("field.tables", ("f16", "u8"), ("L", "T", "C"), -1000, 1000, "1", "hash tables; T is a power of two"),
    Number("field.tables.step", (), ("L",), 0, 7.8, "1", "of a byte, for each level", optional=True),
    Number("field.motionProjection", _F32, (52, "M"), -1000, 1000, "1", "the motion code's projection"),
    Number("field.layers[].weight", ("f32", "u8"), (None, None), -1000, 1000, "1", "of the MLP's layer, (out, in)"),
    Number("field.layers[].weight.step", (), (None,), 0, 7.8, "1", "of a byte, for each output", optional=True),
    Number("field.layers[].bias", _F32, (None,), -1000, 1000, "1", "of the MLP's layer"),
    Number("field.colorBound", (), (), 0, 1, "linear colour", "most that the field adds or takes"),
    Number("field.alphaBound", (), (), 0, 1, "opacity", "most that the field adds or takes"),
    Number("baked.weights", _F32, (52,), 0, 1, "1", "ARKit weights that the bake was made for"),
    Number("baked.skinQ0.step", (), (3,), 0, 0.05, "linear colour", "of a byte of the colour residual"),
    Number(
        "baked.hairQ0.step", (), (4,), 0, 0.05, "linear colour, opacity", "of a byte of the residual and the change of opacity"
    ),
    Number("baked.skinQ1.step", (), (3,), 0, 0.05, "linear colour", "version 1: of the view term", optional=True),
    Number("baked.hairQ1.step", (), (3,), 0, 0.05, "linear colour", "version 1: of the view term", optional=True),
    Number("baked.psnrSkinDb", (), (), -200, 1000, "dB", "what is drawn against the field itself", null=True, optional=True),
    Number("baked.psnrHairDb", (), (), -200, 1000, "dB", "the same of the hair", null=True, optional=True),
    Number("baked.psnrMovedSkinDb", (), (), -200, 1000, "dB", "the same in motion", null=True, optional=True),
    Number("baked.psnrMovedHairDb", (), (), -200, 1000, "dB", "the same in motion", null=True, optional=True),
    Number("baked.motion[].row", _F32, (52,), -1000, 1000, "1", "by which weights the textures change"),
    Number("baked.motion[].limits", (), (2,), -1000, 1000, "1", "least and most of that, in order"),
    Number("baked.motion[].skin.step", (), (3,), 0, 0.05, "linear colour", "of a byte of the change", optional=True),
    Number("baked.motion[].hair.step", (), (3,), 0, 0.05, "linear colour", "of a byte of the change", optional=True),
    Number("photoCamera.width", (), (), 1, 16384, "px", "of the photo", whole=True),
    Number("photoCamera.height", (), (), 1, 16384, "px", "of the photo", whole=True),
    Number(
        "photoCamera.K", (), (3, 3), -1e6, 1e6, "px", "[[fx, 0, cx], [0, fy, cy], [0, 0, 1]]; a picture's angle is under 179°"
    ),
    Number("photoCamera.R", (), (3, 3), -1.001, 1.001, "1", "rotation from the head to the camera, OpenCV axes"),
    Number("photoCamera.t", (), (3,), -1000, 1000, "m", "translation"),
    Number("photoCamera.near", (), (), 1e-4, 1000, "m", "nearest depth that is drawn"),
    Number("photoCamera.far", (), (), 1e-3, 1e5, "m", "farthest"),
    Number("photoMotion.weights", (), (52,), 0, 1, "1", "ARKit weights of the photo's expression"),
    Number("photoMotion.rotation", (), (4,), -1.001, 1.001, "1", "unit quaternion xyzw of the head"),
    Number("photoMotion.translation", (), (3,), -100, 100, "m", "of the head"),
    Number("photoMotion.gaze", (), (2, 2), -3.2, 3.2, "rad", "yaw and pitch of the left and of the right eye"),
    Number("photoMotion.confidence", (), (5,), 0, 1, "1", "of brow, eyes, mouth, tongue, head"),
    Number("reach.rest", (), (52,), 0, 0.6, "1", "a network's answers at rest (avatar3d.motion.retarget)"),
    Number("reach.full", (), (52,), 0, 1.6, "1", "its answers where a weight is 1"),
    Number("reach.answers", (), ("A", 52), -1, 2, "1", "some of its answers"),
    Number("reach.corrections", (), ("A", 52), -1, 1, "1", "what is added near them"),
)

PICTURES: tuple[Picture, ...] = (
    Picture("texture.baseColor", ("RGB",), 60, "albedo of head, eyes and mouth, sRGB"),
    Picture("texture.confidence", ("L",), 2, "255 where the photo shows it"),
    Picture("texture.deltas[].logRatio", ("RGB",), 40, "log of the colour's change, in steps about 128"),
    Picture("hair.color", ("RGBA",), 45, "albedo, sRGB; its alpha is level 0's opacity for plain viewers", each_level=True),
    Picture("hair.opacity[]", ("L", "RGBA"), 12, "of a level: grey, or the alpha of what plain viewers show"),
    Picture("baked.skinQ0.levels[]", ("RGB",), 160, "colour residual, in steps about 128"),
    Picture("baked.hairQ0.levels[]", ("RGBA",), 45, "the same and opacity's change, for a hair level"),
    Picture("baked.skinQ1.levels[]", ("RGB",), 30, "version 1's view term", optional=True),
    Picture("baked.hairQ1.levels[]", ("RGB",), 30, "version 1's view term", optional=True),
    Picture("baked.motion[].skin.levels[]", ("RGB",), 16, "how the residual moves", optional=True),
    Picture("baked.motion[].hair.levels[]", ("RGB",), 12, "how the residual moves, for a hair level", optional=True),
)

ROWS: dict[str, Number] = {row.path: row for row in NUMBERS}
PICTURE_ROWS: dict[str, Picture] = {row.path: row for row in PICTURES}


def range_text(row: Number) -> str:
    """The range as a person reads it, such as "0 to 1"."""
    return f"{row.low:g} to {row.high:g}" if not isinstance(row.high, str) else f"{row.low:g} to {row.high} − 1"
