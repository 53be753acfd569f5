"""Writing files so that a reader never sees half of one, and reading small JSON, YAML and .npz files that may hold anything."""

from __future__ import annotations

import io
import json
import math
import os
import reprlib
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from avatar3d.errors import InputError

if TYPE_CHECKING:
    import numpy as np

READ_BYTES = 2**20
MAX_INTEGER = 2**63  # of a file; larger ones overflow a float, or take for ever to print
MAX_YAML_SCALAR = 200  # characters of a text or a number; those of configs/ have up to 122


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path with the target's suffix; on a clean exit it replaces `path`, otherwise it is removed.

    Raises InputError when the folder does not exist, cannot be written, or the target is a folder.
    """
    target = Path(path)
    with _temporary(target) as temporary:
        yield temporary
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    if target.is_dir():
        raise InputError(f"cannot write {target}: it is a folder; name a file")
    folder = target.parent
    if not folder.is_dir():
        raise InputError(f"cannot write {target}: the folder {folder} does not exist; create it first")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=target.suffix, dir=folder)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}; choose a folder you may write to") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: str | Path) -> None:
    """Raise the InputError that writing `path` would raise, before long work starts; leaves nothing behind."""
    target = Path(path)
    existed = target.exists()
    with _temporary(target):
        pass
    if existed and not os.access(target, os.W_OK):
        raise InputError(f"cannot write {target}: the file there is read-only; choose another name")


def make_folder(path: str | Path) -> None:
    """Make a folder to write into, and those it lies in; raises InputError where there cannot be one."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write into {path}: {error.strerror}; name a folder") from error


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write `data` to `path` through a temporary file."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read_bounded(path: str | Path, what: str, max_bytes: int) -> bytes:
    """The bytes of a file; raises InputError, calling it `what`, where it cannot be read or has more than max_bytes."""
    data = bytearray()
    try:
        with Path(path).open("rb") as stream:
            while len(data) <= max_bytes and (block := stream.read(READ_BYTES)):  # a read takes the room it asks for at once
                data += block
    except OSError as error:
        raise InputError(f"cannot read the {what} {path}: {error.strerror}") from error
    if len(data) > max_bytes:
        raise InputError(f"{path} is too large for {what}: over {max_bytes} bytes")
    return bytes(data)


def parse_json(data: bytes) -> Any:
    """The value of a JSON text; raises ValueError on what is none, NaN, and numbers beyond 64 bits or a double's range."""
    try:
        return json.loads(data, parse_int=_integer, parse_float=_finite, parse_constant=_finite)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def read_json(path: str | Path, what: str, max_bytes: int) -> Any:
    """The value of a JSON file; raises InputError, calling it `what`, as `read_bounded` and `parse_json` do."""
    try:
        return parse_json(read_bounded(path, what, max_bytes))
    except ValueError as error:
        raise InputError(f"cannot read the {what} {path}: it is not JSON ({str(error)[:80]})") from error


def read_yaml(path: str | Path, what: str, max_bytes: int) -> Any:
    """The value of a YAML file of plain settings: no aliases, no long texts or numbers.

    Raises InputError, calling it `what`, for anything else, and as `read_bounded` does.
    """
    import yaml

    data = read_bounded(path, what, max_bytes)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's is ten times as fast
    try:
        for event in yaml.parse(data, loader):
            if isinstance(event, yaml.AliasEvent):
                raise ValueError("it holds an alias; write the value out")
            if isinstance(event, yaml.ScalarEvent) and len(event.value) > MAX_YAML_SCALAR:
                raise ValueError(f"a text or number has {len(event.value)} characters, at most {MAX_YAML_SCALAR} are read")
        return yaml.load(data, loader)
    # Besides its own errors, PyYAML lets through what Python raises on an odd date, number or tag.
    except (yaml.YAMLError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:160]
        raise InputError(f"{path} is not YAML that {what} can hold: {reason or type(error).__name__}") from error


def read_npz(path: str | Path, what: str, max_bytes: int) -> dict[str, np.ndarray]:
    """The arrays of an .npz file without pickles; raises InputError, calling it `what`, where it is none or has more than max_bytes."""
    import zipfile
    import zlib

    content = read_bounded(path, what, max_bytes)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as bundle:
            members = bundle.infolist()
            if sum(member.file_size for member in members) > max_bytes:
                raise ValueError(f"it holds over {max_bytes} bytes")
            return {member.filename.removesuffix(".npy"): _npy(bundle.read(member)) for member in members}
    # Beside its own error, the zip reader raises these on damaged data, a cipher and a method that it lacks.
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError, struct.error) as error:
        raise InputError(f"{path} is not a {what} (.npz): {str(error)[:120] or type(error).__name__}") from error


def _npy(data: bytes) -> np.ndarray:
    """The array of an .npy file's bytes, whose header must state exactly what follows it; ValueError otherwise."""
    import numpy as np

    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"an array has the format {version}")
    try:
        shape, by_columns, dtype = read(stream)
    except Exception as error:  # it is read as Python text, by turns with three parsers
        raise ValueError(f"an array's header is damaged ({type(error).__name__})") from error
    rest = len(data) - stream.tell()
    if dtype.hasobject or any(side < 0 for side in shape) or math.prod(shape) * dtype.itemsize != rest or not dtype.itemsize:
        raise ValueError(f"an array of {rest} bytes does not fit its header")
    return np.frombuffer(data, dtype, offset=stream.tell()).copy().reshape(shape, order="F" if by_columns else "C")


def shown(value: object) -> str:
    """A value out of a file as an error quotes it: short, however large or deep it is."""
    return reprlib.repr(value)


def _integer(text: str) -> int:
    value = int(text) if len(text) < 25 else MAX_INTEGER
    if abs(value) >= MAX_INTEGER:
        raise ValueError(f"the number {text[:25]} is beyond 64 bits")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:25]} is not a finite number")
    return value
