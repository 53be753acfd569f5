"""Skin grain: noise that lives in space rather than in texture coordinates, so that it has no seams and no stretch."""

from __future__ import annotations

import cv2
import numpy as np

from avatar3d.field.loops import wrapped_trilinear

# Cell sizes of the noise, mm: pores, fine relief, mottling, blotches.
CELLS_MM = np.array([0.6, 1.2, 2.4, 4.8])
# Strength of a clear portrait's skin in each band, as share of the (encoded) colour: what a coarse photo did not resolve.
CLEAR_SKIN = np.array([0.016, 0.011, 0.005, 0.003])
MOST = 1.5 * CLEAR_SKIN  # a noisy or compressed photo is not copied beyond this
CHROMA_SHARE = 0.35  # of the grain that differs between channels
TILE = 48  # cells a side of the noise cube, repeated


def band_strengths(picture: np.ndarray, skin: np.ndarray, mm_px: float) -> np.ndarray:
    """(4,) robust standard deviation of each band in an encoded (H, W) grey picture over its (H, W) bool plain skin.

    mm_px: pixels per millimetre.
    """
    strengths = np.zeros(len(CELLS_MM))
    weight = skin.astype(np.float32)
    values = np.where(skin, picture, 0).astype(np.float32)

    def smooth(sigma: float) -> np.ndarray:
        total = cv2.GaussianBlur(weight, (0, 0), sigma) + 1e-4
        return cv2.GaussianBlur(values, (0, 0), sigma) / total

    inner = cv2.erode(skin.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    if inner.sum() < 100:
        return strengths
    for band, cell in enumerate(CELLS_MM):
        fine, coarse = 0.35 * cell * mm_px, 0.7 * cell * mm_px
        level = (smooth(fine) if fine > 0.3 else values) - smooth(max(coarse, 0.3))
        strengths[band] = 1.48 * np.median(np.abs(level[inner])) / max(float(np.median(picture[inner])), 0.05)
    return strengths


def grain(positions_mm: np.ndarray, strengths: np.ndarray, seed: int) -> np.ndarray:
    """(N, 3) f32 relative grain at positions (N, 3) in mm, with (4,) or (N, 4) strengths of the bands."""
    rng = np.random.default_rng(seed)
    out = np.zeros((len(positions_mm), 3), np.float32)
    strengths = np.broadcast_to(strengths, (len(positions_mm), len(CELLS_MM)))
    for band, cell in enumerate(CELLS_MM):
        amount = strengths[:, band].astype(np.float32)
        if not amount.any():
            continue
        places = (positions_mm / cell).astype(np.float32)
        luma = _noise(rng, places)
        out += (amount * luma * np.float32(np.sqrt(1 - CHROMA_SHARE**2)))[:, None]
        if cell >= 2:
            # Blood under the skin colours blotches, not pores: red against green and blue.
            out += (amount * _noise(rng, places) * np.float32(CHROMA_SHARE))[:, None] * np.array([0.4, -0.8, -0.8], np.float32)
    return out


def _noise(rng: np.random.Generator, places: np.ndarray) -> np.ndarray:
    """(N,) unit-variance trilinear noise at (N, 3) cell coordinates."""
    cube = rng.standard_normal((TILE, TILE, TILE)).astype(np.float32)
    values = np.empty(len(places), np.float32)
    wrapped_trilinear(cube, places, values)
    return values / max(float(values.std()), 1e-6)
