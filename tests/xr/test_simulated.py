"""The whole path on a simulated headset (Monado under tools/headset): pictures, counts, an outage; no runtime at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from net.test_links import free_port
from PIL import Image

from avatar3d.camera import Camera
from avatar3d.color import linear_to_srgb, psnr_db
from avatar3d.glb import read_glb, write_glb
from avatar3d.motion.code import MotionCode
from avatar3d.motion.csv import write_motion_csv
from avatar3d.rendering.frame import RenderOptions
from avatar3d.rendering.scene import MIN_ALPHA
from avatar3d.resources import config_path
from tests.make_avatar import synthetic_avatar

pytest.importorskip("xr", reason="pyopenxr is not installed")
ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "avatar3d.cli", "xr", "--json", "--no-tune")
TIMEOUT_S = 600
MIN_PSNR_DB = 50.0
FAINTEST_SRGB8 = np.ceil(linear_to_srgb(np.float32(MIN_ALPHA)) * 255)  # what the faintest fragment leaves of white over black
# Seconds after which something happens to the runtime and frames to show (at 20 Hz): the first that falls into the show counts,
# for on a busy machine the show begins late.
MOMENTS = ((6, 150), (20, 600), (60, 1500))


@pytest.fixture(scope="module")
def headset():
    """The tool, set up; skips where this machine cannot have it."""
    done = subprocess.run([sys.executable, ROOT / "tools/headset", "--setup"], capture_output=True, text=True, timeout=1800)
    if done.returncode != 0:
        pytest.skip(f"no simulated headset here: {done.stderr.strip()}")
    return ROOT / "tools" / "headset"


@pytest.fixture(scope="module")
def avatar_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("avatar") / "synthetic.glb"
    write_glb(synthetic_avatar(), path)
    return path


def _show(headset, *arguments, options=("--null",)):
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    return subprocess.run(
        [sys.executable, headset, *map(str, options), "--", *COMMAND, *map(str, arguments)],
        capture_output=True, text=True, timeout=TIMEOUT_S, env=environment,
    )  # fmt: skip


def _result(done):
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def _psnr_db(a: np.ndarray, b: np.ndarray) -> float:
    return psnr_db(float(np.mean((a.astype(np.float64) - b) ** 2)) / 255**2)


@pytest.mark.slow
@pytest.mark.parametrize(("rung", "stereo", "scale"), [("baked", "layers", 1), ("live", "passes", 1), ("baked", "layers", 0.7)])
def test_both_eyes_of_a_still_headset_are_what_the_reference_draws(headset, avatar_file, tmp_path, rung, stereo, scale):
    from avatar3d.rendering import make_renderer

    # The reference has no softened outline: leave it out.
    settings = yaml.safe_load(config_path("governor.yaml").read_text(encoding="utf-8"))
    settings["rungs"][rung]["antialias"] = False
    (tmp_path / "plain.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    done = _show(
        headset, avatar_file, "--frames", 110, "--rung", rung, "--distance", 0.35, "--keep-views", tmp_path,
        "--governor", tmp_path / "plain.yaml", "--stereo", stereo, "--scale", scale,
    )  # fmt: skip
    result = _result(done)
    # Monado offers arrays, depth, and a mask of its own invention.
    assert result["arrays"] and result["depth_layer"] and result["visibility_mask"] and not result["space_warp"]
    assert result["layered"] == (stereo == "layers")
    assert result["frames"] == 110 and result["rendered"] >= 105
    assert result["rungs"][rung] == result["rendered"] == result["scales"][rung][f"{scale:g}"]
    assert result["viewer_ipd_mm"] == pytest.approx(63.0, abs=0.01)
    assert result["head_latency_ms_p95"] > 0 and result["expression_latency_ms_p95"] is None
    facts = json.loads((tmp_path / "views.json").read_text(encoding="utf-8"))
    cameras = [Camera.from_json(value) for value in facts["cameras"]]
    assert [camera.name for camera in cameras] == ["left", "right"]
    # Each eye has its own view of one head.
    assert np.linalg.norm(cameras[0].center - cameras[1].center) == pytest.approx(0.063, abs=1e-4)
    options = RenderOptions(form=facts["form"], hair_levels=facts["hair_levels"])
    # Without a source the head idles: what it did is told with the pictures.
    told = facts["motion"]
    weights = MotionCode.from_expression(told["weights"]).weights
    motion = MotionCode(weights, told["rotation"], told["translation"], told["gaze"])
    assert np.linalg.norm(motion.translation) < 0.01
    expected = make_renderer("reference").render(read_glb(avatar_file), motion, cameras, options)
    for camera, frame in zip(cameras, expected, strict=True):
        with Image.open(tmp_path / f"{camera.name}.png") as picture:
            drawn = np.asarray(picture.convert("RGB"))
        covered = frame.rgba[..., 3] > 0
        assert covered.sum() > 400 * scale**2
        assert _psnr_db(drawn[covered], frame.to_srgb8((0, 0, 0))[covered]) >= MIN_PSNR_DB
        # Outside, nothing: a fragment at the limit of being left out may fall on either side of it, by the last bit of its opacity.
        assert drawn[~covered].max(initial=0) <= FAINTEST_SRGB8


@pytest.mark.slow
def test_a_moving_head_tells_both_latencies_and_its_rungs(headset, avatar_file, tmp_path):
    codes = [MotionCode(time_ns=index * 33_000_000) for index in range(30)]
    write_motion_csv(tmp_path / "talk.csv", codes)
    result = _result(
        _show(headset, avatar_file, "--frames", 60, "--motion", f"csv:{tmp_path / 'talk.csv'}", "--foveation", "fixed")
    )
    assert result["foveation"] == "fixed"
    assert sum(result["rungs"].values()) == result["rendered"] > 50
    assert result["motion"]["received"] > 30
    # The expression is captured before the head is located, and both before the frame is shown.
    assert result["expression_latency_ms_p50"] > result["head_latency_ms_p50"] > 0


@pytest.mark.slow
def test_the_wearer_moves_two_heads_after_consent(headset, avatar_file, monkeypatch, tmp_path):
    monkeypatch.setenv("AVATAR3D_HOME", str(tmp_path))
    asked = (avatar_file, avatar_file, "--motion", "headset", "--mirror", "--look-at-viewer", "--overlay", "--frames", 60)
    refused = _show(headset, *asked, options=("--null", "--wobble"))
    assert refused.returncode == 2 and "--consent yes" in refused.stderr
    result = _result(_show(headset, *asked, "--consent", "yes", options=("--null", "--wobble")))
    assert result["heads"] == 2 and result["rendered"] > 50
    assert result["motion"]["received"] > 30
    # Monado offers no face tracking: the head follows, the face idles.
    assert result["reads_face"] is False


@pytest.mark.slow
def test_the_viewer_may_recenter_the_room(headset, avatar_file):
    for after_s, frames in MOMENTS:
        result = _result(_show(headset, avatar_file, "--frames", frames, options=("--null", "--wobble", "--recenter", after_s)))
        assert result["frames"] == frames
        if result["recentered"]:
            break
    assert result["recentered"] == 1


@pytest.mark.slow
def test_a_remote_head_moves_as_its_stream_tells(headset, avatar_file, tmp_path):
    codes = [MotionCode(time_ns=index * 33_000_000) for index in range(30)]
    write_motion_csv(tmp_path / "talk.csv", codes)
    port = free_port()
    environment = dict(os.environ, PYTHONPATH=str(ROOT), AVATAR3D_TOKEN="a secret of both ends, for this test")
    sender = subprocess.Popen(
        [sys.executable, "-m", "avatar3d.cli", "stream", f"csv:{tmp_path / 'talk.csv'}", "--to", str(port), "--quiet"],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AVATAR3D_TOKEN", environment["AVATAR3D_TOKEN"])
            result = _result(_show(headset, avatar_file, "--frames", 120, "--listen", port))
    finally:
        sender.terminate()
        sender.wait()
    assert result["motion"]["received"] > 30
    assert result["expression_latency_ms_p50"] > result["head_latency_ms_p50"]


@pytest.mark.slow
def test_a_runtime_that_dies_and_comes_back_is_joined_again(headset, avatar_file):
    for after_s, frames in MOMENTS:
        options = ("--null", "--outage", f"{after_s},2")
        result = _result(_show(headset, avatar_file, "--frames", frames, "--reconnect", 120, options=options))
        assert result["frames"] == frames
        if result["reconnects"]:
            break
    assert result["reconnects"] >= 1


@pytest.mark.slow
def test_a_runtime_that_dies_for_good_ends_in_one_sentence(headset, avatar_file):
    for after_s, _ in MOMENTS:
        options = ("--null", "--outage", f"{after_s},600")
        done = _show(headset, avatar_file, "--frames", 100_000, "--reconnect", 2, options=options)
        assert done.returncode == 1
        sentence = done.stderr.strip().splitlines()[-1]
        if "did not come back" in sentence:
            break
    assert "did not come back within 2 s" in sentence


def test_no_runtime_at_all_is_one_sentence_with_what_to_install(avatar_file, tmp_path):
    environment = dict(os.environ, PYTHONPATH=str(ROOT), XR_RUNTIME_JSON=str(tmp_path / "none.json"))
    done = subprocess.run(
        [*COMMAND, str(avatar_file), "--frames", "5"],
        capture_output=True, text=True, timeout=TIMEOUT_S, env=environment,
    )  # fmt: skip
    assert done.returncode == 1
    (sentence,) = done.stderr.strip().splitlines()
    assert "no OpenXR runtime was found" in sentence and "install" in sentence
