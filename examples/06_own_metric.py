"""Write a metric of your own: how much sharper one eye's picture is than the other's, beside a control that must fail it.

    python examples/06_own_metric.py photo.jpg out/

Takes out/me.glb where the first example left it. Prints the metric of the avatar and of the control, a pair whose right eye sees a
blurred picture. What the built-in evaluation measures: `avatar3d.evaluate(avatar, out / "report")`.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

import avatar3d
from avatar3d.evaluation import EyePicture, correspond, eye_picture

photo, out = map(Path, sys.argv[1:])
saved = out / "me.glb"
avatar = avatar3d.load(saved) if saved.exists() else avatar3d.enroll(photo, field=False)


def rivalry(left: EyePicture, right: EyePicture) -> float:
    """Ratio of the eyes' mean gradients over the points that both see, 1 where they are equally sharp.

    The renderer's depth says exactly which pixel of the right picture shows the same point as one of the left: no flow is estimated.
    """
    links = correspond(left, right)
    column, row = np.floor(links.right_px[links.covisible]).astype(int).T
    there, here = (np.hypot(*np.gradient(view.at_centres(view.color).mean(-1))) for view in (right, left))
    return float(here[links.covisible].mean() / there[row, column].mean())


FACTOR = 3  # samples along each side of a pixel, odd, so that one lies at its centre
eyes = avatar3d.stereo_pair(avatar3d.Camera.orbit(0.2, width=256, height=256))
fine = [eye.resized(FACTOR * eye.width, FACTOR * eye.height) for eye in eyes]
left, right = (eye_picture(eye, frame, FACTOR) for eye, frame in zip(eyes, avatar3d.render(avatar, fine), strict=True))

soft = Image.fromarray(np.uint8(255 * right.color)).filter(ImageFilter.GaussianBlur(FACTOR))
blurred = EyePicture(right.camera, np.asarray(soft, np.float32) / 255, right.alpha, right.depth, FACTOR)
print(f"rivalry: {rivalry(left, right):.2f}, with a blurred right eye {rivalry(left, blurred):.2f}")
