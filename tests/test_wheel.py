"""The wheel carries everything: installed without the checkout, with what the extra train asks for, it enrols a photo and draws."""

import json
import os
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from samples import sample

from avatar3d.glb import read_glb

ROOT = Path(__file__).resolve().parent.parent
# Python imports it at its start: modules of packages that the wheel does not ask for are as good as not installed.
SITE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name in {refused!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Refuse())
"""


def asked_for(distribution: metadata.Distribution, extra: str) -> set[str]:
    """Names of the installed packages that a distribution with an extra needs, and of those that these need."""
    waiting, names = [(distribution, {extra})], set()
    while waiting:
        needing, extras = waiting.pop()
        for text in needing.requires or []:
            wanted = Requirement(text)
            name = canonicalize_name(wanted.name)
            asked = wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in extras)
            if asked and name not in names:
                names.add(name)
                waiting.append((metadata.distribution(wanted.name), wanted.extras or {""}))
    return names


@pytest.mark.slow
def test_installed_wheel_enrols_a_photo(tmp_path, preview):
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assets = ("head.npz", "landmarks.npz", "hair_segmenter.tflite", "text.ttf")
    assert {f"avatar3d/_data/assets/{name}" for name in assets} <= set(names)
    assert all(any(name.endswith(f"{part}_license.txt") for name in names) for part in ("hair_segmenter", "text"))
    assert not any("readme" in name for name in names)
    assert any(name.startswith("avatar3d/_data/shaders/") and name.endswith(".glsl") for name in names)
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--target", site, wheel]
    subprocess.run(pip, check=True)
    (distribution,) = metadata.distributions(name="avatar3d", path=[str(site)])
    needed = asked_for(distribution, "train") | {"avatar3d"}
    assert "torch" in needed and "jinja2" in needed and "pytest" not in needed  # jinja2: torch's own
    modules = metadata.packages_distributions()
    refused = {module for module, owners in modules.items() if not needed & {canonicalize_name(owner) for owner in owners}}
    assert "pytest" in refused and "matplotlib" in refused
    (site / "sitecustomize.py").write_text(SITE.format(refused=refused), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(site)}
    photo = sample("astronaut.png")

    def run(*arguments: object) -> dict:
        command = [site / "bin" / "avatar3d", *map(str, arguments), "--json"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path, env=environment)
        return json.loads(done.stdout)

    where = "import avatar3d; print(avatar3d.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where], check=True, capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert Path(found.stdout.strip()).is_relative_to(site)
    enrolled = run("enroll", photo, "-o", tmp_path / "me.glb", "--no-field")
    assert enrolled["faces_found"] == 1 and (tmp_path / "me.glb").stat().st_size == enrolled["bytes"]
    # The same head as from the checkout, in this process.
    avatar = read_glb(tmp_path / "me.glb")
    np.testing.assert_allclose(avatar.vertices, preview.vertices, atol=1e-6)
    assert np.array_equal(avatar.base_color, preview.base_color)
    assert np.array_equal(avatar.hair.color, preview.hair.color)
    drawn = run("render", tmp_path / "me.glb", "-o", tmp_path / "me.png", "--size", 128)
    assert Path(drawn["files"][0]).stat().st_size > 1000
