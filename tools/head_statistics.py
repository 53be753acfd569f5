"""The statistical face: mean and principal modes of real scans (ICT-FaceKit, MIT) brought into the head's own controls."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sl

from avatar3d.head.model import EYES

# ICT's faces, brought onto this head's skin: the file's `meta` says how. MIT; its licence lies beside it.
MODES_FILE = Path(__file__).resolve().parents[1] / "assets" / "ict_modes.npz"
MODES_SHA256 = "fdb68ae69698993cbf16c84a129ceb27bd5bb273dcde928e82e2e3b9d6813ac4"
# Share of ICT's mean in the template: 1.0 fits ICT's own subjects best, 0.5 other faces, whose noses are shorter.
MEAN_SHARE = 0.75
MODES = 30  # of 50; what the rest adds to the fit is below its noise
MODE_SIGMA, MODE_BOX = 0.45, 3.5  # prior deviation in the fit, and bound, in deviations of the scanned people
CONTROL_RIDGE = 1e-6  # picks the smallest of the control displacements that give the same vertices
STEP_M = 1e-5  # of the stored displacements; the source's own step


def read_modes(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Mean (V,3) and modes (K,V,3), metres, on the head's vertices; SystemExit where the file is not the recorded one."""
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != MODES_SHA256:
        raise SystemExit(f"{path} has SHA-256 {found}, expected {MODES_SHA256}")
    with np.load(path, allow_pickle=False) as data:
        step, back = float(STEP_M), data["back"]
        return data["mean"][back] * step, data["modes"][:MODES, back] * step


def add_statistics(arrays: dict[str, np.ndarray], path: Path) -> None:
    """Move the template of a head asset's arrays by the mean and append the modes to its identity shapes, in place."""
    mean, modes = read_modes(path)
    if mean.shape != arrays["vertices"].shape:
        raise SystemExit(f"{path} is for a head of {len(mean)} vertices, this one has {len(arrays['vertices'])}")
    bind = sp.csr_matrix(
        (arrays["bind_data"].astype(float), arrays["bind_indices"].astype(int), arrays["bind_indptr"]),
        (len(mean), int(arrays["control_count"])),
    )
    solve = sl.factorized((bind.T @ bind + CONTROL_RIDGE * sp.eye(bind.shape[1])).tocsc())
    both = np.concatenate([mean[None], modes])
    flat = bind.T @ np.moveaxis(both, 0, 1).reshape(len(mean), -1)
    controls = np.stack([solve(column) for column in flat.T], 1).reshape(bind.shape[1], len(both), 3)
    controls = np.moveaxis(controls, 1, 0)
    moved = arrays["vertices"] + MEAN_SHARE * (bind @ controls[0])
    # The head's origin is the middle between the eyes, and the eyes have moved.
    eyes = arrays["part"] == EYES
    moved -= [0.0, *(moved[eyes] - arrays["vertices"][eyes]).mean(0)[1:]]
    arrays["vertices"] = moved.astype(np.float32)
    count = len(modes)
    quantised = np.round(controls[1:] / STEP_M).astype(np.int16)
    for name, values in (
        ("identity_quantised", quantised),
        ("identity_scale", np.full(count, STEP_M)),
        ("identity_names", np.array([f"ict/{k:02d}" for k in range(count)])),
        ("identity_lower", np.full(count, -MODE_BOX)),
        ("identity_upper", np.full(count, MODE_BOX)),
        ("identity_mean", np.zeros(count)),
        ("identity_sigma", np.full(count, MODE_SIGMA)),
    ):
        old = arrays[name]
        new = np.concatenate([old, values])
        arrays[name] = new if old.dtype.kind == "U" else new.astype(old.dtype)
