"""The evaluation as one HTML page without outside references, a JSON file and pictures; written whole or not at all."""

from __future__ import annotations

import base64
import datetime
import io
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from avatar3d import __version__, media
from avatar3d.color import to_u8
from avatar3d.evaluation.protocol import RANKING_RULE, Evaluation, KeyResult
from avatar3d.files import write_bytes
from avatar3d.folder import FilledFolder
from avatar3d.progress import quiet_library

if TYPE_CHECKING:
    from avatar3d.avatar import Avatar

PAGE, DATA, PICTURES = "index.html", "report.json", "pictures"
FOLDER = FilledFolder("the report", DATA, frozenset({"ranking_rule", "stereo", "controls"}))
GOALS = {"rmse_255": 1.0, "vertical_disparity_px_p95": 0.05, "disparity_error_px_p95": 0.1}
FIGURE_NAMES = {
    "rmse_255": "Colour across the eyes, view term off (RMSE, 1/255)",
    "rmse_255_view_term": "The same with field and gloss (RMSE, 1/255)",
    "vertical_disparity_px_p95": "Vertical disparity, view term off (p95, px)",
    "vertical_disparity_px_p95_view_term": "The same with field and gloss (p95, px)",
    "disparity_error_px_p95": "Disparity against geometry, view term off (p95, px)",
    "disparity_error_px_p95_view_term": "The same with field and gloss (p95, px)",
    "covisible_fraction": "Seen by both eyes, share of the head",
    "matched_fraction": "Patches matched, share",
    "compared_pixels": "Pixels compared",
}
KIND_NAMES = {
    "avatar": "avatar",
    "billboard": "billboard",
    "per_eye_generator": "per-eye generator",
    "wrong_ipd": "wrong IPD (1.5 ×)",
    "mesh": "plain mesh",
}
HEAT_FULL_255 = 24.0  # difference at the top of the heat maps' scale: what a viewer notices at once
PICTURE_PX = 320  # width of the page's pictures; the folder holds them at full size
JPEG = ".jpg"


def check_folder(out_dir: str | Path) -> None:
    """Raise InputError unless a report can be written at `out_dir`: nothing, an empty folder or a report of ours is there."""
    FOLDER.check(out_dir)


def write_report(avatar: Avatar, result: Evaluation, target: Path) -> dict[str, object]:
    """Write the folder beside its place, then move it there; returns what is in report.json.

    Of a folder that was there, only the files that its own report lists are replaced; what else lies in it stays.
    """
    summary = _summary(avatar, result, (target if target.name else target.absolute()) / PAGE)
    with FOLDER.filling(target, last=[PAGE]) as folder:
        (folder / PICTURES).mkdir()
        _save_pictures(result, folder / PICTURES)
        pictures = sorted(path.relative_to(folder).as_posix() for path in (folder / PICTURES).iterdir())
        summary["files"] = [PAGE, DATA, *pictures]
        write_bytes(folder / DATA, json.dumps(summary, indent=1).encode())
        write_bytes(folder / PAGE, _page(avatar, result, summary).encode())
    return summary


def _summary(avatar: Avatar, result: Evaluation, page: Path) -> dict[str, object]:
    options = result.options
    bound = None if avatar.neural_field is None else avatar.neural_field.color_bound
    return {
        "report": str(page),
        "stereo": result.stereo,
        "controls": result.controls,
        "ranked_correctly": result.ranked_correctly,
        "seconds": result.seconds,
        "ranking": result.ranking,
        "ranking_rule": RANKING_RULE,
        "goals": GOALS,
        "goals_met": {key: _met(result.stereo[key], goal) for key, goal in GOALS.items()},
        "field_color_bound_linear": bound,
        "valid_yaw_deg": list(avatar.valid_yaw_deg),
        "setup": {
            "size_px": options.size_px,
            "samples_per_pixel": options.factor**2,
            "view_height_m": options.view_height_m,
            "distance_m": options.distance_m,
            "ipd_m": options.ipd_m,
            "form": result.form,
            "renderer": result.renderer,
        },
        "views": [{"yaw_deg": key.yaw_deg, "expression": key.expression, "figures": key.summary} for key in result.keys],
        "turntable": [{"yaw_deg": yaw, "seen_share": round(share, 3)} for yaw, _, share in result.turntable],
        "machine": _machine(),
        "version": __version__,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def _met(value: object, goal: float) -> bool:
    return isinstance(value, float) and value <= goal


def _machine() -> dict[str, object]:
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cores": os.cpu_count(),
    }


def _key_name(key: KeyResult) -> str:
    words = f"yaw {key.yaw_deg:+.0f}°"
    if key.expression:
        words += ", " + ", ".join(f"{name} {value:g}" for name, value in key.expression.items())
    return words


def heat_picture(heat: np.ndarray) -> np.ndarray:
    """(H, W, 3) u8 heat map of differences in 1/255, grey where nothing is compared."""
    quiet_library("matplotlib")
    import matplotlib

    colors = matplotlib.colormaps["magma"](np.clip(np.nan_to_num(heat) / HEAT_FULL_255, 0, 1))[..., :3]
    return np.where(np.isnan(heat)[..., None], np.uint8(128), to_u8(colors)).astype(np.uint8)


def _save_pictures(result: Evaluation, folder: Path) -> None:
    for index, key in enumerate(result.keys):
        for kind, (left, right) in key.pictures.items():
            if kind not in result.controls and kind != "avatar":
                continue
            name = f"{index}_{kind}"
            media.save_picture(folder / f"{name}_pair.jpg", media.side_by_side(to_u8(left), to_u8(right)))
            media.save_picture(folder / f"{name}_difference.png", heat_picture(key.heat[kind]))
    if result.turntable:
        media.save_picture(folder / "turntable.jpg", media.grid([picture for _, picture, _ in result.turntable], columns=6))


def _page(avatar: Avatar, result: Evaluation, summary: dict[str, object]) -> str:
    from jinja2 import Environment, StrictUndefined

    template = Path(__file__).with_name("report.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    low, high = avatar.valid_yaw_deg
    first_front = min(range(len(result.keys)), key=lambda i: abs(result.keys[i].yaw_deg))
    kinds = ["avatar", *result.controls]
    return environment.from_string(template).render(
        summary=summary,
        figure_names=FIGURE_NAMES,
        kind_names=KIND_NAMES,
        goals=GOALS,
        heat_full=int(HEAT_FULL_255),
        rows=_rows(result),
        plots=[_plot(result, "disparity_error_px_p95"), _plot(result, "vertical_disparity_px_p95")],
        views=[_view_cells(key, ["avatar"])[0] for key in result.keys],
        control_views=_view_cells(result.keys[first_front], kinds),
        control_view_name=_key_name(result.keys[first_front]),
        turntable=[
            {"yaw": yaw, "picture": _data_uri(picture), "share": share, "valid": low <= yaw <= high}
            for yaw, picture, share in result.turntable
        ],
        provenance=json.dumps(avatar.provenance, indent=1, default=str),
    )


def _rows(result: Evaluation) -> list[dict[str, Any]]:
    """One row per figure: its name, goal, the avatar's value and each control's."""
    columns: dict[str, Mapping[str, object]] = {"avatar": result.stereo, **result.controls}
    return [
        {
            "name": name,
            "goal": GOALS.get(key),
            "met": _met(result.stereo.get(key), GOALS[key]) if key in GOALS else None,
            "values": [figures.get(key) for figures in columns.values()],
        }
        for key, name in FIGURE_NAMES.items()
        if result.stereo.get(key) is not None
    ]


def _view_cells(key: KeyResult, kinds: list[str]) -> list[dict[str, Any]]:
    cells = []
    for kind in kinds:
        left, right = key.pictures[kind]
        pair = media.side_by_side(_shrunk(to_u8(left)), _shrunk(to_u8(right)))
        cells.append(
            {
                "kind": kind,
                "name": _key_name(key),
                "pair": _data_uri(pair),
                "heat": _data_uri(_shrunk(heat_picture(key.heat[kind]))),
                "figures": key.summary[kind],
            }
        )
    return cells


def _shrunk(picture: np.ndarray) -> np.ndarray:
    from PIL import Image

    height, width = picture.shape[:2]
    size = (PICTURE_PX, round(height * PICTURE_PX / width))
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BOX))


def _data_uri(picture: np.ndarray) -> str:
    return "data:image/jpeg;base64," + base64.b64encode(media.encode_picture(picture, JPEG)).decode()


def _plot(result: Evaluation, figure: str) -> str:
    """SVG of a figure over yaw for the avatar and its controls, as a data URI; readable on light and on dark."""
    quiet_library("matplotlib")
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    ink = "#888888"
    with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": "avatar3d", "font.size": 9, "font.family": "sans-serif"}):
        fig, axes = pyplot.subplots(figsize=(5.2, 3.0))
        for kind, marker in zip(["avatar", *result.controls], "osv^D", strict=True):
            points = [(key.yaw_deg, key.summary[kind][figure]) for key in result.keys if key.summary[kind][figure] is not None]
            if points:
                yaw, value = zip(*sorted(points), strict=True)
                axes.plot(
                    yaw, np.maximum(value, 1e-3), marker + ("-" if kind == "avatar" else ":"), label=KIND_NAMES[kind],
                    linewidth=2 if kind == "avatar" else 1, markersize=5,
                )  # fmt: skip
        axes.axhline(GOALS[figure], color=ink, linewidth=1, linestyle="--")
        axes.text(0.99, GOALS[figure], "goal", color=ink, transform=axes.get_yaxis_transform(), ha="right", va="bottom")
        axes.set(yscale="log", xlabel="yaw (degrees)", title=FIGURE_NAMES[figure])
        axes.title.set_color(ink)
        axes.xaxis.label.set_color(ink)
        axes.tick_params(colors=ink, which="both")
        for spine in axes.spines.values():
            spine.set_color(ink)
        axes.legend(fontsize=8, framealpha=0, labelcolor=ink, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.2))
        stream = io.StringIO()
        fig.savefig(stream, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None})
        pyplot.close(fig)
    return "data:image/svg+xml;base64," + base64.b64encode(stream.getvalue().encode()).decode()
