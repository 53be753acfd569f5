"""The face embedding tells one person from another, and says what it needs where it cannot run."""

import pytest
from samples import sample

from avatar3d import models
from avatar3d.errors import WorkError
from avatar3d.face.identity import MODEL, OTHER_PERSON, SAME_PERSON, IdentityEncoder, distance, identity_missing
from avatar3d.photo import load_photo


@pytest.fixture(scope="module")
def encoder():
    pytest.importorskip("dlib", reason="dlib-bin has no wheel here")
    models.pull(MODEL)
    return IdentityEncoder()


def test_one_person_is_nearer_than_two(encoder):
    first, again, other = (encoder.encode(load_photo(sample(name)).rgb) for name in ("obama.jpg", "obama2.jpg", "biden.jpg"))
    assert distance(first, again) < SAME_PERSON + 0.05
    assert distance(first, other) > OTHER_PERSON - 0.05
    assert distance(first, first) == 0


def test_a_picture_without_a_face_has_no_embedding(encoder):
    import numpy as np

    assert encoder.encode(np.full((128, 128, 3), 127, np.uint8)) is None
    assert distance(None, None) is None


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("AVATAR3D_HOME", str(tmp_path))
    assert "avatar3d models pull" in identity_missing() or "pip install" in identity_missing()
    with pytest.raises(WorkError, match="likeness is not measured"):
        IdentityEncoder()
