"""What would take too much to draw is refused from its JSON text, before anything is decoded; refused memory is a sentence."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from avatar3d.errors import InputError
from avatar3d.glb import EXTENSION, parse_glb, write_glb
from avatar3d.glb.table import MAX_FACES, MAX_WEIGHTS
from tests.fuzzing.numbers import pack, unpack
from tests.make_avatar import synthetic_avatar


@pytest.fixture(scope="module")
def glb(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("budget") / "a.glb"
    write_glb(synthetic_avatar(), path)
    return path.read_bytes()


def _with_picture(data: bytes, place: str, side: int, mode: str) -> bytes:
    """The file whose picture at a place is side², all of one colour: next to nothing in the file."""
    document, body = unpack(data)
    stream = io.BytesIO()
    Image.new(mode, (side, side)).save(stream, "PNG")
    view = {"buffer": 0, "byteOffset": len(body), "byteLength": len(stream.getvalue())}
    document["bufferViews"].append(view)
    document["buffers"][0]["byteLength"] = len(body) + len(stream.getvalue())
    reference = {"bufferView": len(document["bufferViews"]) - 1, "mimeType": "image/png", "width": side, "height": side}
    value: Any = document["extensions"][EXTENSION]
    *folders, last = place.split(".")
    for key in folders:
        value = value[int(key)] if key.isdecimal() else value[key]
    if last == "opacity" or last == "levels":
        value[last] = [reference] * len(value[last])
    else:
        value[last] = {**value[last], **reference}
    return pack(document, body + stream.getvalue())


@pytest.mark.parametrize(
    ("place", "side", "mode"),
    [
        ("texture.baseColor", 8192, "RGB"), ("texture.deltas.0.logRatio", 8192, "RGB"), ("hair.color", 4096, "RGBA"),
        ("hair.opacity", 8192, "L"), ("baked.skinQ0.levels", 4096, "RGB"), ("baked.hairQ0.levels", 4096, "RGBA"),
        ("baked.motion.0.skin.levels", 11_000, "RGB"), ("baked.motion.0.hair.levels", 8192, "RGB"),
    ],
)  # fmt: skip
def test_a_picture_too_large_to_draw_is_refused_undecoded(place: str, side: int, mode: str, glb: bytes) -> None:
    data = _with_picture(glb, place, side, mode)
    assert len(data) < 1.5 * 2**20
    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(InputError, match=r"MiB of memory up to [a-zA-Z0-9.\[\]]+, more than"),
    ):
        patch.setattr(Image, "open", lambda *_, **__: pytest.fail("a picture was opened"))
        parse_glb(data, "case.glb")


def test_pictures_several_times_those_of_enrolment_are_read(glb: bytes) -> None:
    assert parse_glb(_with_picture(glb, "texture.baseColor", 4096, "RGB"), "case.glb").base_color.shape == (4096, 4096, 3)


def test_more_triangles_than_are_drawn_are_refused(glb: bytes) -> None:
    document, body = unpack(glb)
    runs = document["extensions"][EXTENSION]["mesh"]["faceRuns"]
    runs.append([0, MAX_FACES])
    with pytest.raises(InputError, match=f"triangles, its hair's counted once for each level, more than {MAX_FACES}"):
        parse_glb(pack(document, body), "case.glb")


def test_a_network_that_no_driver_compiles_is_refused(tmp_path: Path) -> None:
    avatar = synthetic_avatar()
    assert avatar.neural_field is not None
    wide = 1024
    weights = [np.zeros((wide, avatar.neural_field.weights[0].shape[1]), np.float32), np.zeros((4, wide), np.float32)]
    field = replace(avatar.neural_field, weights=weights, biases=[np.zeros(wide, np.float32), np.zeros(4, np.float32)])
    write_glb(replace(avatar, neural_field=field), tmp_path / "a.glb")
    with pytest.raises(InputError, match=f"MLP has .* weights, more than {MAX_WEIGHTS}"):
        parse_glb((tmp_path / "a.glb").read_bytes(), "a.glb")


LIMITED = """
import resource, sys
import numpy, PIL.Image, avatar3d.glb, avatar3d.interop.mesh
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (int(sys.argv[1]) << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
from avatar3d.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits its own address space, as Linux lets a process")
@pytest.mark.parametrize(("mib", "code"), [(20, 1), (60, 1), (2000, 0)])
def test_refused_memory_is_a_sentence(mib: int, code: int, glb: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.glb").write_bytes(_with_picture(glb, "texture.baseColor", 2048, "RGB"))
    words = ["export", str(tmp_path / "a.glb"), "-o", str(tmp_path / "a.ply"), "--expression", "mouthSmileLeft=1", "--quiet"]
    done = subprocess.run([sys.executable, "-c", LIMITED, str(mib), *words], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    if code:
        assert done.stderr.startswith("avatar3d: this machine has too little memory for it") and done.stderr.count("\n") == 1
        assert not (tmp_path / "a.ply").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="limits its own address space, as Linux lets a process")
@pytest.mark.parametrize("mib", [600, 800, 1000, 1100])
@pytest.mark.parametrize("words", [["enroll", "none.jpg", "-o", "a.glb"], ["track", "none.mp4", "-o", "a.csv"]])
def test_libraries_that_cannot_be_loaded_are_a_sentence_and_no_bug(mib: int, words: list[str]) -> None:
    code = f"import resource, sys; resource.setrlimit(resource.RLIMIT_AS, ({mib} << 20,) * 2); from avatar3d.cli import main"
    command = [sys.executable, "-c", f"{code}; sys.exit(main(sys.argv[1:]))", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert f"may address {mib} MiB" in done.stderr and "ulimit -v" in done.stderr
