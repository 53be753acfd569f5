"""Damaged files for every reader of files, made fast from tiny seeds; feeding them and telling what a reader did wrong.

A reader must answer with what the file holds or with InputError of one short line, within CPU_LIMIT_S and MEMORY_MIB; it keeps nothing.
"""

from __future__ import annotations

import io
import json
import logging
import resource
import signal
import struct
import sys
import tarfile
import threading
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import yaml
from fuzzing.containers import Places, colors, place
from fuzzing.mutate import ODD_TOKENS, JsonText, damaged, numbers_changed, png_changed
from fuzzing.numbers import Numbers
from make_avatar import tiny_avatar
from PIL import Image, ImageCms, features

from avatar3d import models
from avatar3d.avatar import Avatar
from avatar3d.camera import Camera, read_cameras
from avatar3d.errors import InputError
from avatar3d.face.networks import network_bytes
from avatar3d.field.definition import evaluate
from avatar3d.geometry import smooth_normals
from avatar3d.glb import EXTENSION, parse_glb, write_glb
from avatar3d.head.archive import load_head
from avatar3d.head.rig import pose_vertices
from avatar3d.motion.calibrate import Calibration, read_calibration, write_calibration
from avatar3d.motion.code import MotionCode
from avatar3d.motion.csv import read_motion_csv, write_motion_csv
from avatar3d.motion.jsonl import read_motion_jsonl, to_line
from avatar3d.motion.sources.base import Spec
from avatar3d.net.link import LinkName
from avatar3d.photo import load_photo
from avatar3d.rendering.opengl.autotune import Entry, remember, remembered
from avatar3d.rendering.opengl.draw_strategy import DrawStrategy
from avatar3d.rendering.opengl.foveation import read_foveation
from avatar3d.rendering.scene import shade_of
from avatar3d.resources import asset_path, config_path
from avatar3d.runtime.governor import read_config

CPU_LIMIT_S = 5.0  # of processor time for one input; the slowest take some hundredths
MEMORY_MIB = 300  # that the inputs of one feeding may add to the process
MAX_SENTENCE = 600  # characters of an error
PHOTO_MEGAPIXELS = 1.0  # the photo reader is told to refuse more, as it refuses 64 without being told
PLAIN_TARGETS = ("jawOpen", "eyeBlinkLeft", "eyeLookUpLeft", "mouthSmileLeft", "noseSneerRight")
YAML_TOKENS = (
    *ODD_TOKENS, "*a", "&a [1]", "2023-13-45", "2001-01-01", "!!bool x", "!!timestamp x", "!!int x", "!!float x", "!!binary x",
    "!!set {1}", "!!python/object:os.system x", "0x" + "f" * 5000, "0x" + "f" * 150, "0b_", ".inf", "-.inf", ".nan", "1:99:1",
    "? a", "|", ">", "%", "@", "\t", "yes", "off", "~",
)  # fmt: skip


@dataclass(frozen=True)
class Reader:
    """make: a damaged file's bytes. read: what a user's file goes through. check: raises when what was read is not sound."""

    make: Callable[[Random], bytes]
    read: Callable[[bytes], object]
    check: Callable[[object], None] = lambda _: None


class TooSlow(BaseException):
    """An input took more than CPU_LIMIT_S; no handler of a reader takes it for something else."""


def _refuse_time(*_: object) -> None:
    raise TooSlow(f"took more than {CPU_LIMIT_S:g} s of processor time")


@contextmanager
def limited() -> Iterator[None]:
    """Within, an allocation that takes the process MEMORY_MIB over its present address space raises MemoryError."""
    if sys.platform != "linux":  # nothing else tells how large the address space is
        yield
        return
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (MEMORY_MIB << 20), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def feed(reader: Reader, count: int, seed: int) -> tuple[int, int]:
    """(accepted, refused) of `count` inputs; an AssertionError names the seed of the input that the reader failed on."""
    accepted = refused = 0
    timed = threading.current_thread() is threading.main_thread()
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("error")
        stack.enter_context(limited())
        if timed:
            stack.callback(signal.signal, signal.SIGPROF, signal.signal(signal.SIGPROF, _refuse_time))
            stack.callback(signal.setitimer, signal.ITIMER_PROF, 0)
        for number in range(seed, seed + count):
            data = reader.make(Random(number))
            try:
                if timed:
                    signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT_S)
                reader.check(reader.read(data))
                accepted += 1
            except InputError as error:
                refused += 1
                sentence = str(error)
                assert "\n" not in sentence and len(sentence) < MAX_SENTENCE, f"input {number}: {sentence[:2000]}"
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                raise AssertionError(f"input {number} ({len(data)} bytes) raised {type(error).__name__}: {error}") from error
    return accepted, refused


def readers(folder: Path) -> dict[str, Callable[[], Reader]]:
    """What makes each reader by name; those that take a path are given files in `folder`."""
    path = folder / "case"

    def by_path(read: Callable[[Path], object]) -> Callable[[bytes], object]:
        def through_file(data: bytes) -> object:
            path.write_bytes(data)
            return read(path)

        return through_file

    return {
        "glb": lambda: Reader(_Glb(folder).mutated, lambda data: parse_glb(data, "case.glb"), _sound_avatar),
        "numbers": lambda: Reader(_numbers(folder), lambda data: parse_glb(data, "case.glb"), _posed_avatar),
        "plain": lambda: Reader(_Glb(folder, plain=True).mutated, _parse_plain, _sound_avatar),
        "photo": lambda: Reader(_photos(), by_path(partial(load_photo, max_megapixels=PHOTO_MEGAPIXELS)), _sound_photo),
        "colours": lambda: Reader(colors(), by_path(partial(load_photo, max_megapixels=PHOTO_MEGAPIXELS)), _sound_photo),
        "places": lambda: Reader(place, Places(folder).tried),
        "cameras": lambda: Reader(
            _json([Camera.orbit(0.1, name=name).to_json() for name in ("a", "b")]), by_path(read_cameras)
        ),
        "calibration": lambda: Reader(_json(_calibration(folder)), by_path(read_calibration), _sound_calibration),
        "csv": lambda: Reader(_csv(folder), by_path(read_motion_csv), _sound_codes),
        "jsonl": lambda: Reader(_jsonl(), by_path(read_motion_jsonl), _sound_codes),
        "specifications": lambda: Reader(_specification, _parse_specification),
        "governor": lambda: Reader(_yaml("governor.yaml"), by_path(read_config)),
        "foveation": lambda: Reader(_yaml("foveation.yaml"), by_path(read_foveation)),
        "tuning": lambda: Reader(_json(_tuning(folder)), by_path(remembered)),
        "head": lambda: Reader(_Archive(_tiny_head(), ".npy").mutated, by_path(load_head), _sound_head),
        "bundle": lambda: Reader(
            _Archive({"net.tflite": bytes(range(64))}, "").mutated, by_path(partial(network_bytes, member="net.tflite"))
        ),
        "models": lambda: Reader(_archives(), by_path(_stored_model)),
    }


# --- what is typed

_SPECIFICATIONS = (
    "net:9310?token=SECRET&max_age=30", "net:ws:192.0.2.7:80?plain=1&token=SECRET", "net:zenoh:bob@tcp/192.0.2.7:7447?token=SECRET",
    "livelink:[::1]:11111?subject=me", "video:clip.mp4?face=2", "csv:take.csv?fps=60", "osc:0.0.0.0:9000", "lsl:face?channels=52",
)  # fmt: skip
_ODD_TEXT = (
    "²", "٣", "１", "--5", "+5", "\0", "\x1b[31m", "%", "%zz", "[::1", "]", "@", "//", "?", "&", "=", ":", "nan", "9" * 40, "\ud800",
    "é",
)  # fmt: skip


def _specification(random: Random) -> bytes:
    text = random.choice(_SPECIFICATIONS)
    for _ in range(random.randrange(4)):
        place = random.randrange(len(text) + 1)
        odd = random.choice((*_ODD_TEXT, chr(random.randrange(0xD800)), ""))
        text = text[:place] + odd + text[place + random.randrange(3) :]
    return text.encode("utf-8", "surrogatepass")


def _parse_specification(data: bytes) -> object:
    """All that is told by a text alone; nothing is opened."""
    text = data.decode("utf-8", "surrogatepass")
    try:
        spec = Spec.parse(text)
        for key, low, high in (("face", 0, 9), ("plain", 0, 1), ("max_age", 0, 86_400)):
            spec.integer(key, low, low, high)
        spec.only("token", "max_age", "plain", "subject", "face", "fps", "channels")
        if spec.scheme == "net":
            return LinkName.parse(spec.target).local
        return spec.address(1) if spec.scheme in ("livelink", "osc") else spec
    except InputError as error:
        # The whole secret is never quoted where its option's name is whole.
        assert "SECRET" not in str(error) or "token=SECRET" not in text, str(error)
        raise


# --- avatars


class _Glb:
    """The tiny avatar's file in its parts: its JSON text, and its buffer views, of which some hold pictures."""

    def __init__(self, folder: Path, plain: bool = False) -> None:
        """plain: without the extension, as other programs leave it."""
        self.files = []
        for number, (jpeg, byte_field) in enumerate(((False, False), (True, True))):
            write_glb(tiny_avatar(), folder / f"{number}.glb", jpeg, byte_field)
            data = (folder / f"{number}.glb").read_bytes()
            length = struct.unpack_from("<I", data, 12)[0]
            document, body = json.loads(data[20 : 20 + length]), data[28 + length :]
            if plain:
                del document["extensions"], document["extensionsUsed"]
                _keep_targets(document, PLAIN_TARGETS)
            text = JsonText(document)
            views = json.loads(text.text)["bufferViews"]
            places = [
                *([text.within("nodes") + text.within("skins")] if plain else 2 * [text.within("extensions", EXTENSION)]),
                text.within("accessors") + text.within("bufferViews") + text.within("meshes"),
                text.spans,
            ]
            self.files.append((text, body, views, places))

    def mutated(self, random: Random) -> bytes:
        text, body, views, places = random.choice(self.files)
        kind = random.random()
        if kind < 0.5:
            return self._packed(text.mutated(random, random.choice(places)), body)
        if kind < 0.75:
            place = random.randrange(len(views))
            start, length = views[place]["byteOffset"], views[place]["byteLength"]
            view = body[start : start + length]
            if not view.startswith(b"\x89PNG"):
                changed = damaged(random, view)[:length] if view[:2] == b"\xff\xd8" else numbers_changed(random, view)
                return self._packed(text.text, body[:start] + changed + body[start + len(changed) :])
            changed = png_changed(random, view)
            first, last = text.values["bufferViews", place]
            entry = json.dumps({**views[place], "byteOffset": len(body), "byteLength": len(changed)})
            first_size, last_size = text.values["buffers", 0, "byteLength"]
            whole = text.text[:first] + entry + text.text[last:]
            if first_size > last:  # the writer puts the buffers last
                shift = len(whole) - len(text.text)
                whole = whole[: first_size + shift] + str(len(body) + len(changed)) + whole[last_size + shift :]
            return self._packed(whole, body + changed)
        data = self._packed(text.text, body)
        if kind < 0.85:
            head = data[: len(data) - len(body)]
            return damaged(random, head) + body
        return damaged(random, data)

    @staticmethod
    def _packed(text: str, body: bytes) -> bytes:
        content = text.encode("utf-8", "surrogatepass")
        content += b" " * (-len(content) % 4)
        body += bytes(-len(body) % 4)
        total = 28 + len(content) + len(body)
        head = struct.pack("<4sIIII", b"glTF", 2, total, len(content), 0x4E4F534A)
        return head + content + struct.pack("<II", len(body), 0x004E4942) + body


def _keep_targets(document: dict[str, Any], names: Sequence[str]) -> None:
    """Leave a file's meshes only some of their morph targets: what is true of a few is true of 52, which take five times as long."""
    for mesh in document["meshes"]:
        if "targetNames" in mesh.get("extras", {}):
            places = [mesh["extras"]["targetNames"].index(name) for name in names]
            mesh["extras"]["targetNames"] = list(names)
            for primitive in mesh["primitives"]:
                primitive["targets"] = [primitive["targets"][place] for place in places]


def _numbers(folder: Path) -> Callable[[Random], bytes]:
    files = []
    for byte_field in (False, True):
        write_glb(tiny_avatar(), folder / "numbers.glb", byte_field=byte_field)
        files.append((folder / "numbers.glb").read_bytes())
    return Numbers(files).mutated


def _parse_plain(data: bytes) -> Avatar:
    """As the validator reads it, without its word on stderr."""
    logging.getLogger("avatar3d.glb").disabled = True
    return parse_glb(data, "case.glb")


def _posed_avatar(avatar: object) -> None:
    """What the table admits is posed and shaded without a number that is not finite; warnings are errors here."""
    _sound_avatar(avatar)
    assert isinstance(avatar, Avatar)
    code = MotionCode(np.full(52, 0.7), gaze=np.full((2, 2), 0.3))
    posed = pose_vertices(avatar.vertices, avatar.expression, code, avatar.head_weight, avatar.joints, avatar.vertex_part)
    shade = shade_of(smooth_normals(posed, avatar.faces, avatar.weld), avatar.light, avatar.shading_power)
    assert np.isfinite(posed).all() and np.isfinite(shade).all()
    if avatar.neural_field is not None:
        places = avatar.vertices[:4]
        residual, alpha = evaluate(avatar.neural_field, places, np.tile(np.float32([0, 0, 1]), (len(places), 1)), code.weights)
        assert np.isfinite(residual).all() and np.isfinite(alpha).all()
    for delta in avatar.texture_deltas:
        assert np.isfinite(np.exp(delta.activation(code.weights) * delta.log_ratio)).all()


def _sound_avatar(avatar: object) -> None:
    assert isinstance(avatar, Avatar)
    _all_finite(avatar)


def _all_finite(value: object) -> None:
    if isinstance(value, np.ndarray):
        assert value.dtype.kind != "f" or np.isfinite(value).all()
    elif is_dataclass(value):
        for part in fields(value):
            if part.name != "provenance":
                _all_finite(getattr(value, part.name))
    elif isinstance(value, list):
        for item in value:
            _all_finite(item)


# --- photos


def _photos() -> Callable[[Random], bytes]:
    seeds = _photo_seeds()
    weights = [0.1 if name == "avif" else 1.0 for name, _ in seeds]  # its decoder takes a hundred times as long

    def make(random: Random) -> bytes:
        name, data = random.choices(seeds, weights)[0]
        if data[:4] == b"\x89PNG" and random.random() < 0.5:
            return png_changed(random, data)
        if name.startswith("jpeg") and random.random() < 0.5:
            return _jpeg_changed(random, data)
        return damaged(random, data)

    return make


def _photo_seeds() -> list[tuple[str, bytes]]:
    """(name, file) of one tiny picture in many formats and modes."""
    random = np.random.default_rng(3)
    rgb = Image.fromarray(random.integers(0, 255, (9, 12, 3), np.uint8).astype(np.uint8))
    rgba = rgb.copy()
    rgba.putalpha(Image.fromarray(random.integers(0, 255, (9, 12), np.uint8).astype(np.uint8)))
    deep = Image.fromarray(random.integers(0, 65535, (9, 12)).astype(np.uint16))
    exif = Image.Exif()
    for tag, value in ((274, 6), (256, 12), (257, 9), (41989, 35)):
        exif[tag] = value
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    wanted: list[tuple[str, str, Image.Image, dict[str, object]]] = [
        ("jpeg", "JPEG", rgb, {"exif": exif}), ("jpeg progressive", "JPEG", rgb, {"progressive": True}),
        ("jpeg grey", "JPEG", rgb.convert("L"), {}), ("jpeg cmyk", "JPEG", rgb.convert("CMYK"), {"icc_profile": profile}),
        ("mpo", "MPO", rgb, {"save_all": True, "append_images": [rgb]}), ("png", "PNG", rgb, {"exif": exif}),
        ("png alpha", "PNG", rgba, {"icc_profile": profile}), ("png 16", "PNG", deep, {}), ("png 1", "PNG", rgb.convert("1"), {}),
        ("png palette", "PNG", rgb.quantize(5), {"transparency": b"\0\1"}), ("gif", "GIF", rgb.quantize(7), {"transparency": 1}),
        ("apng", "PNG", rgb, {"save_all": True, "append_images": [rgb.transpose(0)]}),
        ("gif film", "GIF", rgb.quantize(7), {"save_all": True, "append_images": [rgb.transpose(0).quantize(9)]}),
        ("tiff", "TIFF", rgb, {"exif": exif}), ("tiff lzw", "TIFF", rgb, {"compression": "tiff_lzw"}),
        ("tiff deflate", "TIFF", rgba, {"compression": "tiff_adobe_deflate"}), ("tiff 16", "TIFF", deep, {}),
        ("tiff jpeg", "TIFF", rgb, {"compression": "jpeg"}), ("tiff float", "TIFF", rgb.convert("F"), {}),
        ("bmp", "BMP", rgb, {}), ("bmp palette", "BMP", rgb.quantize(5), {}), ("bmp grey", "BMP", rgb.convert("L"), {}),
        ("ppm", "PPM", rgb, {}), ("pgm", "PPM", deep, {}), ("pbm", "PPM", rgb.convert("1"), {}),
        ("webp", "WEBP", rgb, {"exif": exif}), ("webp lossless", "WEBP", rgba, {"lossless": True}),
        ("webp film", "WEBP", rgb, {"save_all": True, "append_images": [rgb.transpose(0)]}),
        ("jpeg2000", "JPEG2000", rgb, {}), ("j2k", "JPEG2000", rgba, {"no_jp2": True}), ("avif", "AVIF", rgb, {}),
    ]  # fmt: skip
    optional = {"WEBP": "webp", "JPEG2000": "jpg_2000", "AVIF": "avif"}
    seeds = []
    for name, format_name, picture, options in wanted:
        if format_name in optional and not features.check(optional[format_name]):
            continue
        stream = io.BytesIO()
        picture.save(stream, format_name, **options)
        seeds.append((name, stream.getvalue()))
    return seeds


def _jpeg_changed(random: Random, data: bytes) -> bytes:
    """A JPEG with a byte just behind one of its markers changed, or a segment left out or doubled."""
    places = [place for place in range(len(data) - 1) if data[place] == 0xFF and data[place + 1] not in (0, 0xFF)]
    place = random.choice(places)
    if random.random() < 0.6:
        out = bytearray(data)
        for _ in range(random.randrange(1, 4)):
            out[min(place + random.randrange(1, 24), len(out) - 1)] = random.choice((0, 1, 255, random.randrange(256)))
        return bytes(out)
    end = random.choice([other for other in places if other >= place])
    return data[:place] + data[place:end] * random.choice((0, 2, 3)) + data[end:]


def _sound_photo(photo: object) -> None:
    rgb = photo.rgb  # type: ignore[attr-defined]
    assert rgb.dtype == np.uint8 and rgb.ndim == 3 and rgb.shape[2] == 3 and rgb.size


# --- motion and settings


def _json(value: object) -> Callable[[Random], bytes]:
    text = JsonText(value)
    return lambda random: _text_or_bytes(random, text)


def _text_or_bytes(random: Random, text: JsonText) -> bytes:
    if random.random() < 0.8:
        return text.mutated(random).encode("utf-8", "surrogatepass")
    return damaged(random, text.text.encode())


def _yaml(name: str) -> Callable[[Random], bytes]:
    """Settings of ours, written as JSON, which YAML includes."""
    value = yaml.safe_load(config_path(name).read_text(encoding="utf-8"))
    text = JsonText(value, YAML_TOKENS, (", ", ": "))
    return lambda random: _text_or_bytes(random, text)


def _calibration(folder: Path) -> object:
    write_calibration(
        folder / "seed", Calibration(np.zeros(52), np.ones(52), np.array([0, 0, 0, 1.0]), np.zeros(3), np.zeros((2, 2)))
    )
    return json.loads((folder / "seed").read_text())


def _tuning(folder: Path) -> object:
    times = {"table": {"buffer": 1.0, "texture": None}}
    offered = {"table": ["buffer", "texture"]}
    remember(
        folder / "seed",
        [Entry("v", "r", "1", 64, size, 2, "0", offered, DrawStrategy().to_json(), times) for size in (64, 900)],
    )
    return json.loads((folder / "seed").read_text())


def _sound_calibration(calibration: object) -> None:
    calibration.apply(MotionCode.from_expression({"jawOpen": 1.0}))  # type: ignore[attr-defined]


def _sound_codes(codes: object) -> None:
    for code in codes:  # type: ignore[attr-defined]
        assert isinstance(code, MotionCode)


def _csv(folder: Path) -> Callable[[Random], bytes]:
    codes = [MotionCode.from_expression({"jawOpen": 0.1 * number}) for number in range(2)]
    write_motion_csv(folder / "seed", [replace(code, translation=np.full(3, 0.1)) for code in codes])
    data = (folder / "seed").read_bytes()
    rows = [row.split(",") for row in data.decode().splitlines()]
    odd = (
        "", "x", "nan", "inf", "-inf", "1e400", "1e308", "1e300", "-1", "2", "37", "99", "-180", "1,5",
        '"', '"a,b"', "\0", "99:99:99:99", "23:59:59:59.9",
        "1:1:1",
    )  # fmt: skip

    def make(random: Random) -> bytes:
        if random.random() < 0.3:
            return damaged(random, data)
        table = [list(row) for row in rows]
        for _ in range(random.randrange(1, 4)):
            row = random.choice(table)
            if not row:
                continue
            place, kind = random.randrange(len(row)), random.random()
            if kind < 0.1:
                del row[place]
            elif kind < 0.2:
                row.insert(place, random.choice(odd))
            else:
                row[place] = random.choice((*odd, str(random.uniform(-2, 2)), random.choice(rows[0]), "1" * 5000))
        return "\n".join(",".join(row) for row in table).encode()

    return make


def _jsonl() -> Callable[[Random], bytes]:
    texts = [JsonText(json.loads(to_line(MotionCode.from_expression({"jawOpen": 0.1 * number})))) for number in range(2)]

    def make(random: Random) -> bytes:
        return b"\n".join(_text_or_bytes(random, text) if random.random() < 0.7 else text.text.encode() for text in texts)

    return make


# --- archives

_SHAPES = ("()", "(1,)", "(1000000000,)", "(3, 1000000)", "(-1,)", "(0,)", "(0, 3)", "(2, 3, 4)", "x", "(" * 300, "1e9")
_DTYPES = ("<f4", "<f8", "<i8", "|u1", "|O", "<U1000000000", "<M8[s]", "|S0", "<c16", "x", "|b1")


class _Archive:
    """A zip of small members, made member by member so that its checksums are right where they are not what was changed."""

    def __init__(self, members: dict[str, bytes], suffix: str) -> None:
        self.members = {name + suffix: data for name, data in members.items()}
        self.whole = _zip(self.members)

    def mutated(self, random: Random) -> bytes:
        kind = random.random()
        if kind < 0.4:
            return damaged(random, self.whole)
        if kind < 0.5:  # the directory at the end, which says where and how large everything is
            out = bytearray(self.whole)
            for _ in range(random.randrange(1, 4)):
                out[-random.randrange(1, min(len(out), 400))] = random.choice((0, 1, 127, 255, random.randrange(256)))
            return bytes(out)
        changed = dict(self.members)
        name = random.choice(list(changed))
        if kind < 0.6:
            del changed[name]
        elif kind < 0.8:
            changed[name] = self._npy_changed(random, changed[name])
        else:
            changed[name] = damaged(random, changed[name])
        return _zip(changed, random.choice((0, 0, 8)))

    @staticmethod
    def _npy_changed(random: Random, data: bytes) -> bytes:
        """The same with another shape or type in an .npy header, where it has one."""
        if not data.startswith(b"\x93NUMPY"):
            return numbers_changed(random, data)
        length = int.from_bytes(data[8:10], "little")
        header, body = data[10 : 10 + length].decode("latin1").rstrip(), data[10 + length :]
        shape = header[header.index("(") : header.index(")") + 1]
        if random.random() < 0.5:
            header = header.replace(shape, random.choice(_SHAPES))
        else:
            header = header.replace(header.split("'")[3], random.choice(_DTYPES))
        text = header.encode("latin1") + b"\n"
        return data[:8] + len(text).to_bytes(2, "little") + text + body


def _zip(members: dict[str, bytes], method: int = 0) -> bytes:
    """A zip file, several times as fast as Python's module writes one."""
    parts, directory, place = [], [], 0
    for name, data in members.items():
        body = data
        if method == 8:
            packer = zlib.compressobj(1, zlib.DEFLATED, -15)
            body = packer.compress(data) + packer.flush()
        text = name.encode()
        common = struct.pack("<HHHHHIIIHH", 20, 0, method, 0, 33, zlib.crc32(data), len(body), len(data), len(text), 0)
        parts.append(b"PK\3\4" + common + text + body)
        directory.append(b"PK\1\2" + struct.pack("<H", 20) + common + struct.pack("<HHHII", 0, 0, 0, 0, place) + text)
        place += len(parts[-1])
    end = b"".join(directory)
    tail = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(end), place, 0)
    return b"".join(parts) + end + b"PK\5\6" + tail


def _npy(value: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, value, allow_pickle=False)
    return stream.getvalue()


def _tiny_head() -> dict[str, bytes]:
    """A head asset like the default one with four vertices; it need not look like a head."""
    sides = {8210: 4, 8211: 5, 14624: 2, 17975: 4, 5700: 3, 364: 2, 831: 5}
    with np.load(asset_path("head.npz"), allow_pickle=False) as asset:
        arrays = {name: asset[name] for name in asset.files}
    tiny = {name: value[tuple(slice(sides.get(side, side)) for side in value.shape)] for name, value in arrays.items()}
    for name in ("faces", "weld", "mirror", "landmark_tri", "bind_indices", "joint_indices"):
        tiny[name] = tiny[name] % 3
    rows = np.arange(6, dtype=np.int32)
    tiny |= {"bind_indptr": rows[:5], "joint_offsets": rows, "control_count": np.array(3)}
    return {name: _npy(value) for name, value in tiny.items()}


def _sound_head(head: object) -> None:
    head.expression_offsets(np.ones(len(head.expression_names)))  # type: ignore[attr-defined]
    head.joint_positions(head.shape(np.zeros(len(head.identity_names))))  # type: ignore[attr-defined]


MODEL = models.ModelEntry("net", "needed", "", "", 64, "", models.PinnedFile("a==1", "a.whl", ""), "a/net.bin")


def _archives() -> Callable[[Random], bytes]:
    content = {"a/net.bin": bytes(range(64)), "b": b"other"}
    zipped = _Archive(content, "")
    tars = []
    for mode in ("w", "w:gz", "w:xz", "w:bz2"):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode=mode) as bundle:  # type: ignore[call-overload]
            for name, data in content.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                bundle.addfile(member, io.BytesIO(data))
        tars.append(stream.getvalue())
    return lambda random: zipped.mutated(random) if random.random() < 0.5 else damaged(random, random.choice(tars))


def _stored_model(path: Path) -> object:
    import hashlib

    item = replace(MODEL, sha256=hashlib.sha256(bytes(range(64))).hexdigest())
    return models.read_local(item, path)
