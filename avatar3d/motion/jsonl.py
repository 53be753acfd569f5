"""Motion codes as JSON lines, one object a line: everything a code holds, weights by name; reading and writing."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from avatar3d.errors import InputError
from avatar3d.files import open_regular, write_bytes
from avatar3d.motion.code import ARKIT_INDEX, WEIGHT_COUNT, MotionCode
from avatar3d.motion.csv import MAX_BYTES, MAX_ROWS
from avatar3d.motion.validation import MotionValidator

MAX_LINE = 16_384  # bytes; a full code takes 2,000


def to_line(code: MotionCode) -> str:
    """One line without its end; weights to 1e-5, the rest as exact as a double."""
    return json.dumps({"time_ns": code.time_ns, "sequence": code.sequence, **code.to_json()}, separators=(",", ":"))


def read_object(data: bytes) -> dict[str, Any] | None:
    """The JSON object of one line, or None where it is too long or holds none."""
    if len(data) > MAX_LINE:
        return None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def parse_line(data: bytes, validator: MotionValidator) -> MotionCode | None:
    """The code of one line, or None where it is not one; unknown names are skipped, broken numbers mended."""
    value = read_object(data)
    if value is None or not isinstance(value.get("weights"), dict):
        return None
    weights = np.zeros(WEIGHT_COUNT)
    for name, weight in value["weights"].items():
        place = ARKIT_INDEX.get(name)
        if place is not None:
            weights[place] = _number(weight)
        else:
            validator.not_understood(name)
    when, count = _number(value.get("time_ns", 0)), _number(value.get("sequence", 0))
    return validator.admit(
        weights,
        value.get("rotation"),
        value.get("translation"),
        value.get("gaze"),
        value.get("confidence"),
        time_ns=_whole(value.get("time_ns", 0), when),
        sequence=_whole(value.get("sequence", 0), count),
    )


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def _whole(value: object, as_float: float) -> int:
    return int(value) if isinstance(value, int | float) and math.isfinite(as_float) else 0


def read_motion_jsonl(path: str | Path, validator: MotionValidator | None = None) -> list[MotionCode]:
    """The codes of a JSON-lines file. validator: counts what was mended and not understood. Raises InputError as `read_lines` does."""
    validator = validator or MotionValidator()
    return read_lines(path, lambda data: parse_line(data, validator), "a motion code: a JSON object with weights by name")


def read_lines(path: str | Path, parse: Callable[[bytes], MotionCode | None], expected: str) -> list[MotionCode]:
    """The codes that `parse` makes of a file's lines, empty ones left out.

    Raises InputError, naming the line and what was `expected`, for a line that is no code, and for a file that cannot be read,
    is empty or too large.
    """
    path = Path(path)
    codes: list[MotionCode] = []
    try:
        with open_regular(path, "motion file") as stream:
            if os.fstat(stream.fileno()).st_size > MAX_BYTES:
                raise InputError(f"{path} is larger than the {MAX_BYTES // 10**6} MB a recording may have")
            line = 0
            while data := stream.readline(MAX_LINE + 1):
                line += 1
                if not data.strip():
                    continue
                code = parse(data)
                if code is None:
                    raise InputError(f"line {line} of {path} is not {expected}; repair or remove it")
                if len(codes) == MAX_ROWS:
                    raise InputError(f"{path} holds more than {MAX_ROWS} lines; cut the recording into parts")
                codes.append(code)
    except OSError as error:
        raise InputError(f"cannot read the motion file {path}: {error.strerror}") from error
    if not codes:
        raise InputError(f"{path} is empty; expected a JSON object a line")
    return codes


def write_motion_jsonl(path: str | Path, codes: Iterable[MotionCode]) -> None:
    """Write codes one a line. Raises InputError when `path` cannot be written."""
    write_bytes(path, "".join(to_line(code) + "\n" for code in codes).encode())
