"""The numbered examples run as their first lines say, and do what they claim."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image
from samples import sample

import avatar3d
from avatar3d.motion.code import head_angles

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def out(tmp_path_factory, preview) -> Path:
    """A folder that holds me.glb, as the first example leaves it."""
    folder = tmp_path_factory.mktemp("examples")
    avatar3d.save(preview, folder / "me.glb")
    return folder


def run(name: str, out: Path, *more: object) -> str:
    """What an example prints."""
    (script,) = EXAMPLES.glob(f"{name}_*.py")
    words = [sys.executable, script, sample("astronaut.png"), out, *more]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def pictures_of(film: Path) -> np.ndarray:
    """(N, H, W, 3) frames of a film."""
    reader, frames = cv2.VideoCapture(str(film)), []
    while (read := reader.read())[0]:
        frames.append(read[1])
    return np.array(frames)


def test_each_example_says_what_it_shows_and_how_to_run_it():
    scripts = sorted(EXAMPLES.glob("*.py"))
    assert [script.name[:2] for script in scripts] == [f"{number:02d}" for number in range(1, len(scripts) + 1)]
    for script in scripts:
        text = script.read_text(encoding="utf-8")
        assert text.startswith('"""') and f"    python examples/{script.name} photo.jpg out/" in text.split('"""')[1]


def test_01_enrols_and_saves(tmp_path, preview):
    assert run("01", tmp_path, "--no-field") == "the avatar is good\n"
    np.testing.assert_allclose(avatar3d.load(tmp_path / "me.glb").vertices, preview.vertices, atol=1e-6)


def test_02_draws_a_stereo_pair(out):
    run("02", out)
    pair = np.asarray(Image.open(out / "pair.png"))
    assert pair.shape == (512, 1024, 3) and (pair[:, :512] != pair[:, 512:]).any()
    assert Image.open(out / "anaglyph.png").size == (512, 512)


def test_03_drives_the_head_from_a_recording(out):
    assert run("03", out).startswith("30 frames")
    frames = pictures_of(out / "talk.mp4")
    assert len(frames) == 30 and np.abs(frames[0].astype(int) - frames[7]).max() > 60
    (out / "again.csv").write_bytes((out / "talk.csv").read_bytes())
    assert run("03", out, out / "again.csv").startswith("30 frames")


def test_04_nods(out):
    run("04", out)
    assert len(pictures_of(out / "nod.mp4")) == 60
    names = runpy.run_path(str(next(EXAMPLES.glob("04_*.py"))))
    with names["open_nod"](names["Spec"].parse("nod:5")) as source:
        angles = np.degrees([head_angles(source.read().rotation) for _ in range(8)])
    assert np.ptp(angles[:, 1]) > 10 and np.abs(angles[:, [0, 2]]).max() < 1e-6


def redder(avatar: avatar3d.Avatar, than: avatar3d.Avatar) -> float:
    """Share of the base colour's texels that lost green against red."""
    change = avatar.base_color.astype(int) - than.base_color
    return float((change[..., 0] - change[..., 1] > 10).mean())


def test_05_reddens_the_cheeks_and_nothing_else(out, preview):
    run("05", out)  # enrolling with it: tests/test_wheel.py
    assert Image.open(out / "rouge.png").size == (1536, 1024)
    painted = avatar3d.load(out / "rouge.glb")
    assert 0.005 < redder(painted, preview) < 0.1
    assert (painted.base_color == preview.base_color).all(-1).mean() > 0.9
    assert np.array_equal(painted.hair.color, preview.hair.color)


def test_06_tells_a_blurred_eye(out):
    alike, blurred = map(float, re.findall(r"\d\.\d\d", run("06", out)))
    assert 0.9 < alike < 1.1 < 1.3 < blurred
