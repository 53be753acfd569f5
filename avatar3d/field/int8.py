"""A field in whole numbers of 8 bits: tables and weights as symmetric steps, and what that loses."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from avatar3d.avatar import FieldParams

STEPS = 127  # codes of a magnitude; −128 stays unused, so that zero is in the middle


@dataclass(frozen=True)
class Bytes:
    """An array as codes · step. codes: (N, ...) i8 in −127..127. step: (N,) f32, one for each first index."""

    codes: np.ndarray
    step: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> Bytes:
        """The nearest to an array (N, ...), whose largest magnitude at each first index has the code ±127."""
        peaks = np.abs(values).reshape(len(values), -1).max(1, initial=0).astype(np.float64)
        # Of 12 bits, so that codes · step is exact in f32, and the nearest to it is itself.
        mantissa, exponent = np.frexp(peaks / STEPS)
        step = np.ldexp(np.ceil(mantissa * 4096) / 4096, exponent)
        divisor = np.where(step > 0, step, 1).reshape(-1, *[1] * (values.ndim - 1))
        codes = np.clip(np.rint(values / divisor), -STEPS, STEPS).astype(np.int8)
        return cls(codes, step.astype(np.float32))

    def values(self) -> np.ndarray:
        """f32."""
        return self.codes.astype(np.float32) * self.step.reshape(-1, *[1] * (self.codes.ndim - 1))


@dataclass(frozen=True)
class ByteField:
    """A field's tables, with a step for each level, and its MLP's weights, with one for each output, in 8 bits.

    params: the field itself; its box, resolutions, motion projection and biases (a few hundred numbers) stay as they are.
    """

    tables: Bytes
    weights: list[Bytes]
    params: FieldParams

    @classmethod
    def of(cls, params: FieldParams) -> ByteField:
        """The nearest to a field."""
        return cls(Bytes.of(params.tables), [Bytes.of(weight) for weight in params.weights], params)

    def to_params(self) -> FieldParams:
        """The field that these numbers stand for, for whatever evaluates fields."""
        return replace(self.params, tables=self.tables.values(), weights=[weight.values() for weight in self.weights])


def in_bytes(params: FieldParams) -> FieldParams:
    """A field as 8 bits hold it."""
    return ByteField.of(params).to_params()
