"""The arguments of `avatar3d xr`: which source moves which head."""

from __future__ import annotations

import pytest

from avatar3d.cli import xr as command
from avatar3d.cli.options import parse
from avatar3d.glb import write_glb
from avatar3d.runtime import cast as cast_module
from avatar3d.xr import openxr
from tests.make_avatar import synthetic_avatar


class _Opened(Exception):
    """What open_cast was asked for."""


@pytest.mark.parametrize(
    ("given", "motions"),
    [
        ([], []),
        (["--listen", "9310"], ["net:9310"]),
        (["--listen", "ws:1.2.3.4:80", "--motion", "idle", "--listen", "9311"], ["idle", "net:ws:1.2.3.4:80", "net:9311"]),
    ],
)
def test_listening_is_a_source_after_the_others(monkeypatch, tmp_path, given, motions):
    write_glb(synthetic_avatar(), tmp_path / "head.glb")

    def opened(avatars, asked, *_):
        raise _Opened(asked)

    monkeypatch.setattr(cast_module, "open_cast", opened)
    monkeypatch.setattr(openxr, "load", lambda: None)
    with pytest.raises(_Opened) as caught:
        command.run(parse(command.Xr, [str(tmp_path / "head.glb"), *given]), True)
    assert caught.value.args[0] == motions
