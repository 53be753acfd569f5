"""The heads that are shown together and what moves each: its source or idle motion, its gaze, as it is or as in a mirror."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.errors import InputError
from avatar3d.motion.code import MotionCode
from avatar3d.motion.mirror import mirrored
from avatar3d.motion.retarget import HEAD, retargeted
from avatar3d.runtime.gaze import Gaze, follow, wanted_angles, with_gaze
from avatar3d.runtime.pipeline import Pipeline, Source
from avatar3d.runtime.replay import open_live
from avatar3d.runtime.trace import Trace


@dataclass
class Role:
    """One head: its avatar, what moves it, and how. eye_contact: it looks at the viewer. mirror: shown as in a mirror.

    dialect: what the weights of its source mean (motion/retarget).
    """

    avatar: Avatar
    pipeline: Pipeline
    eye_contact: bool = False
    mirror: bool = False
    dialect: str = HEAD
    _gaze: Gaze | None = None

    def motion(self, time_ns: int, viewer_m: np.ndarray | None) -> tuple[MotionCode, int | None]:
        """(motion for a time, capture time of its newest measurement). viewer_m: (3,) in the head's frame, None: not known."""
        moment = self.pipeline.at(time_ns)
        code = retargeted(moment.motion, self.dialect, self.avatar.reach)
        code = mirrored(code) if self.mirror else code
        if self.eye_contact and viewer_m is not None:
            self._gaze = follow(self._gaze, wanted_angles(code, self.avatar.joints, viewer_m), time_ns / 1e9)
            code = with_gaze(code, self._gaze.angles)
        return code, moment.captured_ns


class Cast:
    """Roles on one stage; the first is the one that latencies and reports tell of."""

    def __init__(self, roles: Sequence[Role]) -> None:
        self.roles = list(roles)

    @property
    def avatars(self) -> list[Avatar]:
        """Of all roles."""
        return [role.avatar for role in self.roles]

    def source_age_s(self, now_ns: int) -> float:
        """Of the source that has been silent for longest."""
        return max(role.pipeline.source_age_s(now_ns) for role in self.roles)

    def notice(self, now_ns: int) -> str | None:
        """What the viewer should be told about sources that failed or are silent, or None."""
        told = [role.pipeline.notice(now_ns) for role in self.roles]
        return next((notice for notice in told if notice is not None), None)

    @property
    def received(self) -> int:
        """Codes that all sources gave."""
        return sum(role.pipeline.received for role in self.roles)

    @property
    def dropped(self) -> int:
        """Codes that were overtaken."""
        return sum(role.pipeline.dropped for role in self.roles)

    def motion_figures(self) -> dict[str, Any]:
        """Of all sources, as `--json` prints them: codes, failures, how often one was opened again, names not understood, and
        what is wrong now."""
        pipelines = [role.pipeline for role in self.roles]
        return {
            "received": self.received,
            "dropped": self.dropped,
            "failures": sum(pipeline.failures for pipeline in pipelines),
            "reopened": sum(pipeline.reopened for pipeline in pipelines),
            "not_understood": dict(sum((Counter(pipeline.unknown) for pipeline in pipelines), Counter())),
            "problem": next((pipeline.problem for pipeline in pipelines if pipeline.problem is not None), None),
        }

    def close(self) -> None:
        """Stop the threads and close the sources."""
        for role in self.roles:
            role.pipeline.close()


def open_cast(
    avatars: Sequence[Avatar],
    motions: Sequence[str],
    silent_s: float,
    eye_contact: bool = False,
    mirror: bool = False,
    opener: Callable[[str], Source] = open_live,
    trace: Trace | None = None,
) -> Cast:
    """A cast of avatars, the first of them moved by the first source that `motions` names, and so on; the rest, and those whose
    source is "idle", idle, each in its own time.

    opener: opens a source, and again when it failed. trace: takes spans of their threads.
    Raises InputError for more sources than avatars, and what the sources raise.
    """
    if len(motions) > len(avatars):
        raise InputError(f"{len(motions)} motion sources were given for {len(avatars)} avatars; give at most one each")
    roles: list[Role] = []
    try:
        for index, avatar in enumerate(avatars):
            spec = motions[index] if index < len(motions) else "idle"
            source = None if spec == "idle" else opener(spec)
            pipeline = Pipeline(source, silent_s, index, trace=trace, name=str(index), reopen=partial(opener, spec))
            roles.append(Role(avatar, pipeline, eye_contact, mirror, getattr(source, "dialect", HEAD)))
    except BaseException:
        Cast(roles).close()
        raise
    return Cast(roles)
