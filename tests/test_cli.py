"""The command line as a user meets it: light help, wrong input as one sentence and exit code 2, JSON as one object."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from make_avatar import synthetic_avatar
from PIL import Image

from avatar3d import cli
from avatar3d.camera import Camera
from avatar3d.glb import write_glb


@pytest.fixture(scope="module")
def avatar_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("avatar") / "head.glb"
    write_glb(synthetic_avatar(), path)
    return path


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    try:
        code = cli.main([str(argument) for argument in arguments])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_imports_nothing_heavy():
    program = (
        "import sys; from avatar3d import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'cv2', 'scipy', 'numba', 'moderngl', 'PIL', 'ai_edge_litert', 'numpy'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "enroll" in done.stdout and "evaluate" in done.stdout


def test_a_full_disk_is_one_sentence_and_leaves_nothing(capsys, tmp_path, avatar_file, monkeypatch):
    def full(self, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))

    monkeypatch.setattr(Path, "write_bytes", full)
    code, out, err = run(capsys, "export", avatar_file, "-o", tmp_path / "a.ply")
    assert code == 1 and out == "" and err.count("\n") == 1 and "No space left" in err
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_without_all_signs_gets_the_text(tmp_path):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "avatar3d.cli", "bench", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert "12 views ? 6 expressions" in done.stdout


def test_a_viewer_needs_no_torch(avatar_file, tmp_path):
    program = "import sys; sys.modules['torch'] = None; from avatar3d import cli; sys.exit(cli.main(sys.argv[1:]))"
    arguments = ["render", avatar_file, "-o", tmp_path / "a.png", "--size", "64"]
    subprocess.run([sys.executable, "-c", program, *arguments], check=True)
    assert Image.open(tmp_path / "a.png").size == (64, 64)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["enroll", "{tmp}/none.jpg", "-o", "{tmp}/a.glb"], "none.jpg"),
        (["enroll", "{tmp}/text.jpg", "-o", "{tmp}/a.glb"], "text.jpg"),
        (["enroll", "{tmp}/text.jpg", "-o", "{tmp}/a.png"], "expected a name that ends in .glb"),
        (["enroll", "{tmp}/text.jpg", "-o", "{tmp}/no/such/a.glb"], "does not exist"),
        (["render", "{tmp}/text.jpg", "-o", "{tmp}/a.png"], "text.jpg"),
        (["render", "{avatar}", "-o", "{tmp}/a.xyz"], "xyz"),
        (["render", "{avatar}", "-o", "{tmp}/a.png", "--size", "99999"], "16..8192"),
        (["render", "{avatar}", "-o", "{tmp}/a.png", "--expression", "jawDrop=1"], "unknown expression 'jawDrop'"),
        (["render", "{avatar}", "-o", "{tmp}/a.png", "--expression", "jawOpen=2"], "outside"),
        (["render", "{avatar}", "-o", "{tmp}/a.png", "--turntable", "1"], "from 2 to 720 views"),
        (["render", "{avatar}", "-o", "{tmp}/a.png", "--cameras", "{tmp}/none.json"], "none.json"),
        (["render", "{avatar}", "-o", "{tmp}/a.png", "--cameras", "{tmp}/text.jpg"], "is not JSON"),
        (["render", "{avatar}", "-o", "{tmp}/a.png", "--cameras", "{tmp}/deep.json"], "is not JSON"),
        (["render", "{avatar}", "-o", "{tmp}/a.png", "--background", "blue"], "neither #rrggbb nor transparent"),
        (["render", "{avatar}"], "required: -o/--out"),
        (["render", "{avatar}", "-o", "{tmp}/a.png", "--motion", "{tmp}/none.csv"], "none.csv"),
        (["export", "{avatar}", "-o", "{tmp}/a.stl"], ".ply"),
        (["models", "pull", "face_lander"], "face_lander"),
        (["dance"], "invalid choice"),
    ],
)
def test_wrong_input_is_one_sentence_and_nothing_is_written(capsys, tmp_path, avatar_file, arguments, sentence):
    (tmp_path / "text.jpg").write_text("this is no picture")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    before = sorted(tmp_path.iterdir())
    filled = [argument.format(tmp=tmp_path, avatar=avatar_file) for argument in arguments]
    code, out, err = run(capsys, *filled)
    assert code == 2, err
    assert sentence in err
    assert err.count("\n") == 1 and "Traceback" not in err and out == ""
    assert sorted(tmp_path.iterdir()) == before


COMMANDS_THAT_READ = ["enroll {bad}.jpg -o {tmp}/a.glb", "track {bad}.mp4 -o {tmp}/a.csv", "render {bad}.glb -o {tmp}/a.png",
    "render {avatar} -o {tmp}/a.png --cameras {bad}.json", "render {avatar} -o {tmp}/a.mp4 --motion {bad}.csv",
    "export {bad}.glb -o {tmp}/a.ply", "evaluate {bad}.glb -o {tmp}/a", "track {clip} -o {tmp}/a.csv --calibration {bad}.json",
    "models pull face_landmarker.task --from {bad}"]  # fmt: skip
COMMANDS_THAT_WRITE = ["enroll {clip} -o {bad}.glb", "track {clip} -o {bad}.csv", "track {clip} --preview {bad}.mp4",
    "track {clip} --calibrate {bad}.json", "render {avatar} -o {bad}.png", "export {avatar} -o {bad}.ply",
    "evaluate {avatar} -o {bad}", "render {avatar} -o {bad} --cameras {cameras}"]  # fmt: skip


@pytest.mark.parametrize("place", ["a name of 300 letters", "a file for a folder"])
@pytest.mark.parametrize("command", [*COMMANDS_THAT_READ, *COMMANDS_THAT_WRITE])
def test_a_place_that_cannot_be_is_one_sentence(capsys, tmp_path, avatar_file, monkeypatch, command, place):
    monkeypatch.setenv("AVATAR3D_HOME", str(tmp_path / "no models"))
    (tmp_path / "clip.mp4").write_bytes(b"no film")
    (tmp_path / "cameras.json").write_text(json.dumps([Camera.orbit(0.1, name="a").to_json()]))
    bad = tmp_path / ("x" * 300 if place.startswith("a name") else "clip.mp4/x")
    places = {
        "bad": bad,
        "tmp": tmp_path,
        "avatar": avatar_file,
        "clip": tmp_path / "clip.mp4",
        "cameras": tmp_path / "cameras.json",
    }
    code, out, err = run(capsys, *(word.format(**places) for word in command.split()))
    assert code == 2 and out == "" and err.count("\n") == 1 and "Traceback" not in err, err
    assert any(
        reason in err for reason in ("File name too long", "Not a directory", "does not exist", "no such file", "not a folder")
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cameras.json", "clip.mp4"]


@pytest.mark.parametrize("action", [["list"], ["verify"], ["pull", "face_landmarker.task", "--from", "{file}"]])
def test_a_cache_in_which_nothing_can_be_is_no_traceback(capsys, tmp_path, monkeypatch, action):
    (tmp_path / "file").write_bytes(b"not a folder")
    monkeypatch.setenv("AVATAR3D_HOME", str(tmp_path / "file"))
    code, _, err = run(capsys, "models", *(word.format(file=tmp_path / "file") for word in action))
    assert code in (0, 1, 2) and "Traceback" not in err and err.count("\n") <= 1


def test_pictures_come_out_as_asked(capsys, tmp_path, avatar_file):
    code, out, _ = run(capsys, "render", avatar_file, "-o", tmp_path / "a.png", "--size", "96x64", "--json")
    result = json.loads(out)
    assert code == 0 and set(result) >= {"files", "renderer", "seconds"}
    assert Image.open(result["files"][0]).size == (96, 64)
    run(capsys, "render", avatar_file, "-o", tmp_path / "b.png", "--stereo", "side-by-side", "--size", "64")
    pair = np.asarray(Image.open(tmp_path / "b.png").convert("RGB")).astype(int)
    assert pair.shape == (64, 128, 3)
    assert np.abs(pair[:, :64] - pair[:, 64:]).max() > 20  # two eyes, two pictures
    run(capsys, "render", avatar_file, "-o", tmp_path / "c.png", "--size", "64", "--background", "transparent")
    assert Image.open(tmp_path / "c.png").mode == "RGBA"


def test_the_photos_view_is_framed_about_the_head_and_its_frame_is_the_photos(capsys, tmp_path, avatar_file):
    for flag, name in (("--photo-view", "head.png"), ("--photo-frame", "frame.png")):
        code, _, err = run(capsys, "render", avatar_file, "-o", tmp_path / name, flag, "--size", "96")
        assert code == 0, err
    head = np.asarray(Image.open(tmp_path / "head.png").convert("RGB")).astype(int)
    drawn = np.abs(head - head[0, 0]).max(-1) > 8
    rows = np.flatnonzero(drawn.any(1))
    assert np.ptp(rows) > 0.5 * 96, "the head fills the picture"


def test_cameras_from_a_file_draw_from_where_they_stand(capsys, tmp_path, avatar_file):
    cameras = [Camera.orbit(yaw, width=80, height=60, name=name) for name, yaw in (("front", 0.0), ("side", 1.5))]
    (tmp_path / "cameras.json").write_text(json.dumps([camera.to_json() for camera in cameras]))
    code, _, err = run(capsys, "render", avatar_file, "-o", tmp_path / "views", "--cameras", tmp_path / "cameras.json")
    assert code == 0, err
    assert {p.name for p in (tmp_path / "views").iterdir()} == {"front.png", "side.png"}
    assert Image.open(tmp_path / "views" / "side.png").size == (80, 60)
    for name in ("../escape", "a/b", ".hidden", ""):
        (tmp_path / "cameras.json").write_text(json.dumps([{**cameras[0].to_json(), "name": name}]))
        code, _, err = run(capsys, "render", avatar_file, "-o", tmp_path / "v", "--cameras", tmp_path / "cameras.json")
        assert code == 2 and "expected a plain file name" in err


def test_models_verify_fails_where_a_needed_model_is_missing(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("AVATAR3D_HOME", str(tmp_path))
    code, _, err = run(capsys, "models", "verify")
    assert code == 1 and "face_landmarker.task (missing)" in err and "avatar3d models pull" in err
    code, out, err = run(capsys, "models", "verify", "face_landmarker.task", "--json")
    assert code == 1 and json.loads(out)["models"][0]["ok"] is False and json.loads(out)["exit"] == 1
    assert err.strip().endswith("run avatar3d models pull")  # one command for all that is missing


def test_models_list_is_json(capsys):
    code, out, _ = run(capsys, "models", "list", "--json")
    rows = json.loads(out)["models"]
    assert code == 0 and {"name", "sha256", "bytes", "licence", "purpose", "source", "ok"} <= set(rows[0])
    assert any(row["name"] == "face_landmarker.task" for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT", "SIGXCPU"])
def test_a_command_that_is_ended_from_outside_leaves_nothing(name, avatar_file, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "turn.mp4").write_bytes(b"the old film")
    command = [sys.executable, "-m", "avatar3d.cli", "render", str(avatar_file), "--turntable", "720", "--size", "512"]
    process = subprocess.Popen(
        [*command, "-o", str(tmp_path / "out" / "turn.mp4")], stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(getattr(signal, name), signal.SIG_DFL),  # whoever runs the tests may ignore it (nohup)
    )  # fmt: skip
    while len(list((tmp_path / "out").iterdir())) < 2 and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(getattr(signal, name))
    _, said = process.communicate(timeout=120)
    assert process.returncode == cli.EXIT_INTERRUPTED, said
    assert "interrupted" in said and "Traceback" not in said
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["turn.mp4"]
    assert (tmp_path / "out" / "turn.mp4").read_bytes() == b"the old film"


COMMANDS = ("enroll", "render", "export", "evaluate", "track", "stream", "listen", "view", "xr", "bench", "doctor", "models")


@pytest.mark.parametrize("command", COMMANDS)
def test_what_failed_is_an_object_too_where_json_is_asked_for(capsys, command):
    code, out, err = run(capsys, command, "--nonsense", "--json")
    assert json.loads(out).keys() == {"error", "exit"}
    assert code == json.loads(out)["exit"] == 2
    assert json.loads(out)["error"] in err and "--help" in err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["dance", "--json"], 2, "invalid choice"),
        (["--json"], 2, "COMMAND"),
        (["render", "{tmp}/none.glb", "-o", "{tmp}/a.png", "--js"], 2, "none.glb"),
        (["listen", "--max-age", "nan", "--json"], 2, "--max-age"),
        (["listen", "0", "--seconds", "0.1", "--token", "sesame sesame", "--json"], 1, "no stream came"),
        (["models", "list", "--from", "{tmp}", "--json"], 2, "--from"),
    ],
)
def test_the_object_holds_the_sentence_and_the_exit_code(capsys, tmp_path, arguments, code, words):
    exit_code, out, err = run(capsys, *(argument.format(tmp=tmp_path) for argument in arguments))
    failed = json.loads(out)
    assert failed["exit"] == exit_code == code
    assert words in failed["error"] and failed["error"] in err


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 1, "memory"),
        (OSError(errno.ENOSPC, "No space left on device", "/x\x1b[2Jy"), 1, "cannot write"),
        (ModuleNotFoundError("No module named 'torch'", name="torch"), 1, "pip install"),
        (RuntimeError("odd \x1b[31mname"), 1, "bug"),
    ],
)
def test_however_a_command_ends_the_object_is_one_and_nothing_moves_the_cursor(capsys, monkeypatch, error, code, words):
    def fail(arguments):
        raise error

    monkeypatch.setitem(cli.program.COMMANDS, "doctor", replace(cli.program.COMMANDS["doctor"], run=fail))
    exit_code, out, err = run(capsys, "doctor", "--json")
    assert json.loads(out)["exit"] == exit_code == code
    assert words in json.loads(out)["error"]
    assert "\x1b" not in out + err


def test_a_pipe_that_was_closed_ends_it_quietly():
    command = f"{sys.executable} -m avatar3d.cli models list --json | true"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert done.stderr == "" and done.returncode in (0, 1)


@pytest.mark.parametrize(
    "words",
    [
        ["models", "pull", "--from", "{tmp}", "astronaut.png"],
        ["models", "--from", "{tmp}", "pull", "astronaut.png"],
        ["models", "pull", "astronaut.png", "--from", "{tmp}"],
        ["models", "pull", "--fro", "{tmp}", "--quiet", "astronaut.png"],
    ],
)
def test_options_and_words_come_in_any_order(capsys, tmp_path, monkeypatch, words):
    monkeypatch.setenv("AVATAR3D_HOME", str(tmp_path / "home"))
    code, _, err = run(capsys, *(word.format(tmp=tmp_path) for word in words))
    assert code == 2 and f"{tmp_path} does not hold astronaut.png" in err


def test_options_between_words_take_their_values_along():
    parse = cli.build_parser().parse_args
    view = parse(["view", "a.glb", "--yaw", "-20", "b.glb", "--stereo", "c.glb"])
    assert (view.yaw_deg, view.stereo, [str(path) for path in view.avatar]) == (-20.0, True, ["a.glb", "b.glb", "c.glb"])
    listen = parse(["listen", "--hz", "30", "9311", "-o=x.csv"])
    assert (listen.hz, listen.link) == (30.0, "9311")
    assert parse(["render", "-oa.png", "--yaw=-3", "--", "-x.glb"]).avatar == Path("-x.glb")
