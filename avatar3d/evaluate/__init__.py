"""Offline view-consistency evaluation: exact-correspondence stereo metrics, controls that must fail them, one HTML page."""

from avatar3d.evaluate.protocol import EvaluateOptions, evaluate

__all__ = ["EvaluateOptions", "evaluate"]
