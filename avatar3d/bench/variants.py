"""What every way to draw costs, and how near its picture is to the default's: one choice of `DrawStrategy` changed at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from avatar3d.avatar import Avatar
from avatar3d.bench.measure import talking
from avatar3d.bench.parity import pictures_psnr_db, views
from avatar3d.choices import Form
from avatar3d.errors import Avatar3dError
from avatar3d.rendering.frame import RenderOptions
from avatar3d.rendering.opengl.autotune import Trial, alternatives, contenders
from avatar3d.rendering.opengl.draw_strategy import DrawStrategy
from avatar3d.rendering.opengl.renderer import RealtimeRenderer

VIEWS, MOTION = 3, 7  # cameras, and the frame of `talking`, of the pictures that are compared


def variants(
    context: Any, avatar: Avatar, sizes: Sequence[tuple[int, int]], seconds: float, say: Callable[[str], None]
) -> dict[str, Any]:
    """{choice: {value: {"psnr_db": against the default's picture, "ms": {size: median of a frame of both eyes}, "error": why none}}}.

    The whole avatar is drawn, in the form of the field in which the choice counts most. seconds: for each choice and size, and
    as long as compiling takes. The context must be current.
    """
    found: dict[str, Any] = {}
    renderer = RealtimeRenderer(context)
    try:
        for name, form, values in contenders(context, avatar):
            strategies = alternatives(DrawStrategy(), name, values)
            say(name)
            found[name] = {
                value: {"form": form, **_likeness(renderer, avatar, strategy, form), "ms": {}}
                for value, strategy in strategies.items()
            }
            for width, height in sizes:
                trial = Trial(context, renderer, avatar, width, height, 2)
                try:
                    default = strategies[getattr(DrawStrategy(), name)]
                    times = trial.compare(list(strategies.values()), default, form, seconds, math.inf)
                finally:
                    trial.close()
                for value, strategy in strategies.items():
                    found[name][value]["ms"][f"{width}x{height}"] = times[strategy]
    finally:
        renderer.close()
    return found


def _likeness(renderer: RealtimeRenderer, avatar: Avatar, strategy: DrawStrategy, form: Form) -> dict[str, Any]:
    """{"psnr_db"} of a strategy's pictures against the default's, or {"error"}."""
    import moderngl

    cameras, motion, options = views(VIEWS), talking()[MOTION], RenderOptions(form, antialias=True)
    try:
        pictures = []
        for each in (DrawStrategy(), strategy):
            renderer.strategy = each
            pictures.append(renderer.render(avatar, motion, cameras, options))
    except (moderngl.Error, Avatar3dError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"psnr_db": pictures_psnr_db(*pictures)}
