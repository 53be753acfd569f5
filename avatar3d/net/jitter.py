"""The jitter buffer: codes that arrive when they may become a head that moves evenly, as little late as the link allows."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from itertools import pairwise

import numpy as np

from avatar3d.motion.code import MotionCode
from avatar3d.motion.predict import PredictState, difference, moved, observe, predict
from avatar3d.motion.rotation import blend
from avatar3d.net.receiver import Arrival

SPAN_NS = 3_000_000_000  # of arrivals from which the delay is taken
QUANTILE = 0.75  # of packets that should arrive in time; the rest is bridged
AGES_NS = 20_000_000_000  # for how long the worst gap is remembered
GAP_MARGIN = 1.3  # the next gap may be worse than the worst so far
FORETOLD_NS = 60_000_000  # how far the head may be foretold over such a gap; the delay bridges the rest
MAX_EXTRA_NS = 400_000_000  # of delay beyond that of the quickest packet
RENEW_NS = 100_000_000  # between two looks at the arrivals
# How fast the delay may change, seconds a second: time then passes 40 % slower or 5 % faster, which is not seen as a stop.
GROW, SHRINK = 0.4, 0.05
SNAP_NS = 1_000_000_000  # a change beyond this is a clock that was set or a machine that slept: follow at once
EASE_S = 0.05  # time constant in which what was foretold wrongly is taken back
HOLD_NS = 300_000_000  # without news for longer there is nothing to show; predict moves the head for half of it
KEPT_NS = 1_000_000_000  # of codes behind the newest
MAX_CODES = 600
LEAST_MOTION = 0.05  # of the 62 channels together: below it a step is the quantiser's, not motion


class JitterBuffer:
    """Plays one stream on a clock of its own.

    transit_ns: half the shortest round trip where it is known; the least delay seen is then the clocks' difference and this.
    stall_ns: the longest that the head was moved without a code as new as the instant shown. jump_frames: the largest step
    between two looks, in the largest step between two neighbouring frames of the last KEPT_NS.
    """

    def __init__(self, foretell: bool = True) -> None:
        self._foretell = foretell
        self.transit_ns = 0
        self.stall_ns = 0
        self.jump_frames = 0.0
        self._shown: MotionCode | None = None
        self._asked_ns: int | None = None
        self._told_ns: int | None = None  # time of the code shown last, on our clock
        self.reset()

    def reset(self) -> None:
        """A new session: its clock is another one; the head goes on from where it is."""
        self._times: list[int] = []
        self._codes: dict[int, MotionCode] = {}
        self._state: PredictState | None = None
        self._step = LEAST_MOTION
        self._alone_ns = 0
        self._delays: deque[tuple[int, int]] = deque()  # arrival, arrival - capture on the sender's clock
        self._ages: deque[tuple[int, int]] = deque()  # arrival of news, how old the newest code was then; falling ages only
        self._lag_ns: float | None = None  # ours minus the sender's time of what is shown
        self._wanted_ns = self._least_ns = 0
        self._renewed_ns = 0
        self._position_ns: int | None = None

    @property
    def delay_ns(self) -> int:
        """How much later than the quickest packet allows the head is shown."""
        return 0 if self._lag_ns is None else max(0, round(self._lag_ns - self._least_ns))

    def put(self, arrival: Arrival) -> None:
        """Take a code. One older than what was shown is of use only to the estimate of the delay."""
        code, now_ns = arrival.code, arrival.arrived_ns
        self._delays.append((now_ns, now_ns - code.time_ns))
        while now_ns - self._delays[0][0] > SPAN_NS or len(self._delays) > MAX_CODES:
            self._delays.popleft()
        if code.time_ns in self._codes or (self._times and code.time_ns < self._times[-1] - KEPT_NS):
            return
        if self._times and code.time_ns > self._times[-1]:
            self._end_gap(now_ns)
        insort(self._times, code.time_ns)
        self._codes[code.time_ns] = code
        while self._times[-1] - self._times[0] > KEPT_NS or len(self._times) > MAX_CODES:
            del self._codes[self._times.pop(0)]
        if self._foretell and self._times[-1] == code.time_ns:
            self._state = observe(self._state, code)

    def _end_gap(self, now_ns: int) -> None:
        """News came: remember how old the newest code had become, unless that long that the sender must have paused."""
        self.stall_ns = max(self.stall_ns, self._alone_ns)
        self._alone_ns = 0
        age = now_ns - self._times[-1]
        if age - self._least_ns < HOLD_NS + MAX_EXTRA_NS:
            while self._ages and self._ages[-1][1] <= age:
                self._ages.pop()
            self._ages.append((now_ns, age))

    def _count_jump(self, change: float) -> None:
        """Grade a change of the channels in 1/60 s against the motion received."""
        if self._times[-1] - self._times[0] < KEPT_NS // 2:
            return
        if change > self._step * self.jump_frames:
            self._step = self._largest_step()
            self.jump_frames = max(self.jump_frames, change / self._step)

    def at(self, now_ns: int) -> MotionCode | None:
        """The head at an instant of our clock, asked for in order; None before the first code and HOLD_NS after the last.

        time_ns of the code: its instant on our clock, as near as the quickest packet tells. It rises from one to the next: where
        a quicker packet shows that it was late, it comes nearer to the truth no faster than the delay grows.
        """
        if not self._times:
            return None
        position = self._advance(now_ns)
        ahead = position - self._times[-1]
        self._alone_ns = max(self._alone_ns, ahead)
        if ahead > HOLD_NS:
            return None
        target = self._target(position)
        if self._shown is not None and self._asked_ns is not None and now_ns > self._asked_ns:
            frames = max(1.0, (now_ns - self._asked_ns) * 60 / 1e9)
            before = self._position_ns
            # What is known now of the instant shown before: where it differs, go back to the truth gently.
            wrong = difference(target if before is None else self._target(before), self._shown)
            if np.abs(wrong).max() > 1e-6:
                kept = math.exp(-min(frames, 2.0) / 60 / EASE_S)  # after a pause too, it is not done in one step
                target = moved(target, wrong * kept, target.time_ns)
            change = float(np.linalg.norm(difference(self._shown, target))) / frames
            self._count_jump(change)
        told = min(position + self._least_ns - self.transit_ns, now_ns)
        if self._told_ns is not None and self._asked_ns is not None:
            told = max(told, self._told_ns + round((1 - GROW) * max(0, now_ns - self._asked_ns)))
        self._shown, self._asked_ns, self._position_ns, self._told_ns = target, now_ns, position, told
        return MotionCode(
            target.weights, target.rotation, target.translation, target.gaze, target.confidence, told, target.sequence
        )  # fmt: skip

    def _advance(self, now_ns: int) -> int:
        """The sender's time to show now; moves the lag toward the wanted one."""
        if now_ns - self._renewed_ns >= RENEW_NS or self._lag_ns is None:
            self._renewed_ns = now_ns
            delays = np.array([delay for _, delay in self._delays], dtype=np.int64)
            self._least_ns = int(delays.min())
            late = float(np.quantile(delays - self._least_ns, QUANTILE))
            while self._ages and now_ns - self._ages[0][0] > AGES_NS:
                self._ages.popleft()
            gap = (self._ages[0][1] - self._least_ns) * GAP_MARGIN - FORETOLD_NS if self._ages else 0
            self._wanted_ns = self._least_ns + round(min(max(late, gap), MAX_EXTRA_NS))
        if self._lag_ns is None or abs(self._wanted_ns - self._lag_ns) > SNAP_NS:
            self._lag_ns = self._wanted_ns
        elif self._asked_ns is not None:
            passed = max(0, now_ns - self._asked_ns)
            self._lag_ns += min(max(self._wanted_ns - self._lag_ns, -SHRINK * passed), GROW * passed)
        return now_ns - round(self._lag_ns)

    def _largest_step(self) -> float:
        """The largest change of the channels from one frame to the next of the last KEPT_NS, in 1/60 s."""
        largest = LEAST_MOTION
        for earlier, later in pairwise(self._times):
            frames = max(1.0, (later - earlier) * 60 / 1e9)
            change = difference(self._codes[earlier], self._codes[later])
            largest = max(largest, math.sqrt(float(change @ change)) / frames)
        return largest

    def _target(self, position_ns: int) -> MotionCode:
        """The head at an instant of the sender's clock by all that is known now: between codes, or foretold."""
        place = bisect_left(self._times, position_ns)
        if place == len(self._times):
            if self._state is None:
                return self._codes[self._times[-1]]
            return predict(self._state, position_ns).code
        after = self._codes[self._times[place]]
        if place == 0:
            return after
        before = self._codes[self._times[place - 1]]
        share = (position_ns - before.time_ns) / (after.time_ns - before.time_ns)
        return MotionCode(
            before.weights + share * (after.weights - before.weights),
            blend(before.rotation, after.rotation, share),
            before.translation + share * (after.translation - before.translation),
            before.gaze + share * (after.gaze - before.gaze),
            before.confidence + share * (after.confidence - before.confidence),
            position_ns,
            after.sequence,
        )
