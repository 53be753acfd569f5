"""The avatar refuses arrays that do not fit together, and says what is wrong in one sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from avatar3d.avatar import PART_CLOTHES, PART_EYE, PART_SKIN, Avatar, HairShells
from avatar3d.errors import InputError
from avatar3d.motion.code import ARKIT_INDEX
from tests.make_avatar import synthetic_avatar


@pytest.fixture(scope="module")
def avatar() -> Avatar:
    return synthetic_avatar()


def test_parts_cover_the_faces(avatar: Avatar) -> None:
    assert set(np.unique(avatar.part)) == set(range(PART_CLOTHES)), "all but what is worn"
    vertex_part = avatar.vertex_part
    eyes = np.unique(avatar.faces[avatar.part == PART_EYE])
    assert (vertex_part[eyes] == PART_EYE).all()
    assert (vertex_part[avatar.faces[avatar.part == PART_SKIN]] == PART_SKIN).all()


def test_weld_joins_only_equal_places(avatar: Avatar) -> None:
    assert (avatar.vertices == avatar.vertices[avatar.weld]).all()
    assert (avatar.weld <= np.arange(len(avatar.weld))).all()
    assert (avatar.weld != np.arange(len(avatar.weld))).any(), "the seam is not welded"


def test_jaw_open_opens_and_eyes_do_not_morph(avatar: Avatar) -> None:
    jaw = avatar.expression[ARKIT_INDEX["jawOpen"]]
    assert jaw[:, 1].min() < -0.018
    assert not avatar.expression[:, avatar.vertex_part == PART_EYE].any()


def test_same_seed_same_avatar() -> None:
    first, second, other = synthetic_avatar(3), synthetic_avatar(3), synthetic_avatar(4)
    assert (first.expression == second.expression).all() and (first.base_color == second.base_color).all()
    assert (first.base_color != other.base_color).any()


def test_texture_delta_activation_is_clipped(avatar: Avatar) -> None:
    delta = avatar.texture_deltas[0]
    assert delta.activation(np.zeros(52)) == 0.0
    assert delta.activation(np.full(52, 5.0)) == 1.0
    weights = np.zeros(52)
    weights[ARKIT_INDEX["mouthSmileLeft"]] = 1.0
    assert delta.activation(weights) == pytest.approx(0.45)


def _with_nan(values: np.ndarray) -> np.ndarray:
    values = values.copy()
    values.flat[5] = np.nan
    return values


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda a: {"vertices": _with_nan(a.vertices)}, "a vertex is not finite"),
        (lambda a: {"expression": _with_nan(a.expression)}, "an expression offset is not finite"),
        (lambda a: {"faces": a.faces + len(a.vertices)}, "a face is out of range"),
        (lambda a: {"faces": a.faces - 1}, "a face is out of range"),
        (lambda a: {"weld": a.weld + len(a.vertices)}, "a weld is out of range"),
        (lambda a: {"uv": a.uv[:-1]}, "uv differs"),
        (lambda a: {"part": a.part[:-1]}, "parts differ"),
        (lambda a: {"head_weight": a.head_weight[:-1]}, "head_weight differs"),
        (lambda a: {"expression": a.expression[:51]}, "the expression basis is not"),
        (lambda a: {"joints": {"neck": np.zeros(3)}}, "joints are not"),
        (lambda a: {"light": a.light[:4]}, "the light is not"),
        (lambda a: {"base_color": a.base_color[..., 0]}, "the base colour is not"),
        (lambda a: {"landmark_triangles": a.landmark_triangles + 10**6}, "a landmark is out of range"),
    ],
)
def test_avatar_refuses(avatar: Avatar, change, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        replace(avatar, **change(avatar))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda h: {"base": _with_nan(h.base)}, "a hair vertex is not finite"),
        (lambda h: {"faces": h.faces + len(h.base)}, "a hair face is out of range"),
        (lambda h: {"opacity": h.opacity[:-1]}, "hair opacity differs"),
        (lambda h: {"occlusion": h.occlusion[:-1]}, "hair occlusion differs"),
        (lambda h: {"levels": np.zeros(0, np.float32)}, "0 hair levels"),
        (lambda h: {"uv": h.uv[:-1]}, "hair attributes differ"),
    ],
)
def test_hair_refuses(avatar: Avatar, change, sentence: str) -> None:
    hair = avatar.hair
    assert isinstance(hair, HairShells)
    with pytest.raises(InputError, match=sentence):
        replace(hair, **change(hair))


def test_field_refuses_tables_that_do_not_match(avatar: Avatar) -> None:
    field = avatar.neural_field
    assert field is not None
    with pytest.raises(InputError, match="power of two"):
        replace(field, tables=field.tables[:, :100])
    with pytest.raises(InputError, match="does not chain"):
        replace(field, biases=[field.biases[0][:-1], field.biases[1]])
    with pytest.raises(InputError, match="does not end in rgb"):
        replace(field, weights=field.weights[:1], biases=field.biases[:1])
