"""Vocabularies of other trackers and what each becomes in ARKit's 52 weights; the tables are configs/vocabularies/*.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from avatar3d.errors import InputError
from avatar3d.files import read_yaml
from avatar3d.motion.code import ARKIT_INDEX, ARKIT_NAMES
from avatar3d.resources import config_path

NAMES = ("unified", "fb2", "htc", "android")
MAX_TABLE_BYTES = 100_000


@dataclass(frozen=True)
class Vocabulary:
    """title: of the standard. names (N,): its weights in its order. lost: {name: why no ARKit weight carries it}.

    missing: {ARKit name: why it stays 0}. forward (52, N) and back (N, 52): the linear tables.
    combined: {name: (names a positive value sets, names a negative value sets)}.
    """

    title: str
    sources: tuple[str, ...]
    names: tuple[str, ...]
    lost: dict[str, str]
    missing: dict[str, str]
    forward: np.ndarray
    back: np.ndarray
    combined: dict[str, tuple[tuple[str, ...], tuple[str, ...]]]

    @property
    def index(self) -> dict[str, int]:
        """{name: place}."""
        return {name: place for place, name in enumerate(self.names)}

    def to_arkit(self, values: np.ndarray) -> np.ndarray:
        """(52,) ARKit weights in [0, 1] of (N,) values; what is not finite stays so, for the validator to mend.

        Raises InputError on another length.
        """
        values = np.asarray(values, dtype=np.float64)
        if values.shape != (len(self.names),):
            raise InputError(f"{values.shape} weights were given for {self.title}, expected ({len(self.names)},)")
        with np.errstate(invalid="ignore", over="ignore"):
            # A row must not spread one broken value to the rows that do not use it (0 · nan is nan).
            terms = np.where(self.forward != 0, self.forward * values, 0.0)
            return np.clip(terms.sum(axis=1), 0.0, 1.0)

    def from_arkit(self, weights: np.ndarray) -> np.ndarray:
        """(N,) values in [0, 1] whose `to_arkit` is (52,) `weights`, but for the weights in `missing`."""
        return np.clip(self.back @ np.asarray(weights, dtype=np.float64), 0.0, 1.0)


@lru_cache(maxsize=len(NAMES))
def vocabulary(name: str) -> Vocabulary:
    """One of NAMES, read once; raises InputError for another name or a table that contradicts itself."""
    if name not in NAMES:
        raise InputError(f"unknown vocabulary {name!r}; expected one of {', '.join(NAMES)}")
    table = read_yaml(config_path(f"vocabularies/{name}.yaml"), "vocabulary", MAX_TABLE_BYTES)
    names = tuple(table["names"])
    place = {name: index for index, name in enumerate(names)}
    if len(place) != table["count"]:
        raise InputError(f"the vocabulary {name} names {len(place)} weights, not the {table['count']} it states")
    forward = np.zeros((52, len(names)))
    for arkit, row in table["to_arkit"].items():
        for term, share in row.items():
            forward[ARKIT_INDEX[arkit], place[term]] = share
    back = (forward != 0).astype(np.float64).T
    for term, row in table.get("from_arkit", {}).items():
        back[place[term]] = 0.0
        for arkit, share in row.items():
            back[place[term], ARKIT_INDEX[arkit]] = share
    for term in np.flatnonzero((back != 0).sum(axis=1) > 1):
        if names[term] not in table.get("from_arkit", {}):
            raise InputError(f"the vocabulary {name} has no way back for {names[term]}, which feeds two weights")
    unused = {term for term in names if not forward[:, place[term]].any()}
    silent = {arkit for arkit in ARKIT_NAMES if not forward[ARKIT_INDEX[arkit]].any()}
    if set(table["lost"]) != unused or set(table["missing"]) != silent:
        raise InputError(f"the vocabulary {name} does not say rightly what is lost: {sorted(unused ^ set(table['lost']))}")
    combined = {key: (tuple(plus), tuple(minus)) for key, (plus, minus) in table.get("combined", {}).items()}
    return Vocabulary(table["title"], tuple(table["sources"]), names, table["lost"], table["missing"], forward, back, combined)
