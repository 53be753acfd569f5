"""Drive a head with a recording in Live Link Face's columns, as the phone app and `avatar3d track` write it, and make a film of it.

    python examples/03_drive_from_csv.py photo.jpg out/ [talk.csv]

Takes out/me.glb where the first example left it. Without a recording it writes one first, of a blink and a word.
Writes out/talk.mp4. Any source of motion is read in the same way: open_motion("video:talk.mp4"), open_motion("livelink:11111").
"""

import sys
from pathlib import Path

import numpy as np

import avatar3d
from avatar3d.media import save_sequence
from avatar3d.motion.csv import write_motion_csv
from avatar3d.rendering import make_renderer

photo, out, *given = map(Path, sys.argv[1:])
out.mkdir(parents=True, exist_ok=True)
saved = out / "me.glb"
avatar = avatar3d.load(saved) if saved.exists() else avatar3d.enroll(photo, field=False)

FPS = 30
if given:
    (recording,) = given
else:
    recording = out / "talk.csv"
    codes = []
    for frame in range(FPS):
        open_share, lids = np.sin(2 * np.pi * frame / FPS) ** 2, float(10 <= frame < 14)
        expression = {"jawOpen": 0.4 * open_share, "eyeBlinkLeft": lids, "eyeBlinkRight": lids}
        code = avatar3d.MotionCode.from_expression(expression)
        codes.append(avatar3d.MotionCode(code.weights, time_ns=frame * 1_000_000_000 // FPS))
    write_motion_csv(recording, codes, FPS)

camera = avatar3d.Camera.orbit(yaw_rad=0.2, width=320, height=320)
renderer = make_renderer()  # kept for all frames; without one each call of `render` would make its own
with avatar3d.open_motion(f"csv:{recording}") as source:
    frames = [avatar3d.render(avatar, camera, code, renderer=renderer) for code in source]
renderer.close()
save_sequence(out / "talk.mp4", (frame.to_srgb8((245, 245, 245)) for frame in frames), FPS)
print(f"{len(frames)} frames in {out / 'talk.mp4'}")
