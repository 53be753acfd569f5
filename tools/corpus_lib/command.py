"""tools/corpus' command line: chooses, measures one photo after another, writes sheets and corpus.json."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import avatar3d
from avatar3d.errors import Avatar3dError, InputError, WorkError
from avatar3d.files import make_folder, read_json, write_bytes
from avatar3d.glb import read_glb
from avatar3d.media import save_picture
from avatar3d.progress import ProgressBar
from avatar3d.rendering import make_renderer

from . import ablation, films, sheet, table, verdicts
from .figures import Bench
from .manifest import Corpus, Entry, Film, fetch, read_corpus
from .views import Drawer

FORMAT = "avatar3d corpus 1"
MAX_TABLE_BYTES = 20_000_000
JUDGE_NOTE = "the judge half is for judging at the end: choose no constant by these people"
FILM_STEP = 2


def parser(description: str) -> argparse.ArgumentParser:
    """The arguments."""
    result = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("-o", "--out", type=Path, metavar="DIR", help="folder for sheets, avatars and corpus.json")
    result.add_argument("--half", choices=("tune", "judge", "all"), default="tune", help="whom to measure (default tune)")
    result.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these photos or people of the half")
    result.add_argument("--made", action="store_true", help="the made cases as well: cut, tilted, lit from a side, small, ...")
    result.add_argument("--films", action="store_true", help="the films as well: openings of lips and lids when driven")
    result.add_argument("--no-field", action="store_true", help="enrol without the field: half of the time")
    result.add_argument("--no-hair", action="store_true", help="enrol without hair")
    result.add_argument("--without", nargs="+", default=[], choices=ablation.PARTS, metavar="PART",
                        help=f"ablation: enrol without {', '.join(ablation.PARTS)}")  # fmt: skip
    result.add_argument("--no-sheets", action="store_true", help="figures only")
    result.add_argument("--resume", action="store_true", help="keep the rows that DIR holds already")
    result.add_argument("--again", action="store_true", help="measure and draw DIR's avatars anew, without enrolling")
    result.add_argument("--compare", type=Path, metavar="OLD.json", help="print an earlier table beside DIR's, before | after")
    result.add_argument("--list", action="store_true", help="print the corpus and leave")
    return result


def main(argv: list[str] | None = None, description: str = "") -> int:
    """Run it; returns the exit code: 0 done, 1 the work failed, 2 wrong input, 130 interrupted."""
    arguments = parser(description).parse_args(argv)
    try:
        corpus = read_corpus()
        if arguments.list:
            print("\n".join(_listed(corpus, arguments.half)))
            return 0
        if arguments.out is None:
            raise InputError("no folder was given; pass -o DIR")
        return _run(arguments, corpus)
    except Avatar3dError as error:
        print(f"corpus: {error}", file=sys.stderr)
        return error.exit_code


def _listed(corpus: Corpus, half: str) -> list[str]:
    entries = corpus.chosen("all" if half == "all" else half, made=True)
    return [f"{item.half:5}  {item.id:24} {item.person:16} {item.file}" for item in entries]


def _run(arguments: argparse.Namespace, corpus: Corpus) -> int:
    entries = corpus.chosen(arguments.half, arguments.only, arguments.made)
    chosen_films = [film for film in corpus.films if arguments.films and _film_wanted(film, arguments)]
    old = _table(arguments.compare) if arguments.compare is not None else None
    out: Path = arguments.out
    make_folder(out / "rows")
    options = {"field": not arguments.no_field, "hair": not arguments.no_hair}
    todo = [item for item in entries if _row_file(out, item.id).exists() or not arguments.again]
    if arguments.resume:
        todo = [item for item in todo if not _row_file(out, item.id).exists()]
    interrupted = False
    if todo or chosen_films:
        fetch(corpus, todo, chosen_films)
        try:
            with closing(make_renderer("realtime")) as renderer, ProgressBar() as progress, ablation.without(arguments.without):
                bench = Bench(corpus, out, renderer, {**options, "head": ablation.head_without(arguments.without)})
                for done, item in enumerate(todo):
                    progress(done / (len(todo) + len(chosen_films)), item.id)
                    _measure(bench, item, out, not arguments.no_sheets, arguments.again)
                for done, film in enumerate(chosen_films):
                    progress((len(todo) + done) / (len(todo) + len(chosen_films)), f"film {film.id}")
                    _film(bench, corpus, film, out, arguments.resume)
        except KeyboardInterrupt:
            interrupted = True
    document = _collected(corpus, out, {**options, "without": arguments.without})
    write_bytes(out / "corpus.json", json.dumps(document, indent=1).encode())
    if not arguments.no_sheets:
        _overviews(corpus, out)
    names = {item.id for item in entries}
    shown = [row for row in document["rows"] if row["id"] in names]
    print(table.compare(old, {**document, "rows": shown}) if old is not None else table.text(shown, document["films"]))
    if old is None and (verdicts_text := verdicts.text(shown, corpus.by_eye)):
        print(f"\n{verdicts_text}")
    print(
        f"\n{out / 'corpus.json'}; sheets in {', '.join(str(out / half) for half in ('tune', 'judge') if (out / half).is_dir())}"
    )
    if any(row["half"] == "judge" for row in shown):
        print(f"reminder: {JUDGE_NOTE}")
    if interrupted:
        print("corpus: interrupted; --resume goes on from here", file=sys.stderr)
        return 130
    return 1 if any(table.failed(row) for row in shown) else 0


def _film_wanted(film: Film, arguments: argparse.Namespace) -> bool:
    named = not arguments.only or film.person in arguments.only or film.id in arguments.only
    return named and (arguments.half == "all" or film.half == arguments.half)


def _row_file(out: Path, id_: str, kind: str = "rows") -> Path:
    return out / kind / f"{id_}.json"


def _measure(bench: Bench, entry: Entry, out: Path, sheets: bool, again: bool) -> None:
    done = bench.measure(entry, _table(_row_file(out, entry.id)) if again else bench.enrol(entry))
    if sheets and done.avatar is not None:
        drawer = Drawer(bench.renderer, done.avatar)
        make_folder(out / entry.half)
        save_picture(out / entry.half / f"{entry.person}__{entry.id}.png", sheet.sheet(done, drawer))
        make_folder(out / "strips")
        save_picture(out / "strips" / f"{entry.id}.png", sheet.strip(done, drawer))
        make_folder(out / "stereo")
        save_picture(out / "stereo" / f"{entry.id}.png", sheet.stereo_strip(done, drawer))
    write_bytes(_row_file(out, entry.id), json.dumps(done.row, indent=1).encode())
    figures = "; ".join(f"{key} {done.row[key]}" for key in table.KEYS[:3] if key in done.row)
    print(f"{entry.id}: {done.row['error'] or figures}", file=sys.stderr, flush=True)


def _film(bench: Bench, corpus: Corpus, film: Film, out: Path, resume: bool) -> None:
    row_file = _row_file(out, film.id, "films")
    if resume and row_file.exists():
        return
    make_folder(out / "films")
    file = bench.avatar_file(film.photo)
    if not file.exists() and (error := bench.enrol(corpus.entry(film.photo))["error"]) is not None:
        raise WorkError(f"the film {film.id} has no avatar: {error}")
    avatar = read_glb(file)
    driven = films.drive(film, avatar, Drawer(bench.renderer, avatar), FILM_STEP)
    row = films.figures(film, driven)
    if driven.pairs:
        lines = [f"{name} {row[name]}" for name in ("lips", "lids")]
        make_folder(out / film.half)
        save_picture(out / film.half / f"film__{film.id}.png", sheet.driven(driven.pairs, f"{film.id}  {'  '.join(lines)}"))
    write_bytes(row_file, json.dumps(row, indent=1).encode())


def _collected(corpus: Corpus, out: Path, options: dict[str, Any]) -> dict[str, Any]:
    """corpus.json: every row the folder holds, in the table's order."""
    rows = [_table(path) for item in corpus.entries if (path := _row_file(out, item.id)).exists()]
    driven = [_table(path) for film in corpus.films if (path := _row_file(out, film.id, "films")).exists()]
    return {
        "format": FORMAT,
        "version": avatar3d.__version__,
        "commit": _commit(),
        "options": options,
        "summary": table.summary(rows),
        "verdicts": {**verdicts.against_the_eye(rows, corpus.by_eye), "made": verdicts.made_cases(rows)},
        "rows": rows,
        "films": driven,
    }


def _commit() -> str | None:
    """The commit of the avatar3d that was measured, with + where its files differ from it; None outside a checkout."""
    folder = str(Path(avatar3d.__file__).parent)
    command = ["git", "-C", folder, "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _overviews(corpus: Corpus, out: Path) -> None:
    for half in ("tune", "judge"):
        for kind, name in (("strips", "overview"), ("stereo", "stereo")):
            paths = [out / kind / f"{item.id}.png" for item in corpus.entries if item.half == half]
            strips = [np.array(Image.open(path).convert("RGB")) for path in paths if path.exists()]
            if strips:
                sheet.write_overviews(out / half, strips, name)


def _table(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = read_json(path, "table", MAX_TABLE_BYTES)
    return document
