"""What the core promises without any extra: load, drive, render, send. Run by tools/core in an environment that holds only the core.

Run: python core_only.py HEAD.glb FOLDER. Needs the installed package and nothing of the checkout; raises on what is not kept.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import avatar3d

# What the extras bring; a core that reached one would work here only by chance.
ABSENT = ("torch", "scipy", "numba", "cv2", "ai_edge_litert", "matplotlib", "websockets", "cryptography", "glfw", "xr")
FRAMES = 60
HZ = 60.0


def command(*words: object) -> dict[str, object]:
    """What a command prints with --json."""
    done = subprocess.run(
        [sys.executable, "-m", "avatar3d.cli", *map(str, words), "--json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def main(head: Path, folder: Path) -> None:
    """Keep every promise, or raise AssertionError."""
    there = [name for name in ABSENT if find_spec(name) is not None]
    assert not there, f"{', '.join(there)} are installed: this is not the core alone"
    assert find_spec("avatar3d").origin.startswith(sys.prefix), "avatar3d comes from elsewhere than this environment"

    avatar = avatar3d.load(head)
    avatar3d.save(avatar, folder / "again.glb")
    assert (folder / "again.glb").read_bytes() == head.read_bytes()

    codes = [
        replace(avatar3d.MotionCode.from_expression({"jawOpen": frame / FRAMES}), time_ns=round(frame * 1e9 / HZ))
        for frame in range(FRAMES)
    ]
    from avatar3d.motion.csv import write_motion_csv

    write_motion_csv(folder / "talk.csv", codes, HZ)
    source = avatar3d.open_motion(f"csv:{folder / 'talk.csv'}")
    read = []
    while not source.ended:
        read.append(source.read())
    source.close()
    assert len(read) == FRAMES

    eyes = avatar3d.stereo_pair(avatar3d.Camera.orbit(0.2, width=96, height=96))
    shut, wide = (avatar3d.render(avatar, eyes, code) for code in (read[0], read[-1]))
    assert all(abs(a.rgba - b.rgba).max() > 0.05 for a, b in zip(shut, wide, strict=True)), "the jaw moved nothing"
    assert abs(wide[0].rgba - wide[1].rgba).max() > 0.05, "both eyes saw one picture"

    command("render", head, "-o", folder / "a.png", "--size", 64, "--expression", "jawOpen=0.5")
    command("render", head, "-o", folder / "a.mp4", "--size", 64, "--motion", folder / "talk.csv")
    command("export", head, "-o", folder / "a.ply")
    command("glb", "optimise", head, folder / "small.glb")
    assert {"checks"} == set(command("doctor"))

    link, token = "29310", "a token of sixteen letters"
    listening = subprocess.Popen(
        [sys.executable, "-m", "avatar3d.cli", "listen", link, "-o", folder / "heard.csv", "--token", token, "--seconds", "8",
         "--silence", "1", "--json"], stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(1)  # a sender does not wait for who listens
    sent = command("stream", f"csv:{folder / 'talk.csv'}", "--to", link, "--token", token, "--seconds", 2)
    heard = json.loads(listening.communicate(timeout=60)[0])
    assert sent["packets"] > 60 and heard["packets"] > 60 and heard["codes"] > 60, (sent, heard)

    loaded = sorted(set(ABSENT) & set(sys.modules))
    assert not loaded, loaded


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
