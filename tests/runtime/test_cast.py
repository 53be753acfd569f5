"""The cast: who is moved by what, mirrored heads, and what is told of silent sources."""

from __future__ import annotations

import time

import numpy as np
import pytest

from avatar3d.errors import InputError, WorkError
from avatar3d.head.rig import gaze_angles
from avatar3d.motion.code import ARKIT_INDEX, MotionCode
from avatar3d.runtime import pipeline as pipeline_module
from avatar3d.runtime.cast import open_cast
from avatar3d.runtime.gaze import contact_angles
from tests.make_avatar import synthetic_avatar

WINK = ARKIT_INDEX["eyeBlinkLeft"], ARKIT_INDEX["eyeBlinkRight"]


class Steady:
    """A source that winks with the left eye for ever; `late_s` old."""

    live, ended = True, False

    def __init__(self, late_s=0.0):
        self.closed, self._late_ns = False, round(late_s * 1e9)

    def read(self, timeout_s=1.0):
        time.sleep(0.005)
        return MotionCode(weights=np.eye(52)[WINK[0]], time_ns=time.monotonic_ns() - self._late_ns)

    def close(self):
        self.closed = True


@pytest.fixture(scope="module")
def avatar():
    return synthetic_avatar()


def _until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _winks(cast, head, eye):
    """Waits for a head's wink; idle motion, which the head shows until its source speaks, blinks with both eyes."""

    def winking():
        weights = cast.roles[head].motion(time.monotonic_ns(), None)[0].weights
        return weights[eye] > 0.9 and weights[[other for other in WINK if other != eye]].max() < 0.1

    _until(winking)


def test_each_head_has_its_source_and_the_rest_idle_each_in_its_own_time(avatar):
    opened = []

    def opener(spec):
        opened.append(spec)
        return Steady()

    cast = open_cast([avatar] * 3, ["idle", "talk"], 0.3, opener=opener)
    assert opened == ["talk"]
    _winks(cast, 1, WINK[0])
    first, _, third = (role.motion(time.monotonic_ns(), None)[0] for role in cast.roles)
    assert not np.array_equal(first.rotation, third.rotation)
    assert cast.received > 0 and cast.notice(time.monotonic_ns()) is None
    cast.close()


def test_a_mirrored_head_winks_with_the_other_eye(avatar):
    cast = open_cast([avatar], ["talk"], 0.3, mirror=True, opener=lambda spec: Steady())
    _winks(cast, 0, WINK[1])
    cast.close()


def test_eye_contact_follows_a_viewer_who_walks(avatar):
    cast = open_cast([avatar], [], 0.3, eye_contact=True)
    for step in range(80):
        viewer = np.array([0.2 * np.sin(step / 40), 0.05, 0.8])
        motion, captured_ns = cast.roles[0].motion(step * 11_000_000, viewer)
    wanted = contact_angles(motion, avatar.joints, viewer)
    assert captured_ns is None
    # A saccade's width of its own, and the way of some milliseconds behind.
    assert np.abs(gaze_angles(motion) - wanted).max() < 0.06
    cast.close()


def test_the_longest_silence_is_told(avatar):
    cast = open_cast([avatar, avatar], ["a", "b"], 0.3, opener=lambda spec: Steady(8.0 if spec == "b" else 0.0))
    _until(lambda: cast.roles[0].pipeline.received > 2 and cast.roles[1].pipeline.received > 2)
    _until(lambda: 7.9 < cast.source_age_s(time.monotonic_ns()) < 9)
    assert "the head idles" in cast.notice(time.monotonic_ns())
    cast.close()


def test_what_was_opened_is_closed_when_the_next_source_fails(avatar):
    sources = [Steady()]

    def opener(spec):
        if spec == "bad":
            raise InputError("no such source")
        return sources[0]

    with pytest.raises(InputError, match="no such source"):
        open_cast([avatar, avatar], ["good", "bad"], 0.3, opener=opener)
    assert sources[0].closed
    with pytest.raises(InputError, match="2 motion sources were given for 1"):
        open_cast([avatar], ["a", "b"], 0.3, opener=opener)


def test_a_source_that_fails_in_mid_show_is_opened_again_by_its_name(avatar, monkeypatch):
    monkeypatch.setattr(pipeline_module, "RETRY_S", 0.0)
    opened = []

    class Unplugged(Steady):
        def read(self, timeout_s=1.0):
            raise WorkError("camera 3 gives no more frames")

    def opener(spec):
        opened.append(spec)
        return Unplugged() if len(opened) == 1 else Steady()

    cast = open_cast([avatar], ["camera:3"], 0.3, opener=opener)
    _winks(cast, 0, WINK[0])
    told = cast.motion_figures()
    assert opened == ["camera:3"] * 2 and cast.notice(time.monotonic_ns()) is None
    assert (told["failures"], told["reopened"], told["problem"]) == (1, 1, None) and told["received"] > 0
    cast.close()
