import numpy as np
import pytest

from avatar3d.camera import Camera
from avatar3d.enrolment.skin.surface import atlas, depth_map, node_graph
from avatar3d.head.model import HeadModel


@pytest.fixture(scope="module")
def head():
    return HeadModel.default()


@pytest.fixture(scope="module")
def graph(head):
    return node_graph(head)


def test_texels_read_from_nodes_what_they_read_from_vertices(head, graph):
    texels = atlas(head, graph, 256)
    direct = texels.raster.interpolate(head.faces, head.vertices)[texels.on_graph]
    by_nodes = texels.from_nodes @ (graph.spread @ head.vertices)
    assert np.linalg.norm(direct - by_nodes, axis=1).max() < 1e-4
    assert np.allclose(np.asarray(texels.from_nodes.sum(1)).ravel(), 1, atol=1e-3)


def test_nodes_are_shared_across_texture_seams(head, graph):
    """As many nodes as places: two nodes never lie at one point of the welded skin."""
    from scipy.spatial import cKDTree

    above_the_bust = graph.rest[graph.rest[:, 1] > -0.16]  # the bust's cap is a surface of its own
    assert not cKDTree(above_the_bust).query_pairs(1e-7)


def test_the_laplacian_ignores_a_constant_and_the_mirror_is_its_own_inverse(graph):
    assert np.abs(graph.laplacian @ np.ones(len(graph.rest))).max() < 1e-9
    mirrored = graph.rest[graph.mirror] * (-1, 1, 1)
    above_the_bust = graph.rest[:, 1] > -0.16
    assert np.abs(mirrored - graph.rest)[above_the_bust].max() < 0.002


def test_weighted_blur_fills_from_the_known_side_only(graph):
    known = graph.rest[:, 0] > 0
    values = np.where(known, 1.0, -5.0)
    blurred = graph.blurred(values, 8, known.astype(float))
    near = (graph.rest[:, 0] < 0) & (graph.rest[:, 0] > -0.002)
    assert np.percentile(blurred[near], 5) > 0.85  # and far from −5: what leaks over long edges is a fortieth of the step


def test_erosion_takes_the_least_of_the_neighbours(graph):
    values = np.ones(len(graph.rest))
    hole = int(graph.faces[1000, 0])
    values[hole] = 0
    eroded = graph.eroded(values, 1)
    ring = graph.faces[(graph.faces == hole).any(1)]
    assert (eroded[np.unique(ring)] == 0).all()
    assert eroded.sum() == len(values) - len(np.unique(ring))


def test_depth_of_a_known_square():
    vertices = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]], float) * 0.05
    camera = Camera.orbit(0.0, 0.0, 0.7, 64, 64, 0.2)
    depth = depth_map(vertices, np.array([[0, 1, 2], [0, 2, 3]]), camera)
    assert np.isfinite(depth).sum() == 32 * 32
    assert np.allclose(depth[np.isfinite(depth)], 0.7, atol=1e-6)


def test_many_rounds_of_averaging_are_the_same_in_fewer_products(graph):
    rng = np.random.default_rng(5)
    values, weight = rng.random((len(graph.rest), 3)), rng.random(len(graph.rest)) * (graph.rest[:, 1] > 0)
    wanted, total = values * (weight[:, None] + 1e-5), weight + 1e-5
    for _ in range(300):
        wanted, total = 0.5 * (wanted + graph.smooth @ wanted), 0.5 * (total + graph.smooth @ total)
    np.testing.assert_allclose(graph.blurred(values, 300, weight), wanted / total[:, None], atol=1e-5)
