"""The renderers: `reference` (torch over a compiled rasteriser, differentiable) and `realtime` (OpenGL), same interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.errors import InputError
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.frame import Frame, RenderOptions

RENDERER_NAMES = ("realtime", "reference")


class Renderer(Protocol):
    """Draws an avatar at a motion code for some cameras; `close` frees what it holds."""

    @property
    def name(self) -> str:
        """One of RENDERER_NAMES."""
        ...

    @property
    def info(self) -> dict[str, str]:
        """vendor, renderer, version: what draws."""
        ...

    def render(
        self, avatar: Avatar, motion: MotionCode, cameras: Sequence[Camera], options: RenderOptions | None = None
    ) -> list[Frame]:
        """A frame for each camera, of its size, of one scene.

        motion: in the avatar's world, in which the cameras stand as well: the head frame, as long as the motion code neither turns
        nor moves the head. options: RenderOptions() by default. Raises InputError where a picture is larger than the driver draws,
        WorkError where this machine lacks what it needs.
        """
        ...

    def close(self) -> None:
        """Free what it holds; it is not used again."""
        ...


def make_renderer(name: str = "realtime", keep: int = 1) -> Renderer:
    """A renderer by name; raises InputError on an unknown name, WorkError where this machine lacks what it needs.

    keep: avatars that a renderer with a GPU keeps loaded, for a caller that draws several in turn.
    """
    if name == "realtime":
        from avatar3d.rendering.opengl.renderer import RealtimeRenderer

        return RealtimeRenderer(keep=keep)
    if name == "reference":
        from avatar3d.rendering.reference.renderer import ReferenceRenderer

        return ReferenceRenderer()
    raise InputError(f"unknown renderer {name!r}; expected one of {', '.join(RENDERER_NAMES)}")


__all__ = ["RENDERER_NAMES", "Frame", "RenderOptions", "Renderer", "make_renderer"]
