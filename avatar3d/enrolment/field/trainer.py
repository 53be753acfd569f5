"""The training loop of the field: batches, steps, and a plan that fits the time budget."""

from __future__ import annotations

import time

import numpy as np

from avatar3d.enrolment.field.batches import Batches
from avatar3d.enrolment.field.objective import make_objective
from avatar3d.enrolment.field.options import TrainOptions
from avatar3d.field.network import Adam, NeuralField
from avatar3d.progress import ProgressCallback

TABLE_RATE, MLP_RATE = 2e-2, 1e-2  # Adam's step sizes; halved, the same takes more than half as many steps again
ADAM_BETAS, ADAM_EPSILON = (0.9, 0.99), 1e-15
WARM_UP_STEPS, PACE_STEPS = 3, 40  # the pace is measured between the two, to plan for the time budget
FINAL_RATE_SHARE = 0.03  # the step sizes fall to this share along a half cosine


def run_training(
    field: NeuralField, batches: Batches, options: TrainOptions, progress: ProgressCallback
) -> tuple[int, float, float, float]:
    """Train `field`; returns (iterations, seconds, first loss, last loss), the losses as means over a twentieth of the run."""
    groups = [(field.grid_parameters(), TABLE_RATE, options.table_decay), (field.mlp_parameters(), MLP_RATE, 0.0)]
    optimizer = Adam(groups, ADAM_BETAS, ADAM_EPSILON)
    objective = make_objective(field, options)
    started, losses, planned = time.perf_counter(), [], options.iterations
    # The budget is of processor time, so that what a run learns does not depend on what else the machine does.
    began = warm = time.process_time()
    for iteration in range(options.iterations):
        now = time.process_time()
        if iteration == WARM_UP_STEPS:
            warm = now  # the steps before it compile kernels
        if iteration == PACE_STEPS:
            pace = (now - warm) / (PACE_STEPS - WARM_UP_STEPS)
            planned = min(planned, iteration + max(int((options.seconds_budget - (now - began)) / pace), 0))
        if iteration >= planned or now - began > options.seconds_budget:
            break
        # A run that fits its budget depends on the iteration alone, so that it repeats exactly; one that does not is
        # shortened early, so that its step sizes still fall to the end.
        factor = FINAL_RATE_SHARE + (1 - FINAL_RATE_SHARE) * 0.5 * (1 + np.cos(np.pi * iteration / planned))
        losses.append(objective.step(*batches.draw()))
        optimizer.step(factor)
        if iteration % 20 == 0:
            progress(iteration / planned, "training the field")
    window = max(len(losses) // 20, 1)
    seconds = time.perf_counter() - started
    return len(losses), seconds, float(np.mean(losses[:window])), float(np.mean(losses[-window:]))
