from dataclasses import replace

import cv2
import numpy as np
import pytest
from staged_face import LIGHT, SKIN_LINEAR, dressed, staged_face

from avatar3d.color import psnr_db, srgb_to_linear
from avatar3d.enrolment.photo.crop import crop
from avatar3d.enrolment.skin.atlas import build_skin, view_skin
from avatar3d.enrolment.skin.mouth_seen import shade_mouth
from avatar3d.enrolment.skin.projection import Covers
from avatar3d.enrolment.skin.surface import atlas
from avatar3d.fitting.fit import fit_face
from avatar3d.head.landmarks import fitting_head
from avatar3d.head.mediapipe import CHIN, EYE_LOOPS, LIPS_INNER
from avatar3d.head.model import EYES, TEETH, TONGUE
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.frame import RenderOptions
from avatar3d.rendering.reference.renderer import ReferenceRenderer
from avatar3d.rendering.scene import light_basis

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def head():
    return fitting_head()


def enrolled(smile, head, size=1024, grey=False):
    face = staged_face(smile)
    rgb = np.repeat(face.rgb[..., 1:2], 3, axis=2) if grey else face.rgb
    fit = fit_face(face.landmarks, face.motion.weights, 512, 512, face.camera.intrinsics[0, 0], head)
    picture = crop(rgb, fit.camera, face.landmarks.points_px, 90.0, 640)
    matte = crop_mask(face.matte, picture)
    view = view_skin(picture, fit, head, matte, np.zeros_like(matte))
    return face, fit, view, build_skin(view, np.zeros_like(matte), size=size)


def crop_mask(mask, picture):
    from avatar3d.enrolment.photo.crop import resample

    return resample(mask.astype(np.float32), picture.matrix, picture.camera.width, constant=True)


@pytest.fixture(scope="module")
def calm(head):
    return enrolled(0.0, head)


@pytest.fixture(scope="module")
def smiling(head):
    return enrolled(0.8, head)


def drawn(head, fit, skin, motion, camera):
    avatar = dressed(head, fit.neutral_vertices, skin.base_color, skin.light, texture_deltas=skin.texture_deltas)
    return ReferenceRenderer().render(avatar, motion, [camera], RenderOptions(form="mesh"))[0]


@pytest.mark.parametrize("case", ["calm", "smiling"])
def test_the_photo_is_drawn_again_at_its_own_camera(case, head, request):
    _, fit, view, skin = request.getfixturevalue(case)
    frame = drawn(head, fit, skin, fit.motion, view.picture.camera)
    trusted = np.zeros(view.picture.rgb.shape[:2], np.uint8)
    chosen = (view.nodes.weight > 0.95) & (view.nodes.eyes == 0)  # lashes are drawn over the lids
    x, y = view.nodes.pixels[chosen].astype(int).T
    trusted[y, x] = 1
    trusted = cv2.morphologyEx(trusted, cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8)) > 0
    error = frame.to_srgb8((0, 0, 0))[trusted].astype(float) - view.picture.rgb[trusted]
    assert trusted.sum() > 15_000
    assert psnr_db(float((error**2).mean()) / 255**2) > 32


def test_a_shadow_across_the_eyes_is_drawn_as_the_photo_shows_it(calm, head, monkeypatch):
    _, fit, view, _ = calm
    rgb = view.picture.rgb.copy()
    eyes = np.zeros(rgb.shape[:2], np.uint8)
    for lids in EYE_LOOPS:
        outline = view.picture.landmarks_px[list(lids), :2]
        cv2.fillPoly(eyes, [np.round(outline).astype(np.int32)], 1)
        eyes[:, int(outline[:, 0].mean()) : int(outline[:, 0].max()) + 1] *= 2
    rgb[eyes == 2] //= 3
    shadowed = replace(view, picture=replace(view.picture, rgb=rgb))
    nothing = np.zeros(rgb.shape[:2], np.float32)

    def error():
        skin = build_skin(shadowed, nothing)
        picture = drawn(head, fit, skin, fit.motion, view.picture.camera).to_srgb8((0, 0, 0))
        return np.sqrt(((picture[eyes > 0].astype(float) - rgb[eyes > 0]) ** 2).mean())

    as_seen = error()
    monkeypatch.setattr("avatar3d.enrolment.skin.atlas.show_eyes", lambda *_: None)
    assert as_seen < 0.8 * error()


def test_the_light_is_found_with_its_side(calm):
    _, _, view, skin = calm
    chosen = view.nodes.core
    normals = view.nodes.normals[chosen]
    luminance = skin.light @ np.array([0.2126, 0.7152, 0.0722])
    assert (light_basis(normals) @ luminance).mean() == pytest.approx(1, abs=0.1)
    assert luminance[1] > 0.08, "the key light comes from the subject's left"
    true = light_basis(normals) @ LIGHT[:, 0]
    found = light_basis(normals) @ luminance
    assert np.corrcoef(true, found)[0, 1] > 0.9


def test_unseen_skin_has_the_skins_colour_and_no_backdrop(calm, head):
    _, fit, _, skin = calm
    from avatar3d.enrolment.skin.surface import atlas, node_graph

    graph = node_graph(head)
    texels = atlas(head, graph, 1024)
    colour = srgb_to_linear(skin.base_color.reshape(-1, 3)[texels.raster.texel[texels.on_graph]])
    back = texels.from_nodes @ graph.rest[:, 2] < -0.09
    assert back.sum() > 5000
    plain = srgb_to_linear(skin.skin_color_srgb)
    assert np.abs(np.median(colour[back], 0) / plain - 1).max() < 0.1
    assert np.percentile(colour[back][:, 2] / colour[back][:, 0], 99) < 0.75, "the blue backdrop stays out"
    assert np.abs(plain / plain.sum() - SKIN_LINEAR / SKIN_LINEAR.sum()).max() < 0.05


def test_the_texture_has_no_seam(calm, head):
    """Both copies of a vertex on a texture seam read nearly the same colour."""
    from avatar3d.field.shells import sample_texture

    skin = calm[3]
    copies = np.flatnonzero((head.weld != np.arange(len(head.weld))) & (head.vertex_part == 0))
    texture = skin.base_color.astype(np.float32)
    ours, theirs = (sample_texture(texture, head.uv[index]) for index in (copies, head.weld[copies]))
    assert np.abs(ours - theirs).mean() < 4


def test_a_smiling_photo_leaves_a_layer_that_its_motion_switches_on(smiling):
    _, fit, _, skin = smiling
    layer = next(delta for delta in skin.texture_deltas if delta.name == "photo expression")
    assert layer.activation(fit.motion.weights) == pytest.approx(1, abs=1e-3)
    assert layer.activation(np.zeros(52)) == 0


@pytest.mark.parametrize(("core_only", "most"), [(False, 8), (True, 14)])
def test_a_shut_lid_is_of_the_skin_around_it(core_only, most, calm, head):
    """core_only: as a viewer shows it that knows no texture deltas."""
    _, fit, view, skin = calm
    avatar = dressed(
        head, fit.neutral_vertices, skin.base_color, skin.light, texture_deltas=[] if core_only else skin.texture_deltas
    )
    blink = MotionCode.from_expression({"eyeBlinkLeft": 1.0, "eyeBlinkRight": 1.0})
    frame = ReferenceRenderer().render(avatar, blink, [view.picture.camera], RenderOptions(form="mesh"))[0]
    lab = cv2.cvtColor(frame.to_srgb8((0, 0, 0)).astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    marks, _ = view.picture.camera.project(head.landmark_points(fit.neutral_vertices))
    for upper, lower, cheek in ((386, 374, 330), (159, 145, 101)):
        (x, y), (u, v) = ((2 * marks[upper] + marks[lower]) / 3).astype(int), marks[cheek].astype(int)
        lid = np.median(lab[y - 2 : y + 3, x - 2 : x + 3].reshape(-1, 3), axis=0)
        assert np.linalg.norm(lid - np.median(lab[v - 2 : v + 3, u - 2 : u + 3].reshape(-1, 3), axis=0)) < most


def cheeks(head, skin):
    """(K, 2, 3) linear colour of mirrored places on the cheeks, left and right."""
    from avatar3d.field.shells import sample_texture

    texture = cv2.GaussianBlur(srgb_to_linear(skin.base_color), (0, 0), 6)
    left = np.flatnonzero((head.regions["cheeks"] > 0.5) & (head.vertices[:, 0] > 0.02))
    return np.stack([sample_texture(texture, head.uv[index]) for index in (left, head.mirror[left])], axis=1)


@pytest.mark.parametrize(("dark", "most"), [(0.35, 0.16), (0.01, 0.25)])
def test_a_face_lit_from_one_side_has_one_skin(dark, most, calm, head):
    face, fit, view, _ = calm
    middle, width = view.picture.landmarks_px[1, 0], 6 * view.nodes.mm_px
    side = 1 / (1 + np.exp(-(np.arange(view.picture.rgb.shape[1]) - middle) / width))
    rgb = np.clip(255 * (srgb_to_linear(view.picture.rgb) * (dark + (1 - dark) * side)[None, :, None]) ** (1 / 2.2), 0, 255)
    nothing = np.zeros(rgb.shape[:2], np.float32)
    picture = replace(view.picture, rgb=rgb.astype(np.uint8))
    half = view_skin(picture, fit, head, crop_mask(face.matte, view.picture), nothing)
    colour = cheeks(head, build_skin(half, nothing, size=512))
    assert np.abs(np.log(colour[:, 0] / colour[:, 1])).mean() < most


def test_teeth_are_told_apart(calm, head):
    texels = atlas(head, calm[2].graph, 1024)
    chosen = head.part[texels.raster.triangle] == TEETH
    places = texels.raster.interpolate(head.faces, head.vertices)[chosen]
    brightness = srgb_to_linear(calm[3].base_color.reshape(-1, 3)[texels.raster.texel[chosen]]).mean(1)
    upper = places[:, 1] > np.median(places[:, 1])
    low = places[upper, 1].min()
    row = upper & (places[:, 1] > low + 0.003) & (places[:, 1] < low + 0.005) & (np.abs(places[:, 0]) < 0.016)
    bins = ((places[row, 0] + 0.016) / 0.0005).astype(int)
    profile = np.array([np.percentile(brightness[row][bins == k], 90) for k in np.unique(bins)])
    darker = profile < 0.8 * cv2.dilate(profile[:, None], np.ones((9, 1)))[:, 0]
    assert (np.diff(darker.astype(int)) == 1).sum() >= 4, "gaps between six front teeth"


def test_lids_clean_themselves_as_they_close_and_only_then(calm):
    lids = [delta for delta in calm[3].texture_deltas if delta.name.startswith("closing lid")]
    assert len(lids) == 2
    blink = MotionCode.from_expression({"eyeBlinkLeft": 1.0}).weights
    assert sorted(delta.activation(blink) for delta in lids) == [0, 1]
    assert max(delta.activation(np.zeros(52)) for delta in lids) == 0


def test_eyes_are_painted_with_the_photos_iris_a_pupil_and_a_white(calm, head):
    skin = calm[3]
    size = skin.base_color.shape[0]
    for eye in head.eye_uv:
        column, row = (eye.centre * size).astype(int)
        assert skin.base_color[row, column].max() < 30, "pupil"
        line = np.arange(int(0.9 * eye.radius * size))
        polar, _ = eye.polar((np.stack([column + line, np.full(len(line), row)], 1) + 0.5) / size)
        r, _, b = skin.base_color[row, column + int(np.argmin(np.abs(polar - 0.27)))].astype(int)
        assert b > r, "the staged iris is blue"
        assert skin.base_color[row, column + int(np.argmin(np.abs(polar - 0.6)))].min() > 150, "white"


def test_lids_shade_the_white_most_at_their_edge_and_the_upper_one_most(calm, head):
    skin, fit = calm[3], calm[1]
    size = skin.base_color.shape[0]
    light = srgb_to_linear(skin.base_color).mean(-1)
    for eye, ids in enumerate(EYE_LOOPS):
        corners = fit.neutral_vertices[head.landmark_tri[list(ids)]] * head.landmark_bary[list(ids)][..., None]
        edge = corners.sum(1) - head.eye_centres(fit.neutral_vertices)[eye]
        top, bottom = (
            float(np.arctan2(height, edge[edge[:, 1].argmax(), 2])) for height in (edge[:, 1].max(), edge[:, 1].min())
        )
        assert bottom < 0 < top

        def white(up: float, eye: int = eye) -> float:
            """Beside the iris, `up` radians above the optical axis."""
            side = 0.62
            place = head.eye_uv[eye].place(np.array([np.hypot(side, up)]), np.array([np.arctan2(up, side if eye else -side)]))[
                0
            ]
            column, row = (place * size).astype(int)
            return float(light[row - 2 : row + 3, column - 2 : column + 3].mean())

        middle = white((top + bottom) / 2)
        assert white(top) < 0.8 * middle and white(top) < white(bottom) < middle


def test_teeth_are_ivory_and_the_mouth_dark_red(calm, head):
    from avatar3d.field.shells import uv_raster

    skin = calm[3]
    texels = uv_raster(head.faces, head.uv, (1024, 1024), 0)
    colour = srgb_to_linear(skin.base_color.reshape(-1, 3)[texels.texel])
    part = head.part[texels.triangle]
    teeth = colour[part == TEETH]
    bright = teeth[teeth.mean(1) > 0.5]
    assert len(bright) > 200 and (bright[:, 0] > bright[:, 2]).all()
    eyes = colour[part == EYES]
    assert eyes.max() < 0.95, "no eye is pure white"


def test_what_lies_in_the_mouth_has_the_hue_of_the_photos_light(calm, head):
    face, fit, view, _ = calm
    warm = np.clip(255 * (srgb_to_linear(view.picture.rgb) * (1.2, 0.9, 0.4)) ** (1 / 2.2), 0, 255).astype(np.uint8)
    matte = crop_mask(face.matte, view.picture)
    nothing = np.zeros_like(matte)
    texels = atlas(head, view.graph, 512)
    part = head.part[texels.raster.triangle]
    hue = {}
    for light, rgb in (("plain", view.picture.rgb), ("warm", warm)):
        skin = build_skin(view_skin(replace(view.picture, rgb=rgb), fit, head, matte, nothing), nothing, size=512)
        colour = srgb_to_linear(skin.base_color.reshape(-1, 3)[texels.raster.texel]).astype(float)
        hue[light] = [
            np.median(colour[part == kind][:, 2] / np.maximum(colour[part == kind][:, 0], 1e-3)) for kind in (TONGUE, TEETH)
        ]
    tongue, teeth = np.array(hue["warm"]) / hue["plain"]
    assert tongue < 0.6, "skin has a third of its blue left"
    assert tongue < teeth < 0.85, "teeth stay whiter than skin in warm light"


def test_a_red_ear_is_shown_and_dark_cloth_beside_it_is_not(calm, head):
    face, fit, view, _ = calm
    matte = crop_mask(face.matte, view.picture)
    nothing = np.zeros_like(matte)
    ears = view.graph.spread @ head.regions["ears"] > 0.7
    shown = ears & (view.nodes.weight > 0.5)
    assert shown.sum() > 100
    place = view.nodes.pixels[shown]
    box = [slice(int(low) - 8, int(high) + 8) for low, high in zip(place.min(0), place.max(0), strict=True)][::-1]
    red = view.picture.rgb.copy()
    red[tuple(box)] = red[tuple(box)] * (1.0, 0.88, 0.9)
    away = np.abs(np.arange(red.shape[1]) - view.picture.landmarks_px[1, 0])
    red = np.where((away > np.abs(place[:, 0] - view.picture.landmarks_px[1, 0]).min() - 2)[:, None], red, view.picture.rgb)
    told = view_skin(replace(view.picture, rgb=red.astype(np.uint8)), fit, head, matte, nothing).nodes
    assert (told.weight[shown] > 0.5).mean() > 0.8
    lobe = float(np.percentile(place[:, 1], 60))
    cloth = view.picture.rgb.copy()
    cloth[int(lobe) :, away > 70] = (52, 24, 17)  # the skin's hue, in the dark
    told = view_skin(replace(view.picture, rgb=cloth), fit, head, matte, nothing).nodes
    below = (
        shown & (view.nodes.pixels[:, 1] > lobe + 3) & (np.abs(view.nodes.pixels[:, 0] - view.picture.landmarks_px[1, 0]) > 76)
    )
    assert below.sum() > 20 and told.weight[below].max() < 0.1


def test_teeth_in_the_lips_shadow_are_darker_than_those_in_the_light(calm, head):
    _, _, view, _ = calm
    texels = atlas(head, view.graph, 256)
    part = head.part[texels.raster.triangle]
    teeth = part == TEETH
    pixels, _ = view.picture.camera.project(texels.raster.interpolate(head.faces, view.nodes.posed)[teeth].astype(float))
    middle, reach = np.median(pixels, axis=0), np.ptp(pixels, axis=0).max()
    landmarks = view.picture.landmarks_px.copy()
    turn = np.linspace(0, 2 * np.pi, len(LIPS_INNER), endpoint=False)
    landmarks[list(LIPS_INNER), :2] = middle + reach * np.stack([np.cos(turn), np.sin(turn)], 1)
    rgb = np.full_like(view.picture.rgb, 190)
    rgb[:, : int(middle[0])] = 140
    linear = np.full((len(part), 3), 0.5, np.float32)
    picture = replace(view.picture, rgb=rgb, landmarks_px=landmarks)
    shade_mouth(linear, picture, view.nodes, np.ones((len(head.vertices), 3)), head, texels, np.ones(3))
    left, right = linear[teeth][pixels[:, 0] < middle[0] - 6], linear[teeth][pixels[:, 0] > middle[0] + 6]
    assert left.mean() < 0.75 * right.mean()
    assert (linear[~np.isin(part, (TEETH, TONGUE))] == 0.5).all()


def test_the_shadow_that_hair_casts_on_the_forehead_is_drawn(calm, head):
    face, fit, view, _ = calm
    brow_row = int(view.picture.landmarks_px[9, 1])
    edge = brow_row - int(14 * view.nodes.mm_px)
    band = slice(edge + int(2 * view.nodes.mm_px), edge + int(6 * view.nodes.mm_px))
    hair = np.zeros(view.picture.rgb.shape[:2], np.float32)
    hair[:edge] = 1
    rgb = view.picture.rgb.copy()
    rgb[edge : band.stop] = (0.85 * rgb[edge : band.stop]).astype(np.uint8)
    rgb[:edge] = (30, 20, 15)
    shadowed = view_skin(replace(view.picture, rgb=rgb), fit, head, crop_mask(face.matte, view.picture), hair)
    picture = drawn(head, fit, build_skin(shadowed, hair), fit.motion, view.picture.camera).to_srgb8((0, 0, 0))
    column = int(view.picture.landmarks_px[9, 0])
    here = band, slice(column - 20, column + 20)
    light, seen = view.picture.rgb[here].mean(), rgb[here].mean()
    assert picture[here].mean() < seen + 0.4 * (light - seen)


def test_painting_is_repeatable(calm, head):
    _, _, view, skin = calm
    again = build_skin(view, np.zeros(view.picture.rgb.shape[:2], np.float32), size=1024)
    assert np.array_equal(again.base_color, skin.base_color)


def test_hair_and_scalp_stay_off_the_skin_and_under_the_hair(calm, head):
    face, fit, view, _ = calm
    hair = np.zeros(view.picture.rgb.shape[:2], np.float32)
    brow_row = int(view.picture.landmarks_px[9, 1])
    hair[:brow_row] = 1
    picture = view.picture.rgb.copy()
    picture[:brow_row] = (20, 90, 20)  # green hair
    from dataclasses import replace

    green = view_skin(replace(view.picture, rgb=picture), fit, head, crop_mask(face.matte, view.picture), hair)
    mask = head.regions["scalp"]
    skin = build_skin(green, hair, mask, np.array([0.2, 0.1, 0.05]), size=512)
    from avatar3d.enrolment.skin.surface import atlas, node_graph

    texels = atlas(head, node_graph(head), 512)
    colour = skin.base_color.reshape(-1, 3)[texels.raster.texel[texels.on_graph]].astype(int)
    assert (colour[:, 1] <= colour[:, 0] + 4).mean() > 0.999, "no green anywhere"
    under = texels.raster.interpolate(head.faces, mask)[texels.on_graph] > 0.99
    assert np.median(colour[under], 0) == pytest.approx([51, 26, 13], abs=12)


def test_a_beard_is_skin_and_a_hand_is_not(calm, head):
    face, fit, view, _ = calm
    landmarks, rgb = view.picture.landmarks_px, view.picture.rgb.copy()
    beard, hand, nothing = (np.zeros(rgb.shape[:2], np.float32) for _ in range(3))
    beard[int(landmarks[17, 1]) :] = 1
    hand[: int(landmarks[9, 1])] = 1
    rgb[beard > 0], rgb[hand > 0] = (40, 28, 20), (40, 60, 200)
    matte = crop_mask(face.matte, view.picture)
    seen = view_skin(replace(view.picture, rgb=rgb), fit, head, matte, nothing, Covers(beard, hand, np.zeros_like(beard)))
    skin = build_skin(seen, nothing, size=512)
    texels = atlas(head, seen.graph, 512)
    colour = skin.base_color.reshape(-1, 3)[texels.raster.texel[texels.on_graph]].astype(int)
    assert (colour[:, 2] > colour[:, 0]).mean() < 0.001, "no blue hand"
    below_chin = seen.graph.rest[:, 1] < head.landmark_points(head.vertices)[CHIN, 1] - 0.004
    throat = texels.from_nodes @ (below_chin & (seen.nodes.pixels[:, 1] > landmarks[17, 1]) & (seen.nodes.weight > 0.5)) > 0.9
    assert throat.sum() > 200 and np.median(colour[throat].mean(1)) < 60, "the beard goes on under the chin"


def test_a_neck_in_another_light_is_shown_but_nothing_that_lies_across_it(calm, head):
    face, fit, view, _ = calm
    landmarks, rgb = view.picture.landmarks_px, view.picture.rgb.copy()
    neck, nothing = (np.zeros(rgb.shape[:2], np.float32) for _ in range(2))
    neck[int(landmarks[CHIN, 1]) + 6 :] = 1
    rgb[neck > 0] = (60, 75, 95)  # no colour of the face
    strand = slice(int(landmarks[CHIN, 0]) - 3, int(landmarks[CHIN, 0]) + 3)
    rgb[int(landmarks[CHIN, 1]) + 6 :, strand] = (15, 10, 8)
    picture, matte = replace(view.picture, rgb=rgb), crop_mask(face.matte, view.picture)
    told = view_skin(picture, fit, head, matte, nothing, Covers(nothing, nothing, neck)).nodes
    untold = view_skin(picture, fit, head, matte, nothing, Covers(nothing, nothing, nothing)).nodes
    of_neck = (told.pixels[:, 1] > landmarks[CHIN, 1] + 18) & (view.nodes.weight > 0.5)
    away = np.abs(told.pixels[:, 0] - landmarks[CHIN, 0])
    beside, across = of_neck & (away > 8 * told.mm_px), of_neck & (away < 3)
    assert beside.sum() > 100 and np.median(told.weight[beside]) > 0.5 and np.median(untold.weight[beside]) < 0.05
    assert across.sum() > 10 and told.weight[across].max() < 0.2


def test_a_greyscale_photo_makes_a_grey_head_teeth_and_tongue_too(head):
    *_, skin = enrolled(0.0, head, size=512, grey=True)
    assert np.ptp(skin.base_color, axis=2).max() <= 1  # of 255: rounding
    assert np.ptp(skin.base_color) > 100
