"""Generators: what proposes the head's 2D picture for a motion code and a camera; never per eye, never the last word."""

from avatar3d.generator.painting import paint
from avatar3d.generator.protocol import (
    GeneratedView,
    Generator,
    GeneratorRequest,
    GeometryBuffers,
    PhotoEvidence,
    asked,
    generator_names,
    generator_of,
    load_generator,
    make_request,
)

__all__ = [
    "GeneratedView",
    "Generator",
    "GeneratorRequest",
    "GeometryBuffers",
    "PhotoEvidence",
    "asked",
    "generator_names",
    "generator_of",
    "load_generator",
    "make_request",
    "paint",
]
