"""The tracker on the real networks, and the astronaut's face, shared by the face tests."""

import pytest
from samples import model, sample_rgb

from avatar3d.face import FaceTracker


@pytest.fixture(scope="session")
def tracker():
    for name in ("face_landmarker.task", "selfie_segmentation.tflite"):
        model(name)
    return FaceTracker()


@pytest.fixture(scope="session")
def portrait():
    """(512, 512, 3) uint8: the astronaut."""
    return sample_rgb("astronaut.png")


@pytest.fixture(scope="session")
def face(tracker, portrait):
    return tracker.track(portrait)
