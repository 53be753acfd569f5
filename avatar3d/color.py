"""The sRGB transfer curve (IEC 61966-2-1), in both directions, luma, and PSNR; the one place that knows them in numpy."""

from __future__ import annotations

import numpy as np

LUMA_BT709 = np.array([0.2126, 0.7152, 0.0722], np.float32)  # weights of linear red, green, blue in luminance (BT.709)
MAX_PSNR_DB = 99.0  # stands for "no difference"


def srgb_to_linear(encoded: np.ndarray) -> np.ndarray:
    """sRGB to linear light, any shape: u8 in 0..255 or float in [0, 1]; returns float32 in [0, 1]."""
    if encoded.dtype == np.uint8:
        return _DECODE_TABLE[encoded]
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4).astype(np.float32)


def linear_to_srgb(linear: np.ndarray) -> np.ndarray:
    """Linear light to sRGB, any shape; clipped to [0, 1], float32."""
    light = np.clip(linear, 0.0, 1.0).astype(np.float32)
    return np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055).astype(np.float32)


def to_u8(value: np.ndarray) -> np.ndarray:
    """Values in [0, 1] to 0..255, rounded and clipped."""
    return np.clip(np.rint(value * 255.0), 0, 255).astype(np.uint8)


def psnr_db(mean_square: float) -> float:
    """Peak signal-to-noise ratio in dB of values in [0, 1] whose difference has this mean square; at most MAX_PSNR_DB."""
    return MAX_PSNR_DB if mean_square <= 0 else float(min(MAX_PSNR_DB, -10 * np.log10(mean_square)))


_DECODE_TABLE = srgb_to_linear(np.arange(256) / 255.0)
