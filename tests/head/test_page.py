"""docs/head-model.md: its example runs on arrays of another head, and its table names what the contract has."""

import re
from pathlib import Path

import numpy as np
import pytest
from other_head import other_head
from samples import model, sample

from avatar3d.avatar import JOINT_NAMES
from avatar3d.head.given import MEMBERS
from avatar3d.head.model import EYES, SKIN
from avatar3d.head.protocol import LASH_REGION, REGIONS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "head-model.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_table_names_every_member_region_and_joint():
    table = PAGE[PAGE.index("| member |") : PAGE.index("Seams, the mirror")]
    named = set()
    for cell in re.findall(r"^\| ([^|]*) \|", table, re.MULTILINE):
        words = re.findall(r"`([\w]+)(?:\(\w*\))?`", cell)
        named |= {word if not word.startswith("_") else words[0].partition("_")[0] + word for word in words}
    assert named - {"member"} == set(MEMBERS)
    for name in (*REGIONS, LASH_REGION, *JOINT_NAMES):
        assert f"`{name}`" in table


@pytest.mark.slow
def test_the_example_enrols_and_writes_a_head(tmp_path, monkeypatch):
    for network in ("face_landmarker.task", "selfie_segmentation.tflite"):
        model(network)
    monkeypatch.chdir(tmp_path)
    head = other_head((SKIN, EYES), -0.13)  # and as bare as a model may be: no mouth bag, and an end at the neck
    joints = [head.joint_names.index(name) for name in ("neck", "head", "jaw", "leftEye", "rightEye")]
    arrays = {name: value for name, value in vars(head).items() if isinstance(value, np.ndarray)}
    arrays |= {"joint_regressor": head.joint_regressor[joints], "region_names": np.array(list(head.regions)),
               "regions": np.stack(list(head.regions.values()))}  # fmt: skip
    np.savez("my_arrays.npz", **arrays)
    (tmp_path / "photo.jpg").write_bytes(sample("astronaut.png").read_bytes())
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(compile(block, "docs/head-model.md", "exec"), names)
    from avatar3d.glb import read_glb
    from avatar3d.head.archive import load_head

    assert read_glb("me.glb").expression[17].any() and not read_glb("me.glb").expression[14].any()  # jawOpen, and no jawForward
    assert len(load_head("my_head.npz").vertices) == len(head.vertices)
