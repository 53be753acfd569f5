"""Pictures with as many faces and texels as they show: both renderers agree, little changes, seams stay closed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from avatar3d.avatar import Avatar
from avatar3d.bench.parity import pictures_psnr_db
from avatar3d.camera import Camera
from avatar3d.errors import InputError
from avatar3d.motion.code import MotionCode
from avatar3d.rendering import RenderOptions
from avatar3d.rendering.frame import FORMS, Form
from avatar3d.rendering.lod.level import COARSEST_LOD, LodChain, coarser_lods, halved_color, texels_per_metre
from avatar3d.rendering.opengl.renderer import RealtimeRenderer
from avatar3d.rendering.reference.renderer import ReferenceRenderer
from avatar3d.rendering.scene import Scene
from tests.rendering.conftest import six_views, view
from tests.rendering.test_agreement import assert_agreement

SEEN = RenderOptions("baked", detail="seen")


def away(avatar: Avatar, lod: float, size: int = 160) -> Camera:
    """A camera from the front that asks for a LOD of the avatar."""
    pixels_per_metre = texels_per_metre(avatar) / 2 ** (lod - 1 - 1 / 3)
    return Camera.orbit(0.3, width=size, height=size, view_height_m=size / pixels_per_metre, target=(0.0, 0.0, 0.0))


def open_edges(avatar: Avatar) -> int:
    """Edges of one face, where vertices at one place count as one."""
    faces = avatar.weld[avatar.faces]
    edges = np.sort(np.concatenate([faces[:, :2], faces[:, 1:], faces[:, ::2]]), axis=1)
    return int((np.unique(edges, axis=0, return_counts=True)[1] == 1).sum())


def test_each_step_is_a_smaller_avatar(avatar: Avatar) -> None:
    before = avatar
    for lod, own in enumerate(coarser_lods(avatar), start=1):
        assert len(own.faces) <= len(before.faces) and len(own.vertices) <= len(before.vertices)
        assert open_edges(own) <= open_edges(avatar)
        assert set(np.unique(own.part)) <= set(np.unique(avatar.part))
        moved = own.vertices[own.landmark_triangles] - avatar.vertices[avatar.landmark_triangles]
        assert np.linalg.norm(moved, axis=-1).mean() < 0.05
        shrunk = [old / new for old, new in zip(avatar.base_color.shape, own.base_color.shape, strict=True)]
        assert shrunk[0] == shrunk[1] <= 2 ** (lod - 1)
        before = own
    assert lod == COARSEST_LOD and len(own.faces) < len(avatar.faces) / 2


def test_halving_keeps_the_mean_light() -> None:
    checks = np.indices((8, 8)).sum(0)[..., None] % 2 * np.full(3, 255, np.uint8)
    assert (halved_color(checks.astype(np.uint8), 2) == 188).all()  # half of white in sRGB


def test_the_nearest_camera_and_the_distance_choose_the_step(avatar: Avatar) -> None:
    lods, code = LodChain(avatar), MotionCode()
    chosen = [lods.wanted(SEEN, code, [away(avatar, wanted + 0.5)]) for wanted in range(-1, COARSEST_LOD + 2)]
    assert chosen == [0, *range(COARSEST_LOD + 1), COARSEST_LOD]
    assert lods.wanted(SEEN, code, [away(avatar, 3.5), away(avatar, 1.5)]) == 1
    assert lods.wanted(replace(SEEN, supersample=2), code, [away(avatar, 2.5)]) == 1
    assert lods.wanted(RenderOptions("baked"), code, [away(avatar, 2.5)]) == 0
    nearer = replace(code, translation=away(avatar, 2.5).center / 2)
    assert lods.wanted(SEEN, nearer, [away(avatar, 2.5)]) == 1


def test_on_a_near_thing_the_step_stays(avatar: Avatar) -> None:
    lods, code = LodChain(avatar), MotionCode()
    assert lods.wanted(SEEN, code, [away(avatar, 2.05)], before=1) == 1
    assert lods.wanted(SEEN, code, [away(avatar, 2.3)], before=1) == 2
    assert lods.wanted(SEEN, code, [away(avatar, 1.95)], before=2) == 1


def test_an_avatar_that_shows_one_point_of_its_texture_stays_whole(avatar: Avatar) -> None:
    plain = replace(avatar, uv=np.full_like(avatar.uv, 0.5))
    lods = LodChain(plain)
    assert lods.wanted(SEEN, MotionCode(), [view(0.0)]) == 0
    assert len(lods[COARSEST_LOD].faces) > 0


def test_unknown_detail() -> None:
    with pytest.raises(InputError, match="unknown detail 'low'; expected one of full, seen"):
        RenderOptions(detail="low")  # type: ignore[arg-type]


@pytest.mark.parametrize("form", FORMS)
def test_both_renderers_agree(
    form: Form, avatar: Avatar, moved: MotionCode, reference: ReferenceRenderer, realtime: RealtimeRenderer
) -> None:
    for options in (RenderOptions(form, detail="seen"), RenderOptions(form, detail="seen", hair_levels=2, supersample=2)):
        for cameras in (six_views()[1:4:2], [away(avatar, 1.5), away(avatar, 2.5)]):
            expected, drawn = (each.render(avatar, moved, cameras, options) for each in (reference, realtime))
            assert_agreement(expected, drawn)


def test_the_picture_is_as_near_to_many_samples_as_that_of_all_faces_and_texels(
    smooth: Avatar, moved: MotionCode, realtime: RealtimeRenderer
) -> None:
    cameras = [away(smooth, lod + 0.5) for lod in (1, 2)]
    full = RenderOptions("baked")
    many = realtime.render(smooth, moved, cameras, replace(full, supersample=4))
    of_full, of_seen = (pictures_psnr_db(many, realtime.render(smooth, moved, cameras, each)) for each in (full, SEEN))
    assert of_seen > of_full - 2


def test_a_scene_is_prepared_as_the_last_pictures_asked_and_drawn_as_its_own_ask(
    drawer: RealtimeRenderer, avatar: Avatar
) -> None:
    drawer.load(avatar, [SEEN])
    target = drawer.context.simple_framebuffer((64, 64))

    def picture(motion: Scene | MotionCode, camera: Camera) -> bytes:
        drawer.draw(motion, [camera], [target], SEEN)
        return bytes(target.read(components=4))

    cameras = [away(avatar, lod, 64) for lod in (2.5, -1.0)]
    alone = [picture(MotionCode(), camera) for camera in cameras]
    assert any(alone[0]) and any(alone[1])
    counts = []
    for index in (0, 0, 1, 1):
        scene = drawer.prepare(MotionCode())
        counts.append(len(scene.avatar.faces))
        assert picture(scene, cameras[index]) == alone[index]
    lods = LodChain(avatar)
    assert counts == [len(lods[lod].faces) for lod in (0, 2, 2, 0)]
    assert drawer.pose(MotionCode()).avatar is avatar
    target.release()


def test_a_scene_of_another_avatar_is_refused(drawer: RealtimeRenderer, avatar: Avatar, smooth: Avatar) -> None:
    drawer.load(smooth)
    scene = drawer.prepare(MotionCode())
    drawer.load(avatar)
    target = drawer.context.simple_framebuffer((16, 16))
    with pytest.raises(InputError, match="prepare it anew"):
        drawer.draw(scene, [view(0.0, 0.0, 16, 16)], [target])
    target.release()


def test_hair_that_no_step_changed_is_held_once(drawer: RealtimeRenderer, avatar: Avatar) -> None:
    lods, jaw = LodChain(avatar), MotionCode.from_expression({"jawOpen": 0.9})
    assert lods[1].hair is avatar.hair and lods[2].hair is not avatar.hair
    drawer.load(replace(avatar), [SEEN])
    target = drawer.context.simple_framebuffer((64, 64))
    sent = []
    for lod in (-1.0, 1.5):
        drawer.draw(jaw, [away(avatar, lod, 64)], [target], SEEN)
        sent.append(drawer.rebake(jaw, SEEN, 1e9))
    target.release()
    assert avatar.hair is not None and lods[1].base_color.shape == avatar.base_color.shape
    skin, hair = (8 * texture[..., 0].size for texture in (avatar.base_color, avatar.hair.color))
    assert sent == [skin + len(avatar.hair.levels) * hair, skin]


def test_views_of_one_frame_that_differ_in_coarseness_all_follow_the_motion_code(
    drawer: RealtimeRenderer, avatar: Avatar
) -> None:
    jaw, cameras = MotionCode.from_expression({"jawOpen": 0.9}), [away(avatar, lod, 64) for lod in (2.5, 1.5)]
    target = drawer.context.simple_framebuffer((64, 64), dtype="f4")

    def pictures() -> list[bytes]:
        found = []
        for camera in cameras:
            drawer.draw(MotionCode(), [camera], [target], SEEN)
            found.append(bytes(target.read(components=4, dtype="f4")))
        return found

    drawer.load(replace(avatar), [SEEN])
    rest = pictures()
    assert drawer.rebake(jaw, SEEN, 1e9) and not drawer.rebake(jaw, SEEN, 1e9)
    assert all(moved != still for moved, still in zip(pictures(), rest, strict=True))
    target.release()
