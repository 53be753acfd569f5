"""Packets of each protocol, made from a motion code, and the parsers that read them: what the source and fuzz tests share."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
from pythonosc.osc_bundle_builder import IMMEDIATELY, OscBundleBuilder
from pythonosc.osc_message_builder import OscMessageBuilder

from avatar3d.motion import jsonl
from avatar3d.motion.code import ARKIT_INDEX, ARKIT_NAMES, MotionCode, quaternion_matrix
from avatar3d.motion.csv import head_rotation
from avatar3d.motion.sources import ifacialmocap, livelink, openxr
from avatar3d.motion.sources.ifacialmocap import IFacialMocapParser
from avatar3d.motion.sources.livelink import LiveLinkParser
from avatar3d.motion.sources.openseeface import RECORD, OpenSeeFaceParser
from avatar3d.motion.sources.osc import UnifiedParser
from avatar3d.motion.sources.vmc import VmcParser
from avatar3d.motion.validation import MotionValidator
from avatar3d.motion.vocabulary import vocabulary


def sample_code() -> MotionCode:
    """A code in which every weight differs, each a whole percentage, and the head and the eyes are turned."""
    weights = np.round(np.linspace(0.02, 0.9, 52), 2)
    weights[ARKIT_INDEX["mouthClose"]] = 0.29  # less than jawOpen, as ARKit has it
    return MotionCode(
        weights, head_rotation(0.3, -0.1, 0.2), gaze=np.array([[0.1, -0.05], [0.06, -0.04]]), time_ns=5_000_000_000, sequence=7
    )


def osc_message(address: str, *arguments: object) -> bytes:
    builder = OscMessageBuilder(address=address)
    for argument in arguments:
        builder.add_arg(argument)
    return builder.build().dgram


def osc_bundle(*messages: tuple[object, ...]) -> bytes:
    builder = OscBundleBuilder(IMMEDIATELY)
    for address, *arguments in messages:
        message = OscMessageBuilder(address=str(address))
        for argument in arguments:
            message.add_arg(argument)
        builder.add_content(message.build())
    return builder.build().dgram


def unified_bundle(code: MotionCode, prefix: str = "/avatar/parameters/FT/v2/") -> bytes:
    table = vocabulary("unified")
    values = table.from_arkit(code.weights)
    return osc_bundle(*((prefix + name, float(value)) for name, value in zip(table.names, values, strict=True)))


def vmc_bundle(code: MotionCode) -> bytes:
    x, y, z, w = code.rotation
    blends = [("/VMC/Ext/Blend/Val", name, float(value)) for name, value in zip(ARKIT_NAMES, code.weights, strict=True)]
    head = ("/VMC/Ext/Bone/Pos", "Head", 0.0, 0.0, 0.0, float(x), float(-y), float(-z), float(w))
    return osc_bundle(*blends, head, ("/VMC/Ext/Blend/Apply",))


def openseeface_record(code: MotionCode, identity: int = 0, mirrored: bool = False) -> bytes:
    """A face of 70 points about an average one, turned by the code's rotation and seen by a scaled orthographic camera."""
    face = openseeface_face()
    scale_px_per_m = 1500.0
    turned = face @ quaternion_matrix(code.rotation).T
    record = np.zeros(1, RECORD)[0]
    record["time"], record["id"], record["size"], record["found"] = code.time_ns / 1e9, identity, (640, 480), 1
    record["eye_open"], record["confidence"] = (0.9, 0.8), 0.95
    record["points"] = turned[:68, :2] * (scale_px_per_m, -scale_px_per_m) + (320, 240)
    # The tracker's own units and axes: any; here tenths of a metre, y and z turned round, and mirrored if asked.
    record["model"] = face / 0.1 * ((-1.0 if mirrored else 1.0), -1.0, -1.0)
    record["features"][[3, 6]] = 0.5  # brows up
    record["features"][[8, 10]] = -0.5  # corners up
    record["features"][12] = 0.5  # mouth open
    return record.tobytes()


def openseeface_face() -> np.ndarray:
    """(70, 3) points in the head frame, metres: iBUG 68 with pupils for the last two, then the eyeballs' centres."""
    random = np.random.default_rng(4)
    face = np.column_stack([random.uniform(-0.06, 0.06, 70), random.uniform(-0.07, 0.03, 70), random.uniform(-0.02, 0.03, 70)])
    corners = {36: (-0.046, 0, -0.002), 39: (-0.017, 0, 0.004), 42: (0.017, 0, 0.004), 45: (0.046, 0, -0.002)}
    named = {**corners, 8: (0, -0.11, 0.012), 19: (-0.03, 0.025, 0.012), 24: (0.03, 0.025, 0.012), 30: (0, -0.04, 0.035)}
    for index, place in named.items():
        face[index] = place
    eyes = {66: -0.032, 67: 0.032}
    for pupil, x in eyes.items():
        face[pupil + 2] = (x, 0, -0.01)
        # Both pupils look 0.1 rad to the subject's left and 0.05 down.
        toward = np.array([np.sin(0.1) * np.cos(0.05), -np.sin(0.05), np.cos(0.1) * np.cos(0.05)])
        face[pupil] = face[pupil + 2] + 0.012 * toward
    return face


def openxr_line(extension: str = "XR_FB_face_tracking2") -> bytes:
    table = vocabulary(openxr.EXTENSIONS[extension])
    weights = table.from_arkit(sample_code().weights).round(4).tolist()
    frame = {"extension": extension, "weights": weights, "time": 1000, "gaze": [0, 0, 0, 1], "confidence": [1, 0.5]}
    return json.dumps(frame).encode()


# Name: (a valid packet, what makes a fresh parser).
PROTOCOLS: dict[str, tuple[bytes, Callable[[], Callable[[bytes, int], MotionCode | None]]]] = {
    "livelink": (livelink.pack(sample_code()), lambda: LiveLinkParser(MotionValidator())),
    "ifacialmocap 1": (ifacialmocap.pack(sample_code(), 1), lambda: IFacialMocapParser(MotionValidator())),
    "ifacialmocap 2": (ifacialmocap.pack(sample_code(), 2), lambda: IFacialMocapParser(MotionValidator())),
    "openseeface": (openseeface_record(sample_code()), lambda: OpenSeeFaceParser(MotionValidator())),
    "osc": (unified_bundle(sample_code()), lambda: UnifiedParser(MotionValidator())),
    "vmc": (vmc_bundle(sample_code()), lambda: VmcParser(MotionValidator())),
    "json": (jsonl.to_line(sample_code()).encode(), lambda: _line_parser(jsonl.parse_line)),
    "openxr": (openxr_line(), lambda: _line_parser(openxr.parse_line)),
}


def _line_parser(parse: Callable[[bytes, MotionValidator], MotionCode | None]) -> Callable[[bytes, int], MotionCode | None]:
    validator = MotionValidator()
    return lambda data, now_ns: parse(data, validator)
