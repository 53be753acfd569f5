"""Enrolment without one of the things it rests on, to see what each is worth. Nothing of it is in the product."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from avatar3d.color import srgb_to_linear
from avatar3d.enrolment.hair import growth as hair_growth
from avatar3d.enrolment.hair.grid import blur
from avatar3d.face.hair import HairSeen
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.head.landmarks import fitting_head
from avatar3d.head.mediapipe import CHEEKS, CHIN, FOREHEAD_TOP
from avatar3d.head.model import HeadModel

SKIN_LIKE = 0.35  # natural logarithm: how far a pixel's colour is from the cheeks' before it may be hair
SMOOTH_TEXELS = 28.0  # of the hair's colour texture: wider than any lock


def _guessed_hair(rgb: np.ndarray, landmarks: FaceLandmarks, *_: Any, **__: Any) -> HairSeen:
    """In place of the hair network: whatever above the chin has another colour than the cheeks."""
    points = landmarks.points_px[:, :2]
    at = np.clip(points[list(CHEEKS)].round().astype(int), 0, np.array(rgb.shape[1::-1]) - 1)
    tone = np.log(srgb_to_linear(rgb / np.float32(255)) + 0.02)
    off = np.abs(tone - np.median(tone[at[:, 1], at[:, 0]], axis=0)).mean(-1)
    axis = points[FOREHEAD_TOP] - points[CHIN]
    grid = np.stack(np.meshgrid(np.arange(rgb.shape[1]), np.arange(rgb.shape[0])), -1)
    height = (grid - points[CHIN]) @ axis / (axis @ axis)
    return HairSeen(((off > SKIN_LIKE) & (height > 0)).astype(np.float32), 1.0)


def _average_head() -> HeadModel:
    """The head of which only the size and the mean of its statistics are known: its modes move nothing."""
    head = fitting_head()
    return replace(head, control_identity=head.control_identity * 0)


def _plain(color: np.ndarray, growth: hair_growth.HairGrowth) -> np.ndarray:
    """The photo's hair where it is seen, and elsewhere its tone without a strand."""
    dressed = hair_growth.dress(color, growth)
    seen = growth.photo[..., None]
    return seen * dressed + (1 - seen) * blur(dressed, SMOOTH_TEXELS)


PARTS: dict[str, dict[str, Callable[..., Any]]] = {
    "hair-network": {"avatar3d.enrolment.photo.segment.hair_probability": _guessed_hair},
    "statistics": {},  # see head_without
    "mapping": {"avatar3d.enrolment.steps.learn_reach": lambda *_: None},
    "strands": {"avatar3d.enrolment.hair.texture.dress": _plain, "avatar3d.enrolment.hair.refine.dress": _plain},
}


def head_without(parts: list[str]) -> HeadModel | None:
    """The head that is enrolled on without these PARTS, None for the default one."""
    return _average_head() if "statistics" in parts else None


@contextmanager
def without(parts: list[str]) -> Iterator[None]:
    """Enrolment without these PARTS as long as the context lasts."""
    with ExitStack() as stack:
        for part in parts:
            for place, stand_in in PARTS[part].items():
                stack.enter_context(mock.patch(place, stand_in))
        yield
