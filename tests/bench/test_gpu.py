"""What tools/bench_gpu writes: every stage's result or reason, kept after each; and every way to draw beside the default."""

from __future__ import annotations

import copy

import moderngl
import pytest

from avatar3d.bench import gpu
from avatar3d.bench.variants import variants
from avatar3d.errors import WorkError
from avatar3d.rendering.opengl.context import create_context
from avatar3d.rendering.opengl.draw_strategy import VALUES
from tests.make_avatar import synthetic_avatar


def test_a_stage_that_fails_leaves_the_others_their_turn() -> None:
    def fail() -> dict[str, object]:
        raise moderngl.Error("the driver says no")

    kept: list[dict[str, object]] = []
    found: dict[str, object] = {"gpu": "a card"}
    gpu.run_stages({"one": fail, "two": lambda: {"ms": 3.0}}, found, lambda each: kept.append(copy.deepcopy(each)))
    assert list(kept[0]) == ["gpu", "one"] and list(kept[1]) == ["gpu", "one", "two"]
    assert found["one"]["error"] == "Error: the driver says no"  # type: ignore[index]
    assert found["two"]["ms"] == 3.0  # type: ignore[index]


def test_every_way_is_timed_and_compared() -> None:
    try:
        context = create_context()
    except WorkError as error:
        pytest.skip(str(error))
    with context:
        found = variants(context, synthetic_avatar(), [(64, 64)], 0.01, lambda name: None)
    context.release()
    assert {"morph", "shading", "colors", "numbers"} <= found.keys() <= VALUES.keys()
    for rows in found.values():
        assert len(rows) >= 2
        for row in rows.values():
            assert row["psnr_db"] >= 50
            assert row["ms"]["64x64"] is None or row["ms"]["64x64"] > 0
