"""The doctor: it names what is there, never raises, and blames only what a core job needs."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from avatar3d import doctor, models


def _named(checks):
    return {check.name: check for check in checks}


@pytest.fixture(scope="module")
def checks():
    return doctor.run_checks()


def test_every_check_is_named_once_and_every_failure_says_how_to_mend_it(checks):
    assert len(_named(checks)) == len(checks)
    assert all(check.found for check in checks)
    assert all(check.fix for check in checks if not check.ok)


def test_it_finds_the_python_and_numpy_that_run_it(checks):
    import platform

    import numpy

    named = _named(checks)
    assert named["python"].ok and platform.python_version() in named["python"].found
    assert named["numpy"].found == numpy.__version__


def test_it_says_where_things_are_kept_and_what_to_do_where_they_cannot_be(checks, tmp_path, monkeypatch):
    named = _named(checks)
    assert named["cache"].ok and named["compiled loops"].ok
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("AVATAR3D_HOME", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr("avatar3d.jit.cache_place", lambda: None)
    cache, loops = doctor._caches()
    assert "cannot be written" in cache.found and "AVATAR3D_HOME" in cache.fix
    assert "compiled anew" in loops.found and "NUMBA_CACHE_DIR" in loops.fix


def test_opengl_names_its_renderer_or_what_to_install(checks):
    check = _named(checks)["opengl"]
    assert ("OpenGL" in check.found) if check.ok else ("libegl1" in check.fix or "moderngl" in check.fix)


def test_a_missing_model_is_blamed_only_where_enrolment_needs_it(tmp_path, monkeypatch):
    monkeypatch.setenv("AVATAR3D_HOME", str(tmp_path))
    named = _named(doctor._model_files())
    needed = named["model face_landmarker.task"]
    assert not needed.ok and needed.needed and needed.fix == "avatar3d models pull"
    judge = named["model dlib_face_recognition_resnet_model_v1.dat"]
    assert not judge.ok and not judge.needed and "avatar3d models pull" in judge.fix


def test_a_damaged_model_is_told_from_a_good_one(tmp_path, monkeypatch):
    monkeypatch.setenv("AVATAR3D_HOME", str(tmp_path))
    target = models.cached_path("selfie_segmentation.tflite")
    target.parent.mkdir(parents=True)
    target.write_bytes(b"\0" * models.entry("selfie_segmentation.tflite").bytes)
    check = _named(doctor._model_files())["model selfie_segmentation.tflite"]
    assert not check.ok and "SHA-256" in check.found


def test_a_hair_network_that_is_not_the_shipped_one_is_told(tmp_path, monkeypatch):
    from avatar3d import resources

    assert doctor._hair_network()[0].ok
    other = tmp_path / "other.tflite"
    other.write_bytes(b"0")
    monkeypatch.setattr(resources, "asset_path", lambda name: other)
    check = doctor._hair_network()[0]
    assert not check.ok and check.fix == "reinstall avatar3d"


def test_what_is_optional_and_missing_is_neither_well_nor_needed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    optional = doctor._optional_packages() + doctor._programs() + doctor._window() + doctor._sources_and_links()[:5]
    assert {"glfw", "display", "osc", "lsl", "websocket", "zenoh", "encryption", "dlib", "node"} <= set(_named(optional))
    assert not any(check.ok or check.needed for check in optional)
    assert all(check.fix and "(" in check.found for check in optional)
    needed = doctor._torch() + doctor._opengl() + doctor._ffmpeg() + doctor._packages()
    assert all(check.needed and not check.ok for check in needed)


def test_only_packages_that_something_imports_are_offered(monkeypatch):
    asked = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: asked.append(name))
    for probe in (doctor._packages, doctor._optional_packages, doctor._window, doctor._sources_and_links, doctor._openxr):
        probe()
    source = "\n".join(path.read_text(encoding="utf-8") for path in Path(doctor.__file__).parent.rglob("*.py"))
    assert len(asked) > 15
    for module in asked:
        assert re.search(rf"^\s*(import {module}\b|from {module}\b)", source, re.MULTILINE), module


@pytest.mark.parametrize("modes", [{}, {"video0": True}, {"video0": False}])
def test_a_camera_is_told_without_opening_it(monkeypatch, tmp_path, modes):
    for name in modes:
        (tmp_path / name).touch()
    monkeypatch.setattr(doctor.sys, "platform", "linux")
    monkeypatch.setattr(doctor, "Path", lambda text: tmp_path)
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: modes[path.name])
    (check,) = doctor._camera()
    assert check.ok == modes.get("video0", False) and check.ok != bool(check.fix) and not check.needed


def test_a_check_that_breaks_is_reported_and_the_others_go_on(monkeypatch):
    def _broken_driver():
        raise OSError("symbol not found")

    monkeypatch.setattr(doctor, "_PROBES", (_broken_driver, doctor._python))
    first, second = doctor.run_checks()
    assert not first.ok and "symbol not found" in first.found and first.fix
    assert second.name == "python" and second.ok


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (json.dumps({"runtime": {"name": "Monado", "library_path": "libopenxr_monado.so"}}), "Monado by"),
        (json.dumps({"runtime": {"library_path": "../lib/none.so"}}), "does not exist"),
        ("{", "cannot be used"),
        ("[]", "cannot be used"),
    ],
)
def test_the_openxr_runtime_is_read_from_its_manifest(tmp_path, monkeypatch, content, found):
    manifest = tmp_path / "active_runtime.json"
    manifest.write_text(content)
    monkeypatch.setenv("XR_RUNTIME_JSON", str(manifest))
    check = doctor._openxr()[0]
    assert found in check.found and check.ok == ("Monado" in found) and check.ok != bool(check.fix) and not check.needed


def test_without_a_runtime_it_says_so(tmp_path, monkeypatch):
    monkeypatch.delenv("XR_RUNTIME_JSON", raising=False)
    monkeypatch.setattr(doctor, "_openxr_manifest", lambda: None)
    check = doctor._openxr()[0]
    assert "none is active" in check.found and not check.ok and not check.needed and check.fix


def test_it_says_how_heads_are_drawn_once_that_was_measured(tmp_path, monkeypatch):
    from avatar3d.rendering.opengl import autotune
    from avatar3d.rendering.opengl.draw_strategy import DrawStrategy

    monkeypatch.setenv("AVATAR3D_HOME", str(tmp_path))
    assert "not measured yet" in doctor._drawing()[0].found
    chosen = DrawStrategy(table="texture").to_json()
    autotune.remember(
        autotune.cache_path(), [autotune.Entry("v", "a driver", "1", 512, 500, 2, "0", {"table": ["texture"]}, chosen, {})]
    )
    (check,) = doctor._drawing()
    assert check.ok and check.found.startswith("512×500, two eyes on a driver: texture, float")
    autotune.cache_path().write_text("{")
    (check,) = doctor._drawing()
    assert not check.ok and not check.needed and "--tune" in check.fix
