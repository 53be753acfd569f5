"""Fixtures that several folders of tests share: avatars enrolled once per run from real photos."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def astronaut(tmp_path_factory):
    """(avatar, report, photo path) of the astronaut, enrolled in full once for all tests that need it."""
    from samples import sample

    from avatar3d.enroll.pipeline import EnrollOptions, enroll

    photo = sample("astronaut.png")
    avatar, report = enroll(photo, EnrollOptions())
    return avatar, report, photo
