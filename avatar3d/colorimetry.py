"""From what numbers in a picture mean (primaries, curve, paper white) to sRGB; reads no files.

Codes of primaries and curves are those of ITU-T H.273 (CICP), as PNG, HEIF and AVIF carry them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from avatar3d.color import linear_to_srgb, srgb_to_linear, to_u8

BLOCK_ROWS = 256
D65 = (0.3127, 0.3290)
D50_XYZ = np.array([0.9642, 1.0, 0.8249])  # of ICC's connection space
# Chromaticities x, y of red, green, blue and white, by H.273's code of primaries (table 2).
PRIMARIES: dict[int, tuple[tuple[float, float], ...]] = {
    1: ((0.640, 0.330), (0.300, 0.600), (0.150, 0.060), D65),
    4: ((0.670, 0.330), (0.210, 0.710), (0.140, 0.080), (0.310, 0.316)),
    5: ((0.640, 0.330), (0.290, 0.600), (0.150, 0.060), D65),
    6: ((0.630, 0.340), (0.310, 0.595), (0.155, 0.070), D65),
    7: ((0.630, 0.340), (0.310, 0.595), (0.155, 0.070), D65),
    9: ((0.708, 0.292), (0.170, 0.797), (0.131, 0.046), D65),
    11: ((0.680, 0.320), (0.265, 0.690), (0.150, 0.060), (0.314, 0.351)),
    12: ((0.680, 0.320), (0.265, 0.690), (0.150, 0.060), D65),
    22: ((0.630, 0.340), (0.295, 0.605), (0.155, 0.077), D65),
}
PRIMARIES_NAMES = {
    1: "BT.709",
    4: "BT.470M",
    5: "BT.601",
    6: "BT.601",
    7: "SMPTE 240M",
    9: "BT.2020",
    11: "DCI-P3",
    12: "Display P3",
}
PRIMARIES_NAMES |= {22: "EBU 3213"}
# "Adobe RGB (1998) Color Image Encoding", 2005: primaries and the exact gamma.
ADOBE_RGB = ((0.640, 0.330), (0.210, 0.710), (0.150, 0.060), D65)
ADOBE_GAMMA = 563 / 256
PQ, HLG = 16, 18
TRANSFER_NAMES = {4: "gamma 2.2", 5: "gamma 2.8", 8: "linear light", PQ: "PQ", 17: "SMPTE 428", HLG: "HLG"}
# Pictures tagged with a television camera's curve are shown by screens as sRGB ones are, so they are meant so.
_AS_SRGB = (1, 2, 6, 13, 14, 15)
UNKNOWN = 2
PAPER_WHITE_NITS = 203.0  # of HDR pictures (ITU-R BT.2408, 5.1): what is brighter is light or gloss
HLG_PEAK_NITS, HLG_GAMMA = 1000.0, 1.2  # of the screen that HLG's system gamma is given for (ITU-R BT.2100, table 5)
HLG_LUMA = np.array([0.2627, 0.6780, 0.0593])
KNEE = 0.8  # of paper white: HDR light above it is compressed so that nothing passes 1
BRADFORD = np.array([[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]])
SAME = 2  # of 255: an encoding that differs from sRGB by no more is sRGB

Curve = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Encoding:
    """What a picture's numbers mean: curves of each channel to linear light (paper white is 1), and linear RGB to linear sRGB.

    name: for people. transfer: PQ and HLG are HDR and are toned down to what sRGB can show.
    """

    name: str
    curves: tuple[Curve, Curve, Curve]
    to_srgb: np.ndarray
    transfer: int = 0

    @property
    def hdr(self) -> bool:
        """Whether it holds light brighter than paper white."""
        return self.transfer in (PQ, HLG)

    def is_srgb(self) -> bool:
        """Whether it means what sRGB means."""
        steps = np.arange(0, 256, 15, dtype=np.uint8)
        cube = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(1, -1, 3)
        return not self.hdr and bool(np.abs(to_srgb8(cube, self).astype(int) - cube).max() <= SAME)


def from_cicp(primaries: int, transfer: int) -> Encoding | None:
    """The encoding that H.273's codes name; None where one of them is not understood. Unknown ones (2) stand for sRGB's."""
    corners = PRIMARIES.get(1 if primaries == UNKNOWN else primaries)
    curve = _transfer(transfer)
    if corners is None or curve is None:
        return None
    names = [PRIMARIES_NAMES.get(primaries, ""), TRANSFER_NAMES.get(transfer, "")]
    return Encoding(" ".join(filter(None, names)) or "sRGB", (curve,) * 3, matrix_to_srgb(corners), transfer)


def from_chromaticities(name: str, corners: tuple[tuple[float, float], ...], curve: Curve) -> Encoding | None:
    """The encoding of primaries red, green, blue and white (x, y) with one curve; None where they span no colours."""
    try:
        matrix = matrix_to_srgb(corners)
    except (np.linalg.LinAlgError, ZeroDivisionError, ValueError):
        return None
    return Encoding(name, (curve,) * 3, matrix)


def from_xyz(name: str, curves: tuple[Curve, Curve, Curve], to_xyz_d50: np.ndarray) -> Encoding:
    """The encoding of an ICC profile of curves and a matrix: linear RGB to XYZ under D50."""
    return Encoding(name, curves, _SRGB_FROM_D50 @ to_xyz_d50)


def gamma(exponent: float) -> Curve:
    """The curve of a power."""
    return lambda x: np.power(x, exponent)


def srgb_curve(x: np.ndarray) -> np.ndarray:
    """sRGB's own, as a curve of an encoding."""
    return srgb_to_linear(np.asarray(x, np.float64))


def matrix_to_srgb(corners: tuple[tuple[float, float], ...]) -> np.ndarray:
    """(3, 3) linear RGB of these primaries and white to linear sRGB, whites adapted (Bradford, as ICC profiles are)."""
    white = _xyz(*corners[3])
    return _XYZ_TO_SRGB @ _adapted(white, _xyz(*D65)) @ rgb_to_xyz(corners)


def rgb_to_xyz(corners: tuple[tuple[float, float], ...]) -> np.ndarray:
    """(3, 3) linear RGB to XYZ (SMPTE RP 177); raises LinAlgError for primaries on a line, ValueError for absurd ones."""
    columns = np.stack([_xyz(*corner) for corner in corners[:3]], axis=1)
    matrix = columns * np.linalg.solve(columns, _xyz(*corners[3]))
    if not np.isfinite(matrix).all() or np.abs(matrix).max() > 10:
        raise ValueError("primaries that span no colours")
    return matrix


def to_srgb8(values: np.ndarray, encoding: Encoding) -> np.ndarray:
    """(H, W, 3) u8 sRGB of a u8 or u16 picture of that encoding; colours outside sRGB are clipped."""
    top = np.iinfo(values.dtype).max
    steps = np.arange(top + 1) / top
    tables = [np.asarray(curve(steps), np.float32) for curve in encoding.curves]
    matrix = encoding.to_srgb.astype(np.float32)
    out = np.empty(values.shape, np.uint8)
    for first in range(0, len(values), BLOCK_ROWS):
        rows = slice(first, first + BLOCK_ROWS)
        light = np.stack([table[values[rows, :, channel]] for channel, table in enumerate(tables)], axis=-1)
        if encoding.transfer == HLG:
            light = _hlg_shown(light)
        light = light @ matrix.T
        if encoding.hdr:
            light = _toned_down(light)
        out[rows] = to_u8(linear_to_srgb(light))
    return out


def _toned_down(light: np.ndarray) -> np.ndarray:
    """Linear light with what is brighter than KNEE compressed toward 1, hues kept; darker light stays as it is."""
    peak = light.max(axis=-1, keepdims=True)
    over = np.maximum(peak - KNEE, 0.0) / (1 - KNEE)
    wanted = np.where(peak > KNEE, KNEE + (1 - KNEE) * over / (1 + over), peak)  # its slope is 1 where it starts
    return light * (wanted / np.maximum(peak, 1e-6))


def _hlg_shown(scene: np.ndarray) -> np.ndarray:
    """HLG's scene light to light of its screen in units of paper white: the system gamma (BT.2100, table 5)."""
    luma = np.maximum(scene @ HLG_LUMA.astype(np.float32), 1e-6)[..., None]
    return scene * luma ** np.float32(HLG_GAMMA - 1) * np.float32(HLG_PEAK_NITS / PAPER_WHITE_NITS)


def _transfer(code: int) -> Curve | None:
    if code in _AS_SRGB:
        return srgb_curve
    return {4: gamma(2.2), 5: gamma(2.8), 8: gamma(1.0), PQ: _pq, 17: lambda x: 52.37 / 48 * np.power(x, 2.6), HLG: _hlg}.get(
        code
    )


def _pq(x: np.ndarray) -> np.ndarray:
    """SMPTE ST 2084's curve, in units of paper white."""
    m1, m2, c1, c2, c3 = 2610 / 16384, 2523 / 4096 * 128, 3424 / 4096, 2413 / 4096 * 32, 2392 / 4096 * 32
    root = np.power(x, 1 / m2)
    return np.power(np.maximum(root - c1, 0) / (c2 - c3 * root), 1 / m1) * (10_000 / PAPER_WHITE_NITS)


def _hlg(x: np.ndarray) -> np.ndarray:
    """HLG's inverse OETF (BT.2100, table 5): scene light, 1 at the peak."""
    a = 0.17883277
    b, c = 1 - 4 * a, 0.5 - a * np.log(4 * a)
    return np.where(x <= 0.5, x * x / 3, (np.exp((x - c) / a) + b) / 12)


def _xyz(x: float, y: float) -> np.ndarray:
    return np.array([x / y, 1.0, (1 - x - y) / y])


def _adapted(white: np.ndarray, to: np.ndarray) -> np.ndarray:
    """(3, 3) XYZ under one white to XYZ under another (Bradford)."""
    return np.linalg.inv(BRADFORD) @ np.diag((BRADFORD @ to) / (BRADFORD @ white)) @ BRADFORD


_XYZ_TO_SRGB = np.linalg.inv(rgb_to_xyz(PRIMARIES[1]))
_SRGB_FROM_D50 = _XYZ_TO_SRGB @ _adapted(D50_XYZ, _xyz(*D65))
