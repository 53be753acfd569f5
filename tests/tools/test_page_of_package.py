"""The package's page: what a package index shows of the README leads nowhere that is not there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("hatchling")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from page_of_package import PageHook, page  # noqa: E402

README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("home", ["", "https://example.org/avatar3d/blob/main/"])
def test_every_link_of_the_page_is_absolute(home):
    text = page(README, home)
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert all(link.startswith("https://") for link in links)
    assert "main//" not in text
    for target in (link.removeprefix(home) for link in links if home and link.startswith(home)):
        assert (ROOT / target).exists(), target
    assert ("assets/readme" in text) == bool(home)
    assert text.count("\n## ") == README.count("\n## ")


def test_links_become_text_where_no_home_is_known():
    assert page("![a](b.png)\n\n*under*\n\nSee [x](docs/y.md), [z](https://z.org), [w](#w).", "") == (
        "See x (`docs/y.md`), [z](https://z.org), [w](#w)."
    )


@pytest.mark.parametrize("home", ["", "https://example.org/avatar3d"])
def test_the_hook_names_a_home_only_where_there_is_one(home):
    metadata: dict[str, object] = {}
    PageHook(str(ROOT), {"home": home}).update(metadata)
    assert metadata["readme"]["content-type"] == "text/markdown"
    assert metadata.get("urls") == ({"Source": home} if home else None)
