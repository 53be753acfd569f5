"""The whole loop over a played runtime: the wearer's face and eyes move a head, a hand carries it, heat lowers the quality."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from avatar3d.motion.code import ARKIT_INDEX, look_angles
from avatar3d.motion.vocabulary import vocabulary
from avatar3d.runtime import ladder as ladder_module
from avatar3d.runtime.cast import Cast, Role
from avatar3d.runtime.governor import read_config
from avatar3d.runtime.pipeline import Pipeline
from avatar3d.runtime.stage import Stage
from avatar3d.xr import show as show_module
from avatar3d.xr.headset import PERFORMANCE
from avatar3d.xr.options import SessionOptions, ShowOptions
from avatar3d.xr.session import HeadsetSession
from avatar3d.xr.show import Show
from avatar3d.xr.wearer import Wearer
from tests.make_avatar import synthetic_avatar
from tests.xr.played import played_runtime

xr = pytest.importorskip("xr", reason="pyopenxr is not installed")
GAZE = "XR_EXT_eye_gaze_interaction"


def _shown(runtime, monkeypatch, frames, wearer=None, each=lambda frame: None):
    """Show a head for so many frames, calling `each` before every one; (result, motion codes, places of the scene)."""
    runtime.graphics.close, close = (lambda: None), runtime.graphics.close
    monkeypatch.setattr(show_module, "HeadsetSession", lambda options, *_: HeadsetSession(options, runtime.graphics))
    monkeypatch.setattr(ladder_module, "SENSOR_EVERY_S", 0.0)
    codes, places = [], []
    prepare, cameras = Stage.prepare, Stage.cameras

    def prepared(stage, motions, *rest):
        each(len(places))
        codes.append(motions[0])
        return prepare(stage, motions, *rest)

    def looked(stage, *rest, **named):
        places.append(stage.placement.translation.copy())
        return cameras(stage, *rest, **named)

    monkeypatch.setattr(Stage, "prepare", prepared)
    monkeypatch.setattr(Stage, "cameras", looked)
    cast = Cast([Role(synthetic_avatar(), Pipeline(wearer, silent_s=60.0), False)])  # however slow this machine is now
    options = ShowOptions(SessionOptions(face=wearer is not None), frames=frames, tuning="never", quiet=True)
    try:
        return Show(cast, replace(read_config(), settle_frames=0), options, wearer).run(), codes[-frames:], places
    finally:
        cast.close()
        runtime.graphics.close = close


def test_the_wearers_jaw_and_eyes_are_the_heads(monkeypatch):
    with played_runtime(monkeypatch, "XR_FB_face_tracking2", GAZE) as runtime:
        runtime.period_ns = 11_000_000
        runtime.face = {vocabulary("fb2").index["JAW_DROP"]: 0.5}
        runtime.eyes = [0.0, float(np.sin(0.1)), 0.0, float(np.cos(0.1))]
        result, codes, _ = _shown(runtime, monkeypatch, 80, Wearer())
    assert result["wearer_extensions"] == ["XR_FB_face_tracking2", GAZE] and result["reads_face"]
    assert result["motion"]["received"] > 10
    last = codes[-1]
    assert last.weights[ARKIT_INDEX["jawOpen"]] == pytest.approx(0.5, abs=0.05)
    np.testing.assert_allclose(last.gaze + look_angles(last.weights), [[0.2, 0.0]] * 2, atol=0.03)


def test_a_hand_that_holds_carries_the_head_until_it_lets_go(monkeypatch):
    poses = {3: (0.0, 1.4, -0.3), 4: (0.25, 1.4, -0.3), 5: (0.25, 1.6, -0.3)}
    with played_runtime(monkeypatch) as runtime:

        def move(frame):
            place = poses.get(frame)
            runtime.held = {} if place is None else {1: xr.Posef(xr.Quaternionf(0, 0, 0, 1), xr.Vector3f(*place))}

        _, _, places = _shown(runtime, monkeypatch, 9, each=move)
    np.testing.assert_allclose(places[-1] - places[0], [0.25, 0.2, 0.0], atol=1e-6)


def test_the_runtimes_notice_of_heat_lowers_the_quality(monkeypatch):
    domain, level = xr.PerfSettingsDomainEXT.GPU, xr.PerfSettingsNotificationLevelEXT
    heat = xr.PerfSettingsSubDomainEXT.THERMAL
    notice = xr.EventDataPerfSettingsEXT(domain=domain, sub_domain=heat, from_level=level.NORMAL, to_level=level.IMPAIRED)
    with played_runtime(monkeypatch, PERFORMANCE) as runtime:

        def warm(frame):
            if frame == 4:
                runtime.events.append(notice)

        result, _, _ = _shown(runtime, monkeypatch, 12, each=warm)
    assert [(change["target"], change["cause"]) for change in result["trace"]] == [("reduced", "hot")]
    assert result["rungs"]["reduced"] == 6  # told during the fifth frame, heard before the sixth, which is drawn as it was
