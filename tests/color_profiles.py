"""ICC profiles made from primaries and curves, for the tests."""

from __future__ import annotations

import struct

import numpy as np

from avatar3d.colorimetry import rgb_to_xyz


def profile(primaries, curve: bytes, name: str = "sRGB, or so it says", space: bytes = b"RGB ") -> bytes:
    """An ICC profile (version 4) of a matrix, or of grey; curve: the content of its TRC tags."""

    def fixed(values) -> bytes:
        return struct.pack(f">{len(values)}i", *(round(float(value) * 65536) for value in values))

    bradford = np.array([[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]])
    white, d50 = rgb_to_xyz(primaries) @ np.ones(3), np.array([0.9642, 1.0, 0.8249])
    adapted = np.linalg.inv(bradford) @ np.diag((bradford @ d50) / (bradford @ white)) @ bradford @ rgb_to_xyz(primaries)
    text = name.encode("utf-16-be")
    said = b"mluc\0\0\0\0" + struct.pack(">II2s2sII", 1, 12, b"en", b"US", len(text), 28) + text
    tags = [(b"desc", said), (b"cprt", said), (b"wtpt", b"XYZ \0\0\0\0" + fixed(d50))]
    if space == b"GRAY":
        tags.append((b"kTRC", curve))
    else:
        tags += [
            (name, b"XYZ \0\0\0\0" + fixed(column)) for name, column in zip((b"rXYZ", b"gXYZ", b"bXYZ"), adapted.T, strict=True)
        ]
        tags += [(name, curve) for name in (b"rTRC", b"gTRC", b"bTRC")]
    place, table, content = 132 + 12 * len(tags), b"", b""
    for name_, data in tags:
        data += bytes(-len(data) % 4)
        table += struct.pack(">4sII", name_, place + len(content), len(data))
        content += data
    size = place + len(content)
    head = struct.pack(">I4sI4s4s4s12x4s", size, b"none", 0x04300000, b"mntr", space, b"XYZ ", b"acsp") + bytes(28) + fixed(d50)
    return head + bytes(128 - len(head)) + struct.pack(">I", len(tags)) + table + content


def power_curve(exponent: float) -> bytes:
    return b"para\0\0\0\0" + struct.pack(">Hxxi", 0, round(exponent * 65536))
