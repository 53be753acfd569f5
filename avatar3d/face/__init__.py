"""The face part: detector, landmarks, expression weights, matte and hair, run from networks made by others."""

from avatar3d.face.detector import Detection, FaceBox
from avatar3d.face.hair import HairSeen, hair_probability
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.face.matte import person_matte
from avatar3d.face.tracker import FaceTracker, TrackedFace

__all__ = [
    "Detection",
    "FaceBox",
    "FaceLandmarks",
    "FaceTracker",
    "HairSeen",
    "TrackedFace",
    "hair_probability",
    "person_matte",
]
