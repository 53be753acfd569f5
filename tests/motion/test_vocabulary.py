"""Foreign vocabularies: ARKit's weights survive the way there and back, and what is lost is said."""

import numpy as np
import pytest

from avatar3d.motion.code import ARKIT_INDEX, ARKIT_NAMES
from avatar3d.motion.vocabulary import NAMES, vocabulary


@pytest.mark.parametrize(("name", "count"), [("unified", 88 + 10), ("fb2", 70), ("htc", 14 + 37), ("android", 68)])
def test_every_name_of_the_standard_is_there(name, count):
    table = vocabulary(name)
    assert len(set(table.names)) == count and table.sources


@pytest.mark.parametrize("name", NAMES)
def test_arkit_survives_the_way_there_and_back(name):
    table = vocabulary(name)
    weights = np.random.default_rng(1).uniform(0, 1, 52)
    # Closed lips presuppose an open jaw: mouthClose never exceeds jawOpen in ARKit.
    weights[ARKIT_INDEX["mouthClose"]] *= weights[ARKIT_INDEX["jawOpen"]]
    weights[[ARKIT_INDEX[missing] for missing in table.missing]] = 0
    np.testing.assert_allclose(table.to_arkit(table.from_arkit(weights)), weights, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_one_weight_at_a_time_stays_one_weight(name):
    table = vocabulary(name)
    for arkit in set(ARKIT_NAMES) - set(table.missing) - {"mouthClose"}:
        weights = np.zeros(52)
        weights[ARKIT_INDEX[arkit]] = 1
        again = table.to_arkit(table.from_arkit(weights))
        assert again[ARKIT_INDEX[arkit]] == pytest.approx(1) and again.sum() == pytest.approx(1), arkit


@pytest.mark.parametrize("name", NAMES)
def test_what_is_lost_changes_nothing(name):
    table = vocabulary(name)
    for lost in table.lost:
        values = np.zeros(len(table.names))
        values[table.index[lost]] = 1
        assert not table.to_arkit(values).any()


@pytest.mark.parametrize("name", NAMES)
def test_a_broken_value_stays_in_its_own_weights(name):
    table = vocabulary(name)
    values = np.zeros(len(table.names))
    values[table.index[table.names[0]]] = np.nan
    assert 1 <= np.isnan(table.to_arkit(values)).sum() <= 2


def test_left_stays_left():
    for name, term in (("fb2", "LIP_CORNER_PULLER_L"), ("android", "LIP_CORNER_PULLER_L"), ("htc", "LIP_MOUTH_RAISER_LEFT")):
        table = vocabulary(name)
        values = np.zeros(len(table.names))
        values[table.index[term]] = 1
        assert np.flatnonzero(table.to_arkit(values)).tolist() == [ARKIT_INDEX["mouthSmileLeft"]]


@pytest.mark.parametrize(
    ("name", "enum", "prefix"),
    [("fb2", "FaceExpression2FB", ""), ("android", "FaceParameterIndicesANDROID", "")],
)
def test_the_order_is_the_headers(name, enum, prefix):
    xr = pytest.importorskip("xr.enums")
    members = {member.name: member.value for member in getattr(xr, enum) if member.name not in ("COUNT", "MAX_ENUM")}
    assert {prefix + key: value for key, value in members.items()} == vocabulary(name).index


def test_the_order_of_htc_is_the_headers():
    xr = pytest.importorskip("xr.enums")
    index = vocabulary("htc").index
    for member in xr.EyeExpressionHTC:
        assert index[f"EYE_{member.name}"] == member.value
    for member in xr.LipExpressionHTC:
        assert index[f"LIP_{member.name}"] == 14 + member.value
