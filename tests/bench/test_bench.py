"""`avatar3d bench`: the keys that --json promises, the control, the growth series, and wrong arguments."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from avatar3d.bench.growth import growth
from avatar3d.bench.measure import CONTROL, Case, Stand, eye_cameras, stage_shares, talking, time_cases
from avatar3d.cli.bench import Bench
from avatar3d.cli.bench import run as run_bench
from avatar3d.cli.options import parse
from avatar3d.errors import InputError
from avatar3d.glb import write_glb
from avatar3d.rendering.frame import RenderOptions
from tests.make_avatar import synthetic_avatar

RUNGS = ("live", "baked", "reduced", "blendshape")


pytestmark = pytest.mark.usefixtures("context")


def run(*words: str) -> tuple[dict[str, object], list[str]]:
    return run_bench(parse(Bench, [*words, "--no-tune"]), True)


@pytest.fixture(scope="module")
def glb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "head.glb"
    write_glb(synthetic_avatar(), path)
    return path


def test_the_promised_keys_are_there(glb: Path, tmp_path: Path) -> None:
    peers = tmp_path / "peers.json"
    peers.write_text(json.dumps({"peers": {"vtk": {"ms": 9.0, "ratio": 0.5}}, "nerfstudio": {"forward_cpu_ms": 1e6}}))
    result, lines = run(str(glb), "--quick", "--seconds", "0.05", "--peers", str(peers), "-o", str(tmp_path / "out"))
    assert {(row["rung"], row["eyes"]) for row in result["runs"]} == {(rung, eyes) for rung in RUNGS for eyes in (1, 2)}  # type: ignore[attr-defined]
    for row in result["runs"]:  # type: ignore[attr-defined]
        assert 0 < row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"] <= row["max_ms"]
        assert (row["width"], row["height"]) == (512, 512)
        layered = row["eyes"] == 2 and result["drawing"]["512x512"]["strategy"]["stereo"] == "layers"  # type: ignore[index]
        assert row["drawn"] == ("layers" if layered else "passes")
    assert result["baked_over_mesh"] > 0 and result["live_over_mesh"] > 0  # type: ignore[operator]
    assert set(result["parity_psnr_db"]) == set(RUNGS)  # type: ignore[call-overload]
    assert min(result["parity_psnr_db"][rung] for rung in ("live", "baked")) >= 50  # type: ignore[index]
    assert result["field_speedup_over_nerfstudio"] > 1  # type: ignore[operator]
    assert result["peers"] == {"vtk": {"ms": 9.0, "ratio": 0.5}}
    assert result["machine"]["cores"]  # type: ignore[index]
    ways = result["stereo"]
    assert ways["passes"]["over_passes"] == 1 and ways["sides"]["cpu_ms"] > 0  # type: ignore[index]
    assert [row["rung"] for row in result["foveation"]] == ["live", "baked"]  # type: ignore[attr-defined]
    for row in result["foveation"]:  # type: ignore[attr-defined]
        assert (row["width"], row["height"], row["eyes"]) == (512, 512, 2) and 0 < row["p50_ms"] <= row["p95_ms"]
        assert row["psnr_inset_db"] > 60 > row["psnr_whole_db"] > 20
    assert json.loads((tmp_path / "out" / "bench.json").read_text()) == json.loads(json.dumps(result))
    assert any(CONTROL in line for line in lines)


def test_what_was_not_measured_is_said(glb: Path) -> None:
    result, _ = run(str(glb), "--quick", "--seconds", "0.05", "--no-parity")
    assert result["field_speedup_over_nerfstudio"] is None
    assert "tools/bench_peers" in result["peers"]["missing"]  # type: ignore[index]
    assert result["parity_psnr_db"] == dict.fromkeys(RUNGS)
    assert result["parity_missing"] == "left out with --no-parity"


def test_wrong_arguments_are_refused(glb: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--seconds: '0' is not a number from 0.05 to 600"):
        run(str(glb), "--seconds", "0")
    broken = tmp_path / "peers.json"
    broken.write_text("[]")
    with pytest.raises(InputError, match="is not what tools/bench_peers writes"):
        run(str(glb), "--peers", str(broken))
    with pytest.raises(InputError, match=r"cannot write into .*peers\.json"):
        run(str(glb), "-o", str(broken))


def test_the_control_draws_the_head_of_the_renderer() -> None:
    avatar = synthetic_avatar()
    stand = Stand(avatar, [RenderOptions("mesh", hair_levels=1)])
    try:
        pictures = []
        for options in (None, RenderOptions("mesh", hair_levels=1)):
            stand.frame(Case("", options, 128, 128, 2), 5)
            pixels = np.frombuffer(stand.framebuffer(256, 128).read(components=3), np.uint8)
            pictures.append(pixels.reshape(128, 256, 3).max(-1) > 0)
        assert pictures[0].mean() > 0.1
        assert (pictures[0] != pictures[1]).mean() < 0.03  # the control does not cut the hair's rim
    finally:
        stand.close()


def test_shares_sum_to_one_and_growth_is_positive() -> None:
    stand = Stand(synthetic_avatar(), [RenderOptions("baked")])
    try:
        shares = stage_shares(stand, Case("baked", RenderOptions("baked"), 64, 64, 1), frames=2)
        assert set(shares) == {"pose", "head", "hair base", "hair levels"}
        assert sum(shares.values()) == pytest.approx(1, abs=1e-3)
        series = growth(stand, 0.01)
        assert set(series) == {"hair_levels", "side_px", "heads"}
        assert all(min(entry["cpu_ms"]) > 0 for entry in series.values())
        case = Case(CONTROL, None, 64, 64, 2)
        timing = time_cases(stand, [case], 0.01)[case]
        assert len(timing.wall_ms) == len(timing.cpu_ms) >= 12
    finally:
        stand.close()


def test_the_motion_repeats_without_a_jump() -> None:
    codes = talking(60)
    weights = np.array([code.weights for code in codes])
    weights[:, [0, 7]] = 0  # blinks are quick
    steps = np.abs(np.diff(np.concatenate([weights, weights[:1]]), axis=0)).max(1)
    assert steps.max() < 0.15
    assert (weights.max(0) > 0).sum() >= 6


def test_eyes_are_a_pair() -> None:
    left, right = eye_cameras(64, 64, 2)
    assert np.linalg.norm(left.center - right.center) == pytest.approx(0.063, abs=1e-6)
    assert len(eye_cameras(64, 64, 1)) == 1
