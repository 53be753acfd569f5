import re
from pathlib import Path

import numpy as np
import pytest

from avatar3d.head import mediapipe
from avatar3d.head.landmarks import fitting_head

SOURCES = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def places():
    head = fitting_head()
    return head.landmark_points(head.vertices)


def flat(numbers):
    return [numbers] if isinstance(numbers, int) else [k for part in numbers for k in flat(part)]


def test_every_number_is_a_landmark_and_the_mesh_is_what_the_head_embeds(places):
    assert len(places) == mediapipe.MESH_POINTS
    for name, value in vars(mediapipe).items():
        if name.isupper() and not isinstance(value, dict):
            assert all(0 <= k <= mediapipe.POINTS for k in flat(value)), name


@pytest.mark.parametrize("name", ["EYE_LOOPS", "EYE_CORNERS", "UPPER_LIDS", "LOWER_LIDS", "LID_MIDDLES"])
def test_what_stands_for_both_eyes_is_left_then_right_and_mirrored(places, name):
    left, right = (places[list(side)] for side in getattr(mediapipe, name))
    assert (left[:, 0] > 0).all()
    np.testing.assert_allclose(right * (-1, 1, 1), left, atol=0.0015)


def test_brows_temples_and_corners_lie_where_their_names_say(places):
    y = places[:, 1]
    left, right = places[list(mediapipe.LEFT_BROW)], places[list(mediapipe.RIGHT_BROW)]
    np.testing.assert_allclose(right * (-1, 1, 1), left, atol=0.0015)
    assert left[:, 1].min() > y[list(mediapipe.LEFT_EYE)].max() - 0.002
    assert places[mediapipe.TEMPLE_LEFT, 0] > 0.05 and places[mediapipe.TEMPLE_RIGHT, 0] < -0.05
    oval = list(mediapipe.FACE_OVAL)
    assert y[mediapipe.CHIN] == y[oval].min() and y[mediapipe.FOREHEAD_TOP] == y[oval].max()
    assert places[mediapipe.NOSE_TIP, 2] > np.delete(places[:, 2], mediapipe.NOSE).max() - 0.004
    upper, lower = (y[list(lip)] for lip in (mediapipe.INNER_LIP_UPPER, mediapipe.INNER_LIP_LOWER))
    assert (upper > lower - 0.001).all()
    right, left = places[list(mediapipe.MOUTH_CORNERS), 0]
    assert right == places[list(mediapipe.LIPS_OUTER), 0].min() and left == places[list(mediapipe.LIPS_OUTER), 0].max()


def test_no_other_module_knows_a_landmark_by_its_number():
    number = re.compile(
        r"(?:points(?:_px)?|landmarks_px)\[\[?\d{2,}|landmark_points\([^()]*\)\[\[?\d|\[:468|\b(?:468|473), *(?:469|474)\b"
    )
    for folder in ("avatar3d", "tools"):
        for path in (SOURCES / folder).rglob("*.py"):
            if path.name != "mediapipe.py":
                found = number.search(path.read_text())
                assert found is None, f"{path.name}: {found and found[0]}"
