"""Writes the table of rungs in this folder's README.md from what `avatar3d bench -o` measured."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from avatar3d.bench import RATIO_SIZE
from avatar3d.errors import InputError, WorkError
from avatar3d.files import replacing
from avatar3d.runtime.governor import RungSettings, read_config

README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- rungs: written by avatar3d.bench.table -->", "<!-- end of rungs -->"


def rung_table(result: dict[str, Any], settings: dict[str, RungSettings]) -> str:
    """Markdown of bench.json's rungs, two eyes at RATIO_SIZE; raises InputError where it was not measured."""
    width, height = RATIO_SIZE
    rows = [row for row in result.get("runs", []) if (row["width"], row["height"], row["eyes"]) == (width, height, 2)]
    if not rows:
        raise InputError(f"no rung was measured for two eyes at {width}×{height}; expected what `avatar3d bench -o` writes")
    lines = [
        f"Two eyes at {width}×{height} on {result['machine']['renderer']['renderer']}, {result['machine']['cores']} cores, "
        f"load {result['machine']['load1']:.1f}.",
        "",
        "| rung | form, hair levels, textures | CPU ÷ plain mesh | wall ÷ plain mesh | dB to the reference, same settings "
        "| dB to the live whole |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        name = row["rung"]
        own = settings.get(name)
        drawn = "-" if own is None else f"{own.form}, {own.hair_levels or 'all'}, {own.precision}"
        decibels = [_decibels(result[key].get(name)) for key in ("parity_psnr_db", "fidelity_psnr_db")]
        lines.append(f"| {name} | {drawn} | {row['cpu_over_mesh']:.2f} | {row['over_mesh']:.2f} | {' | '.join(decibels)} |")
    return "\n".join(lines)


def _decibels(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.1f}"


def insert(text: str, table: str) -> str:
    """`text` with what lies between BEGIN and END replaced by a table; raises WorkError where they are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise WorkError(f"the text has no place for the table: the lines {BEGIN!r} and {END!r} are missing")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main() -> None:
    """Command line: the path of a bench.json."""
    parser = argparse.ArgumentParser(prog="python -m avatar3d.bench.table", description=__doc__)
    parser.add_argument("measured", type=Path, help="bench.json of `avatar3d bench AVATAR --quick --thorough -o FOLDER`")
    try:
        measured = parser.parse_args().measured
        try:
            result = json.loads(measured.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {measured} as what `avatar3d bench -o` writes: {error}") from error
        text = insert(README.read_text(encoding="utf-8"), rung_table(result, read_config().rungs))
    except InputError as error:
        parser.error(str(error))
    with replacing(README) as temporary:
        temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
