"""Training of the neural field: what the photo shows, what a generator adds, what reflectance says of other views.

One photo tells the field the hair's opacity and colour; it cannot tell a view term, which a reflectance model teaches instead
(avatar3d.enrolment.field.reflectance). On skin the residual's mean over views is held at zero: the field cannot repaint a person.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch

from avatar3d.avatar import Avatar, FieldParams
from avatar3d.enrolment.field.batches import Batches
from avatar3d.enrolment.field.figures import generator_figures, photo_figures, teacher_figures
from avatar3d.enrolment.field.options import TrainOptions, TrainReport
from avatar3d.enrolment.field.pixels import drawn_view, generator_pixels, held_out_pixels, photo_pixels
from avatar3d.enrolment.field.reflectance import key_light
from avatar3d.enrolment.field.teacher import Teacher, all_teachers, hair_teachers, skin_teacher
from avatar3d.enrolment.field.trainer import run_training
from avatar3d.errors import InputError
from avatar3d.field.definition import FieldConfig, box_of, new_field
from avatar3d.field.network import NeuralField, check_back_end
from avatar3d.generator.protocol import Generator, PhotoEvidence
from avatar3d.motion.code import MotionCode
from avatar3d.progress import ProgressCallback, silent
from avatar3d.rendering.reference.composite import composite
from avatar3d.rendering.reference.shading import live_residual, shade_fragments, textures_of
from avatar3d.rendering.scene import build_scene

TEACHER_HELD_OUT_SHARE = 0.1  # of the teacher's points
PREPARED, LEARNT = 0.42, 0.92  # of the time: when the steps begin, and when what they changed begins to be measured


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """torch and numba on `count` threads (as many as there are, at most), as before afterwards."""
    import numba

    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(count)
    numba.set_num_threads(min(count, before[1]))
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        numba.set_num_threads(before[1])


def train(
    avatar: Avatar,
    evidence: PhotoEvidence,
    generator: Generator | None = None,
    options: TrainOptions | None = None,
    config: FieldConfig | None = None,
    progress: ProgressCallback = silent,
) -> tuple[FieldParams, TrainReport]:
    """Train a field for `avatar` (its present field is ignored) and say what it changed, measured off and on.

    generator: proposes other views; None trains from the photo and the reflectance model alone. Reproducible for equal
    inputs, options and thread counts while the run stays inside its budget. Raises InputError when the avatar has
    nothing the field may act on or is not in the picture, and as `check_back_end` does.
    """
    options = options or TrainOptions()
    with _threads(options.threads):
        return _train(avatar, evidence, generator, options, config, progress)


def _train(
    avatar: Avatar,
    evidence: PhotoEvidence,
    generator: Generator | None,
    options: TrainOptions,
    config: FieldConfig | None,
    progress: ProgressCallback,
) -> tuple[FieldParams, TrainReport]:
    check_back_end(options.implementation, options.device)
    avatar = replace(avatar, neural_field=None, baked=None)
    rng = np.random.default_rng(options.seed)
    progress(0.0, "preparing the field")
    field = NeuralField(new_field(options.seed, config, *box_of(avatar)), options.implementation).to(options.device)
    scene = build_scene(avatar, evidence.motion)
    textures = textures_of(scene)
    view = drawn_view(scene, textures, evidence.camera)
    held_out = held_out_pixels(evidence.camera.height, evidence.camera.width, options.seed)
    photo = photo_pixels(avatar, view, evidence, options)
    if not len(photo.pixel):
        raise InputError("the avatar is not in the photo's picture; its fitted camera does not belong to this photo")
    pixels = photo.select(~held_out.reshape(-1)[photo.pixel] & (photo.color_weight + photo.coverage_weight > 0))
    made = None
    if generator is not None:
        made = generator_pixels(scene, textures, evidence, generator, held_out, options)
        pixels = pixels if made is None else pixels.joined(made)
    # Pixels where the field may not act teach it nothing.
    acting = np.where(pixels.opaque >= 0, pixels.weight[np.maximum(pixels.opaque, 0)], 0) > 0
    layered = pixels.layers[:, 0] >= 0
    layers_used = max(int((pixels.layers >= 0).any(0).sum()), 0)
    skin_pool = pixels.select(acting & ~layered)
    skin_pool.layers = skin_pool.layers[:, :0]
    hair_pool = pixels.select(layered)
    hair_pool.layers = hair_pool.layers[:, :layers_used]
    neutral = build_scene(avatar, MotionCode())
    key = key_light(avatar.light)
    on_skin = skin_teacher(neutral, key, evidence.camera, rng)
    teachers = ([] if on_skin is None else [on_skin]) + hair_teachers(neutral, key, evidence.camera, rng)
    if not teachers:
        raise InputError("the avatar has no skin the field may act on and no hair; there is nothing to train")
    teacher = all_teachers(teachers)
    held_points = rng.random(len(teacher.level)) < TEACHER_HELD_OUT_SHARE
    names = Teacher.__dataclass_fields__
    kept, held_teacher = (
        Teacher(**{name: getattr(teacher, name)[mask] for name in names}) for mask in (~held_points, held_points)
    )
    pools = [(skin_pool, options.batch_skin_pixels, options.skin_share), (hair_pool, options.batch_hair_pixels, 1.0)]
    batches = Batches(pools, kept, evidence.motion, field.motion_projection.cpu().numpy(), options)

    def learning(share: float, does: str) -> None:
        progress(PREPARED + (LEARNT - PREPARED) * share, does)

    iterations, seconds, loss_first, loss_last = run_training(field, batches, options, learning)
    with torch.no_grad():
        residual = live_residual(field, evidence.motion.weights)
        shaded = [shade_fragments(layer, textures, residual) for layer in view.drawn]
        rgba_on = composite(view.drawn, shaded, evidence.matte.size).rgba.numpy()
        figures = {
            **photo_figures(view, rgba_on, evidence, photo, held_out),
            **teacher_figures(field, held_teacher),
            **generator_figures(field, made, evidence.motion),
        }
    progress(1.0, "training the field")
    report = TrainReport(
        iterations=iterations,
        seconds=seconds,
        seconds_per_iteration=seconds / max(iterations, 1),
        implementation=options.implementation,
        seed=options.seed,
        loss_first=loss_first,
        loss_last=loss_last,
        **figures,  # type: ignore[arg-type]
    )
    return field.to_params(), report
