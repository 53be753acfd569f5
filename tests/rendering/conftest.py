"""Fixtures of the renderer tests: one avatar, both renderers, some views."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera, stereo_pair
from avatar3d.errors import WorkError
from avatar3d.field import FieldConfig, new_field
from avatar3d.field.bake import bake
from avatar3d.field.definition import box_of
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.opengl.context import create_context
from avatar3d.rendering.opengl.layers import LayeredTarget, offered
from avatar3d.rendering.opengl.renderer import RealtimeRenderer
from avatar3d.rendering.reference.renderer import ReferenceRenderer
from tests.make_avatar import synthetic_avatar

LAYER_WIDTH, LAYER_HEIGHT = 160, 128
GL_RGBA16F = 0x881A


@pytest.fixture(scope="session")
def avatar() -> Avatar:
    return synthetic_avatar()


@pytest.fixture(scope="session")
def smooth(avatar: Avatar) -> Avatar:
    """With a field that varies slowly, as a trained one does, and its own bake."""
    low, high = box_of(avatar)
    config = FieldConfig(levels=2, coarsest=4, finest=8, table_scale=0.5, output_scale=0.1)
    changed = replace(avatar, neural_field=new_field(0, config, low, high))
    return replace(changed, baked=bake(changed))


@pytest.fixture(scope="session")
def reference() -> ReferenceRenderer:
    return ReferenceRenderer()


@pytest.fixture(scope="session")
def realtime() -> Iterator[RealtimeRenderer]:
    renderer = RealtimeRenderer()
    try:
        _ = renderer.context
    except WorkError as error:
        pytest.skip(str(error))
    yield renderer
    renderer.close()


@pytest.fixture(scope="module")
def drawer(avatar: Avatar) -> Iterator[RealtimeRenderer]:
    """A renderer in a context that stays current, so that tests may read framebuffers of their own."""
    try:
        context = create_context()
    except WorkError as error:
        pytest.skip(str(error))
    with context:
        renderer = RealtimeRenderer(context)
        renderer.load(avatar)
        yield renderer
        renderer.close()
    context.release()


@pytest.fixture(scope="module")
def layers(drawer: RealtimeRenderer) -> Iterator[LayeredTarget]:
    """Half floats for the eyes of `drawer`."""
    if "layers" not in offered(drawer.context):
        pytest.skip("this driver writes no layer from a vertex shader")
    target = LayeredTarget(drawer.context, LAYER_WIDTH, LAYER_HEIGHT, GL_RGBA16F)
    yield target
    target.release()


@pytest.fixture(scope="session")
def moved() -> MotionCode:
    """Expression, gaze and pose all away from neutral."""
    code = MotionCode.from_expression({"jawOpen": 0.6, "mouthSmileLeft": 0.8, "mouthSmileRight": 0.7, "eyeLookUpLeft": 0.4})
    return replace(
        code,
        rotation=np.array([0.1, 0.15, 0.05, 0.98]),
        translation=np.array([0.01, 0.02, -0.01]),
        gaze=np.array([[0.2, 0.1], [0.15, 0.1]]),
    )


def view(yaw_rad: float, pitch_rad: float = 0.0, width: int = 192, height: int = 192) -> Camera:
    """A camera that holds the whole synthetic avatar."""
    return Camera.orbit(yaw_rad, pitch_rad, width=width, height=height, view_height_m=0.42, target=(0.0, -0.06, -0.08))


def six_views() -> list[Camera]:
    """Front, both sides, back, above, and an eye camera of a headset (asymmetric frustum)."""
    return [
        view(0.0),
        view(0.7, 0.3),
        view(-1.5, -0.3, 230, 170),
        view(3.0, 0.2),
        view(0.2, 1.2, 151, 143),
        stereo_pair(view(0.1), inward_tangent=0.12)[1],
    ]
