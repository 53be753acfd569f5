"""The hint to install a missing part names packages that pip finds, in a checkout as from a wheel."""

import shlex
import sys
from importlib import metadata

import pytest

from avatar3d.extras import install_extra, pip_install

DECLARED = ["numpy>=1.26", "websockets>=13; extra == 'net'", 'eclipse-zenoh>=1.0 ; extra == "net"', "glfw>=2.6; extra == 'view'"]


def test_the_packages_of_an_extra_are_named_for_this_python(monkeypatch):
    monkeypatch.setattr(metadata, "requires", lambda name: DECLARED)
    assert shlex.split(install_extra("net")) == [sys.executable, "-m", "pip", "install", "websockets>=13", "eclipse-zenoh>=1.0"]
    assert shlex.split(pip_install("moderngl"))[-1] == "moderngl"


@pytest.mark.parametrize("extra", ["train", "identity", "eval", "heic", "motion", "net", "view", "xr"])
def test_every_extra_has_packages_and_none_is_avatar3d_itself(extra):
    packages = shlex.split(install_extra(extra))[4:]
    assert packages and not any("avatar3d" in package or ";" in package for package in packages)


def test_a_tree_that_was_never_installed_still_gets_a_hint(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert shlex.split(install_extra("net"))[-1] == "avatar3d[net]"
