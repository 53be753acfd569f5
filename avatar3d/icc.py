"""What a simple ICC profile says: its curves and where its primaries lie (ICC.1:2022); profiles of tables are left to LittleCMS."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

Curve = Callable[[np.ndarray], np.ndarray]  # a channel's numbers in [0, 1] to linear light, same shape

_HEADER = 132  # bytes: the header and the count of tags
_MAX_TAGS = 200
_PARAMETERS = (1, 3, 4, 5, 7)  # how many numbers each kind of parametric curve has (ICC.1:2022 table 68)


@dataclass(frozen=True)
class IccProfile:
    """space: "RGB", "GRAY" and so on. cicp: (primaries, transfer) of ITU-T H.273, where the profile holds them.

    curves: of red, green and blue, or of grey; empty where the profile is made of tables. to_xyz: (3, 3) linear RGB to XYZ under
    D50, for RGB. lightness: the curve of grey gives L* / 100 and not light.
    """

    space: str
    curves: tuple[Curve, ...] = ()
    to_xyz: np.ndarray | None = None
    cicp: tuple[int, int] | None = None
    lightness: bool = False


def read_icc(data: bytes) -> IccProfile | None:
    """What a profile says, or None for what is no profile or is damaged."""
    try:
        if data[36:40] != b"acsp":
            return None
        tags = _tags(data)
        space, connection = data[16:20].decode("ascii").strip(), data[20:24]
        cicp = (tags[b"cicp"][8], tags[b"cicp"][9]) if len(tags.get(b"cicp", b"")) >= 12 else None
        if space == "GRAY" and b"kTRC" in tags:
            return IccProfile(space, (_curve(tags[b"kTRC"]),), cicp=cicp, lightness=connection == b"Lab ")
        # Where there are tables, they come first (ICC.1:2022, 9.1).
        if space == "RGB" and connection == b"XYZ " and not {b"A2B0", b"A2B1", b"D2B0", b"D2B1"} & tags.keys():
            to_xyz = np.stack([_xyz(tags[name]) for name in (b"rXYZ", b"gXYZ", b"bXYZ")], axis=1)
            return IccProfile(space, tuple(_curve(tags[name]) for name in (b"rTRC", b"gTRC", b"bTRC")), to_xyz, cicp)
        return IccProfile(space, cicp=cicp)
    except (KeyError, ValueError, IndexError, struct.error):
        return None


def _tags(data: bytes) -> dict[bytes, bytes]:
    count = struct.unpack_from(">I", data, _HEADER - 4)[0]
    if count > _MAX_TAGS:
        raise ValueError("too many tags")
    tags = {}
    for number in range(count):
        name, start, length = struct.unpack_from(">4sII", data, _HEADER + 12 * number)
        tags[name] = data[start : start + length]
    return tags


def _fixed(data: bytes, start: int, count: int) -> np.ndarray:
    """(count,) s15Fixed16Numbers."""
    return np.array(struct.unpack_from(f">{count}i", data, start)) / 65536.0


def _xyz(data: bytes) -> np.ndarray:
    if data[:4] != b"XYZ ":
        raise ValueError("no XYZ")
    return _fixed(data, 8, 3)


def _curve(data: bytes) -> Curve:
    """Of curveType or parametricCurveType (ICC.1:2022, 10.6 and 10.18)."""
    if data[:4] == b"curv":
        count = struct.unpack_from(">I", data, 8)[0]
        if count == 0:
            return partial(_power, parameters=np.array([1.0]))
        if count == 1:
            return partial(_power, parameters=np.array([struct.unpack_from(">H", data, 12)[0] / 256.0]))
        if len(data) < 12 + 2 * count:
            raise ValueError("cut off")
        return partial(_table, values=np.frombuffer(data, ">u2", count, 12) / 65535.0)
    if data[:4] == b"para":
        kind = struct.unpack_from(">H", data, 8)[0]
        parameters = _fixed(data, 12, _PARAMETERS[kind])
        return partial(_power, parameters=parameters)
    raise ValueError("no curve")


def _table(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.interp(x, np.linspace(0, 1, len(values)), values)


def _power(x: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """(a x + b)^g + e where x is at least d, c x + f below: the parametric curves, those with fewer numbers filled up."""
    g, a, b, c, d, e, f = 1.0, 1.0, 0.0, 0.0, -1.0, 0.0, 0.0
    if len(parameters) == 1:
        (g,) = parameters
    elif len(parameters) == 3:
        g, a, b = parameters
        d = -b / a if a else 0.0
    elif len(parameters) == 4:
        g, a, b, c = parameters
        d, e, f = (-b / a if a else 0.0), c, c
        c = 0.0
    else:
        g, a, b, c, d = parameters[:5]
        if len(parameters) == 7:
            e, f = parameters[5:]
    with np.errstate(all="ignore"):  # a broken profile's numbers; what is no number is black
        light = np.where(x >= d, np.maximum(a * x + b, 0.0) ** g + e, c * x + f)
    return np.clip(np.nan_to_num(light, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
