"""Recordings as sources: `csv:FILE?fps=60` in Live Link Face columns and `json:FILE` in JSON lines."""

from __future__ import annotations

from avatar3d.errors import InputError
from avatar3d.motion.csv import read_motion_csv
from avatar3d.motion.jsonl import read_motion_jsonl
from avatar3d.motion.sources.base import Recording, Spec
from avatar3d.motion.validation import MotionValidator


def open_csv(spec: Spec) -> Recording:
    """A Live Link Face recording; fps is what its timecodes count in, told by themselves where it is not given."""
    spec.only("fps")
    text = spec.options.get("fps")
    if text is None:
        return Recording(read_motion_csv(spec.target))
    try:
        fps = float(text)
    except ValueError:
        fps = 0.0
    if not 1 <= fps <= 1000:
        raise InputError(f"{spec.text!r}: fps={text} is not a number in 1..1000")
    return Recording(read_motion_csv(spec.target, fps))


def open_json(spec: Spec) -> Recording:
    """A recording in JSON lines."""
    spec.only()
    validator = MotionValidator()
    return Recording(read_motion_jsonl(spec.target, validator), validator)
