"""The table of the extension's numbers: reader, writer and documentation keep to it, and what it admits draws without a warning."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from avatar3d.avatar import Avatar
from avatar3d.cli import main
from avatar3d.errors import InputError, WorkError
from avatar3d.glb import parse_glb, write_glb
from avatar3d.glb.table import NUMBERS, Number
from tests.fuzzing.numbers import beyond, limits, pack, present, unpack, with_number
from tests.make_avatar import synthetic_avatar, tiny_avatar
from tools.avatar_file_page import PAGE, page

IDS = [row.path for row in NUMBERS]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The tiny avatar with a field in floats and in bytes, and a bake of version 1."""
    path = tmp_path_factory.mktemp("table") / "a.glb"
    found = []
    for byte_field in (False, True):
        write_glb(tiny_avatar(), path, byte_field=byte_field)
        found.append(path.read_bytes())
    document, body = unpack(found[0])
    content = document["extensions"]["AVATAR3D_neural"]
    content["version"] = 1
    motion = content["baked"].pop("motion")[0]
    content["baked"] |= {"skinQ1": motion["skin"], "hairQ1": motion["hair"]}
    return [*found, pack(document, body)]


def _file_with(files: list[bytes], row: Number) -> bytes:
    found = next((data for data in files if present(unpack(data)[0], row)), None)
    assert found is not None, f"no file here holds {row.path}: is it written at all?"
    return found


def _stored_together(document: dict, row: Number) -> list[str]:
    """Paths of the rows whose numbers lie in the same buffer view: equal arrays are stored once, and read under the first name."""
    if not row.kinds or row.path == "mesh.targets":
        return [row.path]
    views = {path: _view(document, path) for path in IDS if "[" not in path}
    return [row.path, *(path for path, view in views.items() if view is not None and view == views.get(row.path))]


def _view(document: dict, path: str) -> int | None:
    value = document["extensions"]["AVATAR3D_neural"]
    for key in path.split("."):
        value = value.get(key, {}) if isinstance(value, dict) else {}
    return value.get("bufferView") if isinstance(value, dict) else None


@pytest.mark.parametrize("row", NUMBERS, ids=IDS)
def test_a_number_beyond_its_range_is_refused_by_name(row: Number, files: list[bytes]) -> None:
    data = _file_with(files, row)
    for value in beyond(row):
        changed = with_number(*unpack(data), row, int(value) if row.whole else value, Random(0))
        with warnings.catch_warnings(), pytest.raises(InputError) as refused:
            warnings.simplefilter("error")
            parse_glb(changed, "case.glb")
        said = re.sub(r"\[\d+\]", "[]", str(refused.value))
        assert any(name.removesuffix("[]") in said for name in _stored_together(unpack(data)[0], row)), f"{value}: {said}"


@pytest.mark.parametrize("row", NUMBERS, ids=IDS)
def test_the_ends_of_a_range_lie_within(row: Number, files: list[bytes]) -> None:
    data = _file_with(files, row)
    for value in limits(row):
        changed = with_number(*unpack(data), row, int(value) if row.whole else value, Random(0))
        try:
            parse_glb(changed, "case.glb")
        except InputError as error:  # other things may not fit any more, such as levels that do not rise
            assert ", outside " not in str(error), error


_HUGE = [
    ("shadingPower", lambda a: {"shading_power": 9e29}),
    ("shadingPower", lambda a: {"shading_power": -9e29}),
    ("mesh.fieldWeight", lambda a: {"field_weight": np.full_like(a.field_weight, 3e38)}),
    ("field.colorBound", lambda a: {"neural_field": replace(a.neural_field, color_bound=9e29)}),
    (
        "field.layers[].weight",
        lambda a: {"neural_field": replace(a.neural_field, weights=[w * 3e38 for w in a.neural_field.weights])},
    ),
    ("baked.skinQ0.step", lambda a: {"baked": replace(a.baked, skin_q0=a.baked.skin_q0 * 1e30)}),
    ("mesh.uv", lambda a: {"uv": a.uv + 3e37}),
    ("hair.occlusion", lambda a: {"hair": replace(a.hair, occlusion=a.hair.occlusion * 3e38)}),
    (
        "texture.deltas[].logRatio.step",
        lambda a: {"texture_deltas": [replace(a.texture_deltas[0], log_ratio=np.float32(1e30) * a.base_color)]},
    ),
    ("mesh.headWeight", lambda a: {"head_weight": a.head_weight + 1e38}),
    ("mesh.vertexAlpha", lambda a: {"vertex_alpha": a.vertex_alpha - 2}),
    ("mesh.vertices", lambda a: {"vertices": a.vertices * np.float32(1e30)}),
    ("mesh.targets", lambda a: {"expression": a.expression * 1e6}),
]


@pytest.mark.parametrize(("path", "change"), _HUGE, ids=[path for path, _ in _HUGE])
def test_the_writer_refuses_what_the_reader_would(path: str, change: Callable[[Avatar], dict], tmp_path: Path) -> None:
    avatar = tiny_avatar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of making these
        wrong = replace(avatar, **change(avatar))
    with (
        warnings.catch_warnings(),
        pytest.raises(WorkError, match=rf"{re.escape(path)} holds .*, outside .*enrol the photo again"),
    ):
        warnings.simplefilter("error")
        write_glb(wrong, tmp_path / "a.glb")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("head") / "a.glb"
    write_glb(synthetic_avatar(), path)
    return path.read_bytes()


def _run(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """(exit code, stderr) of a command under which every warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        code = main(words)
    return code, capsys.readouterr().err


def _run_at(
    values: list[float], row: Number, head: bytes, words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command `words`, of which "IN" is the file, with each of a row's values: it works, or refuses in one sentence."""
    if not present(unpack(head)[0], row):
        pytest.skip("only in other forms of the file")
    for value in values:
        (folder / "a.glb").write_bytes(with_number(*unpack(head), row, int(value) if row.whole else value, Random(1)))
        named = [str(folder / "a.glb") if word == "IN" else word for word in words]
        code, err = _run([*named, "--quiet", "--expression", "jawOpen=1,mouthSmileLeft=1"], capsys)
        assert code in (0, 2) and err.count("\n") == (1 if code else 0), err


@pytest.mark.parametrize("row", NUMBERS, ids=IDS)
def test_whatever_the_table_admits_is_posed_without_a_warning(
    row: Number, head: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run_at(limits(row), row, head, ["export", "IN", "-o", str(tmp_path / "a.ply")], tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["live", "baked"])
@pytest.mark.parametrize("row", NUMBERS, ids=IDS)
def test_whatever_the_table_admits_is_drawn_without_a_warning(
    row: Number, form: str, head: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["render", "IN", "-o", str(tmp_path / "a.png"), "--size", "64", "--form", form]
    _run_at(limits(row)[1:], row, head, words, tmp_path, capsys)


def test_the_page_about_the_file_is_made_from_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run tools/avatar_file_page.py"
