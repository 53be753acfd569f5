"""A whole session against a played runtime: controllers, faces and eyes through every extension, heat, and what is absent."""

from __future__ import annotations

import ctypes
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from avatar3d.camera import Camera
from avatar3d.errors import WorkError
from avatar3d.motion.code import ARKIT_INDEX, MotionCode, look_angles
from avatar3d.motion.vocabulary import vocabulary
from avatar3d.rendering.frame import RenderOptions
from avatar3d.rendering.opengl.renderer import RealtimeRenderer
from avatar3d.runtime.cast import Cast, Role
from avatar3d.runtime.governor import read_config
from avatar3d.runtime.pipeline import Pipeline
from avatar3d.runtime.views import camera_of, cropped
from avatar3d.xr import session as session_module
from avatar3d.xr import show as show_module
from avatar3d.xr.headset import DEPTH_LAYER, PERFORMANCE, SPACE_WARP, THERMAL, VISIBILITY_MASK
from avatar3d.xr.openxr import RuntimeGone
from avatar3d.xr.options import SessionOptions, ShowOptions
from avatar3d.xr.session import HeadsetSession
from avatar3d.xr.show import Show
from avatar3d.xr.timing import FrameTiming
from tests.make_avatar import synthetic_avatar
from tests.xr.played import (
    FACE_FUNCTIONS,
    GL_DEPTH_COMPONENT24,
    GL_RGBA16F,
    GL_SRGB8_ALPHA8,
    HEIGHT,
    WIDTH,
    played_runtime,
)

xr = pytest.importorskip("xr", reason="pyopenxr is not installed")
GAZE = "XR_EXT_eye_gaze_interaction"
FACES = sorted(FACE_FUNCTIONS)
VOCABULARY = {"XR_FB_face_tracking2": "fb2", "XR_HTC_facial_tracking": "htc", "XR_ANDROID_face_tracking": "android"}
JAW = {"XR_FB_face_tracking2": "JAW_DROP", "XR_HTC_facial_tracking": "LIP_JAW_OPEN", "XR_ANDROID_face_tracking": "JAW_DROP"}
UNSUPPORTED = xr.Result.ERROR_FEATURE_UNSUPPORTED.value
NOW = FrameTiming(5, 5, 1, True)


def _turn(axis: tuple[float, float, float], angle: float) -> list[float]:
    return [*(np.array(axis) * math.sin(angle / 2)), math.cos(angle / 2)]


def _opened(runtime, **options):
    return HeadsetSession(SessionOptions(**options), runtime.graphics)


def _frame(session):
    """One frame that shows nothing; returns its timing."""
    session.poll()
    timing = session.wait_frame()
    session.begin_frame()
    session.end_frame(timing, None)
    return timing


@pytest.mark.parametrize("extension", FACES)
def test_a_face_is_read_through_its_extension(monkeypatch, extension):
    with played_runtime(monkeypatch, extension) as runtime, _opened(runtime, face=True) as session:
        assert extension in runtime.enabled
        assert session.reads_face and session.wearer_extensions == [extension]
        timing = _frame(session)
        runtime.face = {vocabulary(VOCABULARY[extension]).index[JAW[extension]]: 0.5}
        code = session.face(timing)
        assert code.weights[ARKIT_INDEX["jawOpen"]] == 0.5 and code.weights.sum() == 0.5
        assert code.confidence[2] == 1 and code.confidence[4] == 0
        runtime.face_seen = False
        assert session.face(_frame(session)) is None
    assert runtime.calls.count(FACE_FUNCTIONS[extension][2]) == (2 if "HTC" in extension else 1)


@pytest.mark.parametrize("extension", FACES)
def test_a_face_takes_the_gaze_of_the_eyes(monkeypatch, extension):
    with played_runtime(monkeypatch, extension, GAZE) as runtime, _opened(runtime, face=True) as session:
        runtime.eyes = _turn((0, 1, 0), 0.2)  # to the wearer's left, our +X
        timing = _frame(session)
        code = session.face(timing, session.gaze(timing))
        np.testing.assert_allclose(code.gaze + look_angles(code.weights), [[0.2, 0]] * 2, atol=1e-6)


def test_the_richest_of_several_extensions_is_taken(monkeypatch):
    with played_runtime(monkeypatch, *FACES, GAZE) as runtime, _opened(runtime, face=True) as session:
        assert session.wearer_extensions == ["XR_FB_face_tracking2", GAZE]


def test_a_tracker_that_the_system_lacks_leaves_the_next(monkeypatch):
    with played_runtime(monkeypatch, *FACES) as runtime:
        runtime.refused = {"xrCreateFaceTracker2FB": UNSUPPORTED, "xrCreateFaceTrackerANDROID": UNSUPPORTED}
        with _opened(runtime, face=True) as session:
            assert session.wearer_extensions == ["XR_HTC_facial_tracking"]


def test_a_vive_may_have_lips_without_eyes(monkeypatch):
    with played_runtime(monkeypatch, "XR_HTC_facial_tracking") as runtime:
        runtime.refused = {"xrCreateFacialTrackerHTC EYE_DEFAULT": UNSUPPORTED}
        index = vocabulary("htc").index
        runtime.face = {index["LIP_JAW_OPEN"]: 0.5, index["EYE_LEFT_BLINK"]: 1.0}
        with _opened(runtime, face=True) as session:
            code = session.face(_frame(session))
            assert code.weights[ARKIT_INDEX["jawOpen"]] == 0.5 and code.weights[ARKIT_INDEX["eyeBlinkLeft"]] == 0
        runtime.refused |= {"xrCreateFacialTrackerHTC LIP_DEFAULT": UNSUPPORTED}
        with _opened(runtime, face=True) as session:
            assert not session.reads_face


@pytest.mark.parametrize("extension", FACES)
def test_a_tracker_that_fails_in_mid_session_tells_nothing(monkeypatch, extension):
    with played_runtime(monkeypatch, extension) as runtime, _opened(runtime, face=True) as session:
        runtime.refused = {FACE_FUNCTIONS[extension][1]: xr.Result.ERROR_RUNTIME_FAILURE.value}
        assert session.face(_frame(session)) is None
        runtime.refused = {}
        assert session.face(_frame(session)) is not None


def test_without_consent_nothing_of_the_wearer_is_enabled(monkeypatch):
    with played_runtime(monkeypatch, *FACES, GAZE) as runtime, _opened(runtime) as session:
        assert not {*FACES, GAZE} & set(runtime.enabled)
        assert session.wearer_extensions == [] and not any(call.startswith("xrCreate") for call in runtime.calls)
        assert session.face(_frame(session)) is None and session.gaze(NOW) is None
        assert "/interaction_profiles/ext/eye_gaze_interaction" not in runtime.bindings


def test_eyes_alone_are_told_and_may_be_closed_or_lost(monkeypatch):
    with played_runtime(monkeypatch, GAZE) as runtime, _opened(runtime, face=True) as session:
        assert session.wearer_extensions == [GAZE] and not session.reads_face
        assert runtime.bindings["/interaction_profiles/ext/eye_gaze_interaction"] == ["gaze /user/eyes_ext/input/gaze_ext/pose"]
        timing = _frame(session)
        assert session.gaze(timing) is None
        runtime.eyes = _turn((1, 0, 0), 0.3)
        np.testing.assert_allclose(session.gaze(timing), runtime.eyes, atol=1e-6)


def test_what_a_runtime_does_not_know_yet_counts_as_not_there(monkeypatch):
    with played_runtime(monkeypatch, GAZE) as runtime, _opened(runtime, face=True) as session:
        timing = _frame(session)
        assert session.locate(timing) is not None
        runtime.fov = (0.0, 0.0, 0.0, 0.0)
        assert session.locate(timing) is None
        runtime.fov, runtime.head = (-0.7, 0.7, 0.7, -0.7), (0.0, 0.0, 0.0, 0.0)
        assert session.locate(timing) is None
        runtime.eyes = [0.0, 0.0, 0.0, 0.0]
        runtime.held = {0: xr.Posef(xr.Quaternionf(0, 0, 0, math.nan), xr.Vector3f(0, 1, 0))}
        assert session.gaze(timing) is None and session.holding(timing) is None


def test_an_event_of_an_unknown_kind_is_passed_over(monkeypatch):
    with played_runtime(monkeypatch) as runtime, _opened(runtime) as session:
        runtime.events.append(SimpleNamespace(type=1_999_999_999))
        _frame(session)
        assert session.running


def test_a_grab_is_the_pose_of_the_hand_that_holds(monkeypatch):
    with played_runtime(monkeypatch) as runtime, _opened(runtime) as session:
        assert session.holding(_frame(session)) is None and "sync_actions" in runtime.calls
        runtime.held = {1: xr.Posef(xr.Quaternionf(*_turn((0, 1, 0), math.pi / 2)), xr.Vector3f(0.25, 1.5, -0.5))}
        hand = session.holding(_frame(session))
        np.testing.assert_allclose(hand.translation, [0.25, 1.5, -0.5])
        np.testing.assert_allclose(hand.rotation @ [0, 0, -1], [-1, 0, 0], atol=1e-6)  # the hand points to the left
        runtime.held[0] = xr.Posef(xr.Quaternionf(0, 0, 0, 1), xr.Vector3f(0, 1, 0))
        timing = _frame(session)
        np.testing.assert_allclose(session.holding(timing).translation, [0, 1, 0])  # the left hand was asked first
        runtime.held = {}
        assert session.holding(timing) is None  # a hand that holds is looked at every time


def test_input_is_looked_at_now_and_then_while_nothing_is_held(monkeypatch):
    with played_runtime(monkeypatch) as runtime, _opened(runtime) as session:
        runtime.period_ns = 10_000_000
        for _ in range(31):
            session.holding(_frame(session))
        assert runtime.calls.count("sync_actions") == 11  # at 0, 30, 60 … 300 ms


def test_every_usual_controller_can_hold_and_an_unknown_one_is_no_error(monkeypatch):
    with played_runtime(monkeypatch) as runtime:
        runtime.unknown_profiles = {"/interaction_profiles/valve/index_controller"}
        with _opened(runtime):
            profiles = {profile.rsplit("/", 1)[1] for profile in runtime.bindings}
            assert profiles == {"simple_controller", "touch_controller", "vive_controller", "motion_controller"}
            for bound in runtime.bindings.values():
                assert sum(text.startswith("grab /user/hand/left/input/") for text in bound) == 1
                assert "hand /user/hand/right/input/grip/pose" in bound


def _notice(domain, level, part=xr.PerfSettingsSubDomainEXT.THERMAL):
    normal = xr.PerfSettingsNotificationLevelEXT.NORMAL
    return xr.EventDataPerfSettingsEXT(domain=domain, sub_domain=part, from_level=normal, to_level=level)


def test_a_notice_of_heat_counts_until_its_own_domain_has_cooled(monkeypatch):
    levels, cpu, gpu = xr.PerfSettingsNotificationLevelEXT, xr.PerfSettingsDomainEXT.CPU, xr.PerfSettingsDomainEXT.GPU
    with played_runtime(monkeypatch, PERFORMANCE) as runtime, _opened(runtime) as session:
        assert PERFORMANCE in runtime.enabled and not session.too_hot()
        steps = [
            (_notice(gpu, levels.WARNING, xr.PerfSettingsSubDomainEXT.RENDERING), False),  # too slow is not too hot
            (_notice(gpu, levels.WARNING), True),
            (_notice(cpu, levels.IMPAIRED), True),
            (_notice(cpu, levels.NORMAL), True),
            (_notice(gpu, levels.NORMAL), False),
        ]
        for event, hot in steps:
            runtime.events.append(event)
            session.poll()
            assert session.too_hot() is hot


def test_a_runtime_that_is_asked_for_its_temperature_need_not_know_every_domain(monkeypatch):
    level = xr.PerfSettingsNotificationLevelEXT
    with played_runtime(monkeypatch, THERMAL) as runtime, _opened(runtime) as session:
        runtime.levels = {1: xr.exception.FeatureUnsupportedError(), 2: level.NORMAL}
        assert not session.too_hot()
        runtime.levels[2] = level.WARNING
        assert session.too_hot()


def test_a_session_that_cannot_begin_closes_a_context_of_its_own_alone(monkeypatch):
    with played_runtime(monkeypatch) as runtime:
        made, closed = replace(runtime.graphics), []
        made.close = lambda: closed.append(True)
        monkeypatch.setattr(session_module, "open_graphics", lambda offered: made)

        def fail(*_):
            raise xr.exception.RuntimeFailureError()

        runtime.create_session = fail
        with pytest.raises(WorkError, match="failed while starting"):
            HeadsetSession(SessionOptions(), made)
        assert not closed
        with pytest.raises(WorkError, match="failed while starting"):
            HeadsetSession(SessionOptions())
        assert closed == [True]


def test_a_session_runs_from_ready_to_its_end(monkeypatch):
    with played_runtime(monkeypatch) as runtime, _opened(runtime) as session:
        assert not session.running
        timing = _frame(session)
        assert session.running and session.uses_arrays
        views = session.locate(timing)
        np.testing.assert_allclose([view.position for view in views], [[-0.0315, 1.6, 0], [0.0315, 1.6, 0]], atol=1e-6)
        framebuffers = session.acquire()
        session.clear_around(framebuffers, [None, None], (0, 0, 0, 1))
        session.release()
        runtime.events.append(xr.EventDataReferenceSpaceChangePending())
        session.poll()
        assert session.take_recentered() and not session.take_recentered()
        session.request_exit()
        assert session.ended and not session.running
    assert runtime.calls[-2:] == ["destroy_session", "destroy_instance"]


def test_a_frame_that_was_waited_for_ahead_is_given_up_before_the_session_stops(monkeypatch):
    with played_runtime(monkeypatch) as runtime, _opened(runtime) as session:
        _frame(session)
        runtime.says(xr.SessionState.STOPPING)
        session.poll()
        frames = [call for call in runtime.calls if call in ("begin_frame", "end_frame", "end_session")]
        assert frames == ["begin_frame", "end_frame"] * 2 + ["end_session"]
        # The runtime may take the session up again.
        runtime.says(xr.SessionState.READY)
        _frame(session)
        assert session.running and runtime.ends == [0, 0, 0]


# Invented: the outer lower corner of each eye, as tangents.
LEFT_MASK = [(-0.8, -0.8), (0.0, -0.8), (-0.8, 0.0), (-0.9, -0.9)], [0, 1, 2, 3, 0, 2]
RIGHT_MASK = [(0.8, -0.8), (0.0, -0.8), (0.8, 0.0)], [0, 2, 1]


def _cameras(session, timing):
    return [camera_of(view, session.width, session.height) for view in session.locate(timing)]


def test_what_the_headset_hides_is_told_in_each_eyes_own_picture(monkeypatch):
    with played_runtime(monkeypatch, VISIBILITY_MASK) as runtime:
        runtime.masks = {0: LEFT_MASK, 1: RIGHT_MASK}
        with _opened(runtime) as session:
            assert session.uses_masks
            cameras = _cameras(session, _frame(session))
            left, right = session.hidden(cameras)
            edge = math.tan(0.7)
            np.testing.assert_allclose(left[:3] * edge, LEFT_MASK[0][:3], atol=1e-6)
            assert left.shape == (6, 2) and right.shape == (3, 2)
            np.testing.assert_allclose(right * edge, np.array(RIGHT_MASK[0])[[0, 2, 1]], atol=1e-6)
            # A part of the view where nothing is hidden needs no mask.
            above = cropped(cameras[0], cameras[0].unproject(np.array([[20.0, 5.0], [30.0, 9.0]]), np.array([1.0, 1.0])), 1)
            assert session.hidden([above, None]) == [None, None]
            runtime.masks[0] = ([], [])
            runtime.events.append(xr.EventDataVisibilityMaskChangedKHR(view_index=0))
            session.poll()
            assert session.hidden(cameras)[0] is None and session.hidden(cameras)[1] is not None


def test_a_mask_that_is_refused_or_nonsense_hides_nothing(monkeypatch):
    with played_runtime(monkeypatch, VISIBILITY_MASK) as runtime:
        runtime.masks = {0: (LEFT_MASK[0], [0, 1, 7]), 1: ([(0.0, float("nan"))] * 3, [0, 1, 2])}
        with _opened(runtime) as session:
            assert not session.uses_masks
            assert session.hidden(_cameras(session, _frame(session))) == [None, None]
        runtime.masks = {0: ([(-3e38, 0.0), (0.0, -3e38), (0.0, 0.0)], [0, 1, 2])}
        with _opened(runtime) as session:
            assert session.hidden(_cameras(session, _frame(session))) == [None, None]
        runtime.masks = {0: LEFT_MASK}
        runtime.refused = {"xrGetVisibilityMaskKHR": UNSUPPORTED}
        with _opened(runtime) as session:
            assert not session.uses_masks


def _eye_pictures(framebuffers):
    areas = (0, 0, WIDTH, HEIGHT)
    return [np.frombuffer(framebuffer.read(viewport=areas, components=4), np.uint8).copy() for framebuffer in framebuffers]


def test_the_layers_of_the_array_are_the_eyes_pictures(monkeypatch):
    with played_runtime(monkeypatch) as runtime, _opened(runtime) as session:
        if not session.layers:
            pytest.skip("this driver writes no layer from a vertex shader")
        renderer, options = RealtimeRenderer(runtime.graphics.context), RenderOptions("baked", antialias=True)
        renderer.load(synthetic_avatar(), [options], ("passes", "layers"))
        cameras = [Camera.orbit(yaw, width=WIDTH, height=HEIGHT) for yaw in (-0.05, 0.05)]
        area = (0, 0, WIDTH, HEIGHT)
        framebuffers = session.acquire()
        renderer.draw(MotionCode(), cameras, framebuffers, options, viewports=[area, area])
        expected = _eye_pictures(framebuffers)
        for framebuffer in framebuffers:
            framebuffer.clear(viewport=area)
        renderer.draw(MotionCode(), cameras, [session.layered()], options, viewports=[area], stereo="layers")
        drawn = _eye_pictures(framebuffers)
        assert all(np.array_equal(*pair) for pair in zip(expected, drawn, strict=True))
        assert drawn[0].any() and not np.array_equal(*drawn)
        renderer.close()


def test_a_runtime_without_arrays_gets_two_swapchains(monkeypatch):
    with played_runtime(monkeypatch) as runtime:
        runtime.arrays = False
        with _opened(runtime) as session:
            assert not session.uses_arrays and not session.layers and session.layered() is None
            left, right = session.acquire()
            for framebuffer, shade in ((left, 0.2), (right, 1.0)):
                framebuffer.clear(shade, shade, shade, 1.0, viewport=(0, 0, WIDTH, HEIGHT))
            pictures = _eye_pictures((left, right))
            assert (pictures[0].reshape(-1, 4)[:, 0] == 51).all() and (pictures[1] == 255).all()


def _warped(runtime, monkeypatch, frames, walk, quiet=True, scale=1.0, distance_m=0.8):
    """Show so many frames with motion vectors, the viewer walking so far in each; returns what was reported."""
    cast = Cast([Role(synthetic_avatar(), Pipeline(None), False)])
    runtime.graphics.close = lambda: None
    monkeypatch.setattr(show_module, "HeadsetSession", lambda options, *_: HeadsetSession(options, runtime.graphics))
    locate = runtime.locate_views

    def step(session, info):
        runtime.moved += walk
        return locate(session, info)

    runtime.locate_views = step
    options = ShowOptions(SessionOptions(space_warp=True), frames=frames, distance_m=distance_m, rung="blendshape", quiet=quiet)
    try:
        return Show(cast, read_config().at_scale(scale), options).run()
    finally:
        cast.close()


@pytest.mark.parametrize("arrays", [True, False])
def test_motion_and_depth_are_given_to_a_headset_that_makes_frames(monkeypatch, arrays):
    with played_runtime(monkeypatch, SPACE_WARP, DEPTH_LAYER) as runtime:
        close = runtime.graphics.close
        runtime.arrays = arrays
        runtime.formats = [GL_SRGB8_ALPHA8, GL_RGBA16F, GL_DEPTH_COMPONENT24]
        result = _warped(runtime, monkeypatch, 3, 0.05)
        runtime.graphics.close = close
        assert result["space_warp"] and result["rendered"] == 3 and SPACE_WARP in runtime.enabled
        flags = xr.CompositionLayerSpaceWarpInfoFlagsFB
        for number, views in enumerate([views for views in runtime.views if views]):
            assert len(views) == 2
            for eye, (warp, depth) in enumerate(views):
                assert isinstance(depth, xr.CompositionLayerDepthInfoKHR) and isinstance(
                    warp, xr.CompositionLayerSpaceWarpInfoFB
                )
                # The first frame has none before it from which to go on.
                assert warp.layer_flags == (flags.FRAME_SKIP_BIT if number == 0 else flags.NONE)
                assert warp.near_z != warp.far_z and warp.app_space_delta_pose.orientation.w == 1
                for part in (warp.motion_vector_sub_image, warp.depth_sub_image):
                    assert (part.image_rect.extent.width, part.image_rect.extent.height) == runtime.warp_size
                    assert part.image_array_index == (eye if arrays else 0)
        image = warp.motion_vector_sub_image.swapchain
        moved = runtime.images[ctypes.cast(image, ctypes.c_void_p).value].read()
        vectors = np.frombuffer(moved, np.float16).reshape(-1, 20, 24, 4).astype(np.float32)[-1]
        seen = vectors[vectors[..., 3] > 0]
        # The viewer went 5 cm to the right: at 0.8 m the head goes left by that over the half width of the view; it idles, too.
        assert len(seen) > 10
        assert np.median(seen[:, 0]) == pytest.approx(-0.05 / 0.8 / math.tan(0.7), rel=0.15)
        assert np.abs(seen[:, 1]).max() < 0.02 and (vectors[vectors[..., 3] == 0] == 0).all()


def test_a_coarser_scale_is_a_smaller_part_of_the_images_and_the_same_view(monkeypatch):
    """Colour, depth and the mask follow the scale; motion keeps the size that the runtime recommends."""
    seen = {}
    for scale in (1.0, 0.5):
        with played_runtime(monkeypatch, SPACE_WARP, DEPTH_LAYER, VISIBILITY_MASK) as runtime:
            close = runtime.graphics.close
            runtime.formats = [GL_SRGB8_ALPHA8, GL_RGBA16F, GL_DEPTH_COMPONENT24]
            runtime.masks = {0: ([(-2.0, -2.0), (2.0, -2.0), (-2.0, 2.0)], [0, 1, 2])}  # the lower left half of the left eye
            _warped(runtime, monkeypatch, 2, 0.0, scale=scale, distance_m=0.4)  # near: the head fills the view
            runtime.graphics.close = close
            for (size, _), (warp, depth) in zip(runtime.shown[-2], runtime.views[-2], strict=True):
                extent = depth.sub_image.image_rect.extent
                assert (extent.width, extent.height) == size
                motion = warp.motion_vector_sub_image.image_rect.extent
                assert (motion.width, motion.height) == runtime.warp_size
            seen[scale] = runtime.shown[-2]
            pixels = np.frombuffer(runtime.images[runtime.first_swapchain].read(), np.uint8).reshape(2, HEIGHT, WIDTH, 4)
            (width, height), _ = seen[scale][0]
            left, right = (eye[:height, :width, :3].max(-1) > 20 for eye in pixels)
            across, up = np.meshgrid((np.arange(width) + 0.5) / width - 0.5, (np.arange(height) + 0.5) / height - 0.5)
            masked, open_ = across + up < -1.5 / height, across + up > 1.5 / height
            assert right[masked].any() and not left[masked].any() and left[open_].any()
    for (full, angles), (half, same) in zip(seen[1.0], seen[0.5], strict=True):
        assert half == (round(WIDTH / 2), round(HEIGHT / 2)) and full == (WIDTH, HEIGHT)
        np.testing.assert_allclose(angles, same, atol=1e-6)


@pytest.mark.parametrize(
    ("formats", "words"),
    [([GL_SRGB8_ALPHA8], "no images for motion"), ([GL_SRGB8_ALPHA8, GL_RGBA16F], "no images for the depth of motion")],
)
def test_without_images_for_it_no_motion_is_given(monkeypatch, formats, words):
    with played_runtime(monkeypatch, SPACE_WARP) as runtime:
        runtime.formats = formats
        with _opened(runtime, space_warp=True) as session:
            assert session.space_warp is None
            (warning,) = session.warnings
            assert words in warning and warning.endswith("going on without space warp")


def test_a_space_warp_that_is_not_offered_or_refused_ends_no_session(monkeypatch, capsys):
    with played_runtime(monkeypatch) as runtime, _opened(runtime, space_warp=True) as session:
        assert session.warnings == [f"the OpenXR runtime does not offer {SPACE_WARP}; going on without space warp"]
    with played_runtime(monkeypatch, SPACE_WARP) as runtime:
        close = runtime.graphics.close
        runtime.formats = [GL_SRGB8_ALPHA8, GL_RGBA16F, GL_DEPTH_COMPONENT24]
        create = runtime.create_swapchain

        def refuse(session, info):
            if info.format == GL_RGBA16F:
                raise xr.exception.LimitReachedError()
            return create(session, info)

        runtime.create_swapchain = refuse
        result = _warped(runtime, monkeypatch, 3, 0.0, quiet=False)
        runtime.graphics.close = close
        assert result["rendered"] == 3 and not result["space_warp"]
        assert result["warnings"] == [f"the OpenXR runtime refused {SPACE_WARP}: LimitReached; going on without space warp"]
        assert capsys.readouterr().err == f"avatar3d: {result['warnings'][0]}\n"


def test_a_runtime_that_is_lost_while_space_warp_is_opened_is_no_warning(monkeypatch):
    with played_runtime(monkeypatch, SPACE_WARP) as runtime:
        runtime.refused = {"xrGetSystemProperties": xr.Result.ERROR_INSTANCE_LOST.value}
        with pytest.raises(RuntimeGone):
            _opened(runtime, space_warp=True)


def test_motion_is_given_only_when_it_was_asked_for(monkeypatch):
    with played_runtime(monkeypatch, SPACE_WARP) as runtime, _opened(runtime) as session:
        assert SPACE_WARP not in runtime.enabled and session.space_warp is None


def test_a_gaze_for_the_picture_alone_asks_for_no_face(monkeypatch):
    with played_runtime(monkeypatch, *FACES, GAZE) as runtime, _opened(runtime, gaze=True) as session:
        assert GAZE in runtime.enabled and not set(FACES) & set(runtime.enabled)
        runtime.eyes = _turn((0, 1, 0), 0.1)
        np.testing.assert_allclose(session.gaze(_frame(session)), runtime.eyes, atol=1e-6)
