"""What the runtime's failures read like: one sentence each, and a session that is lost is told from one that cannot be."""

from __future__ import annotations

import sys

import pytest

from avatar3d.errors import WorkError
from avatar3d.xr import openxr

xr = pytest.importorskip("xr", reason="pyopenxr is not installed")


@pytest.mark.parametrize("name", ["InstanceLostError", "SessionLostError", "SessionLossPending"])
def test_a_lost_session_may_be_opened_again(name):
    with pytest.raises(openxr.RuntimeGone, match="ended while drawing"), openxr.failures_as_sentences("drawing"):
        raise getattr(xr.exception, name)()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("RuntimeUnavailableError", "no OpenXR runtime was found; install"),
        ("FormFactorUnavailableError", "no headset"),
        ("RuntimeFailureError", "start its service"),
        ("ExtensionNotPresentError", "failed while starting: ExtensionNotPresent"),
    ],
)
def test_other_failures_end_in_a_sentence(name, words):
    with pytest.raises(WorkError, match=words) as caught, openxr.failures_as_sentences("starting"):
        raise getattr(xr.exception, name)()
    assert not isinstance(caught.value, openxr.RuntimeGone)
    assert "\n" not in str(caught.value)


def test_a_result_code_of_a_raw_call_is_checked():
    openxr.check(0)
    with pytest.raises(xr.exception.ResultException):
        openxr.check(xr.Result.ERROR_VALIDATION_FAILURE.value)


@pytest.mark.parametrize(
    ("system", "words"),
    [("linux", "monado-service"), ("win32", "SteamVR"), ("darwin", "not supported on macOS"), ("aix", "install")],
)
def test_the_advice_is_of_the_platform(monkeypatch, system, words):
    monkeypatch.setattr(sys, "platform", system)
    assert words in openxr.install_advice()


def test_without_pyopenxr_its_packages_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "xr", None)
    with pytest.raises(WorkError, match="pip install .*pyopenxr"):
        openxr.load()


def test_a_runtime_that_takes_no_context_of_ours_is_told():
    from avatar3d.xr.bindings import open_graphics

    with pytest.raises(WorkError, match="no OpenGL context fits this OpenXR runtime: .*XR_"):
        open_graphics({"XR_KHR_vulkan_enable2"})
