"""One linked program: its vertex array, uniforms that are written when they change, the texture units that its samplers read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from avatar3d.rendering.opengl.scope import GlScope
from avatar3d.rendering.opengl.shaders import assemble
from avatar3d.rendering.scene import MAX_DELTAS

# Texture units, one for each sampler of shaders/ that one form's programs share; the hair has its own of some.
UNITS = {
    "base_color": 0, "delta_0": 1, "delta_1": 2, "delta_2": 3, "delta_3": 4, "field_table": 5, "hair_color": 6,
    "hair_opacity": 7, "hair_folded": 8, "hair_cut": 9, "field_hidden": 10, "hair_hidden": 11, "moving": 12, "FieldNetwork": 13,
    "resting": 14, "edges": 16,
    # Of the live form, which has none of the others that lie there, or buffers, which a unit holds beside an image.
    "gbuffer_look": 8, "gbuffer_light": 9, "gbuffer_place": 10, "gbuffer_shaded": 11, "gbuffer_depth": 15,
}  # fmt: skip
# Of avatar3d.rendering.opengl.arrays, which set programs up themselves.
ARRAYS = {"field_table", "FieldNetwork", "field_hidden", "moving", "resting", "edges"}
DELTA_UNITS = tuple(UNITS[f"delta_{slot}"] for slot in range(MAX_DELTAS))


@dataclass
class Program:
    """A linked program with its vertex array and the uniforms it uses. written: what the program's uniforms hold."""

    vertex_array: Any
    uniforms: dict[str, Any]
    written: dict[str, bytes]

    def set(self, values: Mapping[str, bytes]) -> None:
        """Write those of the values that the program uses and does not hold."""
        for name, value in values.items():
            if name in self.uniforms and self.written.get(name) != value:
                self.uniforms[name].write(value)
                self.written[name] = value


class ShaderText(NamedTuple):
    """What tells one program of shaders/ from others: #defines, and generated includes by name."""

    defines: dict[str, object]
    generated: dict[str, str]

    def with_defines(self, **defines: object) -> ShaderText:
        """The same with more, or other, defines."""
        return ShaderText({**self.defines, **defines}, self.generated)


class Attributes(NamedTuple):
    """Interleaved vertex attributes of a buffer: moderngl's layout and the names in it."""

    buffer: Any
    layout: str
    names: tuple[str, ...]


class ProgramCache:
    """Compiles each text once; one cache serves an avatar and its levels of detail. The context must be current in every call."""

    def __init__(self, scope: GlScope) -> None:
        self._scope = scope
        self._programs: dict[tuple[str, ...], Any] = {}
        self._written: dict[int, dict[str, bytes]] = {}  # by program

    def linked(self, kind: str, text: ShaderText, textures: Mapping[str, Any], fragment: str = "") -> Any:
        """The program of a kind of vertex shader, with its fragment shader or the one of another kind.

        textures: {sampler: what it reads}; only arrays (opengl.arrays) are asked, for how a program is set up to read them.
        """
        key = (kind, fragment, *sorted(map(str, text.defines.items())), *text.generated.values())
        if key not in self._programs:
            names = f"{kind}_vertex.glsl", f"{fragment or kind}_fragment.glsl"
            vertex, pixel = (assemble(name, text.defines, text.generated) for name in names)
            program = self._scope.keep(self._scope.context.program(vertex_shader=vertex, fragment_shader=pixel))
            self._programs[key] = program
            own = {"field_hidden": "hair_hidden"} if kind == "hair" else {}
            if text.defines.get("CUT"):
                own["hair_folded"] = "hair_cut"
            for name in UNITS:
                if name in program:
                    source = own.get(name, name)
                    if name in ARRAYS:
                        textures[source].assign(program, name, UNITS[source])
                    else:
                        program[name].value = UNITS[source]
        return self._programs[key]

    def drawable(self, scope: GlScope, program: Any, attributes: Sequence[Attributes], indices: Any, instances: int) -> Program:
        """A linked program over interleaved buffers, its vertex array kept by `scope`; attributes that the program does not use are
        skipped as padding."""
        import moderngl

        content = []
        for buffer, layout, names in attributes:
            used = [name for name in names if name in program]
            kinds, _, each = layout.partition("/")
            remaining = iter(names)
            parts = [
                kind if kind.endswith("x") or next(remaining) in program else f"{4 * int(kind[0])}x" for kind in kinds.split()
            ]
            if used:
                content.append((buffer, " ".join(parts) + (f"/{each}" if each else ""), *used))
        vertex_array = scope.keep(scope.context.vertex_array(program, content, indices, index_element_size=4))
        vertex_array.instances = instances
        uniforms = {name: program[name] for name in program if isinstance(program[name], moderngl.Uniform)}
        return Program(vertex_array, uniforms, self._written.setdefault(program.glo, {}))


def vector_bytes(values: Any) -> bytes:
    """A uniform's value: numbers in their order."""
    return np.asarray(values, np.float32).tobytes()


def matrix_bytes(values: np.ndarray) -> bytes:
    """A uniform's value: a matrix, column after column."""
    return np.asarray(values, np.float32).T.tobytes()
