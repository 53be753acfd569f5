"""Build hook (hatchling): the README as the package's page, whose links work away from the checkout. Named in pyproject.toml."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n+(?:\*[^\n]*\*\n+)?", re.MULTILINE)  # with the line under it
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)]*)\)")


def page(readme: str, home: str) -> str:
    """The README with absolute links below `home`, such as https://example.org/avatar3d/blob/main.

    Without one relative links are text, and a picture is left out with the line under it.
    """
    if home:
        return _LINK.sub(lambda link: f"[{link[1]}]({home.rstrip('/')}/{link[2]})", readme)
    return _LINK.sub(lambda link: f"{link[1]} (`{link[2]}`)", _PICTURE.sub("", readme))


class PageHook(MetadataHookInterface):
    """Sets the package's page, and its home where pyproject.toml names one."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling."""
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        home = str(self.config.get("home", ""))
        metadata["readme"] = {"content-type": "text/markdown", "text": page(readme, home)}
        if home:
            metadata["urls"] = {"Source": home}
