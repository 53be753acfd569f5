"""The wheel carries everything: installed without the checkout, with what the extra train asks for, it enrols a photo and draws.

So it does from Python, as `help(avatar3d)` says, and with a generator and a motion source of a package beside it.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import textwrap
import zipfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from samples import sample

import avatar3d
from avatar3d.glb import read_glb

pytestmark = pytest.mark.slow
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


# What a package of a user's own adds: the classes of two examples, offered under names.
ENTRY_POINTS = """
[avatar3d.generators]
rouge = my_rouge:Rouge
[avatar3d.motion_sources]
nod = my_nod:open_nod
"""


@dataclass(frozen=True)
class Installed:
    """The wheel, installed into a folder of its own beside a package of a user's; programs run in a folder that holds me.jpg."""

    wheel: Path
    site: Path
    plugins: Path
    folder: Path

    def python(self, program: str) -> str:
        """What a program prints."""
        return self._run([sys.executable, "-c", program])

    def command(self, *arguments: object) -> dict:
        """What a command of the command line prints with --json."""
        return json.loads(self._run([self.site / "bin" / "avatar3d", *map(str, arguments), "--json"]))

    def _run(self, words: list) -> str:
        environment = {**os.environ, "PYTHONPATH": f"{self.site}{os.pathsep}{self.plugins}"}
        done = subprocess.run(words, capture_output=True, text=True, cwd=self.folder, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Installed:
    root = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", root, ROOT], check=True, capture_output=True
    )
    (wheel,) = root.glob("*.whl")
    site, plugins, folder = root / "site", root / "plugins", root / "elsewhere"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--target", site, wheel]
    subprocess.run(pip, check=True)
    (distribution,) = metadata.distributions(name="avatar3d", path=[str(site)])
    needed = asked_for(distribution, "train") | {"avatar3d"}
    assert "torch" in needed and "jinja2" in needed and "pytest" not in needed  # jinja2: torch's own
    modules = metadata.packages_distributions()
    refused = {module for module, owners in modules.items() if not needed & {canonicalize_name(owner) for owner in owners}}
    assert "pytest" in refused and "matplotlib" in refused
    (site / "sitecustomize.py").write_text(SITE.format(refused=refused), encoding="utf-8")
    info = plugins / "my_heads-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-heads\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    shutil.copy(ROOT / "examples" / "04_own_motion_source.py", plugins / "my_nod.py")
    shutil.copy(ROOT / "examples" / "05_own_generator.py", plugins / "my_rouge.py")
    folder.mkdir()
    shutil.copy(sample("astronaut.png"), folder / "me.jpg")
    made = Installed(wheel, site, plugins, folder)
    assert Path(made.python("import avatar3d; print(avatar3d.__file__)").strip()).is_relative_to(site)
    return made


def lines_of(start: str) -> str:
    """The lines of code in the package's own words that begin so."""
    blocks = re.findall(r":\n\n((?:    .+\n)+)", avatar3d.__doc__)
    (found,) = (textwrap.dedent(block) for block in blocks if block.strip().startswith(start))
    return found


def test_the_wheel_holds_what_is_needed_and_no_pictures(installed):
    names = zipfile.ZipFile(installed.wheel).namelist()
    assets = ("head.npz", "landmarks.npz", "hair_segmenter.tflite", "text.ttf")
    assert {f"avatar3d/_data/assets/{name}" for name in assets} <= set(names)
    assert all(any(name.endswith(f"{part}_license.txt") for name in names) for part in ("hair_segmenter", "text"))
    assert not any("readme" in name for name in names)
    assert any(name.startswith("avatar3d/_data/shaders/") and name.endswith(".glsl") for name in names)
    assert "avatar3d/py.typed" in names


def test_three_lines_enrol_and_save_and_five_draw_a_stereo_pair(installed, preview):
    three = lines_of("import avatar3d")
    assert len(three.splitlines()) == 3
    installed.python(three.replace('"me.jpg"', '"me.jpg", field=False'))
    # The same head as from the checkout, in this process.
    avatar = read_glb(installed.folder / "me.glb")
    np.testing.assert_allclose(avatar.vertices, preview.vertices, atol=1e-6)
    assert np.array_equal(avatar.base_color, preview.base_color)
    assert np.array_equal(avatar.hair.color, preview.hair.color)
    five = lines_of("avatar = avatar3d.load")
    assert len(five.splitlines()) == 5
    shown = "left, right = pictures; print(left.shape, right.shape, left.dtype, (left != right).any(), left.std() > 20)"
    assert installed.python(f"import avatar3d\n{five}{shown}") == "(512, 512, 3) (512, 512, 3) uint8 True True\n"


def test_commands_enrol_and_draw_with_a_generator_of_ones_own(installed, preview):
    enrolled = installed.command("enroll", "me.jpg", "-o", "red.glb", "--no-field", "--generator", "rouge")
    red = installed.folder / "red.glb"
    assert enrolled["faces_found"] == 1 and red.stat().st_size == enrolled["bytes"]
    avatar = read_glb(red)
    change = avatar.base_color.astype(int) - preview.base_color
    assert 0.005 < (change[..., 0] - change[..., 1] > 10).mean() < 0.1  # the cheeks
    assert avatar.provenance["generator"] == "rouge"
    drawn = installed.command("render", "red.glb", "-o", "red.png", "--size", 128)
    assert (installed.folder / drawn["files"][0]).stat().st_size > 1000


def test_a_motion_source_of_ones_own_is_streamed_by_its_name(installed):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(10)
        to = f"127.0.0.1:{listener.getsockname()[1]}"
        sent = installed.command("stream", "nod:2", "--to", to, "--seconds", 1, "--plain", "--token", "a test's")
        assert sent["packets"] > 3 and listener.recv(1000)
