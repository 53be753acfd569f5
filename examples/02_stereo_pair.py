"""Draw what each eye of a viewer sees of a smiling head, side by side and as an anaglyph for red-cyan glasses.

    python examples/02_stereo_pair.py photo.jpg out/

Takes out/me.glb where the first example left it. Writes out/pair.png and out/anaglyph.png.
"""

import sys
from pathlib import Path

import avatar3d
from avatar3d.media import anaglyph, save_picture, side_by_side

photo, out = map(Path, sys.argv[1:])
out.mkdir(parents=True, exist_ok=True)
saved = out / "me.glb"
avatar = avatar3d.load(saved) if saved.exists() else avatar3d.enroll(photo, field=False)

smile = avatar3d.MotionCode.from_expression({"mouthSmileLeft": 0.7, "mouthSmileRight": 0.7})
viewer = avatar3d.Camera.orbit(yaw_rad=0.3, distance_m=0.6)
# Each eye's picture is shifted so that the head lies in the plane of the screen, where both can rest on it.
eyes = avatar3d.stereo_pair(viewer, ipd_m=0.063, inward_tangent=0.063 / 2 / 0.6)
left, right = (frame.to_srgb8((245, 245, 245)) for frame in avatar3d.render(avatar, eyes, smile))

save_picture(out / "pair.png", side_by_side(left, right))
save_picture(out / "anaglyph.png", anaglyph(left, right))
