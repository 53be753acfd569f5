"""--tune and --no-tune: on every command that draws at display rate, and not both."""

from __future__ import annotations

import pytest

from avatar3d.cli import build_parser


@pytest.mark.parametrize("command", ["bench", "view", "xr"])
@pytest.mark.parametrize(("words", "mode"), [([], "cached"), (["--tune"], "again"), (["--no-tune"], "never")])
def test_how_to_draw_is_measured_once_anew_or_never(command: str, words: list[str], mode: str) -> None:
    assert build_parser().parse_args([command, "me.glb", *words]).tuning == mode


@pytest.mark.parametrize("command", ["bench", "view", "xr"])
def test_both_flags_at_once_are_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        build_parser().parse_args([command, "me.glb", "--tune", "--no-tune"])
    assert refused.value.code == 2
    assert "--no-tune" in capsys.readouterr().err
