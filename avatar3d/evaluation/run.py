"""The evaluation from avatar to page: measures by `protocol`, writes by `report`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from avatar3d.avatar import Avatar
from avatar3d.evaluation.protocol import EvaluateOptions, measure
from avatar3d.evaluation.report import check_folder, write_report
from avatar3d.progress import ProgressCallback, silent

if TYPE_CHECKING:
    from avatar3d.rendering import Renderer


def evaluate(
    avatar: Avatar,
    out_dir: str | Path,
    renderer: Renderer,
    options: EvaluateOptions | None = None,
    progress: ProgressCallback = silent,
) -> dict[str, Any]:
    """Measure an avatar's view consistency beside its controls and write `out_dir`: index.html, report.json, pictures/.

    Returns what `evaluate --json` prints: `report` (path of the page), `stereo`, `controls`, `ranked_correctly`, `seconds`,
    and more. Raises InputError when `out_dir` cannot be written or holds something that is not a report.
    """
    started = time.perf_counter()
    check_folder(out_dir)
    result = measure(avatar, renderer, options or EvaluateOptions(), progress)
    progress(0.97, "writing the page")
    result.seconds = round(time.perf_counter() - started, 2)
    return write_report(avatar, result, Path(out_dir))
