"""Offline view-consistency evaluation: exact-correspondence stereo metrics, controls that must fail them, one HTML page."""

from avatar3d.evaluation.correspondence import Correspondences, EyeView, correspond
from avatar3d.evaluation.protocol import AVATARS_IN_TURN, EvaluateOptions, evaluate, eye_view

__all__ = ["AVATARS_IN_TURN", "Correspondences", "EvaluateOptions", "EyeView", "correspond", "evaluate", "eye_view"]
