"""The hash grid on CUDA through tiny-cuda-nn, with the layout conversion that makes it compute this project's definition.

tiny-cuda-nn samples a level at x · scale + 0.5 with scale = base_resolution − 1 (its grid.h, `grid_scale`, `pos_fract`), so
each of our levels becomes a grid of one level with base_resolution = cells + 1, fed with positions shifted by half a cell.
Its index rule is then ours: dense while the vertices fit, else the same hash. The CUDA path was not run on a GPU here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from avatar3d.avatar import FieldParams
from avatar3d.errors import WorkError

_ALIGNMENT = 8  # tiny-cuda-nn rounds the entries of a dense level up to this


def level_entries(resolution: int, table_size: int) -> int:
    """Table entries that tiny-cuda-nn allots to a level of `resolution` cells a side."""
    vertices = (int(resolution) + 1) ** 3
    return min(-(-vertices // _ALIGNMENT) * _ALIGNMENT, table_size)


def pack_level(table: np.ndarray, resolution: int) -> np.ndarray:
    """(entries · F,) f32 parameters of tiny-cuda-nn for one level from our table (T, F)."""
    return np.ascontiguousarray(table[: level_entries(resolution, len(table))]).reshape(-1)


def unpack_level(parameters: np.ndarray, table_size: int, features: int) -> np.ndarray:
    """(T, F) f32 table of ours from one level's tiny-cuda-nn parameters; entries a dense level does not use are zero."""
    table = np.zeros((table_size, features), np.float32)
    rows = np.asarray(parameters, np.float32).reshape(-1, features)
    table[: len(rows)] = rows
    return table


def load() -> Any:
    """The module tinycudann. Raises WorkError, saying how to come by it, where it does not load."""
    try:
        import tinycudann
    except Exception as error:  # ImportError, OSError of its library, or the module's own without a GPU
        raise WorkError(
            "the field back end tcnn needs tiny-cuda-nn and an NVIDIA GPU, and `import tinycudann` failed "
            f"({type(error).__name__}); build it with `pip install "
            "git+https://github.com/NVlabs/tiny-cuda-nn#subdirectory=bindings/torch` on a CUDA machine, or leave the "
            "back end at its default, numba, which runs here"
        ) from error
    return tinycudann


class Grid(torch.nn.Module):
    """Our hash grid evaluated by tiny-cuda-nn; forward(unit (N, 3) in [0, 1] on CUDA) → (N, L·F) f32."""

    def __init__(self, params: FieldParams) -> None:
        super().__init__()
        tinycudann = load()
        _, self._table_size, self._features = params.tables.shape
        self._resolutions = [int(resolution) for resolution in params.resolutions]
        self.levels = torch.nn.ModuleList()
        for table, resolution in zip(params.tables, self._resolutions, strict=True):
            level = tinycudann.Encoding(
                3,
                {
                    "otype": "HashGrid",
                    "n_levels": 1,
                    "n_features_per_level": self._features,
                    "log2_hashmap_size": self._table_size.bit_length() - 1,
                    "base_resolution": resolution + 1,
                    "per_level_scale": 1.0,
                },
                dtype=torch.float32,
            )
            with torch.no_grad():
                level.params.copy_(torch.tensor(pack_level(table, resolution)))
            self.levels.append(level)

    def forward(self, unit: torch.Tensor) -> torch.Tensor:
        """(N, L·F) features of unit positions (N, 3)."""
        # A position of exactly 1 would fall into the cell past the last; one ulp less lands on the last vertex.
        inside = unit.clamp(0.0, 1.0 - 1e-6)
        levels = zip(self.levels, self._resolutions, strict=True)
        return torch.cat([level(inside - 0.5 / resolution) for level, resolution in levels], dim=1)

    def tables(self) -> np.ndarray:
        """(L, T, F) f32 in this project's layout."""
        packed = [level.detach().float().cpu().numpy() for level in self.parameters()]
        return np.stack([unpack_level(level, self._table_size, self._features) for level in packed])
