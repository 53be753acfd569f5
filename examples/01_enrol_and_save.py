"""Enrol the face of one photo and save the avatar as a GLB that any glTF viewer opens.

    python examples/01_enrol_and_save.py photo.jpg out/ [--no-field]

Writes out/me.glb and prints what the avatar is worth. --no-field leaves the neural field out: half of the time, good for a look.
"""

import argparse
from pathlib import Path

import avatar3d

parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("photo", type=Path)
parser.add_argument("out", type=Path)
parser.add_argument("--no-field", action="store_true", help="skip field training")
arguments = parser.parse_args()
arguments.out.mkdir(parents=True, exist_ok=True)

report = {}
avatar = avatar3d.enroll(arguments.photo, field=not arguments.no_field, report=report)
avatar3d.save(avatar, arguments.out / "me.glb")
print(report["quality"]["line"])
