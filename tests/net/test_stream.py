"""A stream end to end in simulated time: what links and attackers do to it, and what its listener sees."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from net.streams import JAW, PERIOD_NS, TOKEN, UNIX_NS, Link, head, play, receiver, sender

from avatar3d.motion import wire
from avatar3d.motion import wire_layout as layout
from avatar3d.motion.predict import difference
from avatar3d.net.jitter import HOLD_NS, JitterBuffer
from avatar3d.net.receiver import MAX_ADDRESSES, MAX_AGE_S, OTHER_RATE, OWN_RATE, Arrival, Receiver
from avatar3d.net.sender import Sender

ROUGH = {"loss": 0.2, "twice": 0.1, "delay_ns": 20_000_000, "jitter_ns": 200_000_000}


@pytest.mark.parametrize("answers", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_rough_link_neither_stops_the_head_nor_makes_it_jump(answers, seed):
    back = Link(seed + 10, loss=0.2, delay_ns=20_000_000, jitter_ns=200_000_000) if answers else None
    buffer, sink, shown = play(15.0, Link(seed, **ROUGH), back)
    assert buffer.stall_ns <= 100_000_000
    assert buffer.jump_frames <= 3
    assert buffer.delay_ns < 320_000_000  # of the 200 ms that packets are shuffled by, and the frames that are lost in a row
    assert all(code is not None for _, code in shown[60:])
    # By its own measure too: no step is larger than three frames of the motion sent.
    truth = max(np.linalg.norm(difference(head(n * PERIOD_NS), head((n + 3) * PERIOD_NS))) for n in range(600))
    steps = [np.linalg.norm(difference(a, b)) for (_, a), (_, b) in pairwise(shown[240:])]
    assert max(steps) <= truth
    assert min(np.convolve(steps, np.ones(7), "valid")) > 0  # in no tenth of a second does it stand still
    sent = len(shown)
    assert 0.1 * sent < sink.lost < 0.3 * sent


def test_on_a_rough_link_with_answers_what_arrives_can_be_decoded_at_once():
    def undecoded(back: Link | None) -> float:
        _, sink, _ = play(12.0, Link(1, **ROUGH), back)
        return 1 - sink.counts["decoded"] / sink.packets

    assert undecoded(Link(11, loss=0.2, delay_ns=20_000_000, jitter_ns=200_000_000)) < 0.04
    assert undecoded(None) > 0.08  # nobody tells the sender


def test_what_is_shown_is_the_head_that_was_sent():
    """At the time that its code states, up to steps, what is between frames and what is foretold."""
    buffer, _, shown = play(8.0, Link(1, **ROUGH))
    errors = [np.abs(difference(head(code.time_ns), code)).max() for _, code in shown[300:] if code is not None]
    # The listener cannot know that the quickest packet took 20 ms: its times are late by that much.
    shifted = [np.abs(difference(head(code.time_ns - 20_000_000), code)).max() for _, code in shown[300:] if code is not None]
    assert np.median(shifted) < 0.02
    assert np.median(shifted) < np.median(errors)


def test_a_good_link_adds_hardly_any_delay():
    buffer, sink, shown = play(5.0, Link(1, delay_ns=1_000_000), Link(2, delay_ns=1_000_000))
    assert buffer.delay_ns < 5_000_000
    assert buffer.jump_frames < 1.5
    assert sink.lost == 0
    ages = [now - code.time_ns for now, code in shown[60:] if code is not None]
    assert max(ages) < 12_000_000


@pytest.mark.parametrize(("slow_ms", "transit_ms"), [(100, 0), (1, 20)])
def test_times_rise_when_a_quicker_packet_or_a_round_trip_shows_that_they_were_late(slow_ms, transit_ms):
    """The first half second's packets take long, or nobody knows yet how long the quickest of them took."""
    buffer, flying, shown = JitterBuffer(), [], []
    for number in range(90):
        delay_ns = (slow_ms if number < 30 else 1) * 1_000_000
        flying.append(Arrival(head(number * PERIOD_NS), number * PERIOD_NS + delay_ns))
    for number in range(90):
        now = number * PERIOD_NS + PERIOD_NS // 2
        for arrival in [each for each in flying if now - PERIOD_NS < each.arrived_ns <= now]:
            buffer.put(arrival)
        buffer.transit_ns = transit_ms * 1_000_000 if number >= 30 else 0
        shown.append((now, buffer.at(now)))
    times = [code.time_ns for _, code in shown if code is not None]
    assert len(times) > 80 and min(np.diff(times)) >= PERIOD_NS // 2
    now, last = shown[-1]
    assert abs(now - last.time_ns - buffer.delay_ns - transit_ms * 1_000_000) < 1_000_000


def test_acknowledged_frames_are_referred_to_and_the_round_trip_is_told():
    plain, answered = Link(1, delay_ns=1_000_000), Link(2, delay_ns=1_000_000)
    _, sink, _ = play(3.0, plain, answered)
    assert sink.round_trip_ns is not None
    assert abs(sink.round_trip_ns - 2_000_000) <= layout.TICK_NS
    _, one_way, _ = play(3.0, Link(1, delay_ns=1_000_000))
    assert one_way.round_trip_ns is None
    assert sink.bytes < 0.9 * one_way.bytes


def feed(source: Sender, sink: Receiver, first: int, count: int, keep: list[bytes] | None = None) -> int:
    """Send `count` frames from frame `first` on straight to a receiver; how many codes came out."""
    found = 0
    for number in range(first, first + count):
        packet = source.packet(head(number * PERIOD_NS), number * PERIOD_NS)
        if keep is not None:
            keep.append(packet)
        found += len(sink.accept(packet, number * PERIOD_NS))
    return found


def test_a_sender_that_was_killed_and_started_again_is_followed_and_its_old_packets_are_not():
    clock = {"now": 0}
    sink = receiver(clock)
    old: list[bytes] = []
    assert feed(sender(), sink, 0, 120, old) == 120
    clock["now"] = 240 * PERIOD_NS
    assert feed(sender(240 * PERIOD_NS), sink, 240, 120) == 120
    assert sink.sessions == 2
    before = sink.counts["decoded"]
    for number, packet in enumerate(old):
        assert sink.accept(packet, (360 + number) * PERIOD_NS) == []
    assert sink.counts["decoded"] == before


def test_the_head_goes_on_after_a_sender_was_started_again():
    buffer, clock = JitterBuffer(), {"now": 0}
    sink, sessions, shown = receiver(clock), 0, []
    source = sender()
    for number in range(360):
        now = clock["now"] = number * PERIOD_NS
        if number == 240:
            source = sender(now)
        if not 120 <= number < 240:
            for arrival in sink.accept(source.packet(head(now), now), now + 1_000_000):
                if sink.sessions != sessions:
                    sessions = sink.sessions
                    buffer.reset()
                buffer.put(arrival)
        shown.append(buffer.at(now + PERIOD_NS // 2))
    last_news = 119 * PERIOD_NS
    silent = [number for number in range(120, 240) if shown[number] is None]
    assert silent == [n for n in range(120, 240) if n * PERIOD_NS + PERIOD_NS // 2 - 1_000_000 > last_news + HOLD_NS]
    assert all(code is not None for code in shown[240:])
    assert np.abs(difference(head(359 * PERIOD_NS), shown[359])).max() < 0.05


def test_a_wrong_token_gives_nothing():
    sink = receiver(token=b"another token")
    assert feed(sender(), sink, 0, 30) == 0
    assert sink.counts["forged"] > 0
    assert sink.session is None


def test_an_answer_of_a_stranger_changes_nothing():
    source, sink = sender(), receiver()
    sink.accept(source.packet(head(0), 0), 0)
    answer = sink.acknowledgement(1_000_000)
    assert answer is not None
    assert not source.answered(answer[:-1] + bytes([answer[-1] ^ 1]), 2_000_000)
    assert source.round_trip_ns is None
    assert not sender(5_000_000_000).answered(answer, 2_000_000)  # of another session
    assert source.answered(answer, 2_000_000)
    assert source.round_trip_ns == 1_000_000


def test_packets_doubled_or_captured_count_once():
    sink, packets = receiver(), []
    feed(sender(), sink, 0, 90, packets)
    assert all(sink.accept(packet, 90 * PERIOD_NS + number * 5_000_000) == [] for number, packet in enumerate(packets))
    assert sink.counts["decoded"] == 90
    assert sink.counts["replayed"] == 90


def test_a_capture_played_to_a_listener_that_started_later_is_refused_as_old():
    packets: list[bytes] = []
    feed(sender(), receiver(), 0, 60, packets)
    late = receiver({"now": round((MAX_AGE_S + 5) * 1e9)})
    assert all(late.accept(packet, number * PERIOD_NS) == [] for number, packet in enumerate(packets))
    assert late.counts["stale"] > 0
    trusting = Receiver(TOKEN, max_age_s=None, wall_ns=lambda: UNIX_NS + 10**15)
    assert sum(len(trusting.accept(packet, number * PERIOD_NS)) for number, packet in enumerate(packets)) == 60


def talk(source: Sender, sink: Receiver, first: int, count: int, keep: list[bytes] | None = None) -> int:
    """As `feed`, over a link that carries answers back."""
    found = 0
    for number in range(first, first + count):
        now = number * PERIOD_NS
        packet = source.packet(head(now), now)
        if keep is not None:
            keep.append(packet)
        found += len(sink.accept(packet, now))
        for answer in (sink.acknowledgement(now), sink.request()):
            if answer is not None:
                source.answered(answer, now)
    return found


def test_what_was_made_for_one_receiver_is_not_believed_by_another():
    """A recording, played at once to one that hears nothing else: it sees what came before the first one's request, a moment."""
    packets: list[bytes] = []
    first = receiver()
    assert talk(sender(), first, 0, 120, packets) == 120 and first.bound
    second = receiver()
    shown = sum(len(second.accept(packet, number * PERIOD_NS)) for number, packet in enumerate(packets))
    assert shown <= 1 and not second.bound and second.counts["forged"] > 100
    # From the middle on nothing is believed at all.
    third = receiver()
    assert not any(third.accept(packet, number * PERIOD_NS) for number, packet in enumerate(packets[40:]))


def test_a_receiver_that_was_started_again_asks_anew_and_sees_the_head():
    source, clock = sender(), {"now": 0}
    assert talk(source, receiver(clock), 0, 60) == 60
    again = receiver(clock)
    assert talk(source, again, 60, 60) > 60 - 30  # at the latest with the next full header
    assert again.bound and again.request() is None


def test_a_recorded_request_or_answer_cannot_be_used_again():
    source, first, second = sender(), receiver(), receiver()
    packet = source.packet(head(0), 0)
    for sink in (first, second):
        sink.accept(packet, 0)
    request = first.request()
    assert request is not None and len(request) < len(packet)
    for place in range(len(request)):
        assert not source.answered(request[:place] + bytes([request[place] ^ 1]) + request[place + 1 :], 0)
    assert not sender(10**9).answered(request, 0)  # of another session
    assert not Sender(b"another token", 0, UNIX_NS, salt=source.session & 0xFFFFFF).answered(request, 0)
    assert source.answered(request, 0)
    # An acknowledgement of before, or of the other one, is none any more.
    answer = second.acknowledgement(0)
    assert answer is not None and not source.answered(answer, 0)


def test_packets_for_everyone_are_no_longer_believed_once_there_are_some_for_us():
    for_all, for_us, sink = sender(), sender(), receiver()
    for_all.session = for_us.session
    talk(for_us, sink, 0, 30)
    assert sink.bound
    for number in range(30, 90):  # as if an attacker had kept the request from a second copy of the sender
        now = number * PERIOD_NS
        for_all.sequence = number
        assert sink.accept(for_all.packet(head(now), now), now) == []


def test_a_flood_from_elsewhere_does_not_reach_the_stream():
    sink, source = receiver(), sender()
    random = np.random.default_rng(1)
    seconds, per_frame, found = 4, 300, 0
    for number in range(seconds * 60):
        now = number * PERIOD_NS
        header = wire.Header(layout.COMPACT, number, 0).pack()
        for _ in range(per_frame):
            assert sink.accept(header + random.bytes(40), now, address="elsewhere") == []
        found += len(sink.accept(source.packet(head(now), now), now, address="the sender"))
    assert found == seconds * 60
    assert sink.counts["forged"] + sink.counts["replayed"] <= OTHER_RATE * (seconds + 1)
    assert sink.counts["flooded"] > 0.98 * seconds * 60 * per_frame  # and what came before the stream was known is not checked


def test_junk_on_a_link_without_addresses_does_not_starve_the_stream():
    sink, source = receiver(), sender()
    random = np.random.default_rng(1)
    found, seconds = 0, 4
    for number in range(seconds * 60):
        now = number * PERIOD_NS
        header = wire.Header(layout.COMPACT, number, 0).pack()
        for _ in range(25):  # 1,500 a second
            assert sink.accept(header + random.bytes(40), now) == []
        found += len(sink.accept(source.packet(head(now), now), now))
    assert found == seconds * 60


def test_a_flood_from_everywhere_ends_in_one_small_budget():
    sink = receiver()
    header = wire.Header(layout.FULL, 0, 0, session=1 << 39).pack()
    for number in range(20_000):
        assert sink.accept(header + bytes(30), number * 50_000, address=number) == []  # a second of 20,000 addresses
    assert sink.counts["forged"] <= MAX_ADDRESSES + 2 * OTHER_RATE
    assert sink.counts["flooded"] > 19_000


def test_even_the_sender_is_heard_only_so_often():
    sink, source = receiver(), sender()
    for number in range(2000):
        sink.accept(source.packet(head(number), number * 1_000_000), number * 1_000_000, address="it")
    assert sink.counts["decoded"] <= OWN_RATE * 3


def test_a_listener_that_joins_late_sees_the_head_within_half_a_second():
    source, late = sender(), receiver()
    for number in range(100):
        source.packet(head(number * PERIOD_NS), number * PERIOD_NS)
    for number in range(100, 131):
        now = number * PERIOD_NS
        if late.accept(source.packet(head(now), now), now):
            break
    assert late.counts["decoded"] == 1


def test_packets_in_any_order_all_come_out():
    source, sink = sender(), receiver()
    packets = [source.packet(head(n * PERIOD_NS), n * PERIOD_NS) for n in range(40)]
    first, rest = packets[0], packets[1:]
    random = np.random.default_rng(3)
    found = sink.accept(first, 0)
    for start in range(0, len(rest), 13):
        block = rest[start : start + 13]
        for place in random.permutation(len(block)):
            found += sink.accept(block[place], (start + 20) * PERIOD_NS)
    assert sorted(arrival.code.sequence for arrival in found) == list(range(40))
    for arrival in found:
        assert np.abs(difference(head(arrival.code.sequence * PERIOD_NS), arrival.code)).max() < 0.01


def test_a_lost_packet_costs_at_most_the_one_after_it():
    for lost in range(1, 30):
        source, sink = sender(), receiver()
        found = sum(
            len(sink.accept(packet, n * PERIOD_NS))
            for n, packet in enumerate(source.packet(head(n * PERIOD_NS), n * PERIOD_NS) for n in range(60))
            if n != lost
        )
        assert found >= 58


def test_a_long_stream_keeps_nothing():
    source, sink, buffer = sender(), receiver(), JitterBuffer()
    link = Link(1, **ROUGH)

    def run(first: int, count: int) -> None:
        for number in range(first, first + count):
            now = number * PERIOD_NS
            link.throw(source.packet(replace(head(now % 10**10), time_ns=now), now), now)
            for packet, when in link.arrived(now):
                for arrival in sink.accept(packet, when):
                    buffer.put(arrival)
            buffer.at(now)

    run(0, 400)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    run(400, 600)
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert kept < 1_500_000  # what is in flight and a second of codes, not ten


def test_a_jaw_stays_in_range_whatever_is_foretold():
    _, _, shown = play(6.0, Link(5, **ROUGH))
    jaws = [code.weights[JAW] for _, code in shown if code is not None]
    assert min(jaws) >= 0
    assert max(jaws) <= 0.6
