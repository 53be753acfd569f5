"""The sample clip, tracked once for all tests of this folder."""

import pytest
from samples import model, sample

from avatar3d.tracking.frames import open_video
from avatar3d.tracking.track import track


@pytest.fixture(scope="session")
def clip():
    """Path of the speaking man: 176×144, 120 frames."""
    model("face_landmarker.task")
    return sample("carphone_pristine.mp4")


@pytest.fixture(scope="session")
def tracked(clip):
    source = open_video(clip)
    result = track(source, threads=1)
    source.close()
    return result
