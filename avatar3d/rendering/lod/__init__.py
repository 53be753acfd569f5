"""Levels of detail: fewer faces, smaller textures, merged hair shells, and a field that is evaluated less often."""
