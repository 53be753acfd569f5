"""What skin and hair reflect by the view: the teacher of the field's view term, which one photo cannot show.

Skin: one GGX lobe of the key light with a Schlick Fresnel term, and the surroundings mirrored at grazing angles. Hair: the two
highlights of Kajiya and Kay 1989 as Scheuermann 2004 shifts them along the strand (a model of Marschner et al. 2003's R and
TRT). Everything in linear light, in the unit of the avatar's light (irradiance / π, mean 1 on the face).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from avatar3d.avatar import HairShells
from avatar3d.geometry import smoothstep, unit
from avatar3d.rendering.scene import light_basis, light_direction

SKIN_ROUGHNESS = 0.45  # one lobe between the two of Weyrich et al. 2006 for cheek and forehead; alpha = roughness²
SKIN_F0 = 0.028  # normal reflectance of an index of 1.4
# A photo's light estimate is soft, real surroundings darken toward the horizon: half of the mirrored ambient is kept.
AMBIENT_SHARE = 0.5
# Seen flatter than this cosine, down and pores end the mirror; it also keeps outlines from flickering.
GRAZING_COSINE = 0.35
MAX_HIGHLIGHT = 0.2  # linear light; a smooth dielectric against the light would exceed what the field may add
HAIR_SHIFT_FIRST, HAIR_SHIFT_SECOND = -0.1, 0.14  # cuticle tilt of 6° to 8° toward the root and the tip, as sines
HAIR_EXPONENT_FIRST, HAIR_EXPONENT_SECOND = 40.0, 14.0
HAIR_STRENGTH_FIRST = 0.10  # share of the key light in the white highlight
HAIR_STRENGTH_SECOND = 0.35  # share in the second one, which the strand's own colour tints


@dataclass(frozen=True)
class KeyLight:
    """A light split into a lamp and the rest.

    direction: (3,) unit, toward the lamp, world. irradiance: (3,) / π of a surface that faces it. ambient: (9, 3).
    """

    direction: np.ndarray
    irradiance: np.ndarray
    ambient: np.ndarray


def key_light(light: np.ndarray) -> KeyLight:
    """The lamp whose clamped cosine, E (1/4 + n·l / 2 + …), has the light's degree-1 part (Ramamoorthi 2001, equation 8)."""
    direction = light_direction(light).astype(np.float32)
    along = np.maximum(direction @ np.asarray(light, np.float32)[1:4], 0)
    # The lamp cannot give more than all of the light's mean.
    irradiance = np.minimum(2 * along, 4 * np.maximum(np.asarray(light, np.float32)[0], 0))
    ambient = np.array(light, np.float32)
    ambient[0] -= irradiance / 4
    ambient[1:4] -= direction[:, None] * irradiance / 2
    return KeyLight(direction, irradiance.astype(np.float32), ambient)


def skin_highlight(key: KeyLight, normals: np.ndarray, toward_eye: np.ndarray) -> np.ndarray:
    """(..., 3) f32 reflected light of skin with unit world normals (..., 3) seen from unit directions (..., 3)."""
    cosine_eye = np.clip((normals * toward_eye).sum(-1), 1e-3, 1)
    cosine_light = np.clip(normals @ key.direction, 0, 1)
    half = unit(toward_eye + key.direction)
    cosine_half = np.clip((normals * half).sum(-1), 0, 1)
    squared = SKIN_ROUGHNESS**4  # alpha squared
    spread = squared / (np.pi * (cosine_half**2 * (squared - 1) + 1) ** 2)
    # Height-correlated Smith term over 4 n·l n·v (Heitz 2014, equation 99).
    mask_eye = cosine_light * np.sqrt(squared + (1 - squared) * cosine_eye**2)
    mask_light = cosine_eye * np.sqrt(squared + (1 - squared) * cosine_light**2)
    visibility = 0.5 / np.maximum(mask_eye + mask_light, 1e-3)
    fresnel = SKIN_F0 + (1 - SKIN_F0) * (1 - np.clip((half * toward_eye).sum(-1), 0, 1)) ** 5
    lamp = (np.pi * spread * visibility * fresnel * cosine_light)[..., None] * key.irradiance
    mirrored = 2 * (normals * toward_eye).sum(-1, keepdims=True) * normals - toward_eye
    grazing = SKIN_F0 + max(1 - SKIN_ROUGHNESS - SKIN_F0, 0) * (1 - cosine_eye) ** 5
    around = np.maximum(light_basis(mirrored) @ key.ambient, 0) * (AMBIENT_SHARE * grazing)[..., None]
    return np.minimum((lamp + around) * smoothstep(0, GRAZING_COSINE, cosine_eye)[..., None], MAX_HIGHLIGHT).astype(np.float32)


def hair_highlight(
    key: KeyLight, normals: np.ndarray, strands: np.ndarray, albedo: np.ndarray, toward_eye: np.ndarray
) -> np.ndarray:
    """(..., 3) f32 reflected light of hair; normals, strands (root to tip), toward_eye: unit, world; albedo: linear."""
    half = unit(toward_eye + key.direction)
    lit = np.clip(0.25 + 0.75 * (normals @ key.direction), 0, 1)

    def lobe(shift: float, exponent: float) -> np.ndarray:
        along = (unit(strands + shift * normals) * half).sum(-1)
        return smoothstep(-1, 0, along) * np.maximum(1 - along**2, 0) ** (exponent / 2)

    first = HAIR_STRENGTH_FIRST * lobe(HAIR_SHIFT_FIRST, HAIR_EXPONENT_FIRST)[..., None]
    second = HAIR_STRENGTH_SECOND * lobe(HAIR_SHIFT_SECOND, HAIR_EXPONENT_SECOND)[..., None] * albedo
    return ((first + second) * key.irradiance * lit[..., None]).astype(np.float32)


def hair_strands(hair: HairShells) -> np.ndarray:
    """(N, 3) f32 unit direction of the strands at the hair's vertices, head frame: down the meridians, where v rises."""
    corners, uv = hair.base[hair.faces], hair.uv[hair.faces]
    e1, e2 = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    d1, d2 = uv[:, 1] - uv[:, 0], uv[:, 2] - uv[:, 0]
    area = d1[:, 0] * d2[:, 1] - d2[:, 0] * d1[:, 1]
    # dP/dv of the triangle's affine map, weighted by its size in the texture, so that slivers at the crown do not decide.
    along = (e2 * d1[:, :1] - e1 * d2[:, :1]) * np.sign(area)[:, None]
    sums = np.zeros((len(hair.base), 3))
    for corner in range(3):
        np.add.at(sums, hair.weld[hair.faces[:, corner]], along)
    return unit(sums[hair.weld]).astype(np.float32)


def view_sphere(count: int, rng: np.random.Generator) -> np.ndarray:
    """(count, 3) points on the unit sphere, evenly spread, randomly turned; normal + point, made unit, is cosine-weighted."""
    index = np.arange(count) + 0.5
    z, angle = 1 - 2 * index / count, index * np.pi * (3 - np.sqrt(5))
    radius = np.sqrt(1 - z**2)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle), z], axis=1)
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    return (points @ rotation.T).astype(np.float32)


def around_normals(normals: np.ndarray, sphere: np.ndarray) -> np.ndarray:
    """(N, M, 3) unit directions, cosine-weighted about each of (N, 3) unit normals, from the points (M, 3) of view_sphere."""
    # A point opposite the normal would give no direction; slightly inside of the sphere there is none.
    return unit(normals[:, None] + np.float32(0.999) * sphere[None]).astype(np.float32)
