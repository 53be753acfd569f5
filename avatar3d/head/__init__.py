"""The morphable head: shape, joints, regions and landmark embedding (`model`), and how motion moves it (`rig`)."""

from avatar3d.head.model import HeadModel
from avatar3d.head.rig import pose

__all__ = ["HeadModel", "pose"]
