"""Each wire protocol says the same code back, in our axes and order, and says nothing for what it is not."""

from __future__ import annotations

import math
import socket
import struct

import numpy as np
import pytest
from motion.packets import (
    PROTOCOLS,
    openseeface_record,
    osc_bundle,
    osc_message,
    sample_code,
    unified_bundle,
)

from avatar3d.errors import InputError, WorkError
from avatar3d.motion.code import ARKIT_INDEX, MotionCode, look_angles, quaternion_matrix
from avatar3d.motion.csv import head_angles, write_motion_csv
from avatar3d.motion.jsonl import read_motion_jsonl, to_line, write_motion_jsonl
from avatar3d.motion.sources import MOTION_SOURCES, SourceBase, Spec, livelink, open_source
from avatar3d.motion.sources.base import ClockOffset
from avatar3d.motion.sources.ifacialmocap import IFacialMocapParser
from avatar3d.motion.sources.livelink import LiveLinkParser
from avatar3d.motion.sources.openseeface import OpenSeeFaceParser
from avatar3d.motion.sources.osc import UnifiedParser
from avatar3d.motion.sources.vmc import SILENT_NS, VmcParser
from avatar3d.motion.validation import MAX_UNKNOWN, MotionValidator, unknown_lines


def whole_gaze(code: MotionCode) -> np.ndarray:
    return code.gaze + look_angles(code.weights)


@pytest.mark.parametrize(("name", "tolerance"), [("livelink", 1e-6), ("ifacialmocap 1", 1e-9), ("ifacialmocap 2", 1e-9),
                                                ("vmc", 1e-6), ("osc", 1e-6), ("json", 1e-5), ("openxr", 1e-4)])  # fmt: skip
def test_the_weights_come_through(name, tolerance):
    packet, make = PROTOCOLS[name]
    code = make()(packet, 1_000_000_000)
    np.testing.assert_allclose(code.weights, sample_code().weights, atol=tolerance)


@pytest.mark.parametrize("name", ["livelink", "ifacialmocap 2", "vmc", "json", "openseeface"])
def test_the_head_turns_the_same_way(name):
    packet, make = PROTOCOLS[name]
    rotation = make()(packet, 1_000_000_000).rotation
    np.testing.assert_allclose(quaternion_matrix(rotation), quaternion_matrix(sample_code().rotation), atol=1e-5)


@pytest.mark.parametrize("name", ["livelink", "ifacialmocap 2"])
def test_the_eyes_look_the_same_way(name):
    packet, make = PROTOCOLS[name]
    np.testing.assert_allclose(whole_gaze(make()(packet, 1_000_000_000)), whole_gaze(sample_code()), atol=1e-5)


def test_a_live_link_packet_byte_by_byte():
    values = np.zeros(61)
    values[17], values[15], values[53] = 0.5, 0.25, 0.1  # JawOpen, JawLeft in Unreal's order, HeadPitch (down)
    head = b"\x06" + struct.pack(">i", 36) + b"A" * 36 + struct.pack(">i", 6) + b"iPhone"
    packet = head + struct.pack(">ifiiB", 120, 0.5, 60, 1, 61) + values.astype(">f4").tobytes()
    assert len(packet) == 312  # what the app sends under that name
    parser = LiveLinkParser(MotionValidator())
    code = parser(packet, 10_000_000_000)
    assert parser.subject == "iPhone"
    assert code.weights[ARKIT_INDEX["jawOpen"]] == 0.5 and code.weights[ARKIT_INDEX["jawLeft"]] == 0.25
    assert code.weights.sum() == 0.75
    np.testing.assert_allclose(head_angles(code.rotation), [0, -0.1, 0], atol=1e-7)
    assert code.time_ns == 10_000_000_000
    assert parser(head + struct.pack(">ifii", 121, 0.5, 60, 1), 10_010_000_000) is None  # no face in sight


def test_live_link_times_follow_the_phone_not_the_network():
    parser, code, times = LiveLinkParser(MotionValidator()), sample_code(), []
    delays = (5, 25, 1, 40, 3)
    for index, delay_ms in enumerate(delays):
        sent = 20_000_000_000 + index * 1_000_000_000 // 60
        packet = livelink.pack(MotionCode(code.weights, time_ns=sent))
        times.append(parser(packet, 77_000_000_000 + sent + delay_ms * 1_000_000).time_ns)
    assert np.abs(np.diff(times[2:]) - 1e9 / 60).max() < 2e5  # once the shortest delay was seen


def test_live_link_keeps_to_one_subject():
    first, second = livelink.pack(sample_code(), "Ann"), livelink.pack(sample_code(), "Ben")
    parser = LiveLinkParser(MotionValidator())
    assert parser(first, 1) and parser(second, 2) is None and parser(first, 3)
    assert LiveLinkParser(MotionValidator(), "Ben")(first, 1) is None


def test_ifacialmocap_moves_the_neck_not_the_nose():
    parser = IFacialMocapParser(MotionValidator())
    still = b"jawOpen&50|=head#0,0,0,0.01,0.02,-0.5|rightEye#0,0,0|leftEye#0,0,0"
    moved = b"jawOpen&50|=head#0,0,0,0.04,0.02,-0.5|rightEye#10,5,0|leftEye#10,5,0"
    np.testing.assert_array_equal(parser(still, 1).translation, 0)
    code = parser(moved, 2)
    np.testing.assert_allclose(code.translation, [0.03, 0, 0], atol=1e-12)
    np.testing.assert_allclose(np.degrees(code.gaze), [[5, -10], [5, -10]])


@pytest.mark.parametrize("mirrored", [False, True])
def test_openseeface_points_give_gaze_whatever_its_axes(mirrored):
    code = OpenSeeFaceParser(MotionValidator())(openseeface_record(sample_code(), mirrored=mirrored), 1)
    np.testing.assert_allclose(code.gaze, [[0.1, -0.05]] * 2, atol=1e-5)
    np.testing.assert_allclose(head_angles(code.rotation), [0.3, -0.1, 0.2], atol=1e-5)
    expected = {"eyeBlinkRight": 0.1, "eyeBlinkLeft": 0.2, "jawOpen": 0.4, "mouthSmileLeft": 0.4}
    assert {name: code.weights[ARKIT_INDEX[name]] for name in expected} == pytest.approx(expected)


def test_openseeface_follows_the_face_asked_for():
    both = openseeface_record(sample_code(), 3) + openseeface_record(MotionCode(), 5)
    assert head_angles(OpenSeeFaceParser(MotionValidator(), 5)(both, 1).rotation)[0] == pytest.approx(0, abs=1e-5)
    assert head_angles(OpenSeeFaceParser(MotionValidator())(both, 1).rotation)[0] == pytest.approx(0.3, abs=1e-5)
    assert OpenSeeFaceParser(MotionValidator(), 4)(both, 1) is None


def test_osc_parameters_in_their_many_forms():
    parser = UnifiedParser(MotionValidator())

    def weight(name: str, *messages: tuple[object, ...]) -> float:
        return parser(osc_bundle(*messages), 1).weights[ARKIT_INDEX[name]]

    path = "/avatar/parameters/v2/"
    assert (
        weight("jawLeft", (path + "JawX", -0.5)) == 0.5
        and parser(osc_message(path + "JawX", 0.25), 2).weights[ARKIT_INDEX["jawRight"]] == 0.25
    )
    assert weight("mouthFunnel", (path + "LipFunnel", 0.5)) == 0.5
    assert weight("mouthSmileLeft", (path + "SmileFrownLeft", 0.5)) == pytest.approx(0.5)
    assert weight("mouthFrownLeft", (path + "SmileFrownLeft", -0.5)) == pytest.approx(0.5)
    assert weight("mouthSmileLeft", (path + "NotKnown", 1.0), (path + "JawX", 0.0)) == 0
    assert weight("eyeBlinkLeft", (path + "EyeLidLeft", 0.0)) == 1
    assert weight("eyeBlinkLeft", (path + "EyeLidLeft", 0.75)) == 0
    assert weight("eyeWideLeft", (path + "EyeLidLeft", 1.0)) == 1
    assert weight("eyeBlinkRight", ("/tracking/eye/EyesClosedAmount", 0.5)) == 0.5
    assert parser(osc_message(path + "NotKnown", 1.0), 1) is None
    assert parser(osc_message("/chatbox/input", "hello"), 1) is None


def test_osc_both_eyes_turn_together_and_strange_names_are_counted():
    validator = MotionValidator()
    parser, path = UnifiedParser(validator), "/avatar/parameters/FT/v2/"
    both = parser(osc_bundle((path + "EyeX", 0.3), (path + "EyeY", -0.2)), 1)
    each = UnifiedParser(MotionValidator())(osc_bundle(*((f"{path}Eye{side}{axis}", value) for side in ("Left", "Right")
                                              for axis, value in (("X", 0.3), ("Y", -0.2)))), 1)  # fmt: skip
    np.testing.assert_array_equal(both.gaze, each.gaze)
    assert (both.gaze[:, 0] < 0).all() and (both.gaze[:, 1] < 0).all()
    for number in range(200):
        parser(osc_bundle((path + "PupilDilation", 0.5), (f"/strange/{number}" + "x" * 100, 1.0)), 2)
    assert validator.unknown["FT/v2/PupilDilation"] == 200
    assert sum(validator.unknown.values()) == 400
    assert len(validator.unknown) <= MAX_UNKNOWN + 1 and all(len(name) <= 40 for name in validator.unknown)
    assert "FT/v2/PupilDilation (200)" in unknown_lines(validator.unknown)[0]
    assert unknown_lines({}) == []


def test_vmc_presets_go_on_beside_arkit_clips():
    validator = MotionValidator()
    parser = VmcParser(validator)
    clips = [("/VMC/Ext/Blend/Val", name, value) for name, value in (
        ("A", 1.0), ("Joy", 0.5), ("jawOpen", 0.0), ("browInnerUp", 0.25), ("mouthSmileLeft", 0.9), ("MyClip", 1.0),
    )]  # fmt: skip
    weights = parser(osc_bundle(*clips, ("/VMC/Ext/Blend/Apply",)), 1).weights
    expected = {"jawOpen": 0.7, "browInnerUp": 0.25, "mouthSmileLeft": 0.9, "mouthSmileRight": 0.4}
    assert {name: weights[ARKIT_INDEX[name]] for name in expected} == pytest.approx(expected)
    assert dict(validator.unknown) == {"MyClip": 1}


def test_ifacialmocap_reads_decimal_commas_where_they_leave_no_doubt():
    def read(*fields: str) -> tuple[MotionCode, MotionValidator]:
        validator = MotionValidator()
        return IFacialMocapParser(validator)("|".join(("jawOpen&50,5", *fields)).encode(), 1), validator

    point, _ = read("=head#-10.5,20.25,0.5,0.1,0.2,0.3", "rightEye#1.5,2.5,0.0", "leftEye#1.5,2.5,0.0")
    comma, validator = read("=head#-10,5,20,25,0,5,0,1,0,2,0,3", "rightEye#1,5,2,5,0,0", "leftEye#1,5,2,5,0,0")
    assert comma.weights[ARKIT_INDEX["jawOpen"]] == pytest.approx(0.505)
    np.testing.assert_allclose(comma.rotation, point.rotation)
    np.testing.assert_allclose(comma.gaze, point.gaze)
    assert not validator.unknown
    doubtful, validator = read("=head#-10,5,20,0,0,0,0", "smell_L&3", "nose#1,2,3")  # nobody can say which comma is which
    np.testing.assert_array_equal(doubtful.rotation, [0, 0, 0, 1])
    assert dict(validator.unknown) == {"head": 1, "smell_L": 1, "nose": 1}
    whole, _ = read("=head#-10,20,5,0,0,0")
    assert head_angles(whole.rotation)[0] == pytest.approx(math.radians(20))


def test_osc_gaze_turns_to_the_users_side():
    code = UnifiedParser(MotionValidator())(osc_message("/tracking/eye/LeftRightPitchYaw", 10.0, 20.0, 10.0, 20.0), 1)
    np.testing.assert_allclose(np.degrees(code.gaze), [[-20, -10]] * 2)  # down, and to the user's right, our −X
    code = UnifiedParser(MotionValidator())(unified_bundle(MotionCode()), 1)
    np.testing.assert_array_equal(code.gaze, np.zeros((2, 2)))


def test_vmc_waits_for_apply_and_falls_back_on_presets():
    parser = VmcParser(MotionValidator())
    assert parser(osc_message("/VMC/Ext/Blend/Val", "Blink_L", 1.0), 1).weights[ARKIT_INDEX["eyeBlinkLeft"]] == 1
    vowel = osc_bundle(("/VMC/Ext/Blend/Val", "aa", 1.0), ("/VMC/Ext/Blend/Apply",))
    assert parser(vowel, 2).weights[ARKIT_INDEX["jawOpen"]] == 0.7
    now = 10 * SILENT_NS  # the sender has left its presets for ARKit's names
    assert parser(osc_message("/VMC/Ext/Blend/Val", "JawOpen", 0.5), now) is None
    code = parser(osc_message("/VMC/Ext/Blend/Apply"), now + 1)
    assert code.weights[ARKIT_INDEX["jawOpen"]] == 0.5 and code.weights[ARKIT_INDEX["eyeBlinkLeft"]] == 0


def test_vmc_bones_add_up():
    parser = VmcParser(MotionValidator())
    quarter = (0.0, float(np.sin(0.1)), 0.0, float(np.cos(0.1)))  # 0.2 rad to the avatar's right
    bones = [("/VMC/Ext/Bone/Pos", name, 0.0, 0.0, 0.0, *quarter) for name in ("Neck", "Head", "LeftEye", "RightEye")]
    code = parser(osc_bundle(*bones), 1)
    np.testing.assert_allclose(head_angles(code.rotation), [-0.4, 0, 0], atol=1e-6)
    np.testing.assert_allclose(code.gaze, [[-0.2, 0]] * 2, atol=1e-6)


def test_a_socket_source_reads_what_is_sent_to_it():
    with open_source("livelink:0") as source, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        assert source.read(0.0) is None and not source.ended
        for packet in (b"noise", livelink.pack(sample_code())):
            sender.sendto(packet, ("127.0.0.1", source.port))
        code = source.read(20.0)
        np.testing.assert_allclose(code.weights, sample_code().weights, atol=1e-6)
        assert (source.received, source.ignored, source.validator.admitted) == (2, 1, 1)
    assert source.ended and source.read(0.0) is None


def test_osc_sources_give_the_newest_of_what_waits():
    with open_source("osc:0") as source:
        source._socket.close()
        source._socket, near = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)  # what is sent waits at once
        source._socket.setblocking(False)
        with near:
            for value in (0.1, 0.2, 0.3):
                near.send(osc_message("/avatar/parameters/v2/JawOpen", value))
            assert source.read(1.0).weights[ARKIT_INDEX["jawOpen"]] == pytest.approx(0.3)
            assert source.read(0.0) is None


def test_sources_listen_on_loopback_unless_told_otherwise():
    with open_source("vmc:0") as source:
        assert source._socket.getsockname()[0] == "127.0.0.1"
    with open_source("ifacialmocap:0.0.0.0:0") as source:
        assert source._socket.getsockname()[0] == "0.0.0.0"


def test_a_port_in_use_is_one_sentence():
    with open_source("livelink:0") as source, pytest.raises(WorkError, match=f"cannot listen for 'livelink:{source.port}'"):
        open_source(f"livelink:{source.port}")


def test_recordings_are_sources(tmp_path):
    codes = [MotionCode(sample_code().weights, time_ns=index * 50_000_000, sequence=index) for index in range(3)]
    write_motion_csv(tmp_path / "a.csv", codes, fps=30)
    write_motion_jsonl(tmp_path / "a.jsonl", codes)
    for spec in (f"csv:{tmp_path}/a.csv?fps=30", f"json:{tmp_path}/a.jsonl"):
        with open_source(spec) as source:
            again = list(source)
        assert not source.live and [code.sequence for code in again] == [0, 1, 2]
        np.testing.assert_allclose(again[2].weights, codes[2].weights, atol=1e-5)
        assert abs(again[2].time_ns - 100_000_000) < 100_000


def test_json_lines_keep_everything(tmp_path):
    code = sample_code()
    write_motion_jsonl(tmp_path / "a.jsonl", [code])
    again = read_motion_jsonl(tmp_path / "a.jsonl")[0]
    assert (again.time_ns, again.sequence) == (code.time_ns, code.sequence)
    np.testing.assert_allclose(again.rotation, code.rotation)
    np.testing.assert_allclose(again.gaze, code.gaze)
    np.testing.assert_array_equal(again.confidence, code.confidence)


def test_a_broken_line_is_named(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(to_line(sample_code()) + "\n\nnot json\n")
    with pytest.raises(InputError, match=r"line 3 of .* is not a motion code"):
        read_motion_jsonl(path)
    path.write_text("")
    with pytest.raises(InputError, match="is empty"):
        read_motion_jsonl(path)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("clip.mp4", "is not a motion source; expected SCHEME:TARGET"),
        ("kinect:0", "unknown motion source 'kinect'; expected one of camera, csv"),
        ("livelink:port", "'port' is not a port"),
        ("livelink:70000", "is not a port; expected 0..65535"),
        ("livelink:example.org:11111", "'example.org' is not an IP address"),
        ("livelink:0?subjet=me", "unknown option 'subjet'; livelink: knows subject"),
        ("osc:0?x=1", "osc: takes no options"),
        ("ifacialmocap:0?phone=my-phone", "phone=my-phone is not an IP address"),
        ("openseeface:0?face=first", "face=first is not a whole number in 0"),
        ("openseeface:0?face=²", "face=² is not a whole number"),
        ("livelink:²", "'²' is not a port"),
        ("livelink:٣", "is not a port"),
        ("camera:²", "'²' is not a camera's number"),
        ("video:x.mp4?face=--5", "face=--5 is not a whole number in 0"),
        ("csv:/nowhere/a.csv", "cannot read the motion file"),
        ("csv:a.csv?fps=fast", "fps=fast is not a number in 1..1000"),
        ("json:/nowhere/a.jsonl", "cannot read the motion file"),
        ("openxr:", "needs a file of recorded weights"),
        ("lsl:eeg", "names no source to lean"),
        ("lsl:eeg?onto=csv:a.csv&weights=jaw:1", "'jaw:1' is not NAME:GAIN"),
        ("lsl:eeg?onto=csv:a.csv&bound=0.9", r"bound=0.9 is not a number in 0..0.3"),
    ],
)
def test_wrong_specs_are_one_sentence(spec, sentence):
    with pytest.raises(InputError, match=sentence):
        open_source(spec)


class Counting(SourceBase):
    """A source of one's own, with the least that it needs: three codes, then it closes itself."""

    def __init__(self, spec=None):
        self.spec, self.count = spec, 0

    def read(self, timeout_s: float = 1.0):
        self.count += 1
        if self.count == 3:
            self.close()
        return MotionCode(sequence=self.count)


def test_a_source_of_ones_own_needs_no_more_than_read():
    with Counting() as source:
        assert [code.sequence for code in source] == [1, 2, 3]
    assert source.ended and source.live and source.validator.refused == 0


@pytest.mark.parametrize(
    ("text", "value"), [("nod:", 0.5), ("nod:2", 2.0), ("nod:fast", None), ("nod:0", None), ("nod:nan", None)]
)
def test_a_target_may_be_a_number_in_a_range(text, value):
    spec = Spec.parse(text)
    if value is not None:
        assert spec.number(0.5, 0.1, 10) == value
        return
    with pytest.raises(InputError, match=f"{text!r}: .* is not a number in 0.1..10"):
        spec.number(0.5, 0.1, 10)


def test_plug_ins_are_found_by_entry_point(monkeypatch):
    class Point:
        name, value, opener = "mine", "here:open", Counting

        def load(self):
            return self.opener

    def points(group: str) -> list[Point]:
        return [Point()] if group == "avatar3d.motion_sources" else []

    monkeypatch.setattr("avatar3d.registry.entry_points", points)
    assert open_source("mine:place?a=1").spec.options == {"a": "1"}
    assert "mine" in MOTION_SOURCES.names()
    Point.opener = staticmethod(lambda spec: spec)
    with pytest.raises(InputError, match="a Spec is no motion source: it has no read and no close .* derive it from"):
        open_source("mine:place")


def test_the_clock_offset_forgets_a_clock_that_was_set_anew():
    clock = ClockOffset()
    assert clock.local(1_000, 5_000_000_000) == 5_000_000_000
    assert abs(clock.local(10_001_000, 5_015_000_000) - 5_010_000_000) < 10_000  # five milliseconds late
    assert clock.local(100_000_000_000, 5_020_000_000) == 5_020_000_000
