"""Offline view-consistency evaluation: exact-correspondence stereo metrics, controls that must fail them, one HTML page."""

from avatar3d.evaluation.correspondence import Correspondences, EyePicture, correspond
from avatar3d.evaluation.protocol import AVATARS_IN_TURN, EvaluateOptions, eye_picture
from avatar3d.evaluation.run import evaluate

__all__ = ["AVATARS_IN_TURN", "Correspondences", "EvaluateOptions", "EyePicture", "correspond", "evaluate", "eye_picture"]
