"""Enrolment as a list of stages: one photo in; an avatar and a report of how well it agrees with the photo out.

What a stage is: enrolment/stage.py. What each does: enrolment/steps.py. What they hand on: enrolment/state.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from avatar3d.avatar import Avatar
from avatar3d.enrolment import pictures, steps
from avatar3d.enrolment.stage import Stage, Watcher, run_stages, unwatched
from avatar3d.enrolment.state import EnrollOptions, Enrolment, Source, Tuning
from avatar3d.enrolment.target import Target
from avatar3d.progress import ProgressCallback, silent

__all__ = ["STAGES", "EnrollOptions", "Target", "Tuning", "enroll", "run"]

# Shares: processor seconds of the astronaut's stages, loops compiled.
STAGES: tuple[Stage, ...] = (
    Stage("photo", 0.05, "reading the photo", steps.read_photo, pictures=pictures.of_photo),
    Stage("face", 0.1, "finding the face", steps.find_face, pictures=pictures.of_face),
    Stage("fit", 1, "fitting the head", steps.fit_head, pictures=pictures.of_fit),
    Stage("segment", 1, "finding the hair", steps.segment_photo, pictures=pictures.of_segment),
    Stage("glasses", 0.1, "looking for glasses", steps.take_off_glasses, pictures=pictures.of_glasses),
    Stage("light", 0.5, "estimating the light", steps.estimate_light, pictures=pictures.of_light),
    Stage("hair", 2.2, "growing the hair", steps.grow_hair, needed=steps.wants_hair, pictures=pictures.of_hair),
    Stage("hat", 0.5, "making the hat", steps.make_hat, needed=steps.wears_hat, pictures=pictures.of_hat),
    Stage("skin", 2.8, "painting the skin", steps.paint_skin, pictures=pictures.of_skin),
    Stage("reach", 0.4, "learning the reach of expressions", steps.reach_weights, pictures=pictures.of_reach),
    Stage("clothes", 0.4, "putting on clothes", steps.put_on_clothes, pictures=pictures.of_clothes),
    Stage(
        "refine_hair", 1.4, "refining the hair", steps.refine_hair, within=steps.at_the_photo, pictures=pictures.of_avatar
    ),
    Stage(
        "field", 7.4, "preparing the field", steps.train_field, needed=steps.wants_field, within=steps.at_the_photo,
        pictures=pictures.of_field,
    ),
    Stage(
        "paint", 1.5, "painting what the generator draws", steps.paint_drawn, needed=steps.generator_paints,
        within=steps.at_the_photo, pictures=pictures.of_avatar,
    ),
    Stage("compare", 0.6, "comparing with the photo", steps.compare, within=steps.at_the_photo, pictures=pictures.of_comparison),
    Stage("judge", 0.7, "judging the avatar", steps.judge_avatar, pictures=pictures.of_judgement),
    Stage("write", 1.4, "writing the avatar", steps.write_file, needed=steps.wants_file),
)  # fmt: skip


def run(
    photo: Source,
    options: EnrollOptions | None = None,
    progress: ProgressCallback = silent,
    stages: Sequence[Stage] = STAGES,
    after: Watcher = unwatched,
    target: Target | None = None,
) -> Enrolment:
    """Everything that is known of an enrolment when the last of `stages` has run.

    photo: a file, a Pillow image, or (H, W, 3) uint8 sRGB. after: called with each stage that has run and the state it left.
    target: the file to write. Raises InputError when the photo cannot be read or holds no usable face, WorkError when a back end is
    missing. Repeats to the bit with one BLAS thread: set OPENBLAS_NUM_THREADS=1 before numpy is imported, as the command line does.
    """
    return run_stages(stages, Enrolment(options or EnrollOptions(), photo, target), progress, after)


def enroll(
    photo: Source, options: EnrollOptions | None = None, progress: ProgressCallback = silent
) -> tuple[Avatar, dict[str, Any]]:
    """The avatar of a photo and its report (JSON-able; what `avatar3d enroll --json` prints); see `run`."""
    state = run(photo, options, progress)
    return state.avatar, state.report()
