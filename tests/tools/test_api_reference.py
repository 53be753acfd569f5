"""The API reference: built without a warning, and it has what the front door offers."""

import subprocess
import sys
from pathlib import Path

import pytest

import avatar3d

pytest.importorskip("pdoc")
TOOL = Path(__file__).resolve().parents[2] / "tools" / "api_reference.py"


def test_it_is_built_without_a_warning_and_has_what_is_public(tmp_path):
    done = subprocess.run([sys.executable, "-W", "error", TOOL, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    pages = {str(page.relative_to(tmp_path)): page.read_text(encoding="utf-8") for page in tmp_path.rglob("*.html")}
    front = pages["avatar3d.html"]
    assert all(f'id="{name}"' in front for name in avatar3d.__all__)
    assert front.count('id="parameters"') >= 6  # sections were read as such
    assert 'id="SourceBase.read"' in pages["avatar3d/motion/sources.html"] and 'id="paint"' in pages["avatar3d/generator.html"]
    assert not any("opengl" in name or "enrolment/steps" in name for name in pages)
