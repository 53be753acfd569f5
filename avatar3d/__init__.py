"""avatar3d: human head avatars from one photo, a hybrid of a morphable mesh and a neural field, consistent in stereo.

Three lines enrol a photo and keep the head:

    import avatar3d
    avatar = avatar3d.enroll("me.jpg")
    avatar3d.save(avatar, "me.glb")

Five draw what each eye sees of it, smiling:

    avatar = avatar3d.load("me.glb")
    smile = avatar3d.MotionCode.from_expression({"mouthSmileLeft": 0.8, "mouthSmileRight": 0.8})
    eyes = avatar3d.stereo_pair(avatar3d.Camera.orbit(0.3))
    left, right = avatar3d.render(avatar, eyes, smile)
    pictures = left.to_srgb8((255, 255, 255)), right.to_srgb8((255, 255, 255))

What is named here is loaded when it is first used: importing avatar3d loads nothing else. The parts behind it
(`avatar3d.enrolment`, `avatar3d.rendering`, `avatar3d.motion`, ...) can be imported by themselves.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from avatar3d.api import enroll, evaluate, load, open_motion, render, save
    from avatar3d.avatar import Avatar
    from avatar3d.camera import Camera, stereo_pair
    from avatar3d.generator import generator_names
    from avatar3d.motion.code import MotionCode

_HOME = {
    **dict.fromkeys(("enroll", "evaluate", "load", "open_motion", "render", "save"), "avatar3d.api"),
    "Avatar": "avatar3d.avatar",
    "Camera": "avatar3d.camera",
    "MotionCode": "avatar3d.motion.code",
    "generator_names": "avatar3d.generator",
    "stereo_pair": "avatar3d.camera",
}

__all__ = [
    "Avatar", "Camera", "MotionCode", "enroll", "evaluate", "generator_names", "load", "open_motion", "render", "save", "stereo_pair",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Load what is asked for (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'avatar3d' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
