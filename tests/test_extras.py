"""The hint to install a missing part names packages that pip finds, in a checkout as from a wheel."""

import ast
import re
import shlex
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from avatar3d.extras import install_extra, install_module, pip_install

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DECLARED = [
    "numpy>=1.26",
    "websockets>=13; extra == 'net'",
    'eclipse-zenoh>=1.0 ; extra == "net"',
    "glfw>=2.6; extra == 'view'",
]


@pytest.fixture
def project(monkeypatch):
    """What this tree declares, whatever was installed before."""
    texts = [f"{text}; extra == '{extra}'" for extra, wanted in PROJECT["optional-dependencies"].items() for text in wanted]
    monkeypatch.setattr(metadata, "requires", lambda name: [*PROJECT["dependencies"], *texts])


@pytest.fixture
def nothing_installed(monkeypatch, project):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)


def test_the_packages_of_an_extra_are_named_for_this_python(monkeypatch):
    monkeypatch.setattr(metadata, "requires", lambda name: DECLARED)
    monkeypatch.setattr(metadata, "distribution", lambda name: None)  # all are there: one of them may be broken
    assert shlex.split(install_extra("net")) == [sys.executable, "-m", "pip", "install", "websockets>=13", "eclipse-zenoh>=1.0"]
    assert shlex.split(pip_install("moderngl"))[-1] == "moderngl"


@pytest.mark.parametrize("extra", ["train", "track", "identity", "eval", "heic", "motion", "net", "view", "xr"])
def test_every_extra_has_packages_and_none_is_avatar3d_itself(project, extra):
    packages = shlex.split(install_extra(extra))[4:]
    assert packages and not any("avatar3d" in package or ";" in package for package in packages)


def test_a_tree_that_was_never_installed_still_gets_a_hint(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert shlex.split(install_extra("net"))[-1] == "avatar3d[net]"


def test_only_what_is_missing_is_named(monkeypatch):
    def distribution(name):
        if name != "websockets":
            raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", lambda name: DECLARED)
    monkeypatch.setattr(metadata, "distribution", distribution)
    assert shlex.split(install_extra("net"))[4:] == ["eclipse-zenoh>=1.0"]


@pytest.mark.parametrize(
    ("module", "command", "needed", "not_needed"),
    [
        ("cv2", "evaluate", {"opencv-python-headless", "matplotlib", "jinja2"}, {"torch", "numba", "scipy"}),
        ("matplotlib.colormaps", "evaluate", {"matplotlib"}, {"torch", "numba"}),
        ("torch", "evaluate", {"torch", "numba"}, {"glfw"}),
        ("cv2", "track", {"opencv-python-headless", "numba", "ai-edge-litert"}, {"torch", "matplotlib"}),
        ("numba", "stream", {"numba", "ai-edge-litert"}, {"torch"}),
        ("scipy.sparse", "enroll", {"torch", "scipy"}, {"matplotlib"}),
    ],
)
def test_a_command_asks_for_what_it_needs_and_no_more(nothing_installed, module, command, needed, not_needed):
    named = {text.split(">")[0] for text in shlex.split(install_module(module, command))[4:]}
    assert needed <= named and not not_needed & named


def test_a_module_of_no_extra_is_no_advice():
    assert install_module("nonsense", "enroll") is None


# Modules by the package that has them, where the names differ.
PACKAGES = {
    "PIL": "pillow", "yaml": "pyyaml", "cv2": "opencv-python-headless", "ai_edge_litert": "ai-edge-litert", "dlib": "dlib-bin",
    "imageio_ffmpeg": "imageio-ffmpeg", "pillow_heif": "pillow-heif", "pythonosc": "python-osc", "xr": "pyopenxr",
    "zenoh": "eclipse-zenoh",
}  # fmt: skip
# Built by hand on a machine with CUDA, as the error says; and what is there for the type checker alone.
UNDECLARED = {"tinycudann", "_typeshed"}


def test_what_is_imported_is_declared_and_what_is_declared_is_imported():
    imported = set()
    for path in (ROOT / "avatar3d").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                imported.add(node.module.split(".")[0])
    imported -= set(sys.stdlib_module_names) | {"avatar3d"} | UNDECLARED
    extras = {extra: wanted for extra, wanted in PROJECT["optional-dependencies"].items() if extra not in ("all", "dev")}
    declared = {re.match(r"[\w-]+", text).group() for wanted in (PROJECT["dependencies"], *extras.values()) for text in wanted}
    assert {PACKAGES.get(module, module) for module in imported} == declared


def test_all_is_all_extras():
    (everything,) = PROJECT["optional-dependencies"]["all"]
    named = set(re.search(r"\[(.*)\]", everything).group(1).split(","))
    assert named >= set(PROJECT["optional-dependencies"]) - {"all", "dev", "track"}
