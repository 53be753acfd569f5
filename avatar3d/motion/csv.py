"""Motion codes in the CSV columns that the Live Link Face app records: reading, and writing what it reads.

Columns: Timecode (HH:MM:SS:FF.fff), BlendShapeCount, the 52 ARKit names in PascalCase, then HeadYaw, HeadPitch, HeadRoll,
LeftEyeYaw, LeftEyePitch, LeftEyeRoll, RightEye… in radians. Yaw turns toward +X, pitch DOWN and roll from +X to +Y, in that
order from the outside in: in the app's recordings LeftEyePitch grows with eyeLookDownLeft, and RightEyeYaw with
eyeLookInRight. Eye angles are whole ones, so `MotionCode.gaze` is what the eyeLook weights leave over; when all are zero the
eyes were not measured. An eyeball's roll is ignored. HeadX, HeadY, HeadZ (metres) are our own addition, written only
where a head moved. Names are matched without regard to case, columns of other names are skipped.

Other programs write weights in per cent or angles in degrees; a file of which most say so is read as such, every number has a range
(WEIGHT_RANGE and so on), and one outside it is refused with its row and column.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from avatar3d.errors import InputError
from avatar3d.files import read_bounded, write_bytes
from avatar3d.motion.code import ARKIT_NAMES, MotionCode, head_angles, head_rotation, look_angles

DEFAULT_FPS = 60.0  # what the app records at unless told otherwise; the FF of a timecode counts in it
MIN_COUNTED = 12  # timecodes: of fewer, none says much about the rate
FPS_TOLERANCE = 0.01  # of the app's rate: a recording's unevenness
MAX_BYTES = 256_000_000  # four hours at 60 Hz
MAX_ROWS = 400_000
_HEAD_ANGLES = ("HeadYaw", "HeadPitch", "HeadRoll")
_EYE_ANGLES = ("LeftEyeYaw", "LeftEyePitch", "LeftEyeRoll", "RightEyeYaw", "RightEyePitch", "RightEyeRoll")
_HEAD_PLACE = ("HeadX", "HeadY", "HeadZ")
_WEIGHT_COLUMNS = tuple(name[0].upper() + name[1:] for name in ARKIT_NAMES)
_DAY_S = 86_400.0
WEIGHT_RANGE = (-1.0, 2.0)  # clipped to [0, 1]: trackers overshoot
MAX_ANGLE_RAD = 2 * math.pi
MAX_PLACE_M = 10.0
PER_CENT_ABOVE = 1.5  # the median of weights that are not 0: of per cent, half are above 1.5, of shares none
DEGREES_SHARE = 0.1  # of rows whose head is turned by more than MAX_ANGLE_RAD as it stands: no single broken number


def read_motion_csv(path: str | Path, fps: float | None = None) -> list[MotionCode]:
    """The motion codes of a recording, one a row; capture times start at 0 in the first row.

    fps: frames a second that the timecodes count in; None: see `counted_fps`. Weights outside [0, 1] are
    clipped, missing angle columns are zero.
    Raises InputError, with the line number where there is one, for a file that cannot be read, is too large, lacks a column, holds
    a cell that is not a finite number in its range, or whose time runs backwards.
    """
    rows = _rows(Path(path))
    try:
        header = next(rows)
        columns = _columns(header, path)
        if fps is None:
            place = columns["timecode"]
            fps = counted_fps(row[place] for row in islice(_rows(Path(path)), 1, MAX_ROWS) if len(row) > place)
        lines: list[int] = []
        times: list[float] = []
        cells: list[np.ndarray] = []
        for line, row in enumerate(rows, start=2):
            if not any(cell.strip() for cell in row):
                continue
            if len(cells) == MAX_ROWS:
                raise InputError(f"{path} holds more than {MAX_ROWS} rows; cut the recording into parts")
            if len(row) != len(header):
                last = next(rows, None) is None
                remedy = "it was cut there, remove the row" if last and len(row) < len(header) else "repair the row"
                raise InputError(f"line {line} of {path} has {len(row)} cells and the header {len(header)}; {remedy}")
            seconds = _seconds(row[columns["timecode"]], fps, line, path)
            while times and seconds < times[-1] - _DAY_S / 2:  # the clock passed midnight
                seconds += _DAY_S
            if times and seconds < times[-1]:
                raise InputError(
                    f"line {line} of {path}: its time, {row[columns['timecode']].strip()[:40]}, is before that of the row above;"
                    f" sort the rows, or say how many frames a second the timecodes count in (here {fps:g}), as csv:FILE?fps=…"
                )
            lines.append(line)
            times.append(seconds)
            cells.append(_numbers(row, columns, line, path))
    except StopIteration:
        raise InputError(f"{path} is empty; expected a header row and a row for each frame") from None
    except csv.Error as error:
        raise InputError(f"{path} is not a CSV file: {error}") from error
    if not cells:
        raise InputError(f"{path} holds a header and no frame; expected a row for each frame")
    values = _in_our_units(np.stack(cells), lines, path)
    return [
        _code(row, round((seconds - times[0]) * 1e9), sequence)
        for sequence, (row, seconds) in enumerate(zip(values, times, strict=True))
    ]


def write_motion_csv(
    path: str | Path, codes: Sequence[MotionCode], fps: float = DEFAULT_FPS, started_ns: int | None = None
) -> None:
    """Write motion codes so that `read_motion_csv` gives them back: weights to 1e-6, angles to 1e-8 rad, times to 1/1000 frame.

    started_ns: when the recording started; where the first code comes later, a row that holds it stands there, since times count
    from the first row. Confidences and sequence numbers have no column and are not kept. Raises InputError when `path` cannot be
    written.
    """
    if codes and started_ns is not None and codes[0].time_ns > started_ns:
        codes = [replace(codes[0], time_ns=started_ns), *codes]
    moved = any(np.any(code.translation != 0) for code in codes)
    place = _HEAD_PLACE if moved else ()
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["Timecode", "BlendShapeCount", *_WEIGHT_COLUMNS, *_HEAD_ANGLES, *_EYE_ANGLES, *place])
    started_ns = codes[0].time_ns if codes else 0
    count = len(_WEIGHT_COLUMNS) + len(_HEAD_ANGLES) + len(_EYE_ANGLES)
    for code in codes:
        weights = np.round(code.weights, 6)
        cells = [f"{value:.6f}" for value in weights] + [f"{value:.8f}" for value in angle_columns(code, weights)]
        if moved:
            cells += [f"{value:.6f}" for value in code.translation]
        writer.writerow([_timecode((code.time_ns - started_ns) / 1e9, fps), count, *cells])
    write_bytes(path, stream.getvalue().encode())


def counted_fps(timecodes: Iterable[str]) -> float:
    """Frames a second that timecodes count in, told by where their seconds turn over; DEFAULT_FPS where they do not tell.

    A step of d frames that goes from frame a of one second to frame b of the next says a + d - b.
    """
    parts = [part for timecode in timecodes if (part := _parts(timecode)) is not None]
    if len(parts) < MIN_COUNTED:
        return DEFAULT_FPS
    second, frame = np.array(parts).T
    turn, step = np.diff(second), np.diff(frame)
    if not (turn == 0).any() or not (turn == 1).any():
        return DEFAULT_FPS
    fps = float(np.median(np.median(step[turn == 0]) - step[turn == 1]))
    if fps <= frame.max() or abs(fps / DEFAULT_FPS - 1) < FPS_TOLERANCE:
        return DEFAULT_FPS
    return round(fps, 3)


def angle_columns(code: MotionCode, weights: np.ndarray) -> list[float]:
    """The nine angles, HeadYaw to RightEyeRoll, of a code whose weights are written as `weights`, radians, the app's signs."""
    yaw, pitch, roll = head_angles(code.rotation)
    left, right = code.gaze + look_angles(weights)
    return [yaw, -pitch, roll, left[0], -left[1], 0.0, right[0], -right[1], 0.0]


def from_angle_columns(angles: Sequence[float], weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rotation xyzw, gaze (2, 2)) of the nine angles and the weights (52,); inverse of `angle_columns`."""
    rotation = head_rotation(angles[0], -angles[1], angles[2])
    eyes = np.array([[angles[3], -angles[4]], [angles[6], -angles[7]]])
    return rotation, eyes - look_angles(weights) if eyes.any() else np.zeros((2, 2))


def _rows(path: Path) -> Iterator[list[str]]:
    try:
        text = read_bounded(path, "motion file", MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file; expected CSV as the Live Link Face app records it") from error
    return csv.reader(io.StringIO(text, newline=""))


def _columns(header: list[str], path: str | Path) -> dict[str, int]:
    """{lower-case column name: place}, with every needed column present."""
    columns = {name.strip().lower(): place for place, name in enumerate(header)}
    missing = [name for name in ("Timecode", *_WEIGHT_COLUMNS) if name.lower() not in columns]
    if missing:
        named = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
        raise InputError(f"{path} lacks the column {named}; expected the columns that the Live Link Face app records")
    return columns


_NUMBERS = (*_WEIGHT_COLUMNS, *_HEAD_ANGLES, *_EYE_ANGLES, *_HEAD_PLACE)
_ANGLES = slice(52, 61)


def _numbers(row: list[str], columns: dict[str, int], line: int, path: str | Path) -> np.ndarray:
    """The cells of _NUMBERS as they stand, 0 where there is no such column."""
    values = []
    for name in _NUMBERS:
        place = columns.get(name.lower())
        try:
            value = 0.0 if place is None else float(row[place])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise InputError(f"line {line} of {path}: {name} is {_quoted(row, place)}, not a finite number; repair the row")
        values.append(value)
    return np.array(values)


def _quoted(row: list[str], place: int | None) -> str:
    return "missing" if place is None else repr(row[place].strip()[:40])


def _in_our_units(values: np.ndarray, lines: list[int], path: str | Path) -> np.ndarray:
    """(N, 64) numbers of rows as shares, radians and metres; raises InputError for one outside its range."""
    weights, angles = values[:, :52], values[:, _ANGLES]
    moving = np.abs(weights[weights != 0])
    if moving.size and np.median(moving) > PER_CENT_ABOVE:
        values[:, :52] = weights / 100
    if (np.abs(angles).max(axis=1) > MAX_ANGLE_RAD).mean() > DEGREES_SHARE:
        values[:, _ANGLES] = np.radians(angles)
    low = np.full(len(_NUMBERS), -MAX_PLACE_M)
    low[:52], low[_ANGLES] = WEIGHT_RANGE[0], -MAX_ANGLE_RAD
    high = -low
    high[:52] = WEIGHT_RANGE[1]
    wrong = np.argwhere((values < low) | (values > high))
    if len(wrong):
        row, place = wrong[0]
        unit = "" if place < 52 else " rad" if place < 61 else " m"
        raise InputError(
            f"line {lines[row]} of {path}: {_NUMBERS[place]} is {values[row, place]:.6g}{unit}, outside {low[place]:.3g} to"
            f" {high[place]:.3g}; repair the row (weights are shares or per cent, angles radians or degrees, one kind in a file)"
        )
    return values


def _code(row: np.ndarray, time_ns: int, sequence: int) -> MotionCode:
    weights = np.clip(row[:52], 0.0, 1.0)
    rotation, gaze = from_angle_columns(row[_ANGLES].tolist(), weights)
    return MotionCode(weights=weights, rotation=rotation, translation=row[61:], gaze=gaze, time_ns=time_ns, sequence=sequence)


def _parts(timecode: str) -> tuple[float, float] | None:
    """(whole seconds, frames) of HH:MM:SS:FF; None for anything else."""
    try:
        hours, minutes, seconds, frames = (float(part) for part in timecode.strip().replace(";", ":").split(":"))
    except ValueError:
        return None
    whole = hours * 3600 + minutes * 60 + seconds
    return (whole, frames) if 0 <= whole < 100 * 3600 and 0 <= frames < math.inf else None


def _seconds(timecode: str, fps: float, line: int, path: str | Path) -> float:
    parts = _parts(timecode)
    total = math.nan if parts is None else parts[0] + parts[1] / fps
    if not 0 <= total < 100 * 3600:  # not a number either
        raise InputError(f"line {line} of {path}: the timecode {timecode.strip()!r} is not HH:MM:SS:FF; repair the row")
    return total


def _timecode(seconds: float, fps: float) -> str:
    thousandths = round(seconds * fps * 1000)  # of a frame, so that rounding carries into whole frames
    per_second = round(fps * 1000)
    whole, rest = divmod(thousandths, per_second)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours:02d}:{minutes:02d}:{whole % 60:02d}:{rest // 1000:02d}.{rest % 1000:03d}"
