"""How far an enrolment is by the clock: its stages weighted by the time they usually take; no work of its own."""

from __future__ import annotations

from avatar3d.progress import ProgressCallback

TRAINED = 0.92  # the fraction that the pipeline gives for a field that has been trained
HAIR, FIELD = "growing the hair", ("preparing the field", "training the field", "baking the field")
# Processor seconds of the astronaut's stages, by what the pipeline says of them; their ratios are what counts.
TYPICAL_S = {
    "reading the photo": 0.1,
    "finding the face": 0.2,
    "fitting the head": 5.0,
    "finding the hair": 1.3,
    "estimating the light": 0.6,
    HAIR: 5.2,
    "painting the skin": 8.6,
    FIELD[0]: 8.5,
    FIELD[1]: 9.9,
    FIELD[2]: 2.5,
    "comparing with the photo": 1.5,
    "judging the avatar": 1.1,
    "writing the avatar": 1.7,
}


def by_the_clock(progress: ProgressCallback, hair: bool, field: bool) -> ProgressCallback:
    """`progress` called with shares of the time in place of the fractions given; a fraction of the field's training counts within it.

    hair, field: whether those stages are run.
    """
    left_out = {*(() if hair else (HAIR,)), *(() if field else FIELD)}
    seconds = {label: 0.0 if label in left_out else value for label, value in TYPICAL_S.items()}
    total = sum(seconds.values())
    starts, passed = {}, 0.0
    for label, value in seconds.items():
        starts[label] = passed / total
        passed += value
    stage, first, shown = "", 0.0, 0.0  # the stage that runs, the fraction given at its start, the share told last

    def told(fraction: float, label: str) -> None:
        nonlocal stage, first, shown
        if label != stage:
            stage, first = label, fraction
        share = starts.get(label, fraction)
        if label == FIELD[1]:
            within = (fraction - first) / max(TRAINED - first, 1e-9)
            share += min(max(within, 0.0), 1.0) * seconds[label] / total
        shown = max(shown, share)
        progress(shown, label)

    return told
