"""Parts of the extension's object as they are read and written: each number and picture by its row in avatar3d.glb.table.

A place without a row cannot be read or written, and what lies outside its row's range is refused by name on both ways.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from avatar3d.errors import InputError, WorkError
from avatar3d.field.int8 import Bytes
from avatar3d.glb.gltf import Json, plain
from avatar3d.glb.gltf_reader import GltfReader
from avatar3d.glb.gltf_writer import GltfWriter
from avatar3d.glb.table import DIMENSIONS, PICTURE_ROWS, ROWS, Number, range_text

ROUNDING = 1e-6  # of a range, by which 32-bit floats may lie outside


def outside(values: np.ndarray | float, row: Number, lengths: dict[str, int]) -> float | None:
    """The first of some numbers that lies outside its row's range, None where all are within; NaN is without."""
    if isinstance(values, float):
        values = np.array(values)
    if values.size == 0:
        return None
    high = lengths[row.high] - 1 if isinstance(row.high, str) else row.high
    slack = ROUNDING * (high - row.low) if values.dtype.kind == "f" else 0
    low, high = row.low - slack, high + slack
    if low <= float(values.min()) and float(values.max()) <= high:  # false for NaN
        return None
    return float(values[~((values >= low) & (values <= high))].flat[0])


def _sentence(shown: str, value: float, row: Number, lengths: dict[str, int]) -> str:
    unit = f" {row.unit}" if row.unit not in ("", "1") else ""
    known = f"{row.low:g} to {lengths[row.high] - 1}" if isinstance(row.high, str) else range_text(row)
    return f"{shown} holds {value:.6g}, outside {known}{unit}"


class Reading:
    """One object of the extension, read by the table. Methods raise InputError, naming file and place."""

    def __init__(self, reader: GltfReader, value: Json) -> None:
        self._reader = reader
        self._value = value
        self._path = self._shown = ""
        self._lengths: dict[str, int] = {}

    def _at(self, value: Json, key: str, place: int | None = None) -> Reading:
        part = Reading(self._reader, value)
        entry = "" if place is None else "[]"
        part._path = f"{self._path}{key}{entry}."
        part._shown = f"{self._shown}{key}{'' if place is None else f'[{place}]'}."
        part._lengths = self._lengths
        return part

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def damaged(self, what: str) -> InputError:
        """The error for a file that contradicts itself."""
        return self._reader.damaged(what)

    def length(self, name: str) -> int:
        """What a name in DIMENSIONS stands for, once an array with it was read."""
        return self._lengths[name]

    def part(self, key: str) -> Reading:
        """The object `key`."""
        value = self._value.get(key)
        if not isinstance(value, dict):
            raise self.damaged(f"{self._shown}{key} is not an object")
        return self._at(value, key)

    def parts(self, key: str, limit: int) -> list[Reading]:
        """The objects of the list `key`, at most `limit`; none where it is missing."""
        found = self._reader.entries(self._value, key, limit)
        for place, value in enumerate(found):
            if not isinstance(value, dict):
                raise self.damaged(f"{self._shown}{key}[{place}] is not an object")
        return [self._at(value, key, place) for place, value in enumerate(found)]

    def _row(self, key: str) -> Number:
        return ROWS[self._path + key]

    def _checked(self, values: np.ndarray, key: str) -> np.ndarray:
        row = self._row(key)
        wrong = outside(values, row, self._lengths)
        if wrong is not None:
            raise self.damaged(_sentence(self._shown + key, wrong, row, self._lengths))
        return values

    def check(self, key: str, values: np.ndarray) -> None:
        """Raise InputError where values that lie elsewhere in the file are outside the range of the row `key`."""
        self._checked(values, key)

    def number(self, key: str) -> float:
        """The number `key`; NaN for null, or where it may be missing."""
        row = self._row(key)
        value = self._value.get(key)
        if value is None and row.null and (row.optional or key in self._value):
            return math.nan
        if isinstance(value, bool) or not isinstance(value, int if row.whole else (int, float)):
            raise self.damaged(f"{self._shown}{key} is not a {'whole' if row.whole else 'finite'} number")
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
        return float(self._checked(np.array(found), key))

    def integer(self, key: str) -> int:
        """The whole number `key`."""
        return int(self.number(key))

    def numbers(self, key: str) -> np.ndarray:
        """The nested list `key` as float64."""
        return self._checked(self._list(key, self._shape(key)), key)

    def _list(self, key: str, shape: tuple[int, ...]) -> np.ndarray:
        return self._reader.numbers({self._shown + key: self._value.get(key)}, self._shown + key, shape)

    def _shape(self, key: str) -> tuple[int, ...]:
        """Lengths of the list `key`; the first tells what a name that is not known yet stands for."""
        wanted: list[int] = []
        for length in self._row(key).shape:
            if not isinstance(length, int) and (length is None or length not in self._lengths):
                most = DIMENSIONS[length][0] if length is not None else max(n for n, _ in DIMENSIONS.values())
                found = len(self._reader.entries(self._value, key, most))
                if length is not None:
                    self._lengths[length] = found
                wanted.append(found)
            else:
                wanted.append(length if isinstance(length, int) else self._lengths[length])
        return tuple(wanted)

    def values(self, key: str) -> list[int]:
        """The list `key` of whole numbers, by the row `key[]`."""
        found = self._reader.entries(self._value, key, DIMENSIONS["L"][0])
        if not found or not all(type(value) is int for value in found):
            raise self.damaged(f"{self._shown}{key} is not a list of whole numbers")
        self._checked(np.array([float(min(value, 2**53)) for value in found]), f"{key}[]")
        return found

    def array(self, key: str) -> np.ndarray:
        """The array `key`: f32 of floats and of what `Writing.bytes` made, i32 of indices."""
        row = self._row(key)
        known = tuple(length if isinstance(length, int) else self._lengths.get(length or "") for length in row.shape)
        limits = tuple(DIMENSIONS[length][0] if isinstance(length, str) else None for length in row.shape)
        values = self._reader.array({self._shown + key: self._value.get(key)}, self._shown + key, row.kinds, known)
        for length, found, most in zip(row.shape, values.shape, limits, strict=True):
            if isinstance(length, str):
                if most is not None and found > most:
                    raise self.damaged(f"{self._shown}{key} has {found} {DIMENSIONS[length][1]}, more than {most}")
                self._lengths[length] = found
        if values.dtype == np.uint8:
            step = self.part(key)._steps(len(values))
            values = Bytes((values.astype(np.int16) - 128).astype(np.int8), step).values()
        return self._checked(values, key)

    def _steps(self, count: int) -> np.ndarray:
        return self._checked(self._list("step", (count,)), "step").astype(np.float32)

    def picture(self, key: str) -> np.ndarray:
        """The picture `key` as (H, W) or (H, W, C) u8."""
        return self._reader.picture(
            {self._shown + key: self._value.get(key)}, self._shown + key, PICTURE_ROWS[self._path + key].modes
        )

    def pictures(self, key: str) -> list[np.ndarray]:
        """The pictures of the list `key`, one for a hair level at most."""
        found = self._reader.entries(self._value, key, DIMENSIONS["K"][0])
        modes = PICTURE_ROWS[f"{self._path}{key}[]"].modes
        names = [f"{self._shown}{key}[{place}]" for place in range(len(found))]
        return [self._reader.picture({name: entry}, name, modes) for name, entry in zip(names, found, strict=True)]

    def stepped(self, key: str) -> np.ndarray:
        """(h, w, C) f32 of the picture `key` with a step for each channel."""
        return self._unfolded(self.picture(key), self.part(key).numbers("step"))

    def planes(self, key: str, count: int) -> np.ndarray:
        """(count, h, w, C) f32 of the pictures of `key`, with a step for each channel."""
        stack = self.part(key)
        step = stack.numbers("step")
        levels = [self._unfolded(pixels, step) for pixels in stack.pictures("levels")]
        if len(levels) != count or any(level.shape != levels[0].shape for level in levels):
            raise self.damaged(f"{self._shown}{key} does not hold {count} pictures of one size")
        return np.stack(levels)

    def _unfolded(self, pixels: np.ndarray, step: np.ndarray) -> np.ndarray:
        self._reader.spend(8 * pixels.size)  # f32, twice while scaling
        return (pixels.astype(np.float32) - 128) * step.astype(np.float32)

    def text(self, key: str) -> str:
        """The string `key`."""
        return self._reader.text({self._shown + key: self._value.get(key)}, self._shown + key)

    @property
    def raw(self) -> Json:
        """The object as it stands, for what the table does not know: names and how it was made."""
        return self._value


class Writing:
    """One object of the extension being written, by the table. Methods raise WorkError naming what a file cannot hold."""

    def __init__(self, writer: GltfWriter, path: str = "", lengths: dict[str, int] | None = None) -> None:
        self._writer = writer
        self._path = path
        self._lengths = {} if lengths is None else lengths
        self.content: Json = {}

    def part(self, key: str) -> Writing:
        """A new object, as member `key`."""
        part = Writing(self._writer, f"{self._path}{key}.", self._lengths)
        self.content[key] = part.content
        return part

    def entry(self, key: str) -> Writing:
        """A new object at the end of the list `key`."""
        part = Writing(self._writer, f"{self._path}{key}[].", self._lengths)
        self.content.setdefault(key, []).append(part.content)
        return part

    def check(self, key: str, values: np.ndarray, path: str | None = None) -> None:
        """Raise WorkError where values do not fit their row, that of `key` or of a path."""
        path = self._path + key if path is None else path
        row = ROWS[path]
        for name, length in zip(row.shape, values.shape, strict=True):
            if isinstance(name, str):
                self._lengths[name] = length
                if length > DIMENSIONS[name][0]:
                    most, what = DIMENSIONS[name]
                    raise WorkError(f"cannot write the avatar: {path} has {length} {what}, more than {most}")
        wrong = outside(values, row, self._lengths)
        if wrong is not None:
            raise WorkError(f"cannot write the avatar: {_sentence(path, wrong, row, self._lengths)}; enrol the photo again")

    def number(self, key: str, value: float) -> None:
        """A number; not finite is null where that may be."""
        value = float(value)
        if not (ROWS[self._path + key].null and not math.isfinite(value)):
            self.check(key, np.array(value))
        self.content[key] = plain(int(value) if ROWS[self._path + key].whole else value)

    def numbers(self, key: str, values: Any) -> None:
        """A nested list, rounded to nothing."""
        values = np.asarray(values)
        self.check(key, values)
        self.content[key] = plain(values)

    def values(self, key: str, values: Any) -> None:
        """A list of whole numbers, by the row `key[]`."""
        for value in values:
            self.check(key, np.array(float(value)), f"{self._path}{key}[]")
        self.content[key] = [int(value) for value in values]

    def array(self, key: str, values: np.ndarray) -> None:
        """An array in a buffer view, of the row's first type, or the shorter of indices."""
        self.check(key, values)
        kinds = ROWS[self._path + key].kinds
        self.content[key] = self._writer.indices(values) if "u16" in kinds else self._writer.array(values, kinds[0])

    def bytes(self, key: str, values: np.ndarray) -> None:
        """An array (N, ...) f32 as bytes with a step for each first index."""
        self.check(key, values)
        held = Bytes.of(values)
        codes = (held.codes + np.int16(128)).astype(np.uint8)
        self.check(f"{key}.step", held.step)
        self.content[key] = {**self._writer.array(codes, "u8"), "step": held.step.tolist()}

    def stepped(self, key: str, values: np.ndarray) -> None:
        """(h, w, C) f32 as a picture of bytes with a step for each channel."""
        step = steps(values)
        self.check(f"{key}.step", step)
        self.content[key] = {**_picture(self._writer, values, step), "step": step.tolist()}

    def planes(self, key: str, values: np.ndarray, least: float = 0.0) -> None:
        """(K, h, w, C) f32 as pictures with one step a channel, none below `least`."""
        step = steps(values, least)
        self.check(f"{key}.step", step)
        self.content[key] = {"step": step.tolist(), "levels": [_picture(self._writer, level, step) for level in values]}


def steps(values: np.ndarray, least: float = 0.0) -> np.ndarray:
    """(C,) size of one of 127 steps that reach each channel's largest magnitude, at least `least`; channels are the last axis.

    Rounded up to 12 bits, so that 127 steps are exact in f32 and a file that is read and written again does not change.
    """
    peaks = np.abs(values).reshape(-1, values.shape[-1]).max(0, initial=0).astype(np.float64)
    mantissa, exponent = np.frexp(np.maximum(peaks / 127, least))
    return np.ldexp(np.ceil(mantissa * 4096) / 4096, exponent)


def _picture(writer: GltfWriter, values: np.ndarray, step: np.ndarray) -> Json:
    """(h, w, C) f32 as a PNG of bytes round(value / step) + 128; zero is exact."""
    bytes_ = np.round(values.astype(np.float64) / np.where(step > 0, step, 1)) + 128
    return writer.picture(np.clip(bytes_, 1, 255).astype(np.uint8))
