"""Loading and running the LiteRT networks of the face part, each interpreter made once and only when first used."""

from __future__ import annotations

import contextlib
import os
import threading
import zipfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from avatar3d.errors import InputError, WorkError
from avatar3d.extras import install_extra

LANDMARKER_FILE = "face_landmarker.task"  # a zip of the three face networks
MATTE_FILE = "selfie_segmentation.tflite"
MAX_NETWORK_BYTES = 64 << 20  # the largest of ours has 2.6 MB; a bound on what a local path may make us read


class Network:
    """One LiteRT network; `run` is safe to call from several threads."""

    def __init__(self, content: bytes, threads: int) -> None:
        try:
            from ai_edge_litert.interpreter import Interpreter
        except ImportError as error:
            raise WorkError(f"the face networks need the package ai-edge-litert; run: {install_extra('train')}") from error
        self._content = content  # the interpreter reads it in place
        self._lock = threading.Lock()
        with _quiet_stderr():
            self._interpreter = Interpreter(model_content=content, num_threads=threads)
            self._interpreter.allocate_tensors()
        self._input = self._interpreter.get_input_details()[0]["index"]
        self._outputs = [item["index"] for item in self._interpreter.get_output_details()]

    def run(self, batch: np.ndarray) -> list[np.ndarray]:
        """The outputs for one float32 input of the network's own shape."""
        with self._lock:
            self._interpreter.set_tensor(self._input, np.ascontiguousarray(batch, dtype=np.float32))
            self._interpreter.invoke()
            return [self._interpreter.get_tensor(index) for index in self._outputs]


@lru_cache(maxsize=16)
def load_network(path: Path, member: str | None, threads: int) -> Network:
    """The network in a .tflite file, or in the `member` of a .task bundle; raises InputError when the file is neither."""
    try:
        return Network(_content(path, member), threads)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        wanted = f"a .task bundle with {member}" if member else "a .tflite network"
        raise InputError(
            f"cannot use {path} as a face model: it is not {wanted}; run `avatar3d models pull` and name no file"
        ) from error


def _content(path: Path, member: str | None) -> bytes:
    if member is None:
        _refuse_large(path.stat().st_size)
        return path.read_bytes()
    with zipfile.ZipFile(path) as bundle:
        _refuse_large(bundle.getinfo(member).file_size)
        return bundle.read(member)


def _refuse_large(size: int) -> None:
    if size > MAX_NETWORK_BYTES:
        raise ValueError(f"{size} bytes, more than {MAX_NETWORK_BYTES}")


@contextlib.contextmanager
def _quiet_stderr() -> Iterator[None]:
    """Keep LiteRT's start-up chatter, which C++ writes straight to descriptor 2, off the user's screen."""
    saved = os.dup(2)
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(sink)
