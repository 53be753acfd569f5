"""The neural field: a hash grid and a small MLP over the neutral head, its training twins, and its bake; knows no renderer."""

from avatar3d.field.definition import FieldConfig, encode, evaluate, new_field, spherical_harmonics

__all__ = ["FieldConfig", "encode", "evaluate", "new_field", "spherical_harmonics"]
