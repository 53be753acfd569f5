"""The table: corpus.json's figures as text, medians and worst of each half, and two tables side by side; measures nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .verdicts import grade

Row = dict[str, Any]

# (key, heading, decimals, what is bad: +1 large, -1 small, 0 far from nought)
COLUMNS: tuple[tuple[str, str, int, int], ...] = (
    ("landmark_error_iod_pct", "lm %", 2, 1),
    ("silhouette_error_mm", "sil mm", 2, 1),
    ("silhouette_iou", "IoU", 3, -1),
    ("hair_iou", "hair", 3, -1),
    ("skin_iou", "skin", 3, -1),
    ("outline_mm", "true mm", 2, 1),
    ("photo_psnr_db", "PSNR", 1, -1),
    ("identity_front", "id 0", 3, 1),
    ("identity_30", "id 30", 3, 1),
    ("identity_neutral", "id n", 3, 1),
    ("size_by_iris_pct", "size %", 1, 0),
    ("iod_mm", "eyes mm", 1, 0),
    ("seconds_total", "s", 1, 1),
    ("bytes", "bytes", 0, 1),
)
KEYS = tuple(column[0] for column in COLUMNS)


def values(rows: Iterable[Row], key: str) -> np.ndarray:
    """(N,) of what the rows hold under a key, those that hold none (or what is not finite) left out."""
    found = [row[key] for row in rows if isinstance(row.get(key), (int, float)) and not isinstance(row.get(key), bool)]
    array = np.array(found, float)
    return array[np.isfinite(array)]


def median(rows: Iterable[Row], key: str) -> float | None:
    """Median of a figure; None without one. Of the size it is that of the magnitude."""
    found = values(rows, key)
    return None if not len(found) else float(np.median(np.abs(found) if key == "size_by_iris_pct" else found))


def worst(rows: Iterable[Row], key: str) -> float | None:
    """Worst value of a figure; None without one, and for the eyes' distance, of which no value is bad by itself."""
    found = values(rows, key)
    bad = next(column[3] for column in COLUMNS if column[0] == key)
    if not len(found) or key == "iod_mm":
        return None
    return float(found[np.abs(found).argmax()] if bad == 0 else found.max() if bad > 0 else found.min())


def groups(rows: list[Row]) -> dict[str, list[Row]]:
    """Rows of each half's photos and of its made cases, those that are not empty."""
    split = {
        f"{half}{' made' if made else ''}": [
            row for row in rows if row["half"] == half and (row.get("made") is not None) == made
        ]
        for half in ("tune", "judge")
        for made in (False, True)
    }
    return {name: chosen for name, chosen in split.items() if chosen}


def summary(rows: list[Row]) -> dict[str, dict[str, Any]]:
    """Of each group: rows, failures (refusals that were expected are none), and median and worst of every figure."""
    return {
        name: {
            "rows": len(chosen),
            "failed": sum(failed(row) for row in chosen),
            "median": {key: median(chosen, key) for key in KEYS},
            "worst": {key: worst(chosen, key) for key in KEYS},
        }
        for name, chosen in groups(rows).items()
    }


def failed(row: Row) -> bool:
    """Whether a photo that should enrol did not, or one that should be refused was not refused properly (exit code 2)."""
    return row.get("error") is not None and not (row.get("expected") and row.get("exit_code") == 2)


def text(rows: list[Row], films: list[Row]) -> str:
    """The table for a terminal."""
    width = max([len(row["id"]) for row in rows] + [14])
    lines = []
    for name, chosen in groups(rows).items():
        lines += ["", f"{name}: {len(chosen)}, {sum(failed(row) for row in chosen)} failed"]
        lines.append(f"{'':{width}} " + " ".join(f"{heading:>8}" for _, heading, _, _ in COLUMNS))
        for row in chosen:
            if row.get("error") is not None:
                lines.append(f"{row['id']:{width}} exit {row['exit_code']}: {row['error']}")
                continue
            mark = f"  {said}" if (said := grade(row)) else ""
            warned = f"  ! {'; '.join(row['warnings'])}" if row.get("warnings") else ""
            lines.append(f"{row['id']:{width}} {_cells(row.get)}{mark}{warned}")
        lines.append(f"{'median':{width}} {_cells(lambda key, c=chosen: median(c, key))}")
        lines.append(f"{'worst':{width}} {_cells(lambda key, c=chosen: worst(c, key))}")
    for film in films:
        lines += ["", f"film {film['id']} ({film['half']}): {film['frames']} frames compared"]
        for name in ("lips", "lids"):
            if name in film:
                lines.append(f"  {name}: " + ", ".join(f"{key} {_number(value, 2)}" for key, value in film[name].items()))
    return "\n".join(lines[1:] if lines else lines)


def compare(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Two tables side by side: of each photo that both hold, of the medians and worst, and of the films, before | after."""
    old = {row["id"]: row for row in before["rows"]}
    both = [(old[row["id"]], row) for row in after["rows"] if row["id"] in old]
    width = max([len(row["id"]) for _, row in both] + [14])
    keys = [key for key in KEYS if any(row.get(key) is not None for pair in both for row in pair)]
    heading = {key: (name, decimals) for key, name, decimals, _ in COLUMNS}
    lines = []
    for name in groups([row for _, row in both]):
        chosen = [pair for pair in both if next(iter(groups([pair[1]]))) == name]
        pairs = [[pair[side] for pair in chosen] for side in (0, 1)]
        fails = [sum(failed(row) for row in side) for side in pairs]
        lines += ["", f"{name}: {len(chosen)} in both, failed {fails[0]} | {fails[1]}"]
        lines.append(f"{'':{width}} " + " ".join(f"{heading[key][0]:>15}" for key in keys))
        for first, second in chosen:
            note = _errors(first, second)
            cells = " ".join(_pair(first.get(key), second.get(key), heading[key][1]) for key in keys)
            lines.append(f"{first['id']:{width}} {cells}{note}")
        for label, figure in (("median", median), ("worst", worst)):
            cells = " ".join(_pair(figure(pairs[0], key), figure(pairs[1], key), heading[key][1]) for key in keys)
            lines.append(f"{label:{width}} {cells}")
    films = {film["id"]: film for film in before.get("films", [])}
    for film in after.get("films", []):
        if film["id"] not in films:
            continue
        lines += ["", f"film {film['id']} ({film['half']})"]
        for name in ("lips", "lids"):
            first, second = films[film["id"]].get(name, {}), film.get(name, {})
            cells = ", ".join(f"{key} {_number(first.get(key), 2)} | {_number(value, 2)}" for key, value in second.items())
            lines.append(f"  {name}: {cells}")
    return "\n".join(lines[1:] if lines else lines)


def _errors(first: Row, second: Row) -> str:
    notes = [f"{side}: {row['error'][:60]}" for side, row in (("before", first), ("after", second)) if row.get("error")]
    return "  " + "; ".join(notes) if notes else ""


def _cells(get: Any) -> str:
    return " ".join(f"{_number(get(key), decimals):>8}" for key, _, decimals, _ in COLUMNS)


def _pair(first: Any, second: Any, decimals: int) -> str:
    return f"{_number(first, decimals):>7}|{_number(second, decimals):<7}"


def _number(value: Any, decimals: int) -> str:
    return "-" if not isinstance(value, (int, float)) or not np.isfinite(value) else f"{value:.{decimals}f}"
