"""Which way to draw is fastest on this driver at this size: a measurement of a few seconds, made once and remembered.

One choice of `DrawStrategy` after the other, each against the best so far, in frames drawn in turn. What the measurement has no time
for, or a driver refuses, stays as by default.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from avatar3d import __version__
from avatar3d.avatar import Avatar
from avatar3d.camera import Camera, stereo_pair
from avatar3d.choices import TUNING_MODES, Form
from avatar3d.errors import Avatar3dError, InputError
from avatar3d.files import check_writable, write_bytes
from avatar3d.motion.code import MotionCode
from avatar3d.progress import ProgressBar, ProgressCallback, silent
from avatar3d.rendering.frame import RenderOptions
from avatar3d.rendering.opengl.draw_strategy import VALUES, DrawStrategy, possible
from avatar3d.rendering.opengl.layers import LayeredTarget, offered
from avatar3d.rendering.opengl.renderer import RealtimeRenderer
from avatar3d.rendering.opengl.stereo import EYES, Stereo
from avatar3d.resources import cache_dir
from avatar3d.settings import Within, read_settings

SOFTWARE_DRIVERS = ("llvmpipe", "softpipe", "SWR")
# Of the whole measurement: a first start that takes longer feels broken. Of processor time where the processor draws, so that a
# busy moment does not end it early.
BUDGET_S = 3.0
ENOUGH_S = 0.4  # a choice is not begun with less of it left: compiling alone may take that long
MIN_ROUNDS, MAX_ROUNDS = 3, 9  # frames of each contender
MARGIN = 0.03  # a change must gain more than this, or chance would choose
HOPELESS = 2.0  # a contender whose first frame takes so many times the best one's is not drawn again
MAX_FRAME_S = 0.025  # longer frames are measured in a smaller picture of the same shape, or the budget would hold too few
MIN_SIDE_PX = 64
# What a software driver would spend the budget on compiling, to run it slower: on llvmpipe 22.3, weights in a uniform block take
# 8 s and then 2.6 times as long, a table in a storage buffer 2.4 s and 2.4 times, in a 2D texture 1.1 s and 1.8 times.
NOT_ON_SOFTWARE = {"network": ("uniforms",), "table": ("texture", "storage")}
# In order of what they may gain: the choice, and the form of the field in which it is measured. Deferred shading, which draws an
# eye at a time, comes before `stereo` and then rules it out.
AXES: tuple[tuple[str, Form], ...] = (
    ("morph", "baked"), ("shading", "live"), ("stereo", "baked"), ("table", "live"), ("colors", "baked"), ("numbers", "live"),
    ("network", "live"),
)  # fmt: skip
FILE_NAME = "autotune.json"
MAX_FILE_BYTES = 256 * 1024
MAX_ENTRIES = 64  # drivers × sizes; the oldest make room
MAX_TEXT = 200  # characters of a driver's name
Name = Annotated[str, Within(0, MAX_TEXT)]
# A face that speaks: as many weights as a tracked face has at once.
_WEIGHTS = {
    "jawOpen": 0.4, "mouthSmileLeft": 0.5, "mouthSmileRight": 0.4, "mouthFunnel": 0.2, "browInnerUp": 0.3, "eyeBlinkLeft": 0.2,
    "eyeBlinkRight": 0.2, "cheekSquintLeft": 0.2, "mouthPressLeft": 0.1, "eyeSquintRight": 0.2,
}  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """What was chosen. source: "measured", "remembered" or "default", with a reason. times_ms: {choice: {value: a frame's}}.

    None in times_ms: not drawable here, or no time was left for it.
    """

    strategy: DrawStrategy
    source: str
    reason: str = ""
    times_ms: dict[str, dict[str, float | None]] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {"strategy": self.strategy.to_json(), "source": self.source, "reason": self.reason, "times_ms": self.times_ms}


@dataclass(frozen=True)
class Entry:
    """What a measurement is remembered by, and what it found."""

    vendor: Name
    renderer: Name
    version: Name
    width: Annotated[int, Within(1, 1 << 16, "pixels")]
    height: Annotated[int, Within(1, 1 << 16, "pixels")]
    eyes: Annotated[int, Within(1, 1 << 16)]
    avatar3d: Name
    choices: dict[str, list[str]]  # what was there to choose from
    strategy: dict[str, str]
    times_ms: dict[str, dict[str, Annotated[float, Within(0)] | None]]

    def __post_init__(self) -> None:
        for name, value in self.strategy.items():
            if value not in VALUES.get(name, ()) or value not in self.choices.get(name, VALUES[name][:1]):
                raise InputError(f"{name} {value!r} was not there to choose")
        for name, times in self.times_ms.items():
            if name not in VALUES or not set(times) <= set(VALUES[name]):
                raise InputError(f"{name} has times of what is no choice")

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for what may take the same choice."""
        place = (self.vendor, self.renderer, self.version, self.width, self.height, self.eyes, self.avatar3d)
        return (*place, json.dumps(self.choices, sort_keys=True))


@dataclass(frozen=True)
class Measurements:
    """The file of measurements, oldest first."""

    entries: Annotated[tuple[Entry, ...], Within(0, MAX_ENTRIES)]


def is_software(gl_renderer: str) -> bool:
    """Whether a driver of this name draws on the processor."""
    return any(name in gl_renderer for name in SOFTWARE_DRIVERS)


# --- the measurement


def choose(
    context: Any,
    avatar: Avatar,
    width: int,
    height: int,
    eyes: int,
    mode: str = "cached",
    quiet: bool = False,
    beginning: Callable[[], None] = lambda: None,
    between: Callable[[], None] = lambda: None,
) -> Choice:
    """How to draw pictures of width × height for one or two eyes in a current moderngl context.

    mode: of TUNING_MODES. A first start measures, for BUDGET_S about, and shows that on a terminal unless `quiet`; what was
    measured is kept in the user's cache folder. A damaged file there is said on stderr, and written anew. beginning: called where a
    measurement begins; between: between two of its frames, and may end it by raising.
    """
    if mode not in TUNING_MODES:
        raise InputError(f"unknown tuning {mode!r}; expected one of {', '.join(TUNING_MODES)}")
    if mode == "never":
        return Choice(DrawStrategy(), "default", "tuning was switched off")
    axes = contenders(context, avatar, eyes)
    try:
        known = remembered()
    except InputError as error:
        print(f"avatar3d: {error}; it is measured anew", file=sys.stderr)
        known = []
    info = context.info
    vendor, driver, version = (str(info[f"GL_{name}"])[:MAX_TEXT] for name in ("VENDOR", "RENDERER", "VERSION"))
    choices = {name: list(values) for name, _, values in axes}
    wanted = Entry(vendor, driver, version, width, height, eyes, __version__, choices, {}, {})
    found = next((entry for entry in known if entry.key == wanted.key), None)
    if found is not None and mode == "cached":
        return Choice(DrawStrategy(**found.strategy), "remembered", times_ms=found.times_ms)
    path = cache_path()
    problem = _unwritable(path)
    if problem and mode == "cached":
        return Choice(DrawStrategy(), "default", f"what would be measured cannot be kept: {problem}")
    beginning()
    with ProgressBar(not quiet) as progress:
        strategy, times = measure(context, avatar, width, height, eyes, axes, progress, between=between)
    if not problem:
        others = [entry for entry in known if entry.key != wanted.key]
        try:
            remember(path, [*others, replace(wanted, strategy=strategy.to_json(), times_ms=times)])
        except (OSError, InputError) as error:  # a full disk ends no session
            problem = str(error)
    return Choice(strategy, "measured", f"this cannot be kept: {problem}" if problem else "", times)


def _unwritable(path: Path) -> str:
    """Why a file cannot be written, or nothing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        check_writable(path)
    except (OSError, InputError) as error:
        return str(error)
    return ""


def contenders(context: Any, avatar: Avatar, eyes: int = EYES) -> list[tuple[str, Form, tuple[str, ...]]]:
    """(choice, form, values) of what there is to choose for this avatar on this driver, drawn for one or two eyes."""
    software = is_software(context.info["GL_RENDERER"])
    axes = []
    for name, form in AXES:
        values = possible(name, context.version_code)
        if name == "stereo":
            values = tuple(value for value in values if value in offered(context)) if eyes == EYES else ()
        if software:
            values = tuple(value for value in values if value not in NOT_ON_SOFTWARE.get(name, ()))
        lacking = (form == "live" and avatar.neural_field is None) or (form == "baked" and avatar.baked is None)
        if len(values) > 1 and not lacking:
            axes.append((name, form, values))
    return axes


def measure(
    context: Any,
    avatar: Avatar,
    width: int,
    height: int,
    eyes: int,
    axes: Sequence[tuple[str, Form, tuple[str, ...]]],
    progress: ProgressCallback = silent,
    budget_s: float = BUDGET_S,
    between: Callable[[], None] = lambda: None,
) -> tuple[DrawStrategy, dict[str, dict[str, float | None]]]:
    """(the fastest strategy found, milliseconds of a frame by choice and value) within about `budget_s` seconds.

    The head is drawn without hair and texture deltas, which are the same in all strategies and would take time to compile.
    """
    head = replace(avatar, hair=None, texture_deltas=[])
    renderer = RealtimeRenderer(context)
    trial = Trial(context, renderer, head, width, height, eyes, between)
    until = trial.clock() + budget_s
    best, times = DrawStrategy(), {name: dict[str, float | None].fromkeys(values) for name, _, values in axes}
    try:
        for number, (name, form, values) in enumerate(axes):
            progress(number / len(axes), f"measuring how to draw: {name}")
            left = until - trial.clock()
            if left < ENOUGH_S:
                break
            if name == "stereo" and best.shading == "deferred":
                continue
            strategies = alternatives(best, name, values)
            incumbent = strategies[getattr(best, name)]
            found = trial.compare(list(strategies.values()), incumbent, form, left / (len(axes) - number))
            times[name] = {value: found[strategy] for value, strategy in strategies.items()}
            winner = _winner(found, incumbent)
            best = best if winner == incumbent else winner
    finally:
        trial.close()
        renderer.close()
    return best, times


def alternatives(strategy: DrawStrategy, name: str, values: Sequence[str]) -> dict[str, DrawStrategy]:
    """{value: the strategy with it}. Shading is compared an eye at a time: one pass for both eyes is always forward."""
    base = replace(strategy, stereo="passes") if name == "shading" else strategy
    return {value: replace(base, **{name: value}) for value in values}


def _winner(found: dict[DrawStrategy, float | None], incumbent: DrawStrategy) -> DrawStrategy:
    measured = {strategy: ms for strategy, ms in found.items() if ms is not None}
    if incumbent not in measured:
        return incumbent
    fastest = min(measured, key=lambda strategy: measured[strategy])
    return fastest if measured[fastest] < (1 - MARGIN) * measured[incumbent] else incumbent


class Trial:
    """Draws frames of one head with one strategy after another, and times them."""

    def __init__(
        self, context: Any, renderer: RealtimeRenderer, avatar: Avatar, width: int, height: int, eyes: int,
        between: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._context, self._renderer, self._avatar = context, renderer, avatar
        self._size, self._eyes, self._between = (width, height), eyes, between
        self.clock = time.process_time if is_software(context.info["GL_RENDERER"]) else time.perf_counter
        self._motions = [MotionCode.from_expression(_WEIGHTS), MotionCode()]
        self._frames = 0
        color, depth = context.texture((width * eyes, height), 4), context.depth_texture((width * eyes, height))
        self._framebuffer = context.framebuffer([color], depth)
        self._owned = [self._framebuffer, color, depth]
        self._layers: LayeredTarget | None = None
        self._has_layers = "layers" in offered(context)
        renderer.load(avatar)

    def _look(self, scale: float) -> None:
        """Draw in so large a part of each side."""
        width, height = (max(MIN_SIDE_PX, round(side * scale)) if scale < 1 else side for side in self._size)
        self._areas = [(eye * width, 0, width, height) for eye in range(self._eyes)]
        center = Camera.orbit(0.2, width=width, height=height, view_height_m=0.36, target=(0.0, -0.03, -0.05))
        self._cameras = list(stereo_pair(center)) if self._eyes == 2 else [center]

    def frame(self, strategy: DrawStrategy, form: Form) -> float:
        """Draw one frame and return its seconds."""
        self._between()
        renderer = self._renderer
        renderer.strategy = strategy
        motion = self._motions[self._frames % len(self._motions)]
        options = RenderOptions(form, antialias=True)
        self._frames += 1
        stereo: Stereo
        if strategy.stereo == "layers" and self._eyes == EYES and self._has_layers:
            if self._layers is None:
                self._layers = LayeredTarget(self._context, *self._size)
                self._owned.append(self._layers)
            framebuffers, areas, stereo = [self._layers.framebuffer], self._areas[:1], "layers"
        else:
            framebuffers, areas, stereo = [self._framebuffer] * self._eyes, self._areas, "passes"
        started = self.clock()
        renderer.draw(motion, self._cameras, framebuffers, options, viewports=areas, stereo=stereo)
        self._context.finish()
        return self.clock() - started

    def compare(
        self,
        strategies: list[DrawStrategy],
        incumbent: DrawStrategy,
        form: Form,
        seconds: float,
        longest_s: float = MAX_FRAME_S,
    ) -> dict[DrawStrategy, float | None]:
        """{strategy: median milliseconds of a frame, None where it cannot be drawn}, about so many seconds in all.

        Where the incumbent's frame takes longer than `longest_s`, all are drawn smaller.
        """
        import moderngl

        until = self.clock() + seconds
        self._look(1.0)
        taken: dict[DrawStrategy, list[float]] = {}
        for strategy in [incumbent, *(other for other in strategies if other != incumbent)]:
            try:
                self.frame(strategy, form)  # compiles
                took = self.frame(strategy, form)
                if strategy == incumbent and took > longest_s:
                    self._look(math.sqrt(longest_s / took))
                taken[strategy] = [self.frame(strategy, form)]
            except (moderngl.Error, Avatar3dError):
                if strategy == incumbent:
                    break
        if not taken:
            return dict.fromkeys(strategies)
        slowest = HOPELESS * min(times[0] for times in taken.values())
        runners = [strategy for strategy, times in taken.items() if times[0] <= slowest or strategy == incumbent]
        for done in range(MAX_ROUNDS):
            if done >= MIN_ROUNDS and self.clock() > until:
                break
            for strategy in runners:
                taken[strategy].append(self.frame(strategy, form))
        return {strategy: round(1e3 * median(taken[strategy]), 4) if strategy in taken else None for strategy in strategies}

    def close(self) -> None:
        """Free what it draws into."""
        for resource in self._owned:
            resource.release()


# --- what is remembered


def cache_path() -> Path:
    """The file of measurements in the user's cache folder."""
    return cache_dir() / FILE_NAME


def remembered(path: Path | None = None) -> list[Entry]:
    """What was measured before, oldest first; nothing where there is no file. Raises InputError on a file that is damaged."""
    path = path or cache_path()
    try:
        os.stat(path)
    except FileNotFoundError:
        return []
    except (OSError, ValueError):
        pass  # reading says what is wrong with it
    return list(read_settings(Measurements, path, "file of measurements", MAX_FILE_BYTES).entries)


def remember(path: Path, entries: Sequence[Entry]) -> None:
    """Write the newest MAX_ENTRIES of the entries, oldest first."""
    document = {"entries": [vars(entry) for entry in entries[-MAX_ENTRIES:]]}
    write_bytes(path, (json.dumps(document, indent=1) + "\n").encode(), shared=True)
