"""tools/corpus.yaml as data, and its photos as files that enrolment reads; measures nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from avatar3d import models
from avatar3d.errors import InputError
from avatar3d.files import read_yaml
from avatar3d.photo import load_photo

from .made import MADE, make

TABLE = Path(__file__).resolve().parents[1] / "corpus.yaml"
MAX_TABLE_BYTES = 100_000
HALVES = ("tune", "judge")


@dataclass(frozen=True)
class Entry:
    """One photo. box, crop: (x, y, width, height) pixels. made: the transform it was made by from the entry `base`."""

    id: str
    person: str
    half: str
    file: str
    box: tuple[int, int, int, int] | None = None
    crop: tuple[int, int, int, int] | None = None
    frame: int | None = None
    refused: bool = False
    made: str | None = None
    base: str | None = None


@dataclass(frozen=True)
class Film:
    """One film. photo: id of the entry whose avatar it drives."""

    id: str
    person: str
    half: str
    file: str
    photo: str


@dataclass(frozen=True)
class Corpus:
    """entries: photos in the table's order, then the made cases. films: in the table's order. by_eye: grades of the tune half's heads
    by entry, as a person sees them."""

    entries: list[Entry]
    films: list[Film]
    by_eye: dict[str, str]

    def entry(self, id_: str) -> Entry:
        """The entry called `id_`; raises InputError when there is none."""
        for item in self.entries:
            if item.id == id_:
                return item
        raise InputError(f"no photo of the corpus is called {id_}; `tools/corpus --list` names them all")

    def chosen(self, half: str, only: Iterable[str] = (), made: bool = False) -> list[Entry]:
        """Entries of a half (or `all`): the photos, with `made` the made cases too, or those named by id or person.

        Raises InputError for a name of neither photo, person nor film.
        """
        names = set(only)
        known = {name for item in self.entries for name in (item.id, item.person)} | {film.id for film in self.films}
        if names - known:
            raise InputError(f"no photo of the corpus is called {min(names - known)}; `tools/corpus --list` names them all")
        return [
            item
            for item in self.entries
            if (half == "all" or item.half == half)
            and (item.id in names or ((item.made is None or made) and (not names or item.person in names)))
        ]


def read_corpus(path: Path = TABLE) -> Corpus:
    """The table; raises InputError where it contradicts itself, so that no person is in two halves or none."""
    document = read_yaml(path, "corpus", MAX_TABLE_BYTES)
    half_of: dict[str, str] = {}
    for half in HALVES:
        for person in document["people"][half]:
            if person in half_of:
                raise InputError(f"{path.name}: {person} is named twice; a person is in one half, once")
            half_of[person] = half
    entries = []
    for id_, fields in document["photos"].items():
        if fields["person"] not in half_of:
            raise InputError(f"{path.name}: {fields['person']} of {id_} is in no half; add the name under people")
        places = {key: tuple(fields[key]) for key in ("box", "crop") if key in fields}
        entries.append(Entry(id=id_, half=half_of[fields["person"]], **{**fields, **places}))
    photos = {item.id: item for item in entries}
    for transform, bases in document["made"].items():
        if transform not in MADE:
            raise InputError(f"{path.name}: no transform is called {transform}; expected one of {', '.join(MADE)}")
        for base in bases:
            source = photos[base]
            entries.append(
                Entry(
                    f"{base}+{transform}", source.person, source.half, source.file, crop=source.crop, made=transform, base=base
                )
            )
    films = [Film(id=id_, half=half_of[fields["person"]], **fields) for id_, fields in document["films"].items()]
    by_eye = {id_: grade for grade, ids in document["by_eye"].items() for id_ in ids}
    if strange := by_eye.keys() - {id_ for id_, item in photos.items() if item.half == "tune"}:
        raise InputError(f"{path.name}: {min(strange)} is graded by eye and is no photo of the tune half")
    return Corpus(entries, films, by_eye)


def fetch(corpus: Corpus, entries: Iterable[Entry], films: Iterable[Film] = ()) -> None:
    """Put what the entries and films need into avatar3d's cache, each package fetched once. Raises as `models.pull` does."""
    names = {item.file for item in entries} | {item.file for item in films}
    names |= {corpus.entry(film.photo).file for film in films}
    models.pull(sorted(names))


def photo_file(corpus: Corpus, entry: Entry, folder: Path) -> Path:
    """The photo as a file: the package's own where it is one, else cut, decoded or made into `folder`."""
    source = models.sample(entry.file)
    if entry.made is not None and entry.base is not None:
        path = folder / f"{entry.id}{'.jpg' if entry.made == 'jpeg' else '.png'}"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            make(entry.made, load_photo(photo_file(corpus, corpus.entry(entry.base), folder)).rgb, path)
        return path
    if entry.crop is None and entry.frame is None:
        return source
    path = folder / f"{entry.id}.png"
    if not path.exists():
        rgb = film_frame(source, entry.frame) if entry.frame is not None else load_photo(source).rgb
        if entry.crop is not None:
            x, y, width, height = entry.crop
            rgb = rgb[y : y + height, x : x + width]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rgb).save(path)
    return path


def film_frame(path: Path, number: int) -> np.ndarray:
    """(H, W, 3) u8 sRGB: frame `number` of a film, counted by decoding from its start, so that no seek can miss it."""
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    try:
        for _ in range(number + 1):
            good, frame = capture.read()
            if not good:
                raise InputError(f"{path.name} has no frame {number}")
    finally:
        capture.release()
    return cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)
