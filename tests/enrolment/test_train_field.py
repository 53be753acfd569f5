"""Field training on a synthetic avatar whose true look is known: what gets better, what must not change, what repeats."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.enrolment.field.figures import outline_distance_px, outline_points
from avatar3d.enrolment.field.pixels import encoding_slope, held_out_pixels
from avatar3d.enrolment.field.train import TrainOptions, train
from avatar3d.errors import InputError
from avatar3d.field import evaluate
from avatar3d.field.projection import cosine_directions
from avatar3d.generator import PhotoEvidence, make_request
from avatar3d.generator.photo import PhotoGenerator
from avatar3d.motion.code import MotionCode
from tests.make_avatar import synthetic_avatar

SIZE = 192


def _camera(yaw_deg: float = 0.0) -> Camera:
    return Camera.orbit(np.radians(yaw_deg), width=SIZE, height=SIZE)


@pytest.fixture(scope="module")
def case() -> tuple[Avatar, PhotoEvidence]:
    """An avatar whose hair is too bright and too opaque, and a photo of the true one."""
    true = dataclasses.replace(synthetic_avatar(), neural_field=None, baked=None)
    motion = MotionCode.from_expression({"jawOpen": 0.2})
    request = make_request(true, motion, _camera())
    evidence = PhotoEvidence(request.coarse.to_srgb8((90, 110, 130)), _camera(), motion, request.coarse.rgba[..., 3].copy())
    hair = true.hair
    opacity = hair.opacity.astype(np.float32)
    opacity[1:] = np.where(opacity[1:] > 20, np.minimum(opacity[1:] + 70, 255), opacity[1:])
    wrong = dataclasses.replace(
        hair, opacity=opacity.astype(np.uint8), color=np.minimum(hair.color.astype(int) + 35, 255).astype(np.uint8)
    )
    return dataclasses.replace(true, hair=wrong), evidence


@pytest.fixture(scope="module")
def trained(case):
    avatar, evidence = case
    calls: list[float] = []
    options = TrainOptions(iterations=250, seconds_budget=600)
    params, report = train(avatar, evidence, PhotoGenerator(evidence), options, progress=lambda share, _: calls.append(share))
    return params, report, calls


def test_training_lowers_the_loss_and_says_how_long_it_took(trained) -> None:
    _, report, calls = trained
    assert report.loss_last < 0.5 * report.loss_first
    assert report.iterations == 250 and report.seconds > 0
    assert calls[0] == 0.0 and calls[-1] == 1.0 and calls == sorted(calls)


def test_pixels_never_trained_on_get_better_where_the_photo_knows_more(trained) -> None:
    _, report, _ = trained
    assert report.heldout_hair_psnr_db_on > report.heldout_hair_psnr_db_off + 1
    assert report.rim_opacity_rmse_on < 0.9 * report.rim_opacity_rmse_off
    assert report.silhouette_px_on <= report.silhouette_px_off


def test_the_view_term_learns_reflectance_at_points_never_trained_on(trained) -> None:
    _, report, _ = trained
    assert report.teacher_rmse_255_on < 0.9 * report.teacher_rmse_255_off


def test_the_field_does_not_repaint_skin(case, trained) -> None:
    avatar, _ = case
    params, report, _ = trained
    assert report.skin_mean_255 < 1.0 and report.skin_view_255 > 1.5 * report.skin_mean_255
    skin = avatar.vertices[avatar.field_weight > 0.9][::5]
    d = cosine_directions(64)
    residual, _ = evaluate(params, np.repeat(skin, len(d), 0), np.tile(d, (len(skin), 1)), np.zeros(52))
    mean = residual.reshape(len(skin), len(d), 3).mean(1)
    assert np.sqrt(np.mean(mean**2)) < 0.01


def test_untrained_expressions_change_little(case, trained) -> None:
    avatar, _ = case
    params, _, _ = trained
    points = avatar.vertices[avatar.field_weight > 0.9][::3]
    d = np.tile([[0.0, 0.0, 1.0]], (len(points), 1))
    weights = np.zeros(52)
    weights[[17, 23, 24, 43]] = 1.0
    change = evaluate(params, points, d, weights)[0] - evaluate(params, points, d, np.zeros(52))[0]
    assert np.sqrt(np.mean(change**2)) < 0.02


def test_equal_runs_give_equal_fields(case) -> None:
    avatar, evidence = case
    options = TrainOptions(iterations=12, seconds_budget=600, seed=3)
    (first, _), (second, _) = (train(avatar, evidence, None, options) for _ in range(2))
    assert (first.tables == second.tables).all()
    assert all((a == b).all() for a, b in zip(first.weights, second.weights, strict=True))


def test_torch_and_numba_train_alike(case) -> None:
    avatar, evidence = case
    fields = [
        train(avatar, evidence, None, TrainOptions(iterations=4, seconds_budget=600, implementation=name))[0]
        for name in ("numba", "torch")
    ]
    for first, second in zip(fields[0].weights, fields[1].weights, strict=True):
        np.testing.assert_allclose(first, second, atol=5e-3)


def test_a_budget_ends_the_run(case) -> None:
    avatar, evidence = case
    _, report = train(avatar, evidence, None, TrainOptions(iterations=10**6, seconds_budget=0.3))
    assert 0 < report.iterations < 10**6


def test_hairless_and_generatorless_training_reports_nothing_for_them(case) -> None:
    avatar, evidence = case
    bald = dataclasses.replace(avatar, hair=None)
    _, report = train(bald, evidence, None, TrainOptions(iterations=5, seconds_budget=600))
    assert report.rim_opacity_rmse_on is None and report.silhouette_px_on is None
    assert report.generator_psnr_db_on is None and report.heldout_hair_psnr_db_on is None
    assert report.heldout_skin_psnr_db_on is not None


def test_what_cannot_be_trained_is_one_sentence(case) -> None:
    avatar, evidence = case
    with pytest.raises(InputError, match="tcnn does not run on cpu"):
        train(avatar, evidence, None, TrainOptions(implementation="tcnn"))
    away = dataclasses.replace(evidence, camera=evidence.camera.moved(np.eye(3), np.array([5.0, 0.0, 0.0])))
    with pytest.raises(InputError, match="not in the photo's picture"):
        train(avatar, away, None, TrainOptions(iterations=1))


def test_held_out_blocks_are_whole_and_a_fifth() -> None:
    held = held_out_pixels(401, 399, 0)
    assert held.shape == (401, 399) and 0.15 < held.mean() < 0.25
    blocks = held[:400, :392].reshape(50, 8, 49, 8).mean((1, 3))
    assert set(np.unique(blocks)) == {0.0, 1.0}
    assert (held != held_out_pixels(401, 399, 1)).any()


def test_outline_distance_is_exact_on_shifted_discs() -> None:
    y, x = np.mgrid[:100, :100] + 0.5

    def disc(radius: float) -> np.ndarray:
        return np.clip(radius - np.hypot(x - 50, y - 50) + 0.5, 0, 1)

    radius = np.hypot(*(outline_points(disc(30)) - 50).T)
    assert np.abs(radius - 30).max() < 0.2
    everywhere = np.ones((100, 100), bool)
    assert outline_distance_px(disc(33), disc(30), everywhere) == pytest.approx(3, abs=0.1)
    assert outline_distance_px(disc(33), disc(30), np.zeros((100, 100), bool)) is None


def test_encoding_slope_is_the_curves_derivative() -> None:
    from avatar3d.color import linear_to_srgb

    light = np.array([0.1, 0.3, 0.8])
    numeric = (linear_to_srgb(light + 1e-3) - linear_to_srgb(light - 1e-3)) / 2e-3
    np.testing.assert_allclose(encoding_slope(light), numeric, rtol=0.01)
