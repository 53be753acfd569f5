"""Stages in general: what one is, running a list of them, and lists with one replaced or the last ones left out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace

import numpy as np

from avatar3d.enrolment.state import Enrolment
from avatar3d.errors import InputError
from avatar3d.progress import ProgressCallback, silent

Run = Callable[[Enrolment], Enrolment]
Pictures = Iterable[tuple[str, np.ndarray]]


def always(state: Enrolment) -> bool:
    """Needed in every enrolment."""
    return True


def no_pictures(state: Enrolment) -> Pictures:
    """Nothing to look at."""
    return ()


@dataclass(frozen=True)
class Stage:
    """One stage of enrolment.

    name: its key in the report's `seconds`. share: of the time, against the others' (the astronaut's seconds). does: what a person
    reads meanwhile. run: the state in, the state with what was found out. needed: whether there is anything to do; asked before the
    stage, and earlier, of states that know less, to tell how much is left. within: a context around this stage and those beside it
    that have the same one. pictures: what to look at once it has run, (name, (H, W[, 3 or 4]) u8 sRGB) each.
    """

    name: str
    share: float
    does: str
    run: Run
    needed: Callable[[Enrolment], bool] = always
    within: Callable[[Enrolment], AbstractContextManager[None]] | None = None
    pictures: Callable[[Enrolment], Pictures] = no_pictures


Watcher = Callable[[Stage, Enrolment], None]


def unwatched(stage: Stage, state: Enrolment) -> None:
    """Look at nothing."""


def run_stages(
    stages: Sequence[Stage], state: Enrolment, progress: ProgressCallback = silent, after: Watcher = unwatched
) -> Enrolment:
    """Run stages in turn. after: called with each stage that has run, and the state that it left; its time is not counted."""
    done, told = 0.0, 0.0
    context: object = None
    with ExitStack() as around:
        for index, stage in enumerate(stages):
            if not stage.needed(state):
                continue
            if stage.within is not context:
                around.close()
                context = stage.within
                if stage.within is not None:
                    around.enter_context(stage.within(state))
            whole = done + stage.share + sum(later.share for later in stages[index + 1 :] if later.needed(state))

            def tell(share: float, does: str, begun: float = done, length: float = stage.share, whole: float = whole) -> None:
                nonlocal told
                told = max(told, (begun + min(max(share, 0.0), 1.0) * length) / max(whole, 1e-9))
                progress(told, does)

            tell(0.0, stage.does)
            started = time.perf_counter()
            state = stage.run(replace(state, progress=tell))
            seconds = {**state.seconds, stage.name: round(time.perf_counter() - started, 3)}
            state = replace(state, progress=silent, seconds=seconds)
            done += stage.share
            after(stage, state)
    return state


def until(stages: Sequence[Stage], name: str) -> tuple[Stage, ...]:
    """The stages up to the one of that name, which is the last. Raises InputError where there is none."""
    return tuple(stages[: _place(stages, name) + 1])


def following(stages: Sequence[Stage], name: str) -> tuple[Stage, ...]:
    """The stages that follow the one of that name: they go on from the state that it left. Raises InputError where there is none."""
    return tuple(stages[_place(stages, name) + 1 :])


def replaced(stages: Sequence[Stage], name: str, run: Run) -> tuple[Stage, ...]:
    """The stages with another `run` in the one of that name. Raises InputError where there is none."""
    place = _place(stages, name)
    return (*stages[:place], replace(stages[place], run=run), *stages[place + 1 :])


def _place(stages: Sequence[Stage], name: str) -> int:
    names = [stage.name for stage in stages]
    if name not in names:
        raise InputError(f"enrolment has no stage {name!r}; expected one of {', '.join(names)}")
    return names.index(name)
