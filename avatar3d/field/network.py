"""The field as a torch module with a choice of back end for the hash grid: `torch` (definition's twin), `numba`, `tcnn`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from avatar3d.avatar import FieldParams
from avatar3d.errors import InputError, WorkError
from avatar3d.field import tcnn
from avatar3d.field.definition import HASH_PRIMES, is_dense

IMPLEMENTATIONS = ("numba", "torch", "tcnn")
DEVICES = ("cpu", "cuda")


def check_back_end(implementation: str, device: str) -> None:
    """Whether a field can be trained so on this machine; says what is missing before any work is done.

    Raises InputError for an unknown name or a pair that does not exist, WorkError where a device or a package is missing.
    """
    if implementation not in IMPLEMENTATIONS:
        raise InputError(f"unknown field back end {implementation!r}; expected one of {', '.join(IMPLEMENTATIONS)}")
    if device not in DEVICES:
        raise InputError(f"unknown device {device!r}; expected one of {', '.join(DEVICES)}")
    if (implementation, device) in (("numba", "cuda"), ("tcnn", "cpu")):
        other = "torch or tcnn" if device == "cuda" else "numba or torch"
        raise InputError(f"the field back end {implementation} does not run on {device}; choose {other}, or the other device")
    if device == "cuda" and not torch.cuda.is_available():
        why = "was built without CUDA" if torch.version.cuda is None else "finds no NVIDIA GPU that its driver offers"
        raise WorkError(
            f"--device cuda needs a CUDA device, and torch {torch.__version__} {why}; leave it at cpu, or install both"
        )
    if implementation == "tcnn":
        tcnn.load()


class _NumbaEncoding(torch.autograd.Function):
    """encode() with numba's kernels; gradients reach the tables, not the positions (training never moves a surface)."""

    @staticmethod
    def forward(ctx: Any, unit: torch.Tensor, tables: torch.Tensor, resolutions: np.ndarray) -> torch.Tensor:
        from avatar3d.field.kernels import encode_forward

        levels, _, features = tables.shape
        unit = unit.detach().contiguous()
        out = torch.empty(len(unit), levels * features)
        encode_forward(unit.numpy(), tables.detach().numpy(), resolutions, out.numpy())
        ctx.unit, ctx.resolutions, ctx.shape = unit, resolutions, tables.shape
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, torch.Tensor, None]:
        from avatar3d.field.kernels import encode_backward

        table_gradient = torch.empty(ctx.shape)
        encode_backward(ctx.unit.numpy(), gradients[0].contiguous().numpy(), ctx.resolutions, table_gradient.numpy())
        return None, table_gradient, None


def encode_torch(unit: torch.Tensor, tables: torch.Tensor, resolutions: np.ndarray) -> torch.Tensor:
    """(N, L·F) features of unit positions (N, 3) in [0, 1]; differentiable in tables and positions."""
    _, table_size, features = tables.shape
    steps = torch.tensor([[c & 1, c >> 1 & 1, c >> 2 & 1] for c in range(8)], device=unit.device)
    out = []
    for level, resolution in enumerate(resolutions.tolist()):
        scaled = unit * resolution
        cell = scaled.detach().floor().clamp(max=resolution - 1)
        fraction = (scaled - cell)[:, None]
        weight = torch.where(steps == 1, fraction, 1 - fraction).prod(-1)
        corner = cell.long()[:, None] + steps
        x, y, z = corner.unbind(-1)
        if is_dense(resolution, table_size):
            entry = x + (resolution + 1) * (y + (resolution + 1) * z)
        else:
            entry = (x * HASH_PRIMES[0] ^ y * HASH_PRIMES[1] ^ z * HASH_PRIMES[2]) & (table_size - 1)
        picked = tables[level].index_select(0, entry.reshape(-1)).reshape(len(unit), 8, features)
        out.append((weight[..., None] * picked).sum(1))
    return torch.cat(out, dim=1)


def harmonics_torch(d: torch.Tensor) -> torch.Tensor:
    """definition.spherical_harmonics for torch: (N, 3) to (N, 8)."""
    x, y, z = d.unbind(-1)
    return torch.stack([x, y, z, x * y, y * z, 3 * z * z - 1, x * z, x * x - y * y], dim=-1)


class NeuralField(torch.nn.Module):
    """The field with trainable tables and MLP; the motion projection and the box stay as given.

    implementation: "numba" (training on CPUs), "torch" (any device; the twin the tests trust), "tcnn" (CUDA with tiny-cuda-nn).
    Raises InputError on another name and WorkError when the named back end is missing here.
    """

    box_min: torch.Tensor
    box_extent: torch.Tensor
    motion_projection: torch.Tensor

    def __init__(self, params: FieldParams, implementation: str = "numba") -> None:
        super().__init__()
        if implementation not in IMPLEMENTATIONS:
            raise InputError(f"unknown field back end {implementation!r}; expected one of {', '.join(IMPLEMENTATIONS)}")
        self.implementation = implementation
        self.resolutions = np.ascontiguousarray(params.resolutions, dtype=np.int64)
        self.color_bound, self.alpha_bound = float(params.color_bound), float(params.alpha_bound)
        self.register_buffer("box_min", torch.tensor(params.box_min, dtype=torch.float32))
        self.register_buffer("box_extent", torch.tensor(params.box_max - params.box_min, dtype=torch.float32))
        self.register_buffer("motion_projection", torch.tensor(params.motion_projection, dtype=torch.float32))
        if implementation == "tcnn":
            self.grid = tcnn.Grid(params)
        else:
            self.tables = torch.nn.Parameter(torch.tensor(params.tables, dtype=torch.float32))
        self.layers = torch.nn.ModuleList()
        for weight, bias in zip(params.weights, params.biases, strict=True):
            layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
            with torch.no_grad():
                layer.weight.copy_(torch.tensor(weight))
                layer.bias.copy_(torch.tensor(bias))
            self.layers.append(layer)

    def grid_parameters(self) -> list[torch.nn.Parameter]:
        """The hash tables' parameters; the rest of parameters() is the MLP."""
        return list(self.grid.parameters()) if self.implementation == "tcnn" else [self.tables]

    def mlp_parameters(self) -> list[torch.nn.Parameter]:
        """The MLP's parameters."""
        return list(self.layers.parameters())

    def encode(self, positions: torch.Tensor) -> torch.Tensor:
        """(N, L·F) features of positions (N, 3) metres."""
        unit = ((positions.to(self.box_min.device) - self.box_min) / self.box_extent).clamp(0, 1)
        if self.implementation == "numba":
            return _NumbaEncoding.apply(unit, self.tables, self.resolutions)  # type: ignore[no-untyped-call]
        if self.implementation == "tcnn":
            return self.grid(unit)
        return encode_torch(unit, self.tables, self.resolutions)

    def head(self, features: torch.Tensor, d: torch.Tensor, motion: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Residual (N, 3) and opacity change (N,) of features (N, L·F), directions (N, 3), projected motion (N or 1, M).

        Whatever device the field is on, the answer is where the directions are.
        """
        device = features.device
        value = torch.cat([features, harmonics_torch(d.to(device)), motion.to(device).expand(len(d), -1)], dim=1)
        for index, layer in enumerate(self.layers):
            value = layer(value)
            if index + 1 < len(self.layers):
                value = torch.relu(value)
        value = (value / (1 + value.abs())).to(d.device)
        return value[:, :3] * self.color_bound, value[:, 3] * self.alpha_bound

    def forward(self, positions: torch.Tensor, d: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """definition.evaluate for torch: positions (N, 3) m, d (N, 3), weights (52,) or (N, 52) → (N, 3), (N,)."""
        projection = self.motion_projection
        motion = weights.to(projection.device, torch.float32).reshape(-1, projection.shape[0]) @ projection
        return self.head(self.encode(positions), d, motion)

    def to_params(self) -> FieldParams:
        """The numbers as they stand, as numpy arrays."""

        def array(tensor: torch.Tensor) -> np.ndarray:
            return tensor.detach().float().cpu().numpy().copy()

        mlp = self.mlp_parameters()  # weight, bias, weight, bias, …
        tables = self.grid.tables() if self.implementation == "tcnn" else array(self.tables)
        return FieldParams(
            box_min=array(self.box_min),
            box_max=array(self.box_min + self.box_extent),
            resolutions=self.resolutions.copy(),
            tables=tables,
            motion_projection=array(self.motion_projection),
            weights=[array(parameter) for parameter in mlp[::2]],
            biases=[array(parameter) for parameter in mlp[1::2]],
            color_bound=self.color_bound,
            alpha_bound=self.alpha_bound,
        )


class Adam:
    """AdamW: on the CPU in one fused loop (torch.optim's own costs a second of imports and several passes a step), else by torch.

    fused: None for as the parameters' device asks.
    """

    def __init__(
        self, groups: list[tuple[list[torch.nn.Parameter], float, float]], betas: tuple[float, float], epsilon: float,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        """groups: [(parameters, step size, decoupled weight decay)]."""
        self._betas, self._epsilon, self._step = betas, epsilon, 0
        self._fused = fused
        self._state = [
            (
                parameter,
                rate,
                decay,
                torch.zeros_like(parameter.detach()).view(-1),
                torch.zeros_like(parameter.detach()).view(-1),
            )
            for parameters, rate, decay in groups
            for parameter in parameters
        ]

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter, *_ in self._state:
            parameter.grad = None

    def step(self, factor: float = 1.0) -> None:
        """Move every parameter that has a gradient; step sizes are multiplied by `factor`."""
        self._step += 1
        for parameter, rate, decay, first, second in self._state:
            if parameter.grad is None:
                continue
            flat, gradient = parameter.detach().view(-1), parameter.grad.contiguous().view(-1)
            fused = flat.device.type == "cpu" if self._fused is None else self._fused
            step: Callable[..., None] = _fused_step if fused else _torch_step
            step(flat, gradient, first, second, self._step, rate * factor, self._betas, self._epsilon, decay)


def _fused_step(flat: torch.Tensor, gradient: torch.Tensor, first: torch.Tensor, second: torch.Tensor, *settings: Any) -> None:
    from avatar3d.field.kernels import adam_step

    adam_step(flat.numpy(), gradient.numpy(), first.numpy(), second.numpy(), *settings)


def _torch_step(
    flat: torch.Tensor, gradient: torch.Tensor, first: torch.Tensor, second: torch.Tensor,
    step: int, rate: float, betas: tuple[float, float], epsilon: float, decay: float,
) -> None:  # fmt: skip
    """adam_step, for any device (Loshchilov and Hutter 2019, algorithm 2)."""
    first.mul_(betas[0]).add_(gradient, alpha=1 - betas[0])
    second.mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
    mean, spread = first / (1 - betas[0] ** step), second / (1 - betas[1] ** step)
    flat.mul_(1 - rate * decay).sub_(rate * mean / (spread.sqrt() + epsilon))
