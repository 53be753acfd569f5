"""The order in which a head's faces are drawn: every face once, in groups that follow each other, and ranges of some of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from avatar3d.avatar import PART_LASH, Avatar
from avatar3d.rendering.lod.field_source import SOURCES
from avatar3d.rendering.opengl.avatar.face_order import FADED, GROUPS, FaceOrder, nearest_first, whole_range
from avatar3d.rendering.scene import layout_of


def ordered(avatar: Avatar, source: np.ndarray | None = None) -> FaceOrder:
    return FaceOrder.of(avatar, layout_of(avatar), source)


def test_every_face_is_drawn_once(avatar: Avatar) -> None:
    order = ordered(avatar)
    np.testing.assert_array_equal(np.sort(order.order), np.arange(len(avatar.faces)))
    np.testing.assert_array_equal(order.faces, avatar.faces[order.order])
    np.testing.assert_array_equal(order.corners.T, order.faces)
    assert order.ends[-1] == len(avatar.faces) and len(order.ends) == len(GROUPS) * len(SOURCES)


def test_groups_hold_what_their_names_say(avatar: Avatar) -> None:
    order = ordered(avatar)
    fades = (avatar.vertex_alpha[avatar.faces] < 1).any(1)
    assert (avatar.part[order.order[order.lashes]] == PART_LASH).all()
    first, count = whole_range(order.groups_of(np.arange(len(avatar.faces)))[FADED[0]])
    last = whole_range(order.groups_of(np.arange(len(avatar.faces)))[FADED[1]])
    drawn = order.order[first // 3 : first // 3 + count // 3 + last[1] // 3]
    assert fades[drawn].all() and len(drawn) == fades.sum() > 0


def test_ranges_of_some_faces_follow_each_other(avatar: Avatar) -> None:
    order = ordered(avatar)
    drawn = np.flatnonzero(np.random.default_rng(0).random(len(avatar.faces)) < 0.4)
    ranges = [each for name in GROUPS for each in order.groups_of(drawn)[name]]
    assert ranges[0][0] == 0 and sum(count for _, count in ranges) == 3 * len(drawn)
    assert all(first + count == following for (first, count), (following, _) in pairwise(ranges))


def test_skin_is_sorted_by_where_the_field_is_evaluated(avatar: Avatar) -> None:
    source = np.random.default_rng(1).integers(0, len(SOURCES), len(avatar.faces)).astype(np.uint8)
    order = ordered(avatar, source)
    groups = order.groups_of(np.arange(len(avatar.faces)))
    for name in ("skin", "skin reached"):
        for number, (first, count) in enumerate(groups[name]):
            drawn = order.order[first // 3 : (first + count) // 3]
            assert (source[drawn] == number).all()
    assert sum(count for name in ("skin", "skin reached") for _, count in groups[name][1:]) > 0


def test_what_fades_is_drawn_from_the_nearest_face_on(avatar: Avatar) -> None:
    eye = np.array([0.1, 0.0, 0.6])
    faces = avatar.faces[:200]
    away = np.linalg.norm(avatar.vertices[faces[nearest_first(avatar.vertices, faces, [eye])][:, 0]] - eye, axis=1)
    assert (np.diff(away) >= -1e-6).all()
