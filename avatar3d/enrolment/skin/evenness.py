"""Light that the photo's spherical harmonics do not explain, told by the face's symmetry: cast shadows, lamps beside the face.

Both halves of a face have one skin. Where the photo shows both, and broad bands of their albedo differ by more than faces do, the
difference is light.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from avatar3d.color import LUMA_BT709
from avatar3d.enrolment.skin.projection import PhotoNodes
from avatar3d.enrolment.skin.surface import NodeGraph
from avatar3d.head.model import HeadModel

FLOOR = 2e-3  # linear; below it a ratio says nothing
WIDE_ROUNDS = 10  # of averaging over the head's vertices: about 11 mm, wider than features
NARROW_ROUNDS = 24  # over the nodes: about 4 mm, the width of a nose's shadow edge
# Natural log of linear colour; of a difference between the sides about so much stays: people are not quite even, and a feature
# narrower than a shadow may be a mark.
WIDE_KEPT, NARROW_KEPT = 0.10, 0.35
LIT_POWER = 1.5  # of brightness in each side's say: a side in shadow is noisier, and its light more mixed
HEIGHTS, HEIGHT_PAIRS = 3, 60  # parts of the face, from below, and pairs that each must have
MIN_TRUST = 0.05  # of the lesser side's weight; from twice of it on the pair is believed


def side_light(head: HeadModel, graph: NodeGraph, nodes: PhotoNodes, albedo: np.ndarray) -> np.ndarray:
    """(N, 3) natural log of the light beyond the estimate that nodes with linear albedo (N, 3) lie in; zero where it is unknown."""
    plain = nodes.weight * (1 - nodes.brows) * (1 - nodes.eyes)
    values = np.log(np.maximum(albedo, FLOOR))
    wide = _wide(head, graph, values, plain)
    say = plain * np.exp(LIT_POWER * (wide @ LUMA_BT709))
    light = _excess(graph, wide, plain, say, WIDE_KEPT)
    light = graph.spread @ _smoothed(head, _to_vertices(head, graph, light, np.ones(len(light))), 2)
    narrow = graph.blurred(values - light, NARROW_ROUNDS, plain)
    return light + graph.blurred(_excess(graph, narrow, plain * (1 - nodes.lips), say, NARROW_KEPT), 2)


def side_contrast(graph: NodeGraph, nodes: PhotoNodes) -> float:
    """Absolute natural log of one side's brightness over the other's: the median over the pairs of plain skin, of that height of the
    face that is the most even; 0 if unseen. A hand or a fringe on one side lies at one height, light at all."""
    pairs = np.flatnonzero(nodes.core & nodes.core[graph.mirror] & (graph.rest[:, 0] > 0))
    if len(pairs) < HEIGHTS * HEIGHT_PAIRS:
        return 0.0
    brightness = np.log(np.maximum(nodes.linear @ LUMA_BT709, FLOOR))
    difference = (brightness - brightness[graph.mirror])[pairs]
    height = graph.rest[pairs, 1]
    inner = np.quantile(height, np.linspace(0, 1, HEIGHTS + 1))[1:-1]
    band = np.searchsorted(inner, height)
    return float(min(abs(np.median(difference[band == k])) for k in range(HEIGHTS)))


def _excess(graph: NodeGraph, band: np.ndarray, weight: np.ndarray, say: np.ndarray, kept: float) -> np.ndarray:
    """(N, 3) what of a band (N, 3) of log albedo exceeds the pair's mean by `say` (N,), beyond a difference of `kept`."""
    other = graph.mirror
    share = (say[other] / np.maximum(say + say[other], 1e-9))[:, None]
    difference = band - band[other]
    size = np.maximum(np.abs(difference @ LUMA_BT709), np.abs(difference).max(1) / 2)[:, None]
    beyond = 1 - kept * np.tanh(size / kept) / np.maximum(size, 1e-6)
    trust = np.clip(np.minimum(weight, weight[other]) / MIN_TRUST - 1, 0, 1)[:, None]
    return difference * share * beyond * trust


def _wide(head: HeadModel, graph: NodeGraph, values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(N, 3) weighted broad band of values (N, 3)."""
    return graph.spread @ _smoothed(head, _to_vertices(head, graph, values, weight), WIDE_ROUNDS)


def _to_vertices(head: HeadModel, graph: NodeGraph, values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(V, 4) sums over the nodes around each vertex, weighted values and weight, alike on welded vertices."""
    gathered = graph.spread.T @ np.c_[values * weight[:, None], weight]
    sums = np.zeros_like(gathered)
    np.add.at(sums, head.weld, gathered)
    return sums[head.weld]


def _smoothed(head: HeadModel, sums: np.ndarray, rounds: int) -> np.ndarray:
    """(V, 3) weighted means after averaging sums (V, 4) over neighbouring vertices."""
    faces = head.weld[head.faces]
    ends = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    count = len(head.vertices)
    links = sp.csr_matrix((np.ones(2 * len(ends)), (ends.ravel(), ends[:, ::-1].ravel())), (count, count))
    degree = np.maximum(np.asarray(links.sum(1)).ravel(), 1)
    mean = sp.diags(1 / degree) @ links
    for _ in range(rounds):
        sums = 0.5 * (sums + mean @ sums)
    sums = sums[head.weld]
    return sums[:, :3] / np.maximum(sums[:, 3:], 1e-6)
