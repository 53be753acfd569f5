"""The wire format: nothing lost beyond half a step, golden vectors, the browser's decoder, seals, and bytes of any kind."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from avatar3d.errors import WorkError
from avatar3d.motion import wire
from avatar3d.motion import wire_layout as layout
from avatar3d.motion.code import MotionCode
from avatar3d.motion.rotation import between, exponential
from avatar3d.motion.seal import Seal, can_encrypt
from avatar3d.net.receiver import Receiver
from avatar3d.net.sender import Sender

ROOT = Path(__file__).resolve().parents[2]
needs_encryption = pytest.mark.skipif(not can_encrypt(), reason="cryptography is not installed")
GOLDEN = ROOT / "tests" / "golden" / "wire.json"
TOKEN = b"some token"


def random_code(random: np.random.Generator) -> MotionCode:
    return MotionCode(
        weights=random.uniform(0, 1, 52) * (random.uniform(0, 1, 52) < 0.7),
        rotation=exponential(random.normal(0, 1, 3)),
        translation=random.normal(0, 1, 3),
        gaze=random.uniform(-0.8, 0.8, (2, 2)),
        confidence=random.uniform(0, 1, 5),
    )


frames = st.tuples(*(st.integers(group.low, group.high) for group in layout.GROUPS for _ in range(group.count)))


@settings(max_examples=60)
@given(frames, frames, st.integers(1, layout.MAX_REFERENCE))
def test_any_frame_comes_back_from_any_reference_and_from_none(frame, reference, age):
    assert wire.decode(wire.encode(frame, reference, age), reference, age) == frame
    assert wire.decode(wire.encode(frame, None), None) == frame


@settings(max_examples=40)
@given(frames)
def test_the_longest_frame_fits_into_a_packet(frame):
    assert wire.HEADER_BYTES[layout.FULL] + len(wire.encode(frame, None)) + layout.TAG_BYTES <= layout.MAX_PACKET


def test_extreme_frames_fit_into_a_packet():
    for pick in (lambda group, n: group.high, lambda group, n: group.low, lambda group, n: (group.low, group.high)[n % 2]):
        frame = tuple(pick(group, n) for group in layout.GROUPS for n in range(group.count))
        payload = wire.encode(frame, None)
        assert wire.decode(payload, None) == frame
        assert wire.HEADER_BYTES[layout.FULL] + len(payload) + layout.TAG_BYTES <= layout.MAX_PACKET


def test_errors_stay_within_what_the_format_promises():
    random = np.random.default_rng(1)
    for _ in range(200):
        code = random_code(random)
        back = wire.restore(wire.quantise(code), 5, 6)
        assert np.abs(back.weights - code.weights).max() <= 1 / 255 + 1e-9
        assert np.degrees(np.linalg.norm(between(code.rotation, back.rotation))) <= 0.1 + 1e-6
        assert np.degrees(np.linalg.norm(back.gaze - code.gaze, axis=1)).max() <= 0.1 + 1e-6
        assert np.abs(back.translation - code.translation).max() <= 0.0005 + 1e-9
        assert (back.time_ns, back.sequence) == (5, 6)


def test_full_weights_come_back_full():
    code = MotionCode(weights=np.ones(52))
    assert (wire.restore(wire.quantise(code), 0, 0).weights == 1).all()


def test_a_head_out_of_range_is_clipped_to_it():
    back = wire.restore(wire.quantise(MotionCode(translation=np.array([50.0, -50.0, 0.0]))), 0, 0)
    assert back.translation.tolist() == [10.0, -10.0, 0.0]


@given(st.integers(0, 2**40), st.floats(-0.99, 0.99), st.sampled_from([wire.SEQUENCE_BITS, wire.TIME_BITS]))
def test_low_bytes_are_made_whole_near_what_came_before(number, off, bits):
    near = max(0, number + int(off * 2 ** (bits - 1)))
    assert wire.whole(number % 2**bits, bits, near) == number


def test_headers_are_packed_and_read():
    for header in (
        wire.Header(layout.COMPACT, 0x34, 0x5678, reference=7),
        wire.Header(layout.FULL, 0x12345678, 0x123456789A, session=0xABCDEF0123, round_trip=77),
        wire.Header(layout.ACK, 99, session=5, held=3),
    ):
        packet = header.pack() + bytes(layout.TAG_BYTES)
        assert wire.read_header(packet) == header
        assert wire.payload(packet) == b""
        assert wire.read_header(packet[:-1]) is None
        assert wire.read_header(bytes([packet[0] ^ 0x30]) + packet[1:]) is None  # another version


def test_a_tag_fits_only_its_own_packet_numbers_and_token():
    seal, body = Seal(TOKEN), b"a packet"
    packet = body + seal.tag(1, 2, 3, body)
    assert seal.fits(1, 2, 3, packet)
    assert not seal.fits(1, 2, 4, packet)
    assert not seal.fits(1, 3, 3, packet)
    assert not seal.fits(2, 2, 3, packet)
    assert not Seal(b"other token").fits(1, 2, 3, packet)
    for place in range(len(packet)):
        damaged = bytearray(packet)
        damaged[place] ^= 1
        assert not seal.fits(1, 2, 3, bytes(damaged))


@needs_encryption
def test_what_is_encrypted_shows_nothing_of_the_frame_and_takes_no_byte_more():
    face = MotionCode(weights=np.linspace(0, 1, 52))
    plain, first, second, other = (
        Sender(token, 0, 10**18 * 18 // 10, encrypted, scope, salt).packet(face, 0)
        for token, encrypted, scope, salt in (
            (TOKEN, False, b"", 1), (TOKEN, True, b"", 1), (TOKEN, True, b"", 2), (TOKEN, True, b"bob", 1),
        )
    )  # fmt: skip
    assert len({len(plain), len(first), len(second), len(other)}) == 1
    assert wire.payload(plain) == wire.encode(wire.quantise(face), None)
    # Heads that start in the same instant have nothing in common: neither their sessions nor their names are the same.
    shown = [np.frombuffer(wire.payload(packet), np.uint8) for packet in (plain, first, second, other)]
    for place, one in enumerate(shown):
        for another in shown[place + 1 :]:
            assert (one == another).mean() < 0.25
    assert len(Receiver(TOKEN, None).accept(first, 0)) == 1
    assert Receiver(TOKEN, None).accept(other, 0) == []  # a head is not played as another


@needs_encryption
def test_a_receiver_that_wants_secrecy_believes_nothing_in_the_clear():
    face, strict = MotionCode(), Receiver(TOKEN, None, plain=False)
    assert strict.accept(Sender(TOKEN, 0).packet(face, 0), 0) == []
    assert strict.counts["plain"] == 1
    sender = Sender(TOKEN, 0, encrypted=True)
    packet = sender.packet(face, 0)
    in_the_clear = bytes([packet[0] ^ (layout.ENCRYPTED ^ layout.VERSION) << 4]) + packet[1:]
    assert Receiver(TOKEN, None).accept(in_the_clear, 0) == []  # nor can what is encrypted be called plain
    assert len(strict.accept(packet, 0)) == 1
    answer = strict.acknowledgement(0)
    assert answer is not None and sender.answered(answer, 0)
    assert strict.accept(answer, 0) == []  # an answer is no frame


def test_without_the_package_encryption_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.setattr("avatar3d.motion.seal.find_spec", lambda name: None)
    with pytest.raises(WorkError, match="cryptography"):
        Sender(TOKEN, encrypted=True)
    assert Sender(TOKEN, 0).packet(MotionCode(), 0)


@needs_encryption
def test_golden_vectors_decode_as_they_always_did():
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert golden["layout"] == wire.LAYOUT_ID
    receiver = Receiver(golden["token"].encode(), max_age_s=None)
    for number, entry in enumerate(golden["packets"]):
        arrivals = receiver.accept(bytes.fromhex(entry["packet"]), number * 16_000_000)
        assert [each.code.sequence for each in arrivals] == [frame["sequence"] for frame in entry["frames"]]
        for arrival, frame in zip(arrivals, entry["frames"], strict=True):
            assert list(wire.quantise(arrival.code)) == frame["values"]
            assert arrival.code.time_ns == frame["ticks"] * layout.TICK_NS
    assert receiver.session == golden["session"]
    versions = [int(entry["packet"][0], 16) for entry in golden["packets"]]
    assert set(versions) == {layout.VERSION, layout.ENCRYPTED}
    kinds = {int(entry["packet"][1], 16) for entry in golden["packets"]}
    assert {0, 1, layout.FULL} <= kinds  # key frames, differences and full headers are all there


@needs_encryption
def test_generated_files_fit_the_definition():
    """The browser's numbers, the golden vectors and the page's tables are what tools/wire_tables.py would write."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "wire_tables.py"), "--check"],
        cwd=ROOT, env={"PYTHONPATH": str(ROOT), "PATH": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


BROWSER_TEST = """
import { readFileSync } from "node:fs";
import { WireReceiver, decodeFrame, restore } from "%(module)s";
const golden = JSON.parse(readFileSync("%(golden)s", "utf8"));
const receiver = new WireReceiver(golden.token, { plain: true });
const codes = [];
for (const entry of golden.packets) codes.push(await receiver.accept(Uint8Array.from(Buffer.from(entry.packet, "hex"))));
const again = await receiver.accept(Uint8Array.from(Buffer.from(golden.packets.at(-1).packet, "hex")));
const damaged = Uint8Array.from(Buffer.from(golden.packets.at(-1).packet, "hex"));
damaged[8] ^= 1;
const secretive = new WireReceiver(golden.token);
const plain = golden.packets.find(({ packet }) => packet.startsWith("2d")).packet;
const clear = await secretive.accept(Uint8Array.from(Buffer.from(plain, "hex")));
const stranger = new WireReceiver("another token");
const strange = await stranger.accept(Uint8Array.from(Buffer.from(golden.packets[0].packet, "hex")));
const noise = [];
let state = 1; // the same noise in every run
const random = () => (state = (state * 48271) %% 2147483647) & 255;
for (let i = 0; i < 2000; i++) {
  const bytes = Uint8Array.from({ length: i %% 90 }, random);
  decodeFrame(bytes, null, 0);
  noise.push(await receiver.accept(bytes));
}
console.log(JSON.stringify({ codes, refused: [again, clear, await receiver.accept(damaged), strange, ...noise] }));
"""


def test_the_browsers_decoder_decodes_the_golden_vectors_too(tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed, so the browser's decoder cannot be run")
    for name in ("wire.js", "wire_layout.js"):
        (tmp_path / name).write_bytes((ROOT / "avatar3d" / "web" / name).read_bytes())
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    script = tmp_path / "test.js"
    script.write_text(BROWSER_TEST % {"module": "./wire.js", "golden": GOLDEN}, encoding="utf-8")
    done = subprocess.run([node, str(script)], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert all(code is None for code in result["refused"])
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert len(result["codes"]) == len(golden["packets"])
    for code, entry in zip(result["codes"], golden["packets"], strict=True):
        assert len(entry["frames"]) == (code is not None)
        for frame in entry["frames"]:
            expected = wire.restore(tuple(frame["values"]), 0, 0)
            np.testing.assert_allclose(list(code["weights"].values()), expected.weights, atol=1e-9)
            np.testing.assert_allclose(code["rotation"], expected.rotation, atol=1e-9)
            np.testing.assert_allclose(code["translation"], expected.translation, atol=1e-9)
            np.testing.assert_allclose(code["gaze"], expected.gaze, atol=1e-9)
            np.testing.assert_allclose(code["confidence"], expected.confidence, atol=1e-9)
            assert code["sequence"] == frame["sequence"]
            assert code["time"] == pytest.approx(frame["ticks"] * layout.TICK_NS / 1e9)


def fuzz(count: int, seed: int) -> tuple[int, int]:
    """Decode `count` mutated payloads and feed as many packets, some of them rightly sealed; (frames, damaged)."""
    random = np.random.default_rng(seed)
    sender, receiver, seal = Sender(TOKEN, 0, 10**18 * 18 // 10), Receiver(TOKEN, max_age_s=None), Seal(TOKEN)
    decoded = damaged = 0
    reference = wire.quantise(random_code(random))
    packet = sender.packet(random_code(random), 0)
    receiver.accept(packet, 0)
    for number in range(count):
        now = number * 20_000_000
        if number % 16 == 0:
            packet = sender.packet(random_code(random), now)
        data = bytearray(packet)
        for _ in range(int(random.integers(1, 6))):
            data[int(random.integers(0, len(data)))] = int(random.integers(0, 256))
        data = data[: int(random.integers(0, len(data) + 1))] if number % 3 == 0 else data
        receiver.accept(bytes(data), now)
        # The same from one who has the token: the header is whole, what follows is not.
        body = wire.Header(layout.COMPACT, sender.sequence + number, 0, int(random.integers(0, 13))).pack() + random.bytes(
            number % 60
        )
        newest, when = receiver.newest, receiver.time
        low = (sender.sequence + number) % 2**wire.SEQUENCE_BITS
        sequence = wire.whole(low, wire.SEQUENCE_BITS, max(newest, 0))
        whole_time = wire.whole(0, wire.TIME_BITS, when)
        receiver.accept(body + seal.tag(receiver.session or 0, sequence, whole_time, body), now)
        try:
            frame = wire.decode(random.bytes(number % 80), reference if number % 2 else None, 1)
            assert len(frame) == layout.CHANNELS
            decoded += 1
        except wire.Damaged:
            damaged += 1
    assert receiver.kept <= 200
    return decoded + receiver.counts["decoded"], damaged + receiver.counts["damaged"]


def test_mutated_packets_never_raise_and_nothing_piles_up():
    decoded, damaged = fuzz(3000, 1)
    assert decoded > 10
    assert damaged > 10


@pytest.mark.slow
def test_many_mutated_packets_never_raise():
    fuzz(30_000, 100)  # three inputs each; a million: tools/fuzz.py
