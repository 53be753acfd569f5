"""No two modules of the package import each other, not even from inside of functions: what runs late is an arrow all the same."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "avatar3d"
# HeadModel.default is a short way to what reads its archive.
SHORT_WAYS = {("avatar3d.head.model", "avatar3d.head.archive")}


def modules() -> dict[str, Path]:
    """{name: file} of the package."""
    found = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(node: ast.AST, known: dict[str, Path]) -> Iterator[str]:
    """Modules of the package that run when this does; types alone run nothing."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom) and child.module in known:
            for name in child.names:
                inner = f"{child.module}.{name.name}"
                yield inner if inner in known else child.module
        elif isinstance(child, ast.Import):
            yield from (name.name for name in child.names if name.name in known)
        yield from imported(child, known)


def arrows() -> dict[str, set[str]]:
    """{module: those that it imports}."""
    known = modules()
    found = {name: set(imported(ast.parse(path.read_text(encoding="utf-8")), known)) - {name} for name, path in known.items()}
    for source, target in SHORT_WAYS:
        found[source].discard(target)
    found[PACKAGE] = set()  # the front door imports when it is asked
    return found


def test_imports_make_no_circle() -> None:
    try:
        TopologicalSorter(arrows()).prepare()
    except CycleError as error:
        raise AssertionError(f"modules import each other: {' -> '.join(error.args[1])}") from None


def test_a_circle_would_be_seen() -> None:
    tree = ast.parse("def late():\n    from avatar3d.motion import code\n    import avatar3d.camera\n")
    assert set(imported(tree, modules())) == {"avatar3d.motion.code", "avatar3d.camera"}
