"""The 8-bit precision draws from the field's tables and weights as 8 bits hold them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from avatar3d.avatar import Avatar
from avatar3d.color import psnr_db
from avatar3d.field.int8 import in_bytes
from avatar3d.motion.code import MotionCode
from avatar3d.rendering import RenderOptions
from avatar3d.rendering.frame import Form
from avatar3d.rendering.opengl.renderer import RealtimeRenderer
from tests.rendering.conftest import view


@pytest.mark.parametrize("form", ["live", "baked"])
def test_a_field_in_8_bits_is_drawn(realtime: RealtimeRenderer, smooth: Avatar, moved: MotionCode, form: Form) -> None:
    assert smooth.neural_field is not None
    held = replace(smooth, neural_field=in_bytes(smooth.neural_field))
    byte, half = RenderOptions(form, precision="byte"), RenderOptions(form)

    def drawn(avatar: Avatar, options: RenderOptions) -> np.ndarray:
        return realtime.render(avatar, moved, [view(0.4, 0.1, 96, 96)], options)[0].rgba

    np.testing.assert_array_equal(drawn(smooth, byte), drawn(held, byte))
    if form == "live":
        whole, coarse = drawn(smooth, half), drawn(held, half)
        assert 40 < psnr_db(float(np.square(whole - coarse).mean())) < 90
