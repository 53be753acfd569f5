"""Assembles the GLSL of shaders/: includes, defines, and the field's MLP written out as literals; touches no GL state."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from avatar3d.avatar import FieldParams
from avatar3d.rendering.opengl.arrays import STORAGE_BINDING, TABLE_WIDTH, table_channels
from avatar3d.rendering.opengl.draw_strategy import DrawStrategy
from avatar3d.rendering.opengl.stereo import STEREO
from avatar3d.resources import shader_path

GLSL_VERSION = 330  # OpenGL 3.3 core: every desktop driver of the last decade, and Mesa's software one
STORAGE_GLSL_VERSION = 430  # where a shader reads a storage buffer
_INCLUDE = re.compile(r'^#include "([^"]+)"$', re.MULTILINE)
# Where a program gets the field from: nowhere, the vertices, its coarse levels from the vertices and the rest at pixels, pixels.
FIELD_SOURCES = {"none": "FIELD_NONE", "vertices": "FIELD_VERTICES", "split": "FIELD_SPLIT", "pixels": "FIELD_PIXELS"}
TABLE_KINDS = {"buffer": "TABLE_BUFFER", "texture": "TABLE_TEXTURE", "storage": "TABLE_STORAGE"}


def assemble(name: str, defines: Mapping[str, object], generated: Mapping[str, str] | None = None) -> str:
    """GLSL text of a file in shaders/ with its includes; `generated` holds includes that are no file."""

    def text(included: str) -> str:
        source = (generated or {}).get(included)
        if source is None:
            source = shader_path(included).read_text(encoding="utf-8")
        return _INCLUDE.sub(lambda match: text(match.group(1)), source)

    version = STORAGE_GLSL_VERSION if defines.get("TABLE") == TABLE_KINDS["storage"] else GLSL_VERSION
    head = [f"#version {version}"]
    for kinds in (FIELD_SOURCES, TABLE_KINDS, {name: f"STEREO_{name.upper()}" for name in STEREO}):
        head += [f"#define {kind} {number}" for number, kind in enumerate(kinds.values())]
    head += [f"#define {key} {value}" for key, value in defines.items()]
    return "\n".join(head) + "\n" + text(name)


def _literal(value: float) -> str:
    return repr(float(np.float32(value)))


def vec4_literal(values: np.ndarray) -> str:
    """GLSL of a vec4 constant of four numbers."""
    return f"vec4({', '.join(_literal(value) for value in values)})"


def _mat4(matrix: np.ndarray) -> str:
    return f"mat4({', '.join(_literal(value) for value in matrix.T.ravel())})"


def _padded(array: np.ndarray, axis: int) -> np.ndarray:
    """`array` with zeros appended along an axis up to a multiple of four."""
    padding = [(0, 0)] * array.ndim
    padding[axis] = (0, -array.shape[axis] % 4)
    return np.pad(array, padding)


def first_bias(params: FieldParams, weights: np.ndarray) -> np.ndarray:
    """(n, 4) f32 bias of the first MLP layer with the motion code's share folded in, for (52,) ARKit weights."""
    motion = np.asarray(weights, np.float32) @ params.motion_projection
    columns = params.weights[0][:, params.weights[0].shape[1] - len(motion) :]
    return _padded(params.biases[0] + columns @ motion, 0).reshape(-1, 4).astype(np.float32)


def field_defines(params: FieldParams, strategy: DrawStrategy) -> dict[str, object]:
    """What field_live.glsl needs to know of a field and of how it is stored."""
    features = params.tables.shape[2]
    channels = table_channels(features)
    stored = {1: "uint", 2: "uint", 4: "uvec2"} if strategy.numbers == "half" else {1: "float", 2: "vec2", 4: "vec4"}
    bounds = [params.color_bound] * 3 + [params.alpha_bound]
    return {
        "HIDDEN_ROWS": hidden_rows(params),
        "FEATURES": "float" if features == 1 else f"vec{features}",
        "LEVEL_MASK": f"{params.tables.shape[1] - 1}u",
        "FIELD_BOUND": vec4_literal(np.array(bounds)),
        "TABLE": TABLE_KINDS[strategy.table],
        "TABLE_WIDTH": TABLE_WIDTH,
        "TABLE_BINDING": STORAGE_BINDING,
        "CHANNELS": channels,
        "STORED": stored[channels],
        "HALF_NUMBERS": int(strategy.numbers == "half"),
    }


def field_network(params: FieldParams, network: str) -> tuple[str, bytes]:
    """GLSL of `vec4 field_network(vec3 unit, vec3 d)`: encoding and MLP; and the weights in std140 layout.

    network: "literals", which a compiler folds, or "uniforms", which leaves the weights to the block FieldNetwork.
    """
    lines, inputs = _levels(params, 0)
    layers = _Layers(network)
    first = layers.first(params, inputs + HARMONIC_INPUTS, 0, "field_bias[{row}]")
    body = [*lines, *layers.rest(params, first)]
    text = [_bias(params), *layers.head(), "vec4 field_network(vec3 unit, vec3 d) {", *body, "}"]
    return "\n".join(text), layers.numbers()


def split_network(params: FieldParams, levels: int) -> str:
    """GLSL of `vec4 field_network(vec3 unit, vec4 share[HIDDEN_ROWS])`: all but the coarsest levels, added to the vertices' share."""
    lines, inputs = _levels(params, levels)
    layers = _Layers("literals")
    first = layers.first(params, inputs, levels * params.tables.shape[2], "share[{row}]")
    return "\n".join(["vec4 field_network(vec3 unit, vec4 share[HIDDEN_ROWS]) {", *lines, *layers.rest(params, first), "}"])


def vertex_network(params: FieldParams) -> str:
    """GLSL of `vec4 field_vertex_network(int vertex, vec3 d)`: the MLP after what field_hidden holds of its first layer."""
    layers = _Layers("literals")
    first = layers.first(params, HARMONIC_INPUTS, _harmonics_column(params), _AT_VERTEX.format(skipped=""))
    return "\n".join([_bias(params), "vec4 field_vertex_network(int vertex, vec3 d) {", *layers.rest(params, first), "}"])


def vertex_share(params: FieldParams, skipped: int) -> str:
    """GLSL of `void field_vertex_share(int vertex, vec3 d, out vec4 share[HIDDEN_ROWS])`: what split_network adds to.

    skipped: vertices in field_hidden before those whose entries hold the coarsest levels only.
    """
    layers = _Layers("literals")
    first = layers.first(params, HARMONIC_INPUTS, _harmonics_column(params), _AT_VERTEX.format(skipped=f" + {skipped}"))
    lines = ["void field_vertex_share(int vertex, vec3 d, out vec4 share[HIDDEN_ROWS]) {"]
    lines += [*first.lines, *(f"    share[{row}] = {total};" for row, total in enumerate(first.rows)), "}"]
    return "\n".join([_bias(params), *lines])


def hidden_rows(params: FieldParams) -> int:
    """Number of vec4 that the MLP's first layer fills."""
    return len(_padded(params.biases[0], 0)) // 4


def hidden_texels(hidden: np.ndarray) -> np.ndarray:
    """(N · rows, 4) f32 texels of field_hidden of first layers (N, H)."""
    return _padded(hidden, 1).reshape(-1, 4)


HARMONIC_INPUTS = ["d.x", "d.y", "d.z", "d.x * d.y", "d.y * d.z", "3.0 * d.z * d.z - 1.0", "d.x * d.z", "d.x * d.x - d.y * d.y"]
_AT_VERTEX = "field_bias[{{row}}] + texelFetch(field_hidden, HIDDEN_ROWS * (vertex{skipped}) + {{row}})"


def _bias(params: FieldParams) -> str:
    return f"uniform vec4 field_bias[{hidden_rows(params)}];"


def _harmonics_column(params: FieldParams) -> int:
    """Where the harmonics begin among the first layer's inputs."""
    levels, _, features = params.tables.shape
    return int(levels * features)


def _levels(params: FieldParams, first: int) -> tuple[list[str], list[str]]:
    """(lines that fetch the grid levels from the first on, their features by name)."""
    _, table_size, features = params.tables.shape
    lines, inputs = [], list[str]()
    for level, resolution in list(enumerate(int(value) for value in params.resolutions))[first:]:
        kind = "dense_level" if (resolution + 1) ** 3 <= table_size else "hashed_level"
        lines.append(f"    FEATURES f{level} = {kind}(unit, {resolution}u, {level * table_size}u);")
        inputs += [f"f{level}" if features == 1 else f"f{level}.{'xyzw'[index]}" for index in range(features)]
    return lines, inputs


@dataclass(frozen=True)
class _Sums:
    """A layer before its activation. lines: what the rows need. rows: GLSL of each vec4."""

    lines: list[str]
    rows: list[str]


class _Layers:
    """Writes an MLP's layers as GLSL and collects the numbers that it leaves to a uniform block."""

    def __init__(self, network: str) -> None:
        self._network = network
        self._matrices: list[np.ndarray] = []
        self._constants: list[np.ndarray] = []

    def _matrix(self, values: np.ndarray) -> str:
        self._matrices.append(values)
        return _mat4(values) if self._network == "literals" else f"field_matrix[{len(self._matrices) - 1}]"

    def _constant(self, values: np.ndarray) -> str:
        self._constants.append(values)
        return vec4_literal(values) if self._network == "literals" else f"field_constant[{len(self._constants) - 1}]"

    def _sums(self, name: str, weight: np.ndarray, inputs: list[str], constants: list[str]) -> _Sums:
        """weight: (4 · rows, 4 · inputs), inputs: vec4."""
        lines = [f"    vec4 {name}_{index} = {value};" for index, value in enumerate(inputs)]
        rows = []
        for row, constant in enumerate(constants):
            terms = [
                f"{self._matrix(weight[4 * row : 4 * row + 4, 4 * column : 4 * column + 4])} * {name}_{column}"
                for column in range(len(inputs))
            ]
            rows.append(" + ".join([constant, *terms]))
        return _Sums(lines, rows)

    def first(self, params: FieldParams, inputs: list[str], column: int, constant: str) -> _Sums:
        """The first layer over some of its inputs, numbers that begin at a column of its weights."""
        weight = _padded(_padded(params.weights[0][:, column : column + len(inputs)], 0), 1)
        padded = inputs + ["0.0"] * (-len(inputs) % 4)
        vectors = [f"vec4({', '.join(padded[index : index + 4])})" for index in range(0, len(padded), 4)]
        return self._sums("x0", weight, vectors, [constant.format(row=row) for row in range(hidden_rows(params))])

    def rest(self, params: FieldParams, first: _Sums) -> list[str]:
        """Lines that end a function: the first layer's, and all that follow."""
        lines, current = [*first.lines], first.rows
        for layer, (weight, bias) in enumerate(zip(params.weights[1:], params.biases[1:], strict=True), start=1):
            weight, bias = _padded(_padded(weight, 0), 1), _padded(bias, 0)
            constants = [self._constant(bias[index : index + 4]) for index in range(0, len(bias), 4)]
            sums = self._sums(f"x{layer}", weight, [f"max({value}, vec4(0.0))" for value in current], constants)
            lines += sums.lines
            current = sums.rows
        return [*lines, f"    return {current[0]};"]

    def head(self) -> list[str]:
        """The uniform block that the layers read."""
        if self._network == "literals":
            return []
        return [
            f"layout(std140) uniform FieldNetwork {{ mat4 field_matrix[{len(self._matrices)}]; "
            f"vec4 field_constant[{len(self._filled)}]; }};"
        ]

    @property
    def _filled(self) -> list[np.ndarray]:
        return self._constants or [np.zeros(4)]

    def numbers(self) -> bytes:
        """The block's content in std140 layout."""
        numbers = [*(values.T for values in self._matrices), *self._filled]
        return b"".join(np.asarray(values, np.float32).tobytes() for values in numbers)
