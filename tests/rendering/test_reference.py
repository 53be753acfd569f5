"""The reference renderer: fragments, gradients, blending, closed surfaces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.ndimage import binary_fill_holes

from avatar3d.avatar import PART_LASH, Avatar
from avatar3d.field.network import NeuralField
from avatar3d.motion.code import MotionCode
from avatar3d.rendering import RenderOptions
from avatar3d.rendering.frame import SURFACE_HAIR, SURFACE_HEAD
from avatar3d.rendering.reference.composite import composite
from avatar3d.rendering.reference.fragments import fragments, fragments_kept
from avatar3d.rendering.reference.renderer import ReferenceRenderer
from avatar3d.rendering.reference.shading import live_residual, shade_fragments, textures_of
from avatar3d.rendering.scene import Scene, build_scene
from tests.rendering.conftest import view

SIZE = 64


@pytest.fixture(scope="module")
def scene(avatar: Avatar, moved: MotionCode) -> Scene:
    return build_scene(avatar, moved)


def test_fragments_lie_where_their_pixel_looks(scene: Scene) -> None:
    camera = view(0.5, 0.2, SIZE, SIZE)
    layers = fragments(scene, camera)
    assert [(layer.surface, layer.level) for layer in layers] == [
        (SURFACE_HEAD, -1), (SURFACE_HEAD, -1), *((SURFACE_HAIR, level) for level in range(4)),
    ]  # fmt: skip
    for layer in layers:
        assert len(layer.pixel) > 20
        pixels, depth = camera.project(layer.position.astype(np.float64))
        centres = np.stack([layer.pixel % SIZE + 0.5, layer.pixel // SIZE + 0.5], 1)
        assert np.abs(pixels - centres).max() < 2e-3
        np.testing.assert_allclose(depth, layer.depth, rtol=1e-4)
        np.testing.assert_allclose(np.linalg.norm(layer.d, axis=1), 1, rtol=1e-5)
        assert (layer.barycentric >= -0.1).all()
    head = layers[0]
    corners = scene.vertices[scene.avatar.faces[head.face]]
    np.testing.assert_allclose((corners * head.barycentric[..., None]).sum(1), head.position, atol=1e-6)


def test_only_hair_in_front_of_the_head_is_given(scene: Scene) -> None:
    camera = view(0.0, 0.0, SIZE, SIZE)
    head, _, *hair = fragments(scene, camera)
    nearest_head = np.full(SIZE * SIZE, np.inf)
    nearest_head[head.pixel] = head.depth
    for layer in hair:
        assert (layer.depth < nearest_head[layer.pixel]).all()
        assert layer.level == 0 or layer.front.all()


def picture(scene: Scene, layers: list, textures, residual=None) -> torch.Tensor:  # type: ignore[no-untyped-def, type-arg]
    return composite(layers, [shade_fragments(layer, textures, residual) for layer in layers], SIZE * SIZE).rgba


def test_gradients_match_finite_differences(scene: Scene) -> None:
    layers = fragments(scene, view(0.3, 0.1, SIZE, SIZE))
    textures = textures_of(scene)
    rng = np.random.default_rng(0)
    target = torch.from_numpy(rng.uniform(0, 1, (SIZE * SIZE, 4)).astype(np.float32))

    def loss() -> torch.Tensor:
        return ((picture(scene, layers, textures).double() - target) ** 2).sum()

    assert textures.hair_opacity is not None
    for tensor in (textures.base_color, textures.deltas[0][0], textures.hair_color, textures.hair_opacity):
        assert tensor is not None
        tensor.requires_grad_(True)
        (gradient,) = torch.autograd.grad(loss(), tensor)
        tensor.requires_grad_(False)
        flat, flat_gradient = tensor.view(-1), gradient.reshape(-1)
        for index in torch.argsort(flat_gradient.abs(), descending=True)[:3].tolist():
            step, value = 2e-3, float(flat[index])
            sides = []
            for sign in (1, -1):
                flat[index] = value + sign * step
                sides.append(float(loss()))
            flat[index] = value
            assert (sides[0] - sides[1]) / (2 * step) == pytest.approx(float(flat_gradient[index]), rel=0.03)


def test_the_live_field_can_be_trained_through_the_picture(scene: Scene) -> None:
    params = scene.avatar.neural_field
    assert params is not None
    field = NeuralField(params)
    head, _, base_level, *_ = fragments(scene, view(0.3, 0.1, SIZE, SIZE))
    textures = textures_of(scene)
    weight = torch.from_numpy(head.field_weight)[:, None]
    with torch.no_grad():
        target, bare_opacity = shade_fragments(head, textures)[0] * 0.9, shade_fragments(base_level, textures)[1]
    optimiser = torch.optim.Adam(field.parameters(), lr=2e-2)
    losses = []
    for _ in range(25):
        residual = live_residual(field, scene.motion.weights)
        color, _ = shade_fragments(head, textures, residual)
        _, opacity = shade_fragments(base_level, textures, residual)
        loss = (weight * (color - target) ** 2).mean() + ((opacity - 0.8 * bare_opacity) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


def test_levels_are_blended_from_inside_out(scene: Scene) -> None:
    layers = fragments(scene, view(0.0, 0.0, SIZE, SIZE))
    textures = textures_of(scene)
    result = composite(layers, [shade_fragments(layer, textures) for layer in layers], SIZE * SIZE)
    hair = [layer for layer in layers if layer.surface == SURFACE_HAIR]
    once = [np.flatnonzero(np.bincount(layer.pixel, minlength=SIZE * SIZE) == 1) for layer in hair]
    pixel = next(iter(set(once[0]).intersection(*once[1:])))
    expected = torch.zeros(4)
    for layer in hair:
        color, alpha = shade_fragments(layer, textures)
        index = int(np.flatnonzero(layer.pixel == pixel)[0])
        opacity = torch.ones(()) if layer.level == 0 else alpha[index]
        expected = torch.cat([color[index] * opacity, opacity[None]]) + (1 - opacity) * expected
    torch.testing.assert_close(result.rgba[pixel], expected)
    assert result.surface[pixel] == SURFACE_HAIR


def test_transparent_pixels_are_black_and_the_bust_fades(avatar: Avatar, reference: ReferenceRenderer) -> None:
    frame = reference.render(avatar, MotionCode(), [view(0.0)], RenderOptions("mesh"))[0]
    alpha = frame.rgba[..., 3]
    assert (frame.rgba[alpha == 0] == 0).all()
    assert alpha[0, 0] == 0
    assert np.isinf(frame.depth[0, 0])
    assert frame.surface[0, 0] == -1
    fading = (alpha > 0.2) & (alpha < 0.8) & (frame.surface == SURFACE_HEAD)
    assert fading.sum() > 100
    straight = frame.rgba[..., :3][fading] / alpha[fading][:, None]
    solid = frame.rgba[..., :3][(alpha == 1) & (frame.surface == SURFACE_HEAD)]
    assert straight.mean() == pytest.approx(solid.mean(), rel=0.25)
    assert (frame.rgba[..., :3] >= 0).all()
    assert alpha.max() <= 1 + 1e-6


def test_the_head_has_no_holes_from_any_side(avatar: Avatar, reference: ReferenceRenderer) -> None:
    keep = avatar.part != PART_LASH  # a lash arches over the eye with nothing behind it
    lashless = replace(avatar, faces=avatar.faces[keep], part=avatar.part[keep])
    views = [view(yaw, pitch, 96, 96) for yaw in np.arange(8) * np.pi / 4 for pitch in (-0.4, 0.0, 0.6)]
    for frame in reference.render(lashless, MotionCode(), views, RenderOptions("mesh", hair=False)):
        covered = frame.rgba[..., 3] > 0
        assert np.array_equal(binary_fill_holes(covered), covered)


def test_no_hair_means_no_hair(avatar: Avatar, reference: ReferenceRenderer) -> None:
    camera = view(0.0, 0.0, SIZE, SIZE)
    hidden = reference.render(avatar, MotionCode(), [camera], RenderOptions("mesh", hair=False))[0]
    bald = reference.render(replace(avatar, hair=None), MotionCode(), [camera], RenderOptions("mesh"))[0]
    assert np.array_equal(hidden.rgba, bald.rgba)
    assert SURFACE_HAIR not in hidden.surface


def test_a_missing_field_is_drawn_as_mesh(avatar: Avatar, reference: ReferenceRenderer) -> None:
    bare = replace(avatar, neural_field=None, baked=None)
    camera = view(0.2, 0.0, SIZE, SIZE)
    pictures = [
        reference.render(bare, MotionCode(), [camera], RenderOptions(form))[0].rgba for form in ("live", "baked", "mesh")
    ]
    assert np.array_equal(pictures[0], pictures[2])
    assert np.array_equal(pictures[1], pictures[2])


def test_the_picture_is_one_with_gradients_or_without(scene: Scene) -> None:
    camera = view(0.4, 0.1, SIZE, SIZE)

    def drawn() -> torch.Tensor:
        textures, layers = textures_of(scene), fragments(scene, camera)
        return composite(layers, [shade_fragments(layer, textures) for layer in layers], SIZE * SIZE).rgba

    with torch.no_grad():
        quick = drawn()
    assert quick[:, 3].max() > 0.9
    torch.testing.assert_close(quick, drawn(), rtol=0, atol=1e-6)


def test_fragments_that_are_kept_follow_every_change_of_shape(avatar: Avatar, moved: MotionCode) -> None:
    camera, other = view(0.4, 0.1, SIZE, SIZE), view(-0.3, 0.1, SIZE, SIZE)
    hair = avatar.hair
    assert hair is not None
    darker = replace(avatar, base_color=avatar.base_color // 2, hair=replace(hair, color=hair.color // 2))
    wider = replace(avatar, vertices=avatar.vertices * np.float32(1.1))
    thicker = replace(avatar, hair=replace(hair, extent=hair.extent * np.float32(1.5)))
    drawn = [
        (one, motion, place)
        for one in (avatar, darker, wider, thicker, avatar)
        for motion in (moved, MotionCode())
        for place in (camera, other)
    ]
    renderer = ReferenceRenderer()
    plain = [renderer.render(one, motion, [place], RenderOptions(form="mesh"))[0].rgba for one, motion, place in drawn]
    with fragments_kept(camera):
        kept = [renderer.render(one, motion, [place], RenderOptions(form="mesh"))[0].rgba for one, motion, place in drawn]
        again = fragments(build_scene(avatar, moved), camera)
        assert again[0] is fragments(build_scene(darker, moved), camera)[0]
        assert again[0] is not fragments(build_scene(wider, moved), camera)[0]
    for one, two in zip(plain, kept, strict=True):
        np.testing.assert_array_equal(one, two)
