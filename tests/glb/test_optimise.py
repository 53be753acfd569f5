"""`avatar3d glb optimise`: fewer bytes of the same avatar, and what is asked for beyond that said with its size."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.cli import main
from avatar3d.glb import EXTENSION, read_glb, write_glb
from avatar3d.motion.code import MotionCode
from avatar3d.rendering import RenderOptions, make_renderer
from tests.fuzzing.numbers import pack, unpack
from tests.make_avatar import synthetic_avatar


@pytest.fixture
def file(tmp_path: Path) -> Path:
    avatar = synthetic_avatar()
    smooth = Image.fromarray(avatar.base_color).resize((256, 256), Image.Resampling.BICUBIC)
    avatar.base_color = np.array(smooth)
    write_glb(avatar, tmp_path / "a.glb")
    return tmp_path / "a.glb"


def _optimised(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict:
    assert main(["glb", "optimise", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def _drawn(avatars: list[Avatar]) -> list[np.ndarray]:
    """One picture of each, the baked form."""
    renderer = make_renderer("realtime")
    try:
        code = MotionCode.from_expression({"jawOpen": 0.5, "mouthSmileLeft": 1.0})
        cameras, options = [Camera.orbit(0.3, width=128, height=128)], RenderOptions()
        return [renderer.render(avatar, code, cameras, options)[0].to_srgb8((0, 0, 0)) for avatar in avatars]
    finally:
        renderer.close()


def test_without_more_the_avatar_is_the_same_to_the_bit(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "b.glb"
    found = _optimised([str(file), str(out)], capsys)
    assert found["lossless"] and found["changed"] == {}
    assert found["bytes_after"] == out.stat().st_size < found["bytes_before"] == file.stat().st_size
    assert EXTENSION in unpack(out.read_bytes())[0]["extensions"]
    before, after = _drawn([read_glb(file), read_glb(out)])
    assert np.array_equal(before, after) and before.std() > 10
    _optimised([str(out), str(out)], capsys)
    assert out.stat().st_size == found["bytes_after"], "a second time changes something"


def test_what_is_lost_is_said(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small, smaller = tmp_path / "b.glb", tmp_path / "c.glb"
    jpeg = _optimised([str(file), str(small), "--jpeg", "95"], capsys)
    assert set(jpeg["changed"]) == {"base_color"} and jpeg["changed"]["base_color"] < 40
    both = _optimised([str(small), str(smaller), "--byte-field"], capsys)
    assert set(both["changed"]) == {"neural_field.tables", "neural_field.weights"}, "a JPEG was packed a second time"
    assert file.stat().st_size > small.stat().st_size > smaller.stat().st_size
    before, after = _drawn([read_glb(file), read_glb(smaller)])
    assert 0 < np.sqrt(((before.astype(float) - after) ** 2).mean()) < 2.0
    again = _optimised([str(smaller), str(smaller)], capsys)
    assert again["lossless"] and again["bytes_after"] <= both["bytes_after"]


def test_a_file_without_the_neural_parts_is_refused(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document, body = unpack(file.read_bytes())
    del document["extensions"], document["extensionsUsed"]
    file.write_bytes(pack(document, body))
    assert main(["glb", "optimise", str(file), str(tmp_path / "b.glb")]) == 2
    assert f"has no {EXTENSION}" in capsys.readouterr().err and not (tmp_path / "b.glb").exists()
    assert main(["glb", "optimise", str(file), str(tmp_path / "b.glb"), "--jpeg", "0"]) == 2
    assert "'0' is not a whole number from 1 to 100" in capsys.readouterr().err
