"""Write a generator of your own: one that puts rouge on the cheeks.

    python examples/05_own_generator.py photo.jpg out/

Takes out/me.glb where the first example left it. Writes out/rouge.glb and out/rouge.png. `avatar3d.enroll(photo, generator=Rouge())`
paints it at enrolment; where the class lies in a package that names it as an entry point (docs/extending.md), so does
`avatar3d enroll photo.jpg -o me.glb --generator rouge`.
"""

import sys
from pathlib import Path

import numpy as np

import avatar3d
from avatar3d.generator import GeneratedView, GeneratorRequest, paint
from avatar3d.media import grid, save_picture

CHEEKS = [50, 280]  # of MediaPipe's 468 face points
RADIUS_M = 0.014
ROUGE_SRGB = np.array([0.85, 0.2, 0.3])


class Rouge:
    """Draws what it is given, with the cheeks reddened by their distance on the resting head, whatever the view and expression."""

    name = "rouge"

    def generate(self, request: GeneratorRequest) -> GeneratedView:
        rgba = request.picture()
        away_m = request.places_at_rest()[:, :, None] - request.identity.landmarks[CHEEKS]
        share = 0.4 * np.exp(-np.square(away_m / RADIUS_M).sum(-1)).max(-1)
        share = np.nan_to_num(share)  # no place: hair, and what is beside the head
        rgba[..., :3] += share[..., None] * (ROUGE_SRGB - rgba[..., :3])
        return GeneratedView(rgba, confidence=(share > 0).astype(np.float32))


if __name__ == "__main__":
    photo, out = map(Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    saved = out / "me.glb"
    avatar = avatar3d.load(saved) if saved.exists() else avatar3d.enroll(photo, field=False)

    rouged = paint(avatar, Rouge())
    avatar3d.save(rouged, out / "rouge.glb")
    views = [avatar3d.Camera.orbit(yaw_rad) for yaw_rad in (-0.6, 0.0, 0.6)]
    pictures = [frame.to_srgb8((245, 245, 245)) for head in (avatar, rouged) for frame in avatar3d.render(head, views)]
    save_picture(out / "rouge.png", grid(pictures, columns=3))
