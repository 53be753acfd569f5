"""Fixtures that several folders of tests share: avatars enrolled once per run from real photos; settings of the whole run."""

import os
import sys
from pathlib import Path

# As the command line does it, before numpy is imported: sums then round the same whatever the number of cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

# No test depends on how busy the machine is or on chance: no time limits, and the same examples in every run.
settings.register_profile(
    "avatar3d",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("avatar3d")


@pytest.fixture(scope="session")
def astronaut(tmp_path_factory):
    """(avatar, report, photo path) of the astronaut, enrolled in full once for all tests that need it."""
    from samples import sample

    from avatar3d.enrolment.pipeline import EnrollOptions, enroll

    photo = sample("astronaut.png")
    avatar, report = enroll(photo, EnrollOptions())
    return avatar, report, photo


@pytest.fixture(scope="session")
def preview():
    """The astronaut's avatar without a field."""
    from samples import sample

    from avatar3d.enrolment.pipeline import EnrollOptions, enroll

    return enroll(sample("astronaut.png"), EnrollOptions(field=False))[0]


@pytest.fixture(scope="module")
def context():
    """An OpenGL context of its own; skips where this machine gives none."""
    from avatar3d.errors import WorkError
    from avatar3d.rendering.opengl.context import create_context

    try:
        context = create_context()
    except WorkError as error:
        pytest.skip(str(error))
    yield context
    context.release()
