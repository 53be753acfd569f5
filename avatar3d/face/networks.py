"""Loading and running the LiteRT networks of the face part, each interpreter made once and only when first used."""

from __future__ import annotations

import io
import struct
import threading
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path

import numpy as np

from avatar3d.errors import InputError, WorkError
from avatar3d.extras import install_extra
from avatar3d.files import read_bounded
from avatar3d.progress import quiet_stderr

LANDMARKER_FILE = "face_landmarker.task"  # a zip of the three face networks
MATTE_FILE = "selfie_segmentation.tflite"
MAX_NETWORK_BYTES = 64 << 20  # the largest of ours has 2.6 MB; a bound on what a local path may make us read


class Network:
    """One LiteRT network; `run` is safe to call from several threads."""

    def __init__(self, content: bytes, threads: int) -> None:
        try:
            from ai_edge_litert.interpreter import Interpreter
        except ImportError as error:
            raise WorkError(f"the face networks need the package ai-edge-litert; run: {install_extra('track')}") from error
        self._content = content  # the interpreter reads it in place
        self._lock = threading.Lock()
        with quiet_stderr():
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
    content = network_bytes(path, member)
    try:
        return Network(content, threads)
    except (ValueError, RuntimeError) as error:
        raise _no_network(path, member) from error


def network_bytes(path: Path, member: str | None) -> bytes:
    """What a .tflite file, or the `member` of a .task bundle, holds; raises InputError when there is none, or one too large."""
    try:
        content = read_bounded(path, "face model", MAX_NETWORK_BYTES)
        if member is None:
            return content
        with zipfile.ZipFile(io.BytesIO(content)) as bundle:
            size = bundle.getinfo(member).file_size
            if size > MAX_NETWORK_BYTES:
                raise ValueError(f"{size} bytes, more than {MAX_NETWORK_BYTES}")
            return bundle.read(member)
    # Beside its own error, the zip reader raises these on damaged data, a cipher and a method that it lacks.
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, ValueError, RuntimeError, struct.error) as error:
        raise _no_network(path, member) from error


def _no_network(path: Path, member: str | None) -> InputError:
    wanted = f"a .task bundle with {member}" if member else "a .tflite network"
    return InputError(f"cannot use {path} as a face model: it is not {wanted}; run `avatar3d models pull` and name no file")
