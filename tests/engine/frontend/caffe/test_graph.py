"""What the converters of layers build with: unique names, axes, blobs, sizes per side."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.errors import ModelError, UnsupportedError
from engine.frontend.caffe.graph import (
    Graph,
    blob,
    canonical_axis,
    check_bottoms,
    dims,
    given,
    image_shape,
    only_input,
    parameters,
    per_side,
)
from tests.engine.frontend.caffe.networks import layer_of


def value(*shape: int) -> ir.Value:
    return ir.val("x", ir.DataType.FLOAT, shape)


def test_names_of_tensors_and_nodes_are_unique() -> None:
    graph = Graph(reserved=["y"])
    made = [graph.op("Relu", [value(1, 2)], (1, 2), name) for name in ("y", "a", "a", "")]
    assert [result.name for result in made] == ["y_1", "a", "a_1", "unnamed"]
    assert [node.name for node in graph.nodes] == ["y", "a", "a_1", "Relu"]
    assert graph.constant(np.zeros(1), "a").name == "a_2"
    assert dims(made[0]) == (1, 2)


def test_constants_have_their_types() -> None:
    graph = Graph([])
    assert graph.floats([1, 2], "f").dtype is ir.DataType.FLOAT
    assert graph.integers([1, 2], "i").dtype is ir.DataType.INT64
    assert [item.name for item in graph.initializers] == ["f", "i"]


def test_results_have_shapes_that_caffe_can_hold() -> None:
    with pytest.raises(ModelError, match="l: output: shape 1x0 must have positive dimensions"):
        Graph([]).op("Relu", [value(1)], (1, 0), "l")


@pytest.mark.parametrize(("axis", "expected"), [(0, 0), (3, 3), (-1, 3), (-4, 0)])
def test_axes_count_from_either_end(axis: int, expected: int) -> None:
    assert canonical_axis(layer_of(), axis, 4) == expected


@pytest.mark.parametrize("axis", [4, -5])
def test_axes_that_are_not_there_are_refused(axis: int) -> None:
    with pytest.raises(ModelError, match=f"layer name=l type=Kind: axis {axis} is out of range for 4 dimensions"):
        canonical_axis(layer_of(), axis, 4)


@pytest.mark.parametrize(
    ("count", "least", "most", "allowed"), [(1, 2, 2, "2"), (1, 2, None, "2 or more"), (3, 1, 2, "1 to 2")]
)
def test_numbers_of_bottoms(count: int, least: int, most: int | None, allowed: str) -> None:
    with pytest.raises(ModelError, match=f"{count} bottoms, needed are {allowed}$"):
        check_bottoms(layer_of(), [value(1)] * count, least, most)
    check_bottoms(layer_of(), [value(1)] * least, least, most)
    with pytest.raises(ModelError, match="0 bottoms, needed are 1"):
        only_input(layer_of(), [])


def test_images_have_four_dimensions() -> None:
    assert image_shape(layer_of(), value(1, 2, 3, 4)) == (1, 2, 3, 4)
    with pytest.raises(UnsupportedError, match="only bottoms of 4 dimensions"):
        image_shape(layer_of(), value(1, 2, 3))


def test_leading_ones_of_a_blob_do_not_count() -> None:
    layer = layer_of(blobs=[np.arange(6).reshape(1, 1, 2, 3)])
    assert blob(layer, 0, (2, 3)).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert blob(layer, 0, (1, 2, 3)).shape == (1, 2, 3)
    with pytest.raises(ModelError, match=r"blob 0 has shape \(1, 1, 2, 3\), expected is \(3, 2\)"):
        blob(layer, 0, (3, 2))
    with pytest.raises(ModelError, match="has 1 blobs for it, blob 1 is missing"):
        blob(layer, 1, (2, 3))


@pytest.mark.parametrize(
    ("values", "pair", "expected"),
    [
        ([], (None, None), (7, 7)),
        ([3], (None, None), (3, 3)),
        ([3, 5], (None, None), (3, 5)),
        ([], (2, None), (2, 7)),
        ([], (None, 4), (7, 4)),
        ([], (0, 4), (0, 4)),
    ],
)
def test_sizes_per_side(values: list[int], pair: tuple[int | None, int | None], expected: tuple[int, int]) -> None:
    assert per_side(layer_of(), values, pair, 7) == expected


@pytest.mark.parametrize(("values", "pair"), [([3], (1, None)), ([1, 2, 3], (None, None))])
def test_sizes_that_contradict_are_refused(values: list[int], pair: tuple[int | None, int | None]) -> None:
    with pytest.raises(ModelError, match=r"given both|one value or two"):
        per_side(layer_of(), values, pair, 0)


def test_a_default_is_not_given() -> None:
    options = parameters(layer_of("power_param { scale: 1 }"), "power_param")
    assert (given(options, "scale"), given(options, "power"), options.power) == (1.0, None, 1.0)
