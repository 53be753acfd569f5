"""Whether two commits enrol photos to the same bytes: a change of the code's shape must not change an avatar.

    tools/same_bytes main HEAD me.jpg you.jpg              each photo, enrolled by the command line of both
    tools/same_bytes v0.1 . me.jpg --no-field --seed 3     "." is this checkout as it is; options after the photos go to enroll

Commits are checked out into a temporary folder and run by this Python, one after the other. Of the two files all is compared but the
seconds that training took and the date. A photo that both refuse with the same words is the same.

One line a photo. Exit codes: 0 the same, 1 a difference or a failure, 2 wrong arguments, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HERE = "."  # in place of a commit: the checkout as it is
EXTENSION = "AVATAR3D_neural"
GLB_HEADER_BYTES, CHUNK_HEADER_BYTES = 12, 8
MOST_NAMED = 3  # places that a line names
# What a clock puts into an avatar's provenance.
CLOCKED = re.compile(rb'("(?:date|seconds|seconds_per_iteration)":)(?:"[0-9-]*"|[0-9.eE+-]+)')


@dataclass(frozen=True)
class Enrolled:
    """What one commit made of one photo. glb: None where it refused. said: the last line on stderr."""

    glb: bytes | None
    exit_code: int
    said: str
    seconds: float


def chunks(glb: bytes) -> tuple[bytes, bytes]:
    """(JSON text, binary part) of a GLB (glTF 2.0, section 4.4); the latter empty where there is none. Raises ValueError."""
    if len(glb) < GLB_HEADER_BYTES + CHUNK_HEADER_BYTES or glb[:4] != b"glTF":
        raise ValueError("not a GLB file")
    (length,) = struct.unpack_from("<I", glb, GLB_HEADER_BYTES)
    start = GLB_HEADER_BYTES + CHUNK_HEADER_BYTES
    return glb[start : start + length], glb[start + length :]


def without_clock(text: bytes) -> bytes:
    """The JSON text of a GLB without what a clock put into the avatar's provenance, nor padding."""
    provenance = json.loads(text).get("extensions", {}).get(EXTENSION, {}).get("provenance", {})
    written = json.dumps(provenance, separators=(",", ":")).encode()  # as avatar3d.glb writes it
    return text.replace(written, CLOCKED.sub(rb"\1null", written), 1).rstrip(b" ")


def difference(old: bytes, new: bytes) -> str:
    """Where two avatars' files differ, in words; "" where they do not. Raises ValueError for what is no GLB."""
    (old_text, old_data), (new_text, new_data) = chunks(old), chunks(new)
    places = []
    if without_clock(old_text) != without_clock(new_text):
        found = list(_unlike(json.loads(without_clock(old_text)), json.loads(without_clock(new_text)), ""))
        places.append("JSON at " + _few(found) if found else "how the JSON is written")
    if old_data != new_data:
        views = list(_unlike_views(json.loads(old_text), old_data, new_data))
        places.append("data of " + _few(views) if views else f"{len(old_data)} bytes of data beside {len(new_data)}")
    return "; ".join(places)


def _few(places: list[str]) -> str:
    more = len(places) - MOST_NAMED
    return ", ".join(places[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _unlike(old: Any, new: Any, path: str) -> Iterator[str]:
    """Paths of the values that differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from _unlike(old.get(key), new.get(key), f"{path}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, pair in enumerate(zip(old, new, strict=True)):
            yield from _unlike(*pair, f"{path}/{index}")
    elif old != new:
        yield path or "/"


def _unlike_views(document: Any, old: bytes, new: bytes) -> Iterator[str]:
    """Buffer views whose bytes differ, with what names them in the old document."""
    for index, view in enumerate(document.get("bufferViews", [])):
        start = CHUNK_HEADER_BYTES + view.get("byteOffset", 0)
        if old[start : start + view["byteLength"]] != new[start : start + view["byteLength"]]:
            users = list(_users(document, index, ""))
            yield f"buffer view {index}" + (f" ({users[0]})" if users else "")


def _users(value: Any, view: int, path: str) -> Iterator[str]:
    """Paths of what reads a buffer view."""
    if isinstance(value, dict):
        if value.get("bufferView") == view:
            yield path
        for key, item in value.items():
            yield from _users(item, view, f"{path}/{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _users(item, view, f"{path}/{index}")


@contextmanager
def checked_out(commit: str, folder: Path) -> Iterator[Path]:
    """A commit's files in `folder`, removed afterwards; HERE is this checkout itself. Raises ValueError for what is no commit."""
    if commit == HERE:
        yield ROOT
        return
    git = ["git", "-C", str(ROOT)]
    known = subprocess.run([*git, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"], capture_output=True, text=True)
    if known.returncode != 0:
        raise ValueError(f"{commit} is no commit of {ROOT}")
    subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(folder), known.stdout.strip()], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "worktree", "remove", "--force", str(folder)], check=False)


def enrol(checkout: Path, photo: Path, out: Path, options: list[str]) -> Enrolled:
    """Enrol a photo by the command line of a checkout."""
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "avatar3d.cli", "enroll", str(photo), "-o", str(out), "--quiet", *options]
    out.unlink(missing_ok=True)
    started = time.perf_counter()
    done = subprocess.run(
        command, cwd=checkout, env={**os.environ, **threads, "PYTHONPATH": str(checkout)}, capture_output=True, text=True
    )
    said = (done.stderr.strip().splitlines() or [""])[-1]
    return Enrolled(
        out.read_bytes() if done.returncode == 0 else None, done.returncode, said, time.perf_counter() - started
    )  # fmt: skip


def verdict(old: Enrolled, new: Enrolled) -> tuple[bool, str]:
    """(whether two commits did the same to a photo, what a line says of it)."""
    took = f"({old.seconds:.0f} s, {new.seconds:.0f} s)"
    if old.glb is not None and new.glb is not None:
        found = difference(old.glb, new.glb)
        return not found, f"DIFFERS in {found} {took}" if found else f"same, {len(new.glb):,} bytes {took}"
    if (old.exit_code, old.said) == (new.exit_code, new.said) and old.exit_code == 2:
        return True, f"same, refused: {new.said}"
    told = (f"exit {side.exit_code}, {side.said or 'an avatar'}" for side in (old, new))
    return False, "DIFFERS: " + " | ".join(told)


def main() -> int:
    """Compare; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD", help="a commit, or . for this checkout as it is")
    parser.add_argument("new", metavar="NEW", help="another")
    parser.add_argument("photos", metavar="PHOTO", nargs="+", type=Path)
    arguments, options = parser.parse_known_args()
    missing = [str(photo) for photo in arguments.photos if not photo.is_file()]
    if missing:
        parser.error(f"no such photo: {', '.join(missing)}")
    alike = True
    with tempfile.TemporaryDirectory(prefix="same_bytes.") as scratch, ExitStack() as stack:
        folder = Path(scratch)
        try:
            sides = [
                stack.enter_context(checked_out(commit, folder / name))
                for name, commit in (("old", arguments.old), ("new", arguments.new))
            ]
        except ValueError as error:
            parser.error(str(error))
        for photo in arguments.photos:
            old, new = (enrol(side, photo.resolve(), folder / "avatar.glb", options) for side in sides)
            same, line = verdict(old, new)
            alike = alike and same
            print(f"{photo.name}: {line}", flush=True)
    return 0 if alike else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
