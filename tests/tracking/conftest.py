"""The sample clip, tracked once for all tests of this folder."""

import numpy as np
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
def seen(clip):
    """(the clip's Track, [landmarks (478, 3) of each frame])."""
    source, landmarks = open_video(clip), []
    result = track(source, threads=1, each=lambda frame: landmarks.append(frame.landmarks[0].points_px))
    source.close()
    return result, landmarks


@pytest.fixture(scope="session")
def tracked(seen):
    return seen[0]


def openings(points: np.ndarray) -> np.ndarray:
    """(lips in % of the distance between the eyes, mean of the lids in % of the eyes' width) of (468+, 2) landmarks."""
    right, left = points[[33, 133], :2], points[[263, 362], :2]
    eyes = np.linalg.norm(right.mean(0) - left.mean(0))
    width = (np.linalg.norm(np.subtract(*right)) + np.linalg.norm(np.subtract(*left))) / 2
    lips, *lids = (np.linalg.norm(points[a, :2] - points[b, :2]) for a, b in ((13, 14), (159, 145), (386, 374)))
    return 100 * np.array([lips / eyes, np.mean(lids) / width])
