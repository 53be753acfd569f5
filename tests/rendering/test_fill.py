"""When areas of a framebuffer can be cleared at once."""

from __future__ import annotations

from types import SimpleNamespace

from avatar3d.rendering.opengl.viewports import fill


def test_areas_that_fill_a_framebuffer_side_by_side() -> None:
    framebuffer, other = (SimpleNamespace(size=(20, 10)) for _ in range(2))
    halves = [(10, 0, 10, 10), (0, 0, 10, 10)]
    assert fill([framebuffer] * 2, halves)
    assert fill([framebuffer], [(0, 0, 20, 10)])
    assert not fill([framebuffer, other], halves)
    assert not fill([framebuffer] * 2, [(0, 0, 9, 10), (10, 0, 10, 10)])
    assert not fill([framebuffer] * 2, [(0, 0, 10, 10), (0, 0, 10, 10)])
    assert not fill([framebuffer] * 2, [(0, 0, 10, 5), (10, 0, 10, 10)])
    assert not fill([framebuffer] * 2, [(0, 0, 15, 10), (10, 0, 10, 10)])
