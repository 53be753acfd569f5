"""The generator protocol: what a generator is asked, what it answers, and how one is found by name.

A generator runs in 2D at enrolment (or, live, slower than the display). What it makes reaches the eyes only through the
texture and the field, so both eyes see one head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.color import linear_to_srgb
from avatar3d.errors import InputError
from avatar3d.motion.code import MotionCode
from avatar3d.registry import Registry
from avatar3d.rendering.frame import SURFACE_HEAD

if TYPE_CHECKING:
    from avatar3d.rendering.frame import Frame
    from avatar3d.rendering.reference.composite import Composite
    from avatar3d.rendering.reference.fragments import Fragments

MIN_HAIR_OPACITY = 0.1  # a blended hair level fainter than this is not what a pixel shows


@dataclass(frozen=True)
class PhotoEvidence:
    """What enrolment knows about the photo, all on one pixel grid.

    Attributes
    ----------
    rgb
        (H, W, 3) u8 sRGB.
    camera, motion
        The fitted photo camera, and the photo's own motion code.
    matte
        (H, W) f32 in [0, 1], the person.
    hair_alpha
        (H, W) f32 in [0, 1], None where no hair was found.

    Raises
    ------
    avatar3d.errors.InputError
        Sizes differ.
    """

    rgb: np.ndarray
    camera: Camera
    motion: MotionCode
    matte: np.ndarray
    hair_alpha: np.ndarray | None = None

    def __post_init__(self) -> None:
        size = (self.camera.height, self.camera.width)
        if self.rgb.shape != (*size, 3) or self.rgb.dtype != np.uint8:
            raise InputError(f"the photo is {self.rgb.dtype} {self.rgb.shape}, expected uint8 {(*size, 3)} as its camera says")
        for name in ("matte", "hair_alpha"):
            value = getattr(self, name)
            if value is not None and value.shape != size:
                raise InputError(f"{name} is {value.shape}, expected {size} as the photo's camera says")


@dataclass(frozen=True)
class GeometryBuffers:
    """What surface each pixel shows; row 0 at the top.

    Attributes
    ----------
    surface
        (H, W) i8: −1 nothing, 0 the head, 1 hair.
    level
        (H, W) i8, hair level, −1 on the head.
    face, barycentric
        (H, W) i32 index into the avatar's faces, or its hair's, −1 where empty, and (H, W, 3) f32 the place in it.
    depth
        (H, W) f32 metres along the camera's axis, inf where empty.
    normal
        (H, W, 3) f32, world.
    d
        (H, W, 3) f32, unit direction to the camera in the local frame (tangent, bitangent, normal).
    """

    surface: np.ndarray
    level: np.ndarray
    face: np.ndarray
    barycentric: np.ndarray
    depth: np.ndarray
    normal: np.ndarray
    d: np.ndarray


@dataclass(frozen=True)
class GeneratorRequest:
    """Draw a head at a motion code for a camera.

    Attributes
    ----------
    identity, motion, camera
        What to draw: the avatar, its expression and pose, and from where.
    coarse
        The avatar as rendered so far, linear and premultiplied; `picture` has it as sRGB.
    geometry
        Which point of it each pixel shows; `places_at_rest` has that on the resting head.
    """

    identity: Avatar
    motion: MotionCode
    camera: Camera
    coarse: Frame
    geometry: GeometryBuffers

    def picture(self) -> np.ndarray:
        """(H, W, 4) f32: `coarse` as a GeneratedView holds it, sRGB in [0, 1] with straight alpha, to draw into."""
        rgba = self.coarse.rgba
        return np.concatenate([linear_to_srgb(rgba[..., :3] / np.maximum(rgba[..., 3:], 1e-6)), rgba[..., 3:]], axis=-1)

    def places_at_rest(self) -> np.ndarray:
        """(H, W, 3) f32: where on the resting head each pixel's point lies, head frame, metres; NaN off the head and on hair."""
        shown = self.geometry.surface == SURFACE_HEAD
        corners = self.identity.vertices[self.identity.faces[self.geometry.face[shown]]]
        places = np.full((*shown.shape, 3), np.nan, np.float32)
        places[shown] = (corners * self.geometry.barycentric[shown][..., None]).sum(1)
        return places


@dataclass(frozen=True)
class GeneratedView:
    """What a generator answers.

    Attributes
    ----------
    rgba
        (H, W, 4) floats, sRGB in [0, 1] with straight alpha, of the request's size.
    confidence
        (H, W) floats in [0, 1]: how far to believe each pixel; 0 leaves the head as it is there.
    """

    rgba: np.ndarray
    confidence: np.ndarray


class Generator(Protocol):
    """Anything with a name and a `generate`; deterministic for equal requests.

    Enrolment asks for views of the head and, after its field is trained, paints what the generator changed in them into the base
    colour (`avatar3d.generator.paint`). An attribute `paints = False` leaves that out: its pictures then only teach the field, which
    takes from them what changes with the view.
    """

    name: str

    def generate(self, request: GeneratorRequest) -> GeneratedView:
        """The picture asked for, and how far to believe it."""
        ...


# What an entry point names: given the photo's evidence, a generator. A class or function that takes no argument is called without.
GeneratorFactory = Callable[[PhotoEvidence], Generator]


GENERATORS: Registry[GeneratorFactory] = Registry(
    "generator", "avatar3d.generators", {"photo": "avatar3d.generator.photo:PhotoGenerator"}
)


def generator_names() -> list[str]:
    """Names of the built-in and installed generators."""
    return GENERATORS.names()


def load_generator(name: str) -> GeneratorFactory:
    """The factory registered under `name`; raises InputError and WorkError as `Registry.load` does."""
    return GENERATORS.load(name)


def generator_of(given: str | Generator | GeneratorFactory | Callable[[], Generator]) -> tuple[str, GeneratorFactory]:
    """(name, factory) of a generator by name, of a generator, or of what makes one: a class or function.

    What makes one is called with the photo's evidence, where it takes an argument. One without a name has its type's.
    Raises InputError for anything else, and as `load_generator` does.
    """
    if isinstance(given, str):
        return given, _of_evidence(load_generator(given))
    if not isinstance(given, type) and callable(getattr(given, "generate", None)):
        made = cast(Generator, given)
        return _name(made), lambda evidence: made
    if callable(given):
        return getattr(given, "name", getattr(given, "__name__", "own")), _of_evidence(given)
    raise InputError(f"a {type(given).__name__} is no generator: expected a name, a generator, or a function that makes one")


def _of_evidence(factory: GeneratorFactory | Callable[[], Generator]) -> GeneratorFactory:
    """The factory itself, or one around a factory that takes no argument."""
    try:
        takes = bool(signature(factory).parameters)
    except ValueError:  # of some compiled functions nothing is known
        takes = True
    if takes:
        return cast(GeneratorFactory, factory)
    alone = cast(Callable[[], Generator], factory)
    return lambda evidence: alone()


def _name(generator: Generator) -> str:
    return str(getattr(generator, "name", type(generator).__name__))


def asked(generator: Generator, request: GeneratorRequest) -> GeneratedView:
    """What a generator answers. Raises InputError, naming it, where that is no picture of the asked size."""
    made = generator.generate(request)
    shape = request.coarse.depth.shape
    for name, wanted in (("rgba", (*shape, 4)), ("confidence", shape)):
        value = getattr(made, name, None)
        told = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else f"of type {type(value).__name__}"
        if (
            not isinstance(value, np.ndarray)
            or value.shape != wanted
            or value.dtype.kind != "f"
            or not np.isfinite(value).all()
        ):
            raise InputError(f"the generator {_name(generator)!r} answered with {name} {told}; expected finite floats {wanted}")
    return made


def make_request(avatar: Avatar, motion: MotionCode, camera: Camera) -> GeneratorRequest:
    """The request for one view: the avatar drawn without its field by the reference renderer, and its geometry buffers."""
    import torch

    from avatar3d.rendering.reference.composite import composite
    from avatar3d.rendering.reference.fragments import fragments
    from avatar3d.rendering.reference.shading import shade_fragments, textures_of
    from avatar3d.rendering.scene import build_scene

    scene = build_scene(avatar, motion)
    with torch.no_grad():
        textures = textures_of(scene)
        drawn = fragments(scene, camera)
        shaded = [shade_fragments(layer, textures) for layer in drawn]
        picture = composite(drawn, shaded, camera.width * camera.height)
    return drawn_request(avatar, motion, camera, drawn, [alpha.numpy() for _, alpha in shaded], picture)


def drawn_request(
    avatar: Avatar, motion: MotionCode, camera: Camera, drawn: list[Fragments], alphas: list[np.ndarray], picture: Composite
) -> GeneratorRequest:
    """The request for a view that is drawn already: its fragments, their opacity and their composite, without the field."""
    from avatar3d.rendering.frame import Frame

    shape = (camera.height, camera.width)
    frame = Frame(picture.rgba.numpy().reshape(*shape, 4), picture.depth.reshape(shape), picture.surface.reshape(shape))
    return GeneratorRequest(avatar, motion, camera, frame, geometry_buffers(drawn, alphas, picture.depth, shape))


def geometry_buffers(
    drawn: list[Fragments], alphas: list[np.ndarray], opaque_depth: np.ndarray, shape: tuple[int, int]
) -> GeometryBuffers:
    """Geometry of what each pixel shows: the opaque surface at `opaque_depth` (H·W,), else the most opaque hair level over it.

    drawn, alphas: rendering.reference's fragments of each surface and their opacity.
    """
    count = shape[0] * shape[1]
    surface, level = np.full(count, -1, np.int8), np.full(count, -1, np.int8)
    face, depth = np.full(count, -1, np.int32), np.full(count, np.inf, np.float32)
    barycentric, normal, d = (np.zeros((count, 3), np.float32) for _ in range(3))
    strongest = np.full(count, MIN_HAIR_OPACITY, np.float32)
    for layer, alpha in zip(drawn, alphas, strict=True):
        if layer.level >= 1:
            chosen = np.flatnonzero(~np.isfinite(opaque_depth[layer.pixel]) & (alpha >= strongest[layer.pixel]))
            strongest[layer.pixel[chosen]] = alpha[chosen]
        else:
            chosen = np.flatnonzero(layer.depth == opaque_depth[layer.pixel])
        pixel = layer.pixel[chosen]
        surface[pixel], level[pixel], face[pixel], depth[pixel] = (
            layer.surface,
            layer.level,
            layer.face[chosen],
            layer.depth[chosen],
        )
        barycentric[pixel], normal[pixel], d[pixel] = layer.barycentric[chosen], layer.normal[chosen], layer.d[chosen]
    return GeometryBuffers(
        surface.reshape(shape),
        level.reshape(shape),
        face.reshape(shape),
        barycentric.reshape(*shape, 3),
        depth.reshape(shape),
        normal.reshape(*shape, 3),
        d.reshape(*shape, 3),
    )
