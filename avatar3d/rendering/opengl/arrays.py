"""Arrays of numbers that shaders read by index, behind one interface: `assign` tells a program where it lies, `use` binds it there.

Buffer textures (OpenGL 3.1, which moderngl does not offer), 2D textures, storage buffers and uniform blocks.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from avatar3d.avatar import FieldParams
from avatar3d.errors import InputError
from avatar3d.rendering.opengl.raw_gl import call

GL_TEXTURE0 = 0x84C0
GL_TEXTURE_BUFFER = 0x8C2A
FORMATS = {
    (1, 4): 0x822E, (2, 4): 0x8230, (4, 4): 0x8814,  # R32F, RG32F, RGBA32F
    (1, 2): 0x822D, (2, 2): 0x822F, (4, 2): 0x881A,  # R16F, RG16F, RGBA16F
}  # fmt: skip
MAX_FEATURES = 4  # channels of a texture
STORAGE_BINDING = 0  # binding point of the one storage buffer; textures count their units apart
TABLE_WIDTH = 1024  # texels of a row of a table in a 2D texture; a power of two that every driver has


class BufferTexture:
    """(N, C) f32 or f16 numbers, C in 1, 2 or 4, for a samplerBuffer; the context must be current in every call.

    values: the numbers, or a moderngl buffer of f32 with the `channels` of an entry, which stays the caller's. A software
    driver reads it in two thirds of the time that the same array takes in a 2D texture.
    """

    def __init__(self, context: Any, values: Any, channels: int = 1) -> None:
        own, size, limit = isinstance(values, np.ndarray), 4, context.info["GL_MAX_TEXTURE_BUFFER_SIZE"]
        if own:
            channels, size = values.shape[1], values.itemsize
        entries = len(values) if own else values.size // (channels * size)
        if entries > limit:
            raise InputError(f"the field has {entries} table entries, this driver reads up to {limit}; use the baked form")
        self._context = context
        self._buffer = context.buffer(np.ascontiguousarray(values).tobytes()) if own else None
        self._name = ctypes.c_uint()
        self._call("glGenTextures", 1, ctypes.byref(self._name))
        self.use(0)
        self._call(
            "glTexBuffer", GL_TEXTURE_BUFFER, FORMATS[channels, size], (values if self._buffer is None else self._buffer).glo
        )

    def _call(self, function: str, *arguments: Any) -> None:
        call(self._context, function, *arguments)

    def use(self, unit: int) -> None:
        """Bind to a texture unit."""
        self._call("glActiveTexture", GL_TEXTURE0 + unit)
        self._call("glBindTexture", GL_TEXTURE_BUFFER, self._name.value)

    def assign(self, program: Any, sampler: str, unit: int) -> None:
        """Let a samplerBuffer of a moderngl program read that unit; moderngl takes its uniform for a float."""
        self._call("glUseProgram", program.glo)
        self._call("glUniform1i", program[sampler].location, unit)

    def release(self) -> None:
        """Free the texture and what it made for it."""
        self._call("glDeleteTextures", 1, ctypes.byref(self._name))
        if self._buffer is not None:
            self._buffer.release()


class GridTexture:
    """(N, C) f32 or f16 numbers row after row in a 2D texture of TABLE_WIDTH texels across."""

    def __init__(self, context: Any, values: np.ndarray) -> None:
        height = -(-len(values) // TABLE_WIDTH)
        limit = context.info["GL_MAX_TEXTURE_SIZE"]
        if height > limit:
            raise InputError(
                f"the field has {len(values)} table entries, this driver's textures hold {limit * TABLE_WIDTH}; use the baked form"
            )
        padded = np.zeros((height * TABLE_WIDTH, values.shape[1]), values.dtype)
        padded[: len(values)] = values
        self._texture = context.texture(
            (TABLE_WIDTH, height), values.shape[1], padded.tobytes(), alignment=1, dtype=f"f{values.itemsize}"
        )
        self._texture.filter = (context.NEAREST, context.NEAREST)

    def use(self, unit: int) -> None:
        """Bind to a texture unit."""
        self._texture.use(unit)

    def assign(self, program: Any, sampler: str, unit: int) -> None:
        """Let a sampler2D of a program read that unit."""
        program[sampler].value = unit

    def release(self) -> None:
        """Free the texture."""
        self._texture.release()


class StorageArray:
    """(N, C) f32 or f16 numbers in a storage buffer (OpenGL 4.3), whose binding point is written in the shader."""

    def __init__(self, context: Any, values: np.ndarray) -> None:
        if values.nbytes > context.info["GL_MAX_SHADER_STORAGE_BLOCK_SIZE"]:
            raise InputError(f"the field's {values.nbytes} bytes do not fit this driver's storage buffers; use the baked form")
        padding = bytes(-values.nbytes % 4)  # an odd half float at the end
        self._buffer = context.buffer(np.ascontiguousarray(values).tobytes() + padding)

    def use(self, unit: int) -> None:
        """Bind to STORAGE_BINDING, where the shader reads; it has no texture unit."""
        self._buffer.bind_to_storage_buffer(STORAGE_BINDING)

    def assign(self, program: Any, block: str, unit: int) -> None:
        """Nothing: the shader says where it reads."""

    def release(self) -> None:
        """Free the buffer."""
        self._buffer.release()


class UniformBlock:
    """Bytes in std140 layout for a uniform block."""

    def __init__(self, context: Any, content: bytes) -> None:
        limit = context.info["GL_MAX_UNIFORM_BLOCK_SIZE"]
        if len(content) > limit:
            raise InputError(f"the field's network takes {len(content)} bytes, this driver's uniform blocks hold {limit}")
        self._buffer = context.buffer(content)

    def use(self, unit: int) -> None:
        """Bind to a binding point."""
        self._buffer.bind_to_uniform_block(unit)

    def assign(self, program: Any, block: str, unit: int) -> None:
        """Let a block of a program read that binding point."""
        program[block].binding = unit

    def release(self) -> None:
        """Free the buffer."""
        self._buffer.release()


def field_table(context: Any, params: FieldParams, table: str, numbers: str) -> BufferTexture | GridTexture | StorageArray:
    """The hash tables, level after level, as `DrawStrategy` names them. Raises InputError on entries wider than a texture's."""
    levels, table_size, features = params.tables.shape
    if features > MAX_FEATURES:
        raise InputError(
            f"the field has {features} features a grid vertex, the realtime renderer draws up to {MAX_FEATURES} live; "
            "use the baked form"
        )
    values = np.zeros((levels * table_size, table_channels(features)), np.float16 if numbers == "half" else np.float32)
    values[:, :features] = params.tables.reshape(levels * table_size, features)
    if table == "buffer":
        return BufferTexture(context, values)
    return GridTexture(context, values) if table == "texture" else StorageArray(context, values)


def table_channels(features: int) -> int:
    """Numbers that an entry of so many features takes: three are not readable from a buffer before OpenGL 4."""
    return 4 if features == 3 else features
