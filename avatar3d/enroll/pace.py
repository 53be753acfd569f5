"""How far an enrolment is by the clock: its stages weighted by the time they usually take; no work of its own."""

from __future__ import annotations

from avatar3d.progress import ProgressCallback

TRAINED = 0.92  # the fraction that the pipeline gives for a field that has been trained
HAIR, FIELD = "growing the hair", ("preparing the field", "training the field", "baking the field")
# Seconds that stages take on two idle cores, by what the pipeline says of them; their ratios are what counts.
TYPICAL_S = {
    "reading the photo": 0.2,
    "finding the face": 0.5,
    "fitting the head": 2.7,
    "finding the hair": 2.3,
    "estimating the light": 1.0,
    HAIR: 4.7,
    "painting the skin": 14.0,
    FIELD[0]: 3.0,
    FIELD[1]: 12.0,
    FIELD[2]: 9.0,
    "comparing with the photo": 2.8,
    "judging the avatar": 1.7,
    "writing the avatar": 0.7,
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
    last: list[tuple[str, float]] = [("", 0.0)]  # the stage that runs, and the fraction given at its start

    def told(fraction: float, label: str) -> None:
        if label != last[0][0]:
            last[0] = label, fraction
        within = 0.0
        if label == FIELD[1]:
            first = last[0][1]
            within = (fraction - first) / max(TRAINED - first, 1e-9) * seconds[label] / total
        progress(starts.get(label, fraction) + min(max(within, 0.0), seconds.get(label, 0.0) / total), label)

    return told
