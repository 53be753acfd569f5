"""The window: its loop does what mouse and keyboard ask; under a virtual display its picture is the reference renderer's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from avatar3d import cli
from avatar3d.camera import Camera
from avatar3d.cli.view import HELP
from avatar3d.color import psnr_db
from avatar3d.errors import InputError
from avatar3d.glb import read_glb, write_glb
from avatar3d.motion.code import ARKIT_INDEX, MotionCode
from avatar3d.motion.csv import write_motion_csv
from avatar3d.rendering.frame import RenderOptions
from avatar3d.rendering.opengl.autotune import Choice
from avatar3d.rendering.opengl.draw_strategy import DrawStrategy
from avatar3d.rendering.opengl.layers import LayeredTarget, offered
from avatar3d.resources import config_path
from avatar3d.runtime import live
from avatar3d.runtime.cast import open_cast
from avatar3d.runtime.governor import read_config
from avatar3d.view.options import ViewOptions
from avatar3d.view.show import BACKGROUND_SRGB, View
from avatar3d.view.window import Window
from tests.make_avatar import synthetic_avatar

ROOT = Path(__file__).resolve().parents[2]
MIN_PSNR_DB = 40.0
TIMEOUT_S = 600
RUN = """
import json, sys
from avatar3d.errors import Avatar3dError
from avatar3d.cli import view as command
from avatar3d.cli.options import parse
from avatar3d.runtime import live
from avatar3d.rendering.opengl.draw_strategy import DrawStrategy
from avatar3d.rendering.opengl.autotune import Choice
stereo = sys.argv.pop()
live.choose = lambda *_: Choice(DrawStrategy(stereo=stereo), "default")
try:
    print(json.dumps(command.run(parse(command.View, sys.argv[1:]), True)[0]))
except Avatar3dError as error:
    sys.exit(str(error))
"""


class PlayedWindow:
    """What Window does, off screen; `script` maps a frame's number to (keys held, keys tapped, drag, wheel)."""

    hz = 20.0
    size = (96, 64)

    def __init__(self, context, script=None):
        self.context, self._script, self._frame = context, script or {}, -1
        self.closed = False
        self.pressed, self.tapped, self.dragged_px, self.wheel = set(), [], np.zeros(2), 0.0
        self.drawn, self.captions, self.said, self.joined, self._layers = [], [], [], 0, None
        self.looks, self.leave_after, self.interrupt = 0, None, False
        self._framebuffer = context.framebuffer([context.texture((200, 200), 4)], context.depth_renderbuffer((200, 200)))

    def poll(self, wait_s=0.0):
        time.sleep(wait_s)
        self._frame += 1
        held, self.tapped, drag, self.wheel = self._script.get(self._frame, ((), [], (0, 0), 0.0))
        self.pressed, self.dragged_px = set(held), np.array(drag, float)

    def target(self, width, height):
        return self._framebuffer

    def leaving(self):
        self.looks += 1
        if self.leave_after is not None and self.looks > self.leave_after:
            if self.interrupt:
                raise KeyboardInterrupt
            return True
        return False

    def layered(self, width, height):
        self._layers = self._layers or LayeredTarget(self.context, width, height)
        return self._layers

    def join(self):
        self.joined += 1

    def say(self, lines, background):
        self.said += lines

    def show(self, width, height, keep=False, caption=(), eyes=1):
        self.drawn.append((width, height))
        self.captions.append((tuple(caption), eyes))
        return np.zeros((64, 96, 3), np.uint8) if keep else None


@pytest.fixture
def play(context):
    def run(script=None, heads=1, leave_after=None, interrupt=False, **options):
        window = PlayedWindow(context, script)
        window.leave_after, window.interrupt = leave_after, interrupt
        cast = open_cast([synthetic_avatar()] * heads, [], 0.3)
        view = View(window, cast, read_config(), ViewOptions(**{"rung": "blendshape", "size": (96, 64), **options}))
        try:
            return view.run(), window, cast
        finally:
            cast.close()

    return run


def _nothing(*tapped):
    return ((), list(tapped), (0, 0), 0.0)


def test_frames_are_counted_and_told(play):
    result, window, _ = play(frames=4)
    assert (result["frames"], result["rendered"], result["rungs"]["blendshape"]) == (4, 4, 4)
    assert len(window.drawn) == 4 and len(result["cameras"]) == 1
    # Nothing moves the head: it idles, a little.
    assert 0 < np.abs(result["motion"]["rotation"][:3]).max() < 0.02


def test_the_mouse_looks_around_and_comes_nearer(play):
    before = Camera.from_json(play(frames=1)[0]["cameras"][0]).center
    script = {0: ((), [], (200, 0), 0.0), 1: ((), [], (0, 0), 3.0)}
    after = Camera.from_json(play(script, frames=2)[0]["cameras"][0]).center
    assert after[0] < -0.5 and np.linalg.norm(after) < np.linalg.norm(before) - 0.15


def test_keys_make_faces_move_the_head_and_switch(play):
    held = {index: (("2", "right"), [], (0, 0), 0.0) for index in range(20)}
    result, _, _ = play(held, frames=10)
    assert result["motion"]["weights"]["jawOpen"] > 0.5
    # The head went to the right: the viewer stands on its left side, seen from the head's frame.
    assert Camera.from_json(result["cameras"][0]).center[0] < -0.05
    result, window, cast = play({1: _nothing("s", "l", "m", "o")}, frames=3)
    assert [camera["name"] for camera in result["cameras"]] == ["left", "right"]
    assert cast.roles[0].eye_contact and cast.roles[0].mirror
    result, _, _ = play({0: ((), [], (300, 0), 5.0), 1: _nothing("r")}, frames=2)
    np.testing.assert_allclose(Camera.from_json(result["cameras"][0]).center, [0, -0.03, 0.8], atol=1e-9)


def test_a_held_key_counts_while_a_picture_is_drawn(play, monkeypatch):
    show = PlayedWindow.show

    def slow(self, *arguments):
        time.sleep(2 / self.hz)  # no time is left to wait in
        return show(self, *arguments)

    monkeypatch.setattr(PlayedWindow, "show", slow)
    result, _, _ = play({index: (("right",), [], (0, 0), 0.0) for index in range(6)}, frames=6)
    assert Camera.from_json(result["cameras"][0]).center[0] < -0.1  # 0.5 s at 0.25 m/s, or more


def test_of_several_heads_all_are_seen(play):
    result, _, _ = play(frames=1, heads=3)
    camera = Camera.from_json(result["cameras"][0])  # in the frame of the first head, which stands on the left
    pixel, _ = camera.project(np.zeros((1, 3)))
    assert 0 < pixel[0, 0] < camera.width / 3


def test_escape_and_the_close_button_end_it(play):
    assert play({3: _nothing("escape")})[0]["frames"] == 3


def test_the_help_key_shows_all_keys_to_each_eye(play):
    _, window, _ = play({1: _nothing("h"), 3: _nothing("f1"), 4: _nothing("f1", "s")}, frames=6)
    assert window.captions == [((), 1), (HELP, 1), (HELP, 1), ((), 1), (HELP, 2), (HELP, 2)]
    named = {key for line in HELP for key in line.split(":")[0].replace(" or ", " ").lower().split()}
    assert {"h", "f1", "esc", "s", "l", "m", "o", "r", "wheel"} <= named


@pytest.mark.parametrize("leave_after", [0, 3, 12])
def test_it_ends_while_it_loads(play, leave_after):
    result, window, _ = play(leave_after=leave_after, rung=None)
    assert result["frames"] == 0 and window.drawn == [] and window.looks == leave_after + 1
    assert window.said == ["loading the head"][:leave_after]


@pytest.mark.parametrize("leave_after", [0, 3, 12])
def test_it_ends_while_it_measures_how_to_draw(play, leave_after, monkeypatch, tmp_path):
    """By the close button, Esc and Ctrl-C; what was begun is released, and nothing is remembered of it."""
    monkeypatch.setenv("AVATAR3D_HOME", str(tmp_path))
    result, window, _ = play(leave_after=leave_after, tuning="cached")
    assert result["frames"] == 0 and window.drawn == [] and window.looks == leave_after + 1
    assert "about 3 s" in window.said[0]
    assert not list(tmp_path.rglob("*.json"))
    assert play(leave_after=leave_after, interrupt=True, tuning="cached")[0]["frames"] == 0
    with pytest.raises(KeyboardInterrupt):
        play(leave_after=leave_after, interrupt=True, tuning="cached", frames=3)


def test_a_remembered_way_to_draw_is_not_announced(play):
    assert play(frames=1)[1].said == ["loading the head"]


def test_both_eyes_are_drawn_in_one_pass_where_that_is_faster(play, monkeypatch):
    monkeypatch.setattr(live, "choose", lambda context, *_: Choice(DrawStrategy(stereo="layers"), "remembered"))
    result, window, _ = play({2: _nothing("s"), 4: _nothing("s")}, frames=6, stereo=True)
    if "layers" not in offered(window.context):
        pytest.skip("this driver has no layers in vertex shaders")
    assert result["layered"] and window.joined == 4  # two frames were for one eye
    result, window, _ = play(frames=2)
    assert not result["layered"] and window.joined == 0


def test_an_interruption_within_a_callback_from_c_is_not_lost():
    class Quiet:
        PRESS = 1

        def poll_events(self):
            pass

        def get_cursor_pos(self, window):
            raise KeyboardInterrupt

    window = object.__new__(Window)
    window._glfw, window._interrupted = Quiet(), False
    window._on_button(None, 0, 1, 0)
    with pytest.raises(KeyboardInterrupt):
        window.poll()
    window.poll()


def test_a_stream_is_listened_to_as_in_a_headset(monkeypatch, tmp_path):
    asked = []
    write_glb(synthetic_avatar(), tmp_path / "head.glb")

    def opened(avatars, motions, *_):
        asked.extend(motions)
        raise InputError("enough")

    monkeypatch.setattr("avatar3d.view.window.open_window", lambda *_: nullcontext())
    monkeypatch.setattr("avatar3d.runtime.cast.open_cast", opened)
    words = ["view", tmp_path / "head.glb", "--listen", "0.0.0.0:5005?token_file=x", "--motion", "idle"]
    assert cli.main([*map(str, words)]) == 2
    assert asked == ["idle", "net:0.0.0.0:5005?token_file=x"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": (10, 64)}, "outside"),
        ({"frames": 0}, "frames is 0; expected a whole number from 1"),
        ({"screenshot": Path("a.png")}, "--frames"),
        ({"distance_m": 0.01}, "distance_m is 0.01; expected a number from 0.2 to 10 metres"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_a_window_is_opened(options, words):
    with pytest.raises(InputError, match=words):
        ViewOptions(**options)


@pytest.fixture(scope="module")
def display():
    """DISPLAY of a virtual screen."""
    pytest.importorskip("glfw", reason="glfw is not installed")
    server = shutil.which("Xvfb")
    if server is None:
        pytest.skip("no Xvfb here (Debian and Ubuntu: apt install xvfb)")
    told, tell = os.pipe()
    running = subprocess.Popen(
        [server, "-displayfd", str(tell), "-screen", "0", "800x600x24"], pass_fds=[tell], stderr=subprocess.DEVNULL
    )
    os.close(tell)
    with open(told, encoding="ascii") as answer:
        number = answer.readline().strip()
    if not number:
        pytest.skip("Xvfb does not start here")
    yield f":{number}"
    running.terminate()
    running.wait()


def _view(display, *arguments, stereo="passes"):
    environment = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
    environment |= {"PYTHONPATH": str(ROOT)} | ({"DISPLAY": display} if display else {})
    command = [sys.executable, "-c", RUN, "--no-tune", *map(str, arguments), stereo]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment)


@pytest.mark.slow
@pytest.mark.parametrize("stereo", ["", "passes", "layers"])
def test_the_screenshot_is_what_the_reference_draws(display, tmp_path, stereo):
    from avatar3d.rendering import make_renderer

    write_glb(synthetic_avatar(), tmp_path / "head.glb")
    settings = yaml.safe_load(config_path("governor.yaml").read_text(encoding="utf-8"))
    settings["rungs"]["baked"]["antialias"] = False  # the reference has no softened outline
    settings["rebake_ms"] = 1e4  # textures follow at once, however busy the machine: the idle head may blink in the last frame
    (tmp_path / "plain.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    done = _view(
        display, tmp_path / "head.glb", "--frames", 5, "--screenshot", tmp_path / "seen.png", "--rung", "baked", "--size",
        "480x320", "--yaw", 20, "--governor", tmp_path / "plain.yaml", *(["--stereo"] if stereo else []),
        stereo=stereo or "passes",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout.strip().splitlines()[-1])
    assert result["rungs"]["baked"] == result["rendered"] == 5
    told = result["motion"]
    motion = MotionCode(
        MotionCode.from_expression(told["weights"]).weights, told["rotation"], told["translation"], told["gaze"]
    )
    cameras = [Camera.from_json(value) for value in result["cameras"]]
    assert len(cameras) == (2 if stereo else 1) and result["layered"] == (stereo == "layers")
    options = RenderOptions("baked", hair_levels=settings["rungs"]["baked"]["hair_levels"])
    frames = make_renderer("reference").render(read_glb(tmp_path / "head.glb"), motion, cameras, options)
    with Image.open(tmp_path / "seen.png") as picture:
        seen = np.asarray(picture.convert("RGB")).astype(float)
    expected = np.concatenate([frame.to_srgb8(BACKGROUND_SRGB) for frame in frames], axis=1).astype(float)
    covered = np.concatenate([frame.rgba[..., 3] > 0 for frame in frames], axis=1)
    assert seen.shape == expected.shape and covered.sum() > 5000
    assert psnr_db(float(((seen - expected)[covered] ** 2).mean()) / 255**2) >= MIN_PSNR_DB
    assert np.abs(seen - expected)[~covered].max() <= 1


@pytest.mark.slow
def test_a_recording_moves_the_head_in_the_window(display, tmp_path):
    write_glb(synthetic_avatar(), tmp_path / "head.glb")
    weights = MotionCode.from_expression({"jawOpen": 0.6}).weights
    write_motion_csv(
        tmp_path / "talk.csv", [MotionCode(weights, time_ns=round(index * 1e9 / 30)) for index in range(60)]
    )  # fmt: skip
    done = _view(display, tmp_path / "head.glb", "--frames", 40, "--size", "160x120", "--motion", f"csv:{tmp_path}/talk.csv")
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout.strip().splitlines()[-1])
    assert MotionCode.from_expression(result["motion"]["weights"]).weights[ARKIT_INDEX["jawOpen"]] > 0.4
    assert result["motion_codes"]["received"] > 3 and result["expression_latency_ms_p50"] > 0


@pytest.mark.slow
def test_without_a_display_it_says_what_to_do(tmp_path):
    pytest.importorskip("glfw")
    write_glb(synthetic_avatar(), tmp_path / "head.glb")
    done = _view(None, tmp_path / "head.glb", "--frames", 2)
    assert done.returncode != 0
    assert "no window can be opened here" in done.stderr and "xvfb-run" in done.stderr


@pytest.mark.parametrize(
    ("system", "words"), [("linux", "xvfb-run"), ("win32", "graphics driver"), ("darwin", "not over ssh"), ("aix", "xvfb-run")]
)
def test_the_advice_without_a_window_is_of_the_platform(monkeypatch, system, words):
    monkeypatch.setattr(sys, "platform", system)
    window = object.__new__(Window)
    window._problem = "no screen"
    sentence = str(window._no_window())
    assert "(no screen)" in sentence and words in sentence and "avatar3d render" in sentence
