"""The front door: what `import avatar3d` offers, how little it costs, and what it does with objects in place of names."""

import subprocess
import sys

import numpy as np
import pytest
from make_avatar import synthetic_avatar
from PIL import Image
from samples import sample, sample_rgb

import avatar3d
from avatar3d.errors import InputError
from avatar3d.generator.photo import PhotoGenerator
from avatar3d.photo import given_photo, load_photo


def test_everything_that_is_promised_is_there_and_told_of():
    for name in avatar3d.__all__:
        assert (getattr(avatar3d, name).__doc__ or "").strip(), name
        assert name in dir(avatar3d)
    assert "Parameters\n" in avatar3d.stereo_pair.__doc__ and "Parameters\n" in avatar3d.Camera.orbit.__doc__
    for name in ("enroll", "load", "save", "render", "open_motion", "evaluate"):
        words = getattr(avatar3d, name).__doc__
        assert "Parameters\n" in words and "Raises\n" in words, name
    with pytest.raises(AttributeError, match="enrol_me"):
        avatar3d.enrol_me  # noqa: B018


def test_importing_it_loads_nothing_heavy():
    program = "import sys, avatar3d; print(sorted({name.partition('.')[0] for name in sys.modules} & set(sys.argv[1:])))"
    words = ["torch", "scipy", "cv2", "numba", "moderngl", "numpy", "PIL"]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_door_stays_when_the_parts_behind_it_are_imported():
    program = "import avatar3d, avatar3d.enrolment, avatar3d.rendering, avatar3d.evaluation; print(callable(avatar3d.render))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_an_avatar_goes_to_a_file_and_back_and_is_drawn_for_two_eyes(tmp_path):
    avatar3d.save(synthetic_avatar(), tmp_path / "a.glb")
    avatar = avatar3d.load(tmp_path / "a.glb")
    smile = avatar3d.MotionCode.from_expression({"jawOpen": 0.8})
    left, right = avatar3d.render(avatar, avatar3d.stereo_pair(avatar3d.Camera.orbit(0.3, width=96, height=96)), smile)
    assert left.to_srgb8((255, 255, 255)).shape == (96, 96, 3)
    assert np.abs(left.rgba - right.rgba).max() > 0.05
    alone = avatar3d.render(tmp_path / "a.glb")
    assert alone.rgba.shape == (512, 512, 4) and alone.rgba[..., 3].max() > 0.9
    for wrong in (smile, [smile]):
        with pytest.raises(InputError, match="a MotionCode was given in place of cameras"):
            avatar3d.render(avatar, wrong)
    with pytest.raises(InputError, match=r"\.glb"):
        avatar3d.save(avatar, tmp_path / "a.gltf")


def test_a_motion_source_of_ones_own_is_taken_and_what_is_none_is_refused():
    class Nod:
        ended = False

        def read(self, timeout_s: float = 1.0) -> avatar3d.MotionCode:
            return avatar3d.MotionCode()

        def close(self) -> None:
            self.ended = True

    own = Nod()
    assert avatar3d.open_motion(own) is own
    with pytest.raises(InputError, match="no motion source: it has no read and no close"):
        avatar3d.open_motion(3)
    with pytest.raises(InputError, match="unknown motion source"):
        avatar3d.open_motion("nowhere:1")


def test_a_photo_is_a_file_a_picture_or_an_array():
    rgb = sample_rgb("astronaut.png")
    file, name, _ = given_photo(sample("astronaut.png"))
    assert name == "astronaut.png"
    turned = Image.fromarray(np.rot90(rgb, -1))
    turned.getexif()[0x0112] = 8  # turn it left to see it upright
    for given in (rgb, Image.fromarray(rgb), turned):
        assert np.array_equal(given_photo(given)[0].rgb, file.rgb)
    assert np.array_equal(load_photo(sample("astronaut.png")).rgb, rgb)
    for wrong in (rgb.astype(np.float32), rgb[..., 0], 7, rgb[:0]):
        with pytest.raises(InputError, match="expected a file, a Pillow image, or an"):
            given_photo(wrong)


@pytest.mark.slow
def test_an_array_enrols_as_its_file_does_and_the_report_comes_along(preview):
    report: dict[str, object] = {}
    avatar = avatar3d.enroll(sample_rgb("astronaut.png"), field=False, generator=PhotoGenerator, report=report)
    assert np.array_equal(avatar.base_color, preview.base_color)
    assert report["quality"]["grade"] == "good" and avatar.provenance["generator"] == "photo"
    with pytest.raises(InputError, match="no generator"):
        avatar3d.enroll(sample("astronaut.png"), generator=3)
