"""Mutated packets through every parser: nothing raises, what comes out is a code, and nothing is kept."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from random import Random

import pytest
from fuzzing.mutate import damaged
from motion.packets import PROTOCOLS

from avatar3d.motion.code import MotionCode
from avatar3d.motion.sources.osc_packet import messages

MAX_KEPT_BYTES = 2_000_000


Parser = Callable[[bytes, int], MotionCode | None]


def fuzz(name: str, count: int, seed: int, parser: Parser | None = None) -> int:
    """Feed `count` mutated packets to a parser, a new one by default; how many codes came out. Used by tools/fuzz.py too."""
    packet, make = PROTOCOLS[name]
    random, codes = Random(seed), 0
    parser = parser or make()
    parser(packet, 0)
    for index in range(count):
        code = parser(damaged(random, packet), index * 1_000_000)
        if code is not None:
            assert isinstance(code, MotionCode)
            codes += 1
    return codes


def kept_by(name: str, count: int, seed: int) -> int:
    """Bytes that a parser holds after mutated packets, beyond what it held after a few."""
    parser = PROTOCOLS[name][1]()
    fuzz(name, 20, seed, parser)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    fuzz(name, count, seed + 1, parser)
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return kept


@pytest.mark.parametrize("name", PROTOCOLS)
def test_mutated_packets_never_raise(name):
    assert fuzz(name, 1500, seed=1) > 0  # some are still whole, or the test would miss the parser's inside


@pytest.mark.parametrize("name", PROTOCOLS)
def test_nothing_of_mutated_packets_is_kept(name):
    assert kept_by(name, 500, seed=3) < MAX_KEPT_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("name", PROTOCOLS)
def test_many_mutated_packets_never_raise(name):
    fuzz(name, 20_000, seed=2)  # a million each: tools/fuzz.py


@pytest.mark.parametrize("size", [-1, -24, -(2**31), 0, 2**31 - 1, 9])
def test_element_sizes_that_lead_nowhere_are_not_followed(size):
    whole = PROTOCOLS["vmc"][0]
    packet = whole[:-4] + size.to_bytes(4, "big", signed=True) + whole[-4:]
    for name in ("osc", "vmc"):
        assert PROTOCOLS[name][1]()(packet, 0) is None


def test_nested_arrays_never_reach_the_library(monkeypatch):
    osc_packet = pytest.importorskip("pythonosc.osc_packet", reason="python-osc is not installed")

    def reached(_):
        raise AssertionError("the packet was handed on")

    monkeypatch.setattr(osc_packet, "OscPacket", reached)
    assert messages(b"/avatar/parameters/v2/JawOpen\0\0\0," + b"[" * 16_000) == []


def test_nested_bundles_are_not_followed_down():
    packet = b"/avatar/parameters/v2/JawOpen\0\0\0,f\0\0\0\0\0\0"
    for _ in range(500):
        packet = b"#bundle\0" + b"\0" * 7 + b"\1" + len(packet).to_bytes(4, "big") + packet
    for name in ("osc", "vmc"):
        assert PROTOCOLS[name][1]()(packet, 0) is None
