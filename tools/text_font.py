"""Make assets/text.ttf, the letters of panels: a subset of Roboto Regular (Apache-2.0) out of the package font-roboto.

Run: python tools/text_font.py font-roboto-0.0.1.tar.gz (fetched by `pip download --no-deps font-roboto==0.0.1`). The same input
gives the same bytes. Needs fonttools.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import tarfile
from pathlib import Path

from avatar3d.errors import InputError
from avatar3d.files import write_bytes

ASSETS = Path(__file__).resolve().parent.parent / "assets"
MEMBER = "font-roboto-0.0.1/font_roboto/files/"
SHA256 = "797e35f7f5d6020a5c6ea13b42ecd668bcfb3bbc4baa0e74773527e5b6cb3174"  # of Roboto-Regular.ttf there
# Latin with its accents, Greek, Cyrillic, general punctuation, the euro, and the signs of figures.
RANGES = (
    (0x20, 0x24F),
    (0x370, 0x4FF),
    (0x1E9E, 0x1E9E),
    (0x2010, 0x2027),
    (0x2030, 0x2030),
    (0x20AC, 0x20AC),
    (0x2200, 0x226F),
)


def subset(font: bytes) -> bytes:
    """The font with the glyphs of RANGES, without hinting and layout tables."""
    from fontTools import subset as tool
    from fontTools.ttLib import TTFont

    options = tool.Options(
        hinting=False, layout_features=[], notdef_outline=True, name_IDs=[0, 1, 2, 5, 13, 14], drop_tables=["DSIG"]
    )  # fmt: skip
    face = TTFont(io.BytesIO(font), recalcTimestamp=False)
    worker = tool.Subsetter(options)
    worker.populate(unicodes=[code for low, high in RANGES for code in range(low, high + 1)])
    worker.subset(face)
    out = io.BytesIO()
    face.save(out)
    return out.getvalue()


def main() -> None:
    """Check the package's font, and write its subset and its licence."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path)
    with tarfile.open(parser.parse_args().package) as bundle:
        font, licence = (bundle.extractfile(MEMBER + name).read() for name in ("Roboto-Regular.ttf", "LICENSE"))  # type: ignore[union-attr]
    if hashlib.sha256(font).hexdigest() != SHA256:
        raise InputError("Roboto-Regular.ttf in this package is not the one that was looked at")
    write_bytes(ASSETS / "text.ttf", subset(font), shared=True)
    write_bytes(ASSETS / "text_license.txt", licence, shared=True)


if __name__ == "__main__":
    main()
