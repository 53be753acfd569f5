"""What works on this machine and how to mend what does not; each check stands alone and none of them raises."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from avatar3d.errors import Avatar3dError
from avatar3d.extras import install_extra, pip_install

MIN_PYTHON = (3, 11)
MIN_GL = 330  # the shaders are GLSL 3.30 and up
HAIR_SHA256 = "d2c940c4fd80edeaf38f5d7387d1b4235ee320ed120080df67c663e749e77633"  # of assets/hair_segmenter.tflite
PROBE_TIMEOUT_S = 5.0  # of another program that only prints its version
_GL_FIX = "sudo apt install libegl1 libgl1-mesa-dri (Debian, Ubuntu), or install the driver of your graphics card"


@dataclass(frozen=True)
class Check:
    """One line of the doctor. needed: whether enrolling, drawing or measuring asks for it, or only what `found` names.

    ok: whether it works; `fix` is empty where there is nothing to mend.
    """

    name: str
    ok: bool
    found: str
    fix: str = ""
    needed: bool = True


def run_checks() -> list[Check]:
    """Look at everything; takes two or three seconds, most of it torch's import and the GL context."""
    checks: list[Check] = []
    for probe in _PROBES:
        try:
            checks += probe()
        except Avatar3dError as error:
            checks.append(Check(_probe_name(probe), False, str(error), "reinstall avatar3d"))
        except Exception as error:  # a broken native library may raise anything, and the doctor has to go on
            found = f"the check itself failed: {type(error).__name__}: {error}"
            checks.append(Check(_probe_name(probe), False, found, "install avatar3d into a fresh environment"))
    return checks


def _probe_name(probe: Callable[[], list[Check]]) -> str:
    return probe.__name__.strip("_").replace("_", " ")


def _python() -> list[Check]:
    version = platform.python_version()
    ok = sys.version_info >= MIN_PYTHON
    wanted = ".".join(map(str, MIN_PYTHON))
    return [Check("python", ok, f"{version} at {sys.executable}", "" if ok else f"install Python {wanted} or newer")]


def _packages() -> list[Check]:
    return [
        _package("numpy", "numpy", pip_install("numpy")),
        _package("pillow", "PIL", pip_install("pillow"), distribution="pillow"),
        _package("scipy", "scipy", install_extra("train"), "enroll, track"),
        _package("opencv", "cv2", install_extra("train"), "enroll, track, evaluate", distribution="opencv-python-headless"),
        _package("numba", "numba", install_extra("train"), "enroll, track"),
        _package("litert", "ai_edge_litert", install_extra("train"), "enroll, track", distribution="ai-edge-litert"),
        _package("matplotlib", "matplotlib", install_extra("eval"), "evaluate"),
        _package("jinja2", "jinja2", install_extra("eval"), "evaluate"),
    ]


def _package(
    name: str, module: str, fix: str, use: str = "every command", needed: bool = True, distribution: str | None = None
) -> Check:
    """Presence and version of a package, without importing it. use: the commands or sources that ask for it."""
    if importlib.util.find_spec(module) is None:
        return Check(name, False, f"not installed ({use})", fix, needed)
    try:
        version = importlib.metadata.version(distribution or module)
    except importlib.metadata.PackageNotFoundError:
        version = "installed, version unknown"
    return Check(name, True, version, needed=needed)


def _torch() -> list[Check]:
    if importlib.util.find_spec("torch") is None:
        return [Check("torch", False, "not installed (enroll, --renderer reference)", install_extra("train"))]
    import torch

    if torch.cuda.is_available():
        return [Check("torch", True, f"{torch.__version__}, CUDA on {torch.cuda.get_device_name(0)}")]
    return [Check("torch", True, f"{torch.__version__}, CPU with {torch.get_num_threads()} threads")]


def _opengl() -> list[Check]:
    if importlib.util.find_spec("moderngl") is None:
        return [Check("opengl", False, "moderngl is not installed", pip_install("moderngl"))]
    import moderngl

    try:
        context = moderngl.create_standalone_context(backend="egl")  # type: ignore[arg-type]
    except Exception as error:  # moderngl raises bare Exception for every failure of the driver
        return [Check("opengl", False, f"no OpenGL through EGL: {error}", _GL_FIX)]
    try:
        found = f"{context.info['GL_RENDERER']}, OpenGL {context.info['GL_VERSION']}"
        ok = context.version_code >= MIN_GL
    finally:
        context.release()
    return [Check("opengl", ok, found, "" if ok else _GL_FIX)]


def _drawing() -> list[Check]:
    from avatar3d.rendering.opengl import autotune

    fix = "avatar3d bench AVATAR.glb --quick --tune"
    try:
        entries = autotune.remembered()
    except Avatar3dError as error:
        return [Check("drawing", False, str(error), fix, needed=False)]
    if not entries:
        return [Check("drawing", True, "not measured yet; view, xr and bench measure at their first start", needed=False)]
    newest = {
        f"{entry.width}×{entry.height}{', two eyes' if entry.eyes == 2 else ''} on {entry.renderer}": entry.strategy.values()
        for entry in entries
    }
    return [
        Check("drawing", True, "; ".join(f"{where}: {', '.join(values)}" for where, values in newest.items()), needed=False)
    ]


def _model_files() -> list[Check]:
    from avatar3d import models

    checks = []
    for status in models.list_models():
        needed = status.entry.group == "needed"
        if status.ok:
            status = models.verify([status.entry.name])[0]
        found = f"verified at {status.path}" if status.ok else f"{status.problem}: {status.path}"
        if not needed and not status.ok:
            found += " (the likeness in enroll's verdict)"
        name = f"model {status.entry.name}"
        checks.append(Check(name, status.ok, found, "" if status.ok else models.fix(status.entry), needed))
    return checks


def _caches() -> list[Check]:
    """Whether what is fetched, measured and compiled can be kept."""
    from avatar3d.resources import cache_dir

    folder = existing = cache_dir()
    while not os.path.exists(existing) and existing != existing.parent:
        existing = existing.parent
    ok = os.path.isdir(existing) and os.access(existing, os.W_OK | os.X_OK)
    fix = "set AVATAR3D_HOME to a folder that you may write"
    found = str(folder) if ok else f"{folder} cannot be written; what is there is used"
    checks = [Check("cache", ok, found, "" if ok else fix, needed=False)]
    if importlib.util.find_spec("numba") is not None:
        from avatar3d.jit import cache_place

        place = cache_place()
        found = f"kept in {place}" if place else "compiled anew at each start, which takes half a minute"
        fix = "" if place else "set NUMBA_CACHE_DIR to a folder that you may write"
        checks.append(Check("compiled loops", bool(place), found, fix, needed=False))
    return checks


def _hair_network() -> list[Check]:
    from avatar3d.resources import asset_path

    path = asset_path("hair_segmenter.tflite")
    right = hashlib.sha256(path.read_bytes()).hexdigest() == HAIR_SHA256
    found = f"verified at {path}" if right else f"not the network that avatar3d ships: {path}"
    return [Check("hair network", right, found, "" if right else "reinstall avatar3d")]


def _ffmpeg() -> list[Check]:
    fix = pip_install("imageio-ffmpeg")
    if importlib.util.find_spec("imageio_ffmpeg") is None:
        return [Check("ffmpeg", False, "imageio-ffmpeg is not installed; films cannot be written as MP4", fix)]
    import imageio_ffmpeg

    try:
        executable = imageio_ffmpeg.get_ffmpeg_exe()
    except RuntimeError as error:
        return [Check("ffmpeg", False, str(error), fix + ", or set IMAGEIO_FFMPEG_EXE")]
    version = _first_line([executable, "-version"])
    return [Check("ffmpeg", version is not None, version or f"{executable} does not run", "" if version else fix)]


def _programs() -> list[Check]:
    checks = []
    for name, candidates, fix, use in (
        ("node", ("node", "nodejs"), "sudo apt install nodejs npm", "models pull corpus, tests of avatars in other viewers"),
        ("chromium", ("chromium", "chromium-browser", "google-chrome"), "sudo apt install chromium", "the same tests"),
    ):
        executable = next(filter(None, map(shutil.which, candidates)), None)
        missing = executable is None
        found = f"not found ({use})" if missing else str(executable)
        checks.append(Check(name, not missing, found, fix if missing else "", needed=False))
    return checks


def _window() -> list[Check]:
    check = _package("glfw", "glfw", install_extra("view"), "view", needed=False)
    if not sys.platform.startswith("linux"):
        return [check]
    display = os.environ.get("WAYLAND_DISPLAY") or os.environ.get("DISPLAY")
    if display:
        return [check, Check("display", True, display, needed=False)]
    found = "neither DISPLAY nor WAYLAND_DISPLAY is set (view)"
    return [check, Check("display", False, found, "start it in a desktop session, or under xvfb-run", needed=False)]


def _sources_and_links() -> list[Check]:
    checks = [
        _package("osc", "pythonosc", install_extra("motion"), "sources osc: and vmc:", False, "python-osc"),
        _package("lsl", "pylsl", install_extra("motion"), "source lsl:", False),
        _package("websocket", "websockets", install_extra("net"), "stream and listen over ws:", False),
        _package("zenoh", "zenoh", install_extra("net"), "stream and listen over zenoh:", False, "eclipse-zenoh"),
        _package("encryption", "cryptography", install_extra("net"), "streams that leave this machine", False),
    ]
    return [*checks, *_camera()]


def _camera() -> list[Check]:
    """Cameras that the system lists; none is opened, which would light its lamp."""
    if not sys.platform.startswith("linux"):
        return []
    cameras = sorted(Path("/dev").glob("video*"))
    if not cameras:
        return [
            Check("camera", False, "none is connected (source camera:)", "connect one, and hand it to the container", False)
        ]
    closed = [camera for camera in cameras if not os.access(camera, os.R_OK | os.W_OK)]
    if len(closed) == len(cameras):
        fix = "sudo usermod -aG video $USER, then log in again"
        return [Check("camera", False, f"{cameras[0]} may not be opened (source camera:)", fix, False)]
    return [Check("camera", True, ", ".join(str(camera) for camera in cameras if camera not in closed), needed=False)]


def _openxr() -> list[Check]:
    manifest = _openxr_manifest()
    if manifest is None:
        fix = "start SteamVR, Monado or your headset's software and make it the OpenXR runtime, or set XR_RUNTIME_JSON"
        checks = [Check("openxr runtime", False, "none is active (xr)", fix, needed=False)]
    else:
        checks = [_openxr_check(manifest)]
    checks.append(_package("pyopenxr", "xr", install_extra("xr"), "xr", needed=False))
    return checks


def _openxr_manifest() -> Path | None:
    """The active runtime's manifest, searched as the OpenXR loader does on Linux (loader specification, "Active Runtime")."""
    named = os.environ.get("XR_RUNTIME_JSON")
    if named:
        return Path(named)
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    folders = [config, *(os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":"), "/usr/local/etc", "/etc"]
    for folder in folders:
        candidate = Path(folder).expanduser() / "openxr" / "1" / "active_runtime.json"
        if candidate.exists():
            return candidate
    return None


def _openxr_check(manifest: Path) -> Check:
    fix = f"mend or remove {manifest}, or set XR_RUNTIME_JSON to another runtime's manifest"
    try:
        runtime = json.loads(manifest.read_text(encoding="utf-8"))["runtime"]
        library = Path(runtime["library_path"])
        name = runtime.get("name", library.name)
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Check("openxr runtime", False, f"{manifest} cannot be used ({type(error).__name__}: {error})", fix, needed=False)
    # A bare name is looked up by the system's linker, a relative path from the manifest's folder.
    if len(library.parts) > 1 and not (manifest.parent / library).exists():
        return Check("openxr runtime", False, f"{manifest} names {library}, which does not exist", fix, needed=False)
    return Check("openxr runtime", True, f"{name} by {manifest}", needed=False)


def _optional_packages() -> list[Check]:
    dlib = install_extra("identity") + " && avatar3d models pull"
    tcnn = "build it from its sources (NVlabs tiny-cuda-nn) on a machine with CUDA"
    return [
        _package("pillow-heif", "pillow_heif", install_extra("heic"), "HEIC photos", False, "pillow-heif"),
        _package("dlib", "dlib", dlib, "the likeness in enroll's verdict", False, "dlib-bin"),
        _package("psutil", "psutil", install_extra("view"), "temperature and memory in view and xr", False),
        _package("tiny-cuda-nn", "tinycudann", tcnn, "enroll --field-backend tcnn", False),
    ]


def _first_line(command: list[str]) -> str | None:
    """First line a program prints, or None where it does not run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else None


_PROBES = (
    _python, _packages, _torch, _opengl, _drawing, _caches, _model_files, _hair_network, _ffmpeg, _window, _sources_and_links,
    _openxr, _optional_packages, _programs,
)  # fmt: skip
