"""The morphable head: shape, joints, regions and landmark embedding (`model`), and how motion moves it (`rig`)."""

from avatar3d.head.model import HeadModel
from avatar3d.head.rig import head_transform, pose, pose_vertices

__all__ = ["HeadModel", "head_transform", "pose", "pose_vertices"]
