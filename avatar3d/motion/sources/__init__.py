"""Motion sources by name: `open_source("video:clip.mp4")`; more can be added as entry points `avatar3d.motion_sources`."""

from __future__ import annotations

from collections.abc import Callable

from avatar3d.choices import DIALECTS
from avatar3d.errors import InputError
from avatar3d.motion.sources.base import (
    NEEDED_BY_COMMANDS,
    MotionSource,
    Recording,
    SourceBase,
    Spec,
    check_source,
)
from avatar3d.registry import Registry

# Scheme: the function that opens a source of a spec. Imported when asked for; the camera's needs the face networks, and `net` what
# lies above it; both are above this package.
MOTION_SOURCES: Registry[Callable[[Spec], MotionSource]] = Registry(
    "motion source",
    "avatar3d.motion_sources",
    {
        "camera": "avatar3d.tracking.source:open_camera",
        "csv": "avatar3d.motion.sources.files:open_csv",
        "ifacialmocap": "avatar3d.motion.sources.ifacialmocap:open_ifacialmocap",
        "json": "avatar3d.motion.sources.files:open_json",
        "livelink": "avatar3d.motion.sources.livelink:open_livelink",
        "lsl": "avatar3d.motion.sources.lsl:open_lsl",
        "net": "avatar3d.net.source:open_net",
        "openseeface": "avatar3d.motion.sources.openseeface:open_openseeface",
        "openxr": "avatar3d.motion.sources.openxr:open_openxr",
        "osc": "avatar3d.motion.sources.osc:open_osc",
        "video": "avatar3d.tracking.source:open_video",
        "vmc": "avatar3d.motion.sources.vmc:open_vmc",
    },
)

TELL_THEMSELVES = ("camera", "video")  # what their weights mean follows from how they are told


def open_source(text: str) -> MotionSource:
    """Open the source that `SCHEME:TARGET?key=value` names; close it when done.

    Any takes `expressions=network`: its weights are a tracking network's answers as they are, to be led to the head they drive.

    Raises InputError for an unknown scheme, a wrong option or an unreadable file; WorkError when a port, a camera or a
    package is missing.
    """
    spec = Spec.parse(text)
    dialect = None if spec.scheme in TELL_THEMSELVES else _dialect(spec)
    source = check_source(MOTION_SOURCES.load(spec.scheme)(spec), NEEDED_BY_COMMANDS)
    if dialect is not None:
        source.dialect = dialect
    return source


def _dialect(spec: Spec) -> str | None:
    """What the option `expressions` says of the weights of any source, taken out of the spec; None where it says nothing."""
    dialect = spec.options.pop("expressions", None)
    if dialect is not None and dialect not in DIALECTS:
        raise InputError(f"{spec.text!r}: expressions={dialect} is not one of {', '.join(DIALECTS)}")
    return dialect


__all__ = ["MOTION_SOURCES", "MotionSource", "Recording", "SourceBase", "Spec", "check_source", "open_source"]
