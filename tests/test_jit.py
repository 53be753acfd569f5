"""Compiled loops where nothing can be kept: work goes on, and what is read back is the user's own."""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import avatar3d
from avatar3d import jit, resources

LOOPS = [
    module.name
    for module in pkgutil.walk_packages(avatar3d.__path__, "avatar3d.")
    if not module.ispkg and "njit" in Path(module.module_finder.path, f"{module.name.rpartition('.')[2]}.py").read_text()  # type: ignore[union-attr]
]
USE = (
    "import importlib, sys; import numpy as np\n"
    "for name in sys.argv[1:]: importlib.import_module(name)\n"
    "from avatar3d import jit; from avatar3d.fitting.solver import descend\n"
    "found = np.zeros(2); descend(np.eye(2), np.ones(2), found, np.zeros(2), np.ones(2), 3)\n"
    "assert (found == 1).all(); print(jit.cache_place())\n"
)


def used(folder: Path, *more: str, **environment: str) -> str:
    """What a process says that finds neither beside the code nor in the user's own folder room for numba's cache."""
    known = {
        **os.environ,
        "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator",
        "AVATAR3D_HOME": str(folder),
        **environment,
    }
    done = subprocess.run([sys.executable, "-c", USE, *more], capture_output=True, text=True, env=known, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_loop_is_compiled_without_a_place_for_its_cache(tmp_path):
    (tmp_path / "file").write_text("no folder")
    assert "avatar3d.fitting.solver" in LOOPS and "avatar3d.rendering.reference.raster" in LOOPS
    said = used(tmp_path / "file", *LOOPS, TMPDIR=str(tmp_path / "file"))
    assert said == "None" or Path(said).is_relative_to(f"/tmp/avatar3d-{os.getuid()}")  # tempfile falls back to /tmp


def test_the_cache_falls_back_to_our_own_folder(tmp_path):
    assert Path(used(tmp_path)).is_relative_to(tmp_path / "numba")
    assert list((tmp_path / "numba").rglob("*.nbi"))


@pytest.mark.parametrize("method", ["save_overload", "load_overload"])
def test_a_cache_that_breaks_ends_nothing(monkeypatch, method):
    from numba.core import caching

    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching.FunctionCache, method, broken)

    @jit.njit()
    def twice(x):
        return 2 * x

    assert twice(3) == 6


def test_a_folder_that_others_may_write_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.setattr(resources.tempfile, "gettempdir", lambda: str(tmp_path))
    own = resources.private_temporary_dir()
    assert own is not None and own.parent == tmp_path and own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o777)
    assert resources.private_temporary_dir() is None
    own.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    own.symlink_to(tmp_path / "elsewhere")
    assert resources.private_temporary_dir() is None


def test_a_user_without_a_home_has_caches(monkeypatch):
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    for name in ("AVATAR3D_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(resources.Path, "home", nowhere)
    assert resources.cache_dir().name.startswith("avatar3d")


def test_a_plot_without_a_home_says_nothing(tmp_path):
    (tmp_path / "file").write_text("no folder")
    code = "import numpy as np; from avatar3d.evaluation.report import heat_picture; heat_picture(np.zeros((2, 2)))"
    known = {
        name: value for name, value in os.environ.items() if name not in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "MPLCONFIGDIR")
    }
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**known, "HOME": str(tmp_path / "file")}
    )
    assert done.stderr == ""
