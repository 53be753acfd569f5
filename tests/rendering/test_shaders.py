"""GLSL lies in shaders/ alone, each file compiles into some program, and what it includes is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from avatar3d.rendering.opengl.shaders import assemble

ROOT = Path(__file__).resolve().parents[2]
SHADERS = sorted(path.name for path in (ROOT / "shaders").glob("*.glsl"))
GENERATED = {"field_network", "field_vertex_network"}  # written for each field


def test_no_module_holds_a_shader() -> None:
    holding = [path for path in (ROOT / "avatar3d").rglob("*.py") if re.search(r"void main\s*\(", path.read_text("utf-8"))]
    assert holding == []


@pytest.mark.parametrize("name", SHADERS)
def test_includes_are_there(name: str) -> None:
    text = assemble(name, {}, dict.fromkeys(GENERATED, ""))
    assert text.startswith("#version 330\n") and "#include" not in text
    assert ("void main" in text) == name.endswith(("_vertex.glsl", "_fragment.glsl"))


@pytest.mark.parametrize("kind", ["fade", "panel", "caption", "window", "plain_mesh"])
def test_small_programs_compile(kind: str, context) -> None:
    vertex = assemble("whole_vertex.glsl" if kind == "fade" else f"{kind}_vertex.glsl", {})
    program = context.program(vertex_shader=vertex, fragment_shader=assemble(f"{kind}_fragment.glsl", {}))
    assert len(list(program)) > 0
    program.release()
