"""Which back end trains a field where: what is missing is said before any work, and the steps for a GPU are the CPU's."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from avatar3d import cli
from avatar3d.errors import InputError, WorkError
from avatar3d.field import tcnn
from avatar3d.field.network import Adam, check_back_end


@pytest.mark.parametrize(
    ("implementation", "device", "error", "words"),
    [
        ("cuda", "cpu", InputError, "unknown field back end 'cuda'"),
        ("torch", "gpu", InputError, "unknown device 'gpu'"),
        ("numba", "cuda", InputError, "numba does not run on cuda; choose torch or tcnn"),
        ("tcnn", "cpu", InputError, "tcnn does not run on cpu; choose numba or torch"),
    ],
)
def test_a_pair_that_does_not_exist_is_refused(implementation, device, error, words):
    with pytest.raises(error, match=words):
        check_back_end(implementation, device)


def test_what_runs_here_is_taken():
    check_back_end("numba", "cpu")
    check_back_end("torch", "cpu")


@pytest.mark.parametrize(("version", "words"), [(None, "was built without CUDA"), ("12.8", "finds no NVIDIA GPU")])
def test_without_a_gpu_it_says_which_half_is_missing(monkeypatch, version, words):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", version)
    with pytest.raises(WorkError, match=words):
        check_back_end("torch", "cuda")


def test_without_tiny_cuda_nn_it_says_how_to_build_it(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(__import__("sys").modules, "tinycudann", None)
    for attempt in (tcnn.load, lambda: check_back_end("tcnn", "cuda")):
        with pytest.raises(WorkError, match="git.*tiny-cuda-nn"):
            attempt()


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--device", "cuda", "--field-backend", "numba"], 2, "numba does not run on cuda"),
        (["--field-backend", "tcnn"], 2, "tcnn does not run on cpu"),
        (["--device", "cuda"], 1, "needs a CUDA device"),
        (["--device", "cuda", "--field-backend", "tcnn"], 1, "needs a CUDA device"),
    ],
)
def test_enrolment_says_it_before_it_reads_the_photo(monkeypatch, capsys, tmp_path, words, code, sentence):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert cli.main(["enroll", str(tmp_path / "none.jpg"), "-o", str(tmp_path / "a.glb"), *words]) == code
    assert sentence in capsys.readouterr().err
    # Without a field none of it is asked for.
    assert cli.main(["enroll", str(tmp_path / "none.jpg"), "-o", str(tmp_path / "a.glb"), "--no-field", *words]) == 2
    assert "none.jpg" in capsys.readouterr().err


def test_steps_by_torch_are_those_of_the_fused_loop():
    random = np.random.default_rng(1)
    start = random.normal(size=(40, 3)).astype(np.float32)
    found = []
    for fused in (True, False):
        parameter = torch.nn.Parameter(torch.tensor(start))
        optimizer = Adam([([parameter], 1e-2, 0.5)], (0.9, 0.99), 1e-15, fused)
        gradients = np.random.default_rng(2)
        for step in range(20):
            parameter.grad = torch.tensor(gradients.normal(size=start.shape).astype(np.float32))
            optimizer.step(1 - step / 40)
        found.append(parameter.detach().numpy())
    assert np.abs(found[0] - start).max() > 0.01
    np.testing.assert_allclose(found[0], found[1], atol=2e-6)


@pytest.mark.slow
def test_encoding_gives_the_same_bits_compiled_now_and_from_the_cache(tmp_path):
    code = (
        "import hashlib, numpy as np; from avatar3d.field.kernels import encode_forward\n"
        "rng = np.random.default_rng(0)\n"
        "unit, tables = rng.random((5000, 3), np.float32), rng.random((4, 1 << 14, 4), np.float32)\n"
        "out = np.empty((5000, 16), np.float32)\n"
        "encode_forward(unit, tables, np.array([16, 32, 64, 128]), out)\n"
        "print(hashlib.sha256(out.tobytes()).hexdigest())"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    said = [
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert any(tmp_path.rglob("*.nbc")) and said[0] == said[1]
