"""Writing files so that a reader never sees half of one, and reading small JSON, YAML and .npz files that may hold anything."""

from __future__ import annotations

import io
import json
import math
import os
import reprlib
import secrets
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from avatar3d.errors import InputError

if TYPE_CHECKING:
    import numpy as np

READ_BYTES = 2**20
MAX_INTEGER = 2**63  # of a file; larger ones overflow a float, or take for ever to print
MAX_YAML_SCALAR = 200  # characters of a text or a number; those of configs/ have up to 122


PRIVATE_MODE = 0o600  # a face is biometric: what is made of one is for its owner's eyes
SHARED_MODE = 0o666  # less the process's umask, which the kernel takes off


@contextmanager
def replacing(path: str | Path, shared: bool = False) -> Iterator[Path]:
    """Yield a temporary path with the target's suffix; on a clean exit it replaces `path`, otherwise it is removed.

    A file that was there keeps its mode; a new one is its owner's alone (0600), unless `shared`: then it is as the umask has it. A
    symbolic link stays, and what it points to is replaced. Raises InputError when the folder does not exist, cannot be written, or
    the target is a folder.
    """
    target = _through_links(Path(path))
    with _temporary(target, shared) as temporary:
        yield temporary
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())  # a disk that is full late says so before the old file goes
        _keep_mode(target, temporary)
        os.replace(temporary, target)


@contextmanager
def _temporary(target: Path, shared: bool = False) -> Iterator[Path]:
    _check_target(target)
    temporary = _beside(target)
    try:
        try:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, SHARED_MODE if shared else PRIVATE_MODE))
        except OSError as error:
            raise _unwritable(target, error) from error
        yield temporary
    finally:  # also where a signal comes as soon as it is there
        with suppress(OSError):  # it has been moved, or never was
            temporary.unlink()


def _beside(target: Path) -> Path:
    """A name beside the target that nobody has."""
    return target.parent / f".{target.stem[:100]}.{secrets.token_hex(6)}{target.suffix[-20:]}"


def _through_links(path: Path) -> Path:
    """Where a write to `path` ends up; raises InputError on links in a circle."""
    target = Path(os.path.realpath(path)) if os.path.islink(path) else path
    if os.path.islink(target):
        raise InputError(f"cannot write {path}: it is a link that leads back to itself; remove it")
    return target


def _check_target(target: Path) -> None:
    try:
        is_folder, in_folder = target.is_dir(), target.parent.is_dir()
    except OSError as error:  # a name too long, a folder that may not be entered
        raise _unwritable(target, error) from error
    if is_folder:
        raise InputError(f"cannot write {target}: it is a folder; name a file")
    if not in_folder:
        raise InputError(f"cannot write {target}: the folder {target.parent} does not exist; create it first")


def _unwritable(target: Path, error: OSError) -> InputError:
    return InputError(f"cannot write {target}: {error.strerror}; choose a folder you may write to")


def _keep_mode(target: Path, temporary: Path) -> None:
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
    except OSError:
        return
    os.chmod(temporary, mode)


def check_writable(path: str | Path) -> None:
    """Raise the InputError that writing `path` would raise, before long work starts; leaves nothing behind."""
    target = _through_links(Path(path))
    _check_target(target)
    handle = _nameless(target.parent, PRIVATE_MODE)
    if handle is not None:
        os.close(handle)
    else:
        with _temporary(target):
            pass
    if target.exists() and not os.access(target, os.W_OK):
        raise InputError(f"cannot write {target}: the file there is read-only; choose another name")


def check_suffix(path: str | Path, suffix: str, what: str) -> None:
    """Raise InputError, calling the file `what`, unless its name ends in `suffix`, such as ".glb", in capitals or not."""
    if Path(path).suffix.lower() != suffix:
        raise InputError(f"cannot write {what} as {Path(path).name}: expected a name that ends in {suffix}")


def make_folder(path: str | Path) -> None:
    """Make a folder to write into, and those it lies in; raises InputError where there cannot be one."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write into {path}: {error.strerror}; name a folder") from error


def write_bytes(path: str | Path, data: bytes, shared: bool = False) -> None:
    """Write `data` to `path` as `replacing` does; where the system has files without a name, not even SIGKILL leaves half of one."""
    target = _through_links(Path(path))
    if not _write_nameless(target, data, shared):
        with replacing(target, shared) as temporary:
            temporary.write_bytes(data)


def _write_nameless(target: Path, data: bytes, shared: bool) -> bool:
    """Write into a file that gets its name when it is whole (O_TMPFILE of Linux); False where the file system has none."""
    _check_target(target)
    handle = _nameless(target.parent, SHARED_MODE if shared else PRIVATE_MODE)
    if handle is None:
        return False
    named = _beside(target)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
            try:
                os.link(f"/proc/self/fd/{handle}", named, follow_symlinks=True)
            except OSError:
                return False
        _keep_mode(target, named)
        os.replace(named, target)
    finally:
        named.unlink(missing_ok=True)
    return True


def _nameless(folder: Path, mode: int) -> int | None:
    """The descriptor of a new file in `folder` that has no name, so that nothing is left of it; None where there cannot be one."""
    if not hasattr(os, "O_TMPFILE"):
        return None
    try:
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY, mode)
    except OSError:
        return None


def open_regular(path: str | Path, what: str) -> BinaryIO:
    """A file open for reading; raises InputError, calling it `what`, where there is none.

    What is no regular file is refused too: a pipe waits for a writer for ever, a device may give bytes without end.
    """
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"
            raise InputError(f"cannot read the {what} {path}: it is {kind}; name a file")
        return Path(path).open("rb")
    except ValueError as error:  # a name that holds a null character
        raise InputError(f"cannot read the {what} {str(path)!r}: {error}") from error
    except OSError as error:
        raise InputError(f"cannot read the {what} {path}: {error.strerror}") from error


def read_bounded(path: str | Path, what: str, max_bytes: int) -> bytes:
    """The bytes of a file; raises InputError, calling it `what`, as `open_regular` does and where it has more than max_bytes."""
    data = bytearray()
    try:
        with open_regular(path, what) as stream:
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
