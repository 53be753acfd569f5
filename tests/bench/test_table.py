"""The README's table of rungs: filled from what was measured, and nowhere else."""

from __future__ import annotations

import pytest

from avatar3d.bench.table import BEGIN, END, README, insert, rung_table
from avatar3d.errors import InputError, WorkError
from avatar3d.runtime.governor import read_config


def measured() -> dict[str, object]:
    row = {"rung": "baked", "width": 512, "height": 512, "eyes": 2, "cpu_over_mesh": 1.944, "over_mesh": 1.8}
    machine = {"renderer": {"renderer": "llvmpipe"}, "cores": 2, "load1": 0.5}
    return {"runs": [row], "parity_psnr_db": {"baked": 61.24}, "fidelity_psnr_db": {"baked": None}, "machine": machine}


def test_a_row_holds_ratios_and_decibels() -> None:
    last = rung_table(measured(), read_config().rungs).splitlines()[-1]
    assert last == "| baked | baked, 3, half | 1.94 | 1.80 | 61.2 | not measured |"


def test_what_was_not_measured_is_refused() -> None:
    with pytest.raises(InputError, match="no rung was measured"):
        rung_table({**measured(), "runs": []}, {})


def test_only_the_marked_place_changes() -> None:
    text = insert(f"a\n{BEGIN}\nold\n{END}\nb\n", "new")
    assert text == f"a\n{BEGIN}\nnew\n{END}\nb\n"
    assert insert(text, "new") == text
    with pytest.raises(WorkError):
        insert("a", "new")


def test_the_readme_has_the_place() -> None:
    assert BEGIN in README.read_text(encoding="utf-8")
