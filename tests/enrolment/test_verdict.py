"""The verdict: which figures lower a grade, what it blames, and that a real enrolment is judged by its likeness too."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from avatar3d.enrolment.photo.rim import Rim
from avatar3d.enrolment.verdict import GRADES, LIMITS, Evidence, is_grey, judge

GOOD = Evidence(0.7, 0.985, 25.0, 0.5, 90.0, 0.05, size_by_iris=0.02, crown_mm=0.5, crown_iou=0.985, face_psnr_db=27.0)
EVIDENCE_OF = {"yaw_deg": "yaw_rad"}
RIM_OF = {"rim_unsupported": "unsupported", "beyond_person": "beyond_person"}


def spoiled(name: str, value: float) -> tuple[Evidence, tuple[float | None, float | None]]:
    """GOOD evidence and likeness with one figure set to `value`."""
    turned = {"identity_front": max(value, 0.35), "identity_30": value}.get(name, 0.35)  # the sides bear the front out
    likeness = (value if name == "identity_front" else 0.2, turned)
    if name.startswith("identity"):
        return GOOD, likeness
    if name == "face_doubt":
        return replace(GOOD, presence=1 - value), likeness
    if name in RIM_OF:
        return replace(GOOD, rim=Rim(**{RIM_OF[name]: value})), likeness
    return replace(GOOD, **{EVIDENCE_OF.get(name, name): np.radians(value) if name == "yaw_deg" else value}), likeness


def test_a_good_head_is_called_good_without_a_cause():
    quality = judge(GOOD, (0.2, 0.35))
    assert (quality.grade, quality.cause, quality.advice) == ("good", "", "")
    assert judge(GOOD).grade == "good"  # likeness not measured


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.name)
def test_each_figure_alone_lowers_the_grade_and_is_blamed(limit):
    for grade, value in (("usable", limit.usable), ("poor", limit.poor)):
        value *= 1.001 if limit.low else 0.999
        quality = judge(*spoiled(limit.name, value))
        assert quality.grade == grade
        assert quality.cause == limit.cause.format(value) and quality.advice
        assert quality.cause in quality.line() and grade in quality.line()


@given(st.sampled_from([limit for limit in LIMITS if limit.name != "yaw_deg"]), st.floats(0, 60), st.floats(0, 60))
def test_a_worse_figure_never_raises_the_grade(limit, first, second):
    better, worse = sorted((first, second), reverse=not limit.low)
    ranks = [GRADES.index(judge(*spoiled(limit.name, value)).grade) for value in (better, worse)]
    assert ranks[0] <= ranks[1]


def test_a_portrait_that_a_network_dislikes_from_one_side_only_condemns_nobody():
    """A face of 31 pixels, good by eye, is 0.51 from its own photo in front and 0.47 turned."""
    assert judge(GOOD, (0.51, 0.47)).grade == "usable"
    assert judge(GOOD, (0.6, 0.65)).grade == "poor"


def test_neighbours_and_flying_hair_move_a_mean_and_condemn_nobody():
    assert judge(replace(GOOD, silhouette_mm=25.0, silhouette_iou=0.8)).grade == "usable"


def test_an_outline_on_the_photos_own_edges_is_no_wreck_whatever_the_matte_took_in():
    missed = replace(GOOD, crown_mm=6.0, crown_iou=0.7, outline_mm=9.0, silhouette_iou=0.5)
    assert judge(missed).grade == "poor"
    assert judge(replace(missed, rim=Rim(flat=0.2, unsupported=0.03))).grade == "poor"
    borne_out = judge(replace(missed, rim=Rim(flat=0.02, unsupported=0.0)))
    assert borne_out.grade == "usable" and "misses the photo's outline" in borne_out.cause


def test_what_lies_before_the_face_is_the_first_cause():
    quality = judge(replace(GOOD, hidden="a mask covers mouth and chin"))
    assert (quality.grade, quality.cause) == ("usable", "a mask covers mouth and chin")


def test_glasses_may_cost_some_of_the_face():
    assert judge(replace(GOOD, face_psnr_db=22.0)).grade == "poor"
    assert judge(replace(GOOD, face_psnr_db=22.0, glasses=True)).grade == "good"


def test_a_grey_photo_is_blamed_where_something_failed():
    assert judge(replace(GOOD, grey=True)).grade == "good"
    assert "grey" in judge(replace(GOOD, grey=True, photo_psnr_db=11.0)).cause


def test_grey_is_what_has_no_colour():
    noise = np.random.default_rng(0).integers(0, 256, (300, 200, 1), np.uint8)
    assert is_grey(np.repeat(noise, 3, axis=2))
    assert not is_grey(np.concatenate([noise, noise, 255 - noise], axis=2))


@pytest.mark.slow
def test_the_astronaut_is_good_and_like_the_photo(astronaut):
    quality = astronaut[1]["quality"]
    assert quality["grade"] == "good", quality["line"]
    # Pictures of one person reach 0.43, of two people 0.8.
    if quality["identity_front"] is not None:
        assert quality["identity_front"] < 0.35 and quality["identity_30"] < 0.5
