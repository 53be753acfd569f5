"""The stage: several heads in one picture are each the head alone, the panel lies over them alike for both eyes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from avatar3d.motion.code import MotionCode
from avatar3d.rendering.opengl.foveation import FoveationSettings, Inset
from avatar3d.rendering.opengl.layers import LayeredTarget, offered
from avatar3d.rendering.opengl.panel import LINES, MARGIN_PX, WIDTH_M, panel_place, text_picture, wrapped
from avatar3d.runtime.governor import BAKED, BLENDSHAPE, LIVE, Change, Level, read_config
from avatar3d.runtime.placement import FADE_END_M, FADE_START_M, VERTEX_STEP, Placement
from avatar3d.runtime.stage import Stage
from avatar3d.runtime.status import Status
from avatar3d.runtime.views import EyeView
from tests.make_avatar import synthetic_avatar

SIZE = 200
ANGLES = (-0.6, 0.6, 0.6, -0.6)
DISTANCE_M = 1.0
VIEWS = [EyeView((0, 0, 0, 1), (side * 0.0315, 0.0, DISTANCE_M), ANGLES) for side in (-1, 1)]
HERE = Placement(np.eye(3), np.zeros(3))


def _level(rung):
    """The first level of a rung in the shipped settings."""
    return next(level for level in read_config().levels if level.rung == rung)


def _picture(context, stage, motions, rung=BAKED):
    """(SIZE, SIZE, 4) u8 of each eye; linear target."""
    framebuffer = context.framebuffer([context.texture((SIZE, SIZE), 4)], context.depth_renderbuffer((SIZE, SIZE)))
    scenes = stage.prepare(motions)
    whole = [stage.placement.camera(camera) for camera in _cameras()]
    pictures = []
    for camera in whole:
        stage.draw(scenes, [camera], [framebuffer], _level(rung))
        pictures.append(np.frombuffer(framebuffer.read(components=4), np.uint8).reshape(SIZE, SIZE, 4)[::-1].copy())
    framebuffer.release()
    return pictures


def _cameras():
    from avatar3d.runtime.views import camera_of

    return [camera_of(view, SIZE, SIZE) for view in VIEWS]


def _stage(context, avatars):
    stage = Stage(avatars, context, read_config(), (0.0, 0.0, 0.0, 0.0), DISTANCE_M)
    stage.placement = HERE
    return stage


def test_baked_textures_follow_the_motion_code_within_the_budget(context):
    jaw = MotionCode.from_expression({"jawOpen": 0.9})
    patient, never = (replace(read_config(), rebake_ms=value) for value in (1e9, 0.0))
    sent = {}
    for name, config in (("patient", patient), ("never", never)):
        stage = Stage([synthetic_avatar(0), synthetic_avatar(1)], context, config, (0.0, 0.0, 0.0, 0.0), DISTANCE_M)
        scenes = stage.prepare([jaw, MotionCode()])
        sent[name] = [stage.rebake(scenes, _level(rung)) for rung in (BAKED, BAKED, BLENDSHAPE, LIVE)]
        stage.close()
    avatar = synthetic_avatar(0)
    texels = avatar.base_color[..., 0].size + read_config().rungs["baked"].hair_levels * avatar.hair.color[..., 0].size
    assert sent == {"patient": [8 * texels, 0, 0, 0], "never": [0, 0, 0, 0]}  # of the head that speaks, once


@pytest.mark.parametrize("rung", [BAKED, BLENDSHAPE])
def test_two_heads_are_each_the_head_alone(context, rung):
    avatars = [synthetic_avatar(0), synthetic_avatar(1)]
    both = _stage(context, avatars)
    alone = [_stage(context, [avatar]) for avatar in avatars]
    jaw = MotionCode.from_expression({"jawOpen": 0.7})
    together = _picture(context, both, [jaw, MotionCode()], rung)[0]
    parts = []
    for stage, place, motion in zip(alone, both.places, (jaw, MotionCode()), strict=True):
        stage.placement = place
        parts.append(_picture(context, stage, [motion], rung)[0])
    assert (parts[0][..., 3] > 0).any() and not ((parts[0][..., 3] > 0) & (parts[1][..., 3] > 0)).any()
    assert np.abs(together.astype(int) - np.maximum(*parts)).max() <= 1
    # The first stands on the viewer's left.
    assert np.nonzero(parts[0][..., 3])[1].mean() < np.nonzero(parts[1][..., 3])[1].mean()
    for stage in (both, *alone):
        stage.close()


def _near_stage(context, avatars, gap_m):
    """A stage whose last head's nearest point is `gap_m` before the viewer, and that head's index."""
    stage = _stage(context, avatars)
    near = len(avatars) - 1
    nose = stage.prepare([MotionCode()] * len(avatars))[near].vertices[::VERTEX_STEP, 2].max()
    # This head is brought before the viewer; the others stay where they are.
    stage.places[near] = Placement(np.eye(3), np.array([0.0, 0.0, DISTANCE_M - gap_m - nose]))
    return stage


@pytest.mark.parametrize("rung", [BAKED, BLENDSHAPE])
def test_a_head_that_is_too_near_fades_and_the_one_behind_it_stays(context, rung):
    avatars = [synthetic_avatar(0), synthetic_avatar(1)]
    motions = [MotionCode(), MotionCode()]
    behind = _near_stage(context, avatars, FADE_END_M / 2)
    alone = _stage(context, avatars[:1])
    alone.placement = behind.places[0]
    expected = _picture(context, alone, motions[:1], rung)[0].astype(float)
    assert (expected[..., 3] > 0).sum() > 300
    # Nothing is left of the near one, all of the other.
    assert np.abs(_picture(context, behind, motions, rung)[0] - expected).max() <= 1
    half = (FADE_START_M + FADE_END_M) / 2
    fading, near = _near_stage(context, avatars, half), _stage(context, avatars[1:])
    near.placement = fading.places[1]
    scene = near.prepare(motions[1:])
    target = context.framebuffer([context.texture((SIZE, SIZE), 4)], context.depth_renderbuffer((SIZE, SIZE)))
    camera = near.places[0].camera(near.placement.camera(_cameras()[0]))
    near._renderers[0].draw(scene[0], [camera], [target], near._options[_level(rung)])
    over = np.frombuffer(target.read(components=4), np.uint8).reshape(SIZE, SIZE, 4)[::-1].astype(float)
    mixed = 0.5 * over + (1 - 0.5 * over[..., 3:] / 255) * expected
    drawn = _picture(context, fading, motions, rung)[0]
    # The distance is known to a tenth of a millimetre, the target has eight bits. A catch light brighter than white is cut off
    # in `over`, and blended before it is cut in `drawn`.
    below_white = over[..., :3].max(axis=2) < 255
    assert np.abs(drawn - mixed)[below_white].max() <= 4
    for stage in (behind, alone, fading, near):
        stage.close()


def test_the_panel_is_read_in_both_eyes_and_hides_no_face(context):
    stage = _stage(context, [synthetic_avatar()])
    plain = _picture(context, stage, [MotionCode()])
    stage.lines = ["baked  72 fps  6.1 ms", "face 41 ms"]
    told = _picture(context, stage, [MotionCode()])
    for before, after in zip(plain, told, strict=True):
        changed = np.nonzero((before != after).any(axis=2))
        assert changed[0].min() > SIZE / 2 and len(changed[0]) > 200
        assert after[changed].max() > 200
    stage.close()


def test_what_is_cut_out_holds_the_panel(context):
    stage = _stage(context, [synthetic_avatar()])
    scenes = stage.prepare([MotionCode()])
    stage.lines = ["a"]
    with_panel = stage.cameras(scenes, VIEWS, 400, 400)[0]
    corner, right, up = panel_place(np.array([0.0, 0.0, DISTANCE_M]), 1)
    for point in (corner, corner + right + up):
        pixel, _ = with_panel.project(point[None])
        assert (pixel >= 0).all() and (pixel <= (with_panel.width, with_panel.height)).all()
    stage.close()


def test_the_panel_faces_the_viewer_wherever_that_one_stands():
    for viewer in ([0.0, 0.3, 1.0], [1.0, -0.2, 0.0], [0.0, 0.0, -2.0], [0.0, 0.0, 0.0]):
        corner, right, up = panel_place(np.array(viewer))
        middle = corner + right / 2 + up / 2
        assert np.linalg.norm(right) == pytest.approx(WIDTH_M)
        outward = np.cross(right, up)
        assert outward @ (np.array(viewer) * (1, 0, 1)) >= 0 and outward @ (middle * (1, 0, 1)) > 0


def test_the_status_in_words():
    change = Change(5.0, "live", "reduced", "hot")
    status = Status(Level(2, 0.8), 71.8, 6.14, 41.2, 9.6, 46.2, change, 1.0)
    assert status.lines() == ["reduced ×0.8  72 fps  6.1 ms", "face 41 ms  head 10 ms  46 °C", "live to reduced: hot"]
    assert len(status.lines()) < LINES
    coarser = Change(5.0, "baked", "baked", "forecast", 1.0, 0.85)
    assert Status(Level(1, 0.85), 60.0, 12.1, change=coarser).lines() == [
        "baked ×0.85  60 fps  12.1 ms",
        "baked to ×0.85: forecast",
    ]
    assert Status(Level(0, 1.0), 0.0, 0.0, change=change, change_age_s=60.0).lines() == ["live  0 fps  0.0 ms"]


def test_text_is_drawn_line_by_line_and_cut_off_where_it_is_too_long():
    one, two = text_picture(["reduced"]), text_picture(["reduced", "hot"])
    assert one.max() == 255 and two.sum() > one.sum()
    np.testing.assert_array_equal(one[: len(one) // 4], two[: len(two) // 4])
    assert text_picture(["m" * 500, *"abcdef"]).shape == one.shape
    assert text_picture([]).max() == 0


def test_a_long_sentence_is_told_over_several_lines_and_a_word_that_fits_none_is_a_line():
    sentence = "camera 0 gives no more frames; plug it in again, or close the program that uses it"
    rows = wrapped(sentence, LINES)
    assert " ".join(rows) == sentence and 1 < len(rows) <= LINES
    for row in rows:
        assert not text_picture([row])[:, -MARGIN_PX + 1 :].any()
    assert wrapped(sentence, 1) == rows[:1] and wrapped(sentence, 0) == [] and wrapped("", 3) == []
    assert wrapped("m" * 100 + " end", 4) == ["m" * 100, "end"]


def _both_eyes(stage, context, rung=BAKED, layered=False, **named):
    """(SIZE, 2 · SIZE, 4) u8 of both eyes, of array images."""
    target = LayeredTarget(context, SIZE, SIZE)
    cameras = [stage.placement.camera(camera) for camera in _cameras()]
    scenes, both = stage.prepare([MotionCode()] * len(stage.places)), layered and target.framebuffer
    stage.draw(scenes, cameras, target.eyes, _level(rung), None, both, **named)
    area = (0, 0, SIZE, SIZE)
    pictures = [np.frombuffer(eye.read(viewport=area, components=4), np.uint8).reshape(SIZE, SIZE, 4) for eye in target.eyes]
    target.release()
    return np.concatenate(pictures, axis=1)


@pytest.mark.parametrize("heads", [1, 2])
def test_layers_show_what_passes_show(context, heads):
    if "layers" not in offered(context):
        pytest.skip("this driver writes no layer from a vertex shader")
    avatars = [synthetic_avatar(index) for index in range(heads)]
    hidden = [np.array([[-1, -1], [0.2, -1], [-1, 0.2]], np.float32), None]
    pictures = []
    for stereo in ("passes", "layers"):
        stage = Stage(avatars, context, read_config(), (0.0, 0.0, 0.0, 0.0), DISTANCE_M, layers=stereo == "layers")
        stage.placement, stage.lines = HERE, ["panel"]
        pictures.append(_both_eyes(stage, context, layered=stage.layers, hidden=hidden))
        stage.close()
    assert np.array_equal(*pictures) and pictures[0].any()


def test_a_foveated_stage_is_sharp_where_the_eye_looks_and_alike_elsewhere(context):
    settings = FoveationSettings(3.0, 1.0, 0.5, 2, "byte")
    plain, foveated = (
        Stage([synthetic_avatar()], context, read_config(), (0.0, 0.0, 0.0, 0.0), DISTANCE_M, None, chosen)
        for chosen in (None, settings)
    )
    plain.placement = foveated.placement = HERE
    whole = _both_eyes(plain, context).astype(int)
    for toward in (None, [(0.06, 0.04), (-0.002, 0.04)]):
        seen = _both_eyes(foveated, context, toward=toward).astype(int)
        for eye, camera in enumerate(_cameras()):
            left, bottom, right, top = Inset.of(camera, settings, toward[eye] if toward else (0.0, 0.0)).sharp
            columns = slice(eye * SIZE + left, eye * SIZE + right)
            assert np.array_equal(seen[bottom:top, columns], whole[bottom:top, columns])
        assert not np.array_equal(seen, whole)
        assert np.abs(seen - whole).mean() < 3
    for stage in (plain, foveated):
        stage.close()


def test_a_live_field_without_a_bake_stays_live_in_the_periphery(context):
    avatar = replace(synthetic_avatar(), baked=None)
    settings = FoveationSettings(3.0, 1.0, 1.0, 9, "half")
    stage = Stage([avatar], context, read_config(), (0.0, 0.0, 0.0, 0.0), DISTANCE_M, None, settings)
    plain = Stage([avatar], context, read_config(), (0.0, 0.0, 0.0, 0.0), DISTANCE_M)
    stage.placement = plain.placement = HERE
    # The periphery is blended in half floats, not in eight bits.
    assert np.abs(_both_eyes(stage, context, LIVE).astype(int) - _both_eyes(plain, context, LIVE)).max() <= 3
    for each in (plain, stage):
        each.close()
