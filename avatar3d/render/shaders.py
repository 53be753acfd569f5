"""Assembles the GLSL of shaders/: includes, defines, and the field's MLP written out as literals; touches no GL state."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from avatar3d.avatar import FieldParams
from avatar3d.field.definition import HARMONICS
from avatar3d.render.arrays import STORAGE_BINDING, TABLE_WIDTH, table_channels
from avatar3d.render.build import Build
from avatar3d.render.stereo import STEREO
from avatar3d.resources import shader_path

GLSL_VERSION = 330  # OpenGL 3.3 core: every desktop driver of the last decade, and Mesa's software one
STORAGE_GLSL_VERSION = 430  # where a shader reads a storage buffer
_INCLUDE = re.compile(r'^#include "([^"]+)"$', re.MULTILINE)
FIELD_FORMS = {"mesh": "FIELD_NONE", "baked": "FIELD_BAKED", "live": "FIELD_LIVE"}
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
    for kinds in (FIELD_FORMS, TABLE_KINDS, {name: f"STEREO_{name.upper()}" for name in STEREO}):
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


def field_defines(params: FieldParams, build: Build) -> dict[str, object]:
    """What field_live.glsl needs to know of a field and of how it is stored."""
    features = params.tables.shape[2]
    channels = table_channels(features)
    stored = {1: "uint", 2: "uint", 4: "uvec2"} if build.numbers == "half" else {1: "float", 2: "vec2", 4: "vec4"}
    bounds = [params.color_bound] * 3 + [params.alpha_bound]
    return {
        "FEATURES": "float" if features == 1 else f"vec{features}",
        "LEVEL_MASK": f"{params.tables.shape[1] - 1}u",
        "FIELD_BOUND": vec4_literal(np.array(bounds)),
        "TABLE": TABLE_KINDS[build.table],
        "TABLE_WIDTH": TABLE_WIDTH,
        "TABLE_BINDING": STORAGE_BINDING,
        "CHANNELS": channels,
        "STORED": stored[channels],
        "HALF_NUMBERS": int(build.numbers == "half"),
    }


def field_network(params: FieldParams, network: str) -> tuple[str, bytes]:
    """GLSL of `vec4 field_network(vec3 unit, vec3 d)`: encoding and MLP; and the weights in std140 layout.

    network: "literals", which a compiler folds, or "uniforms", which leaves the weights to the block FieldNetwork.
    """
    _, table_size, features = params.tables.shape
    lines, inputs = ["vec4 field_network(vec3 unit, vec3 d) {"], list[str]()
    for level, resolution in enumerate(int(value) for value in params.resolutions):
        kind = "dense_level" if (resolution + 1) ** 3 <= table_size else "hashed_level"
        lines.append(f"    FEATURES f{level} = {kind}(unit, {resolution}u, {level * table_size}u);")
        inputs += [f"f{level}" if features == 1 else f"f{level}.{'xyzw'[index]}" for index in range(features)]
    return _network(params, network, lines, inputs, "field_bias[{row}]")


def vertex_network(params: FieldParams) -> str:
    """GLSL of `vec4 field_vertex_network(int vertex, vec3 d)`: the MLP after what field_hidden holds of its first layer."""
    rows = hidden_rows(params)
    lines = ["vec4 field_vertex_network(int vertex, vec3 d) {"]
    constant = f"field_bias[{{row}}] + texelFetch(field_hidden, {rows} * vertex + {{row}})"
    return _network(params, "literals", lines, [], constant)[0]


def hidden_rows(params: FieldParams) -> int:
    """Number of vec4 that the MLP's first layer fills."""
    return len(_padded(params.biases[0], 0)) // 4


def hidden_texels(hidden: np.ndarray) -> np.ndarray:
    """(N · rows, 4) f32 texels of field_hidden of first layers (N, H)."""
    return _padded(hidden, 1).reshape(-1, 4)


def _network(
    params: FieldParams, network: str, lines: list[str], inputs: list[str], first_constant: str
) -> tuple[str, bytes]:
    """The MLP over `inputs` and the harmonics of d as GLSL, behind the `lines` that begin a function; and the weights."""
    matrices: list[np.ndarray] = []
    constants: list[np.ndarray] = []

    def matrix(values: np.ndarray) -> str:
        matrices.append(values)
        return _mat4(values) if network == "literals" else f"field_matrix[{len(matrices) - 1}]"

    def constant(values: np.ndarray) -> str:
        constants.append(values)
        return vec4_literal(values) if network == "literals" else f"field_constant[{len(constants) - 1}]"

    motion, places = params.motion_projection.shape[1], len(inputs)
    inputs = inputs + ["d.x", "d.y", "d.z", "d.x * d.y", "d.y * d.z", "3.0 * d.z * d.z - 1.0", "d.x * d.z"]
    inputs += ["d.x * d.x - d.y * d.y"]
    inputs += ["0.0"] * (-len(inputs) % 4)
    current = [f"vec4({', '.join(inputs[index : index + 4])})" for index in range(0, len(inputs), 4)]
    for layer, (weight, bias) in enumerate(zip(params.weights, params.biases, strict=True)):
        if layer == 0:
            last = weight.shape[1] - motion
            weight = weight[:, last - places - HARMONICS : last]
        weight, bias = _padded(_padded(weight, 0), 1), _padded(bias, 0)
        for index, value in enumerate(current):
            lines.append(f"    vec4 x{layer}_{index} = {value};")
        is_last = layer + 1 == len(params.weights)
        following = []
        for row in range(len(weight) // 4):
            first = first_constant.format(row=row) if layer == 0 else constant(bias[4 * row : 4 * row + 4])
            terms = [
                f"{matrix(weight[4 * row : 4 * row + 4, 4 * column : 4 * column + 4])} * x{layer}_{column}"
                for column in range(len(current))
            ]
            total = " + ".join([first, *terms])
            following.append(total if is_last else f"max({total}, vec4(0.0))")
        current = following
    lines += [f"    return {current[0]};", "}"]
    head = [f"uniform vec4 field_bias[{hidden_rows(params)}];"]
    if network == "uniforms":
        constants = constants or [np.zeros(4)]
        sizes = f"mat4 field_matrix[{len(matrices)}]; vec4 field_constant[{len(constants)}];"
        head.append(f"layout(std140) uniform FieldNetwork {{ {sizes} }};")
    numbers = [*(values.T for values in matrices), *constants]
    return "\n".join([*head, *lines]), b"".join(np.asarray(values, np.float32).tobytes() for values in numbers)
