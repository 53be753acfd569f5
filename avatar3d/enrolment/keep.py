"""The outcome of each stage in a folder of pictures: `avatar3d enroll --keep-stages DIR`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from avatar3d.enrolment.stage import Stage, Watcher
from avatar3d.enrolment.state import Enrolment
from avatar3d.enrolment.target import LISTING, STAGES_FOLDER
from avatar3d.files import write_bytes
from avatar3d.media import save_picture


@contextmanager
def kept_stages(folder: str | Path) -> Iterator[Watcher]:
    """Yield what writes the pictures of each stage that it is called with; they are in `folder` once the context ends well.

    Otherwise nothing is left. Names: the stage's number in this run, its name, and what is shown; stages.json lists them. Raises
    InputError where the folder holds anything but an earlier run's pictures, which are replaced, or cannot be written.
    """
    STAGES_FOLDER.check(folder)
    with STAGES_FOLDER.filling(folder) as scratch:
        kept: list[dict[str, object]] = []

        def keep(stage: Stage, state: Enrolment) -> None:
            names = []
            for what, picture in stage.pictures(state):
                names.append("-".join(filter(None, (f"{len(kept) + 1:02d}", stage.name, what))) + ".png")
                save_picture(scratch / names[-1], _in_color(picture))
            kept.append({"name": stage.name, "seconds": state.seconds[stage.name], "pictures": names})

        yield keep
        files = [LISTING, *(name for entry in kept for name in entry["pictures"])]  # type: ignore[attr-defined]
        write_bytes(scratch / LISTING, json.dumps({"stages": kept, "files": files}, indent=1).encode())


def _in_color(picture: np.ndarray) -> np.ndarray:
    return picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
