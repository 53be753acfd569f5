"""`lsl:STREAM?onto=SOURCE`: a Lab Streaming Layer channel (EEG or any affect score) that leans a few weights of another source.

Off unless named. The score is taken as z = (value − mean) / spread of a running baseline, squeezed to [−1, 1], and adds at most
`bound` to each named weight: a physiological signal may colour an expression, never make one. Options: `onto` (the source, its
own `?` and `&` percent-encoded), `weights` (NAME:GAIN;NAME:GAIN), `bound` (0..0.3), `channel` (which of the stream's).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from avatar3d.errors import InputError, WorkError
from avatar3d.extras import install_extra
from avatar3d.motion.code import ARKIT_INDEX, MotionCode
from avatar3d.motion.sources.base import MotionSource, SourceBase, Spec

DEFAULT_BOUND = 0.15
MAX_BOUND = 0.3  # more would be puppetry
# A score that rises (arousal, attention) knits the brow and narrows the eyes a little.
DEFAULT_GAINS = {"browDownLeft": 0.1, "browDownRight": 0.1, "eyeSquintLeft": 0.08, "eyeSquintRight": 0.08}
BASELINE_S = 60.0  # time constant of the running mean and spread
STALE_S = 2.0  # a score older than this no longer leans anything
FIND_S = 3.0  # how long to look for the stream
MAX_TAKE = 4096  # samples taken at once; two seconds of an EEG


@dataclass(frozen=True)
class Baseline:
    """Running mean and variance of a score, exponentially forgetting; count of samples seen."""

    mean: float = 0.0
    variance: float = 0.0
    count: int = 0

    def after(self, value: float, seconds: float) -> Baseline:
        """The baseline after one more finite value, `seconds` after the last."""
        if self.count == 0:
            return Baseline(value, 0.0, 1)
        # The first samples weigh by their number, so that the baseline is the plain mean until BASELINE_S has gone by.
        share = max(1 - math.exp(-max(seconds, 0.0) / BASELINE_S), 1 / (self.count + 1))
        step = value - self.mean
        return Baseline(self.mean + share * step, (1 - share) * (self.variance + share * step * step), self.count + 1)

    def squeeze(self, value: float) -> float:
        """The value as tanh of half its distance from the mean in spreads, in [−1, 1]; 0 while the spread is unknown."""
        spread = math.sqrt(self.variance)
        return math.tanh(0.5 * (value - self.mean) / spread) if self.count > 10 and spread > 1e-12 else 0.0


def lean(code: MotionCode, score: float, gains: Mapping[str, float], bound: float) -> MotionCode:
    """The code with gain · score added to each named weight, no change beyond ±bound; a pure function."""
    weights = np.array(code.weights)
    for name, gain in gains.items():
        weights[ARKIT_INDEX[name]] += min(max(gain * score, -bound), bound)
    return code.with_weights(np.clip(weights, 0.0, 1.0))


class LeaningSource(SourceBase):
    """Another source's codes, leaned by a score.

    take_scores: gives the (time in s, value) pairs that came since it was last called; its `now` and `close` are used if it
    has them.
    """

    def __init__(self, source: MotionSource, take_scores: object, gains: Mapping[str, float], bound: float) -> None:
        self.source = source
        super().__init__()
        self.live, self.validator, self.dialect = source.live, source.validator, source.dialect
        self._take, self._gains, self._bound = take_scores, dict(gains), bound
        self._baseline, self._score, self._last_s = Baseline(), 0.0, -math.inf

    @property
    def ended(self) -> bool:
        return self.source.ended

    def read(self, timeout_s: float = 1.0) -> MotionCode | None:
        code = self.source.read(timeout_s)
        if code is None:
            return None
        for seconds, value in self._take():  # type: ignore[operator]
            if math.isfinite(value) and math.isfinite(seconds):
                gap = seconds - self._last_s if math.isfinite(self._last_s) else 0.0
                self._baseline = self._baseline.after(float(value), gap)
                self._score, self._last_s = self._baseline.squeeze(float(value)), seconds
        fresh = self._now() - self._last_s <= STALE_S
        return lean(code, self._score if fresh else 0.0, self._gains, self._bound)

    def _now(self) -> float:
        return getattr(self._take, "now", lambda: self._last_s)()

    def close(self) -> None:
        self.source.close()
        close = getattr(self._take, "close", None)
        if close is not None:
            close()


class _Inlet:
    """The scores of one channel of an LSL stream."""

    def __init__(self, name: str, channel: int) -> None:
        try:
            import pylsl
        except (ImportError, RuntimeError) as error:  # pylsl raises RuntimeError where its library is missing
            raise WorkError(f"lsl: needs the package pylsl; run: {install_extra('motion')}") from error
        found = pylsl.resolve_byprop("name", name, 1, FIND_S)
        if not found:
            raise WorkError(f"no Lab Streaming Layer stream is named {name!r}; start it, or name another")
        if not 0 <= channel < found[0].channel_count():
            raise InputError(f"the stream {name!r} has {found[0].channel_count()} channels; there is no channel {channel}")
        self._channel, self.now = channel, pylsl.local_clock
        # Two seconds of buffer; clock synchronisation and dejitter by the library.
        self._inlet = pylsl.StreamInlet(found[0], max_buflen=2, processing_flags=pylsl.proc_ALL)

    def __call__(self) -> list[tuple[float, float]]:
        samples, times = self._inlet.pull_chunk(timeout=0.0, max_samples=MAX_TAKE)
        return [(when, float(sample[self._channel])) for when, sample in zip(times, samples, strict=True)]

    def close(self) -> None:
        self._inlet.close_stream()


def parse_gains(text: str) -> dict[str, float]:
    """{ARKit name: gain} of `NAME:GAIN;NAME:GAIN`; raises InputError on an unknown name or a gain outside ±1."""
    gains = {}
    for item in filter(None, text.split(";")):
        name, _, number = item.partition(":")
        try:
            gain = float(number)
        except ValueError:
            gain = math.nan
        if name not in ARKIT_INDEX or not abs(gain) <= 1:
            raise InputError(f"{item!r} is not NAME:GAIN with an ARKit name and a gain in -1..1, such as browDownLeft:0.1")
        gains[name] = gain
    return gains


def open_lsl(spec: Spec) -> LeaningSource:
    """Open the source named by `onto` and lean it by the stream."""
    from avatar3d.motion.sources import open_source

    spec.only("onto", "weights", "bound", "channel")
    if "onto" not in spec.options:
        raise InputError(f"{spec.text!r} names no source to lean; expected lsl:STREAM?onto=SOURCE")
    gains = parse_gains(spec.options["weights"]) if "weights" in spec.options else DEFAULT_GAINS
    try:
        bound = float(spec.options.get("bound", DEFAULT_BOUND))
    except ValueError:
        bound = math.nan
    if not 0 <= bound <= MAX_BOUND:
        raise InputError(f"{spec.text!r}: bound={spec.options['bound']} is not a number in 0..{MAX_BOUND}")
    channel = spec.integer("channel", 0, 0, 4095)
    scores = _Inlet(spec.target, channel)
    try:
        return LeaningSource(open_source(spec.options["onto"]), scores, gains, bound)
    except BaseException:
        scores.close()
        raise
