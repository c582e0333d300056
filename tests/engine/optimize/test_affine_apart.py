"""Batch normalisation and factors that become operators of their own."""

from __future__ import annotations

import numpy as np
import pytest

from engine.optimize.affine_apart import FactorBetweenReshapes, NormOfRowsToProduct
from tests.engine.optimize.equivalence import applied, build, census, optimized
from tests.engine.optimize.networks import MAP, node, normal


@pytest.mark.parametrize("shape", [(1, 5), (2, 5, 3)])
def test_norms_of_rows_and_lines_are_a_product_and_a_sum(shape: tuple[int, ...]) -> None:
    constants = {name: np.abs(normal(5)) + 0.5 for name in ("s", "b", "m", "v")}
    modified, after = applied(
        NormOfRowsToProduct(),
        build([node("BatchNormalization", "x s b m v", name="n")], {"x": shape}, ["y"], constants),
    )
    assert modified
    assert [(item.op_type, item.name) for item in after.graph] == [("Mul", "n_mul"), ("Add", "n_add")]
    assert [tuple(item.inputs[1].shape) for item in after.graph] == [(1, 5) + (1,) * (len(shape) - 2)] * 2


def test_the_norm_of_a_gemm_waits() -> None:
    constants = {name: np.abs(normal(5)) + 0.5 for name in ("s", "b", "m", "v")} | {"w": normal(4, 5), "k": normal(5)}
    nodes = [node("Gemm", "x w k", "g"), node("BatchNormalization", "g s b m v", name="n")]
    modified, _ = applied(NormOfRowsToProduct(), build(nodes, {"x": (1, 4)}, ["y"], constants))
    assert not modified


def test_names_of_results_that_a_batch_normalisation_gave() -> None:
    parameters = {"g": normal(4), "h": normal(4), "m": normal(4), "v": np.abs(normal(4)) + 0.1}
    nodes = [
        node("ConvTranspose", "x w", "c"),
        node("BatchNormalization", "c g h m v", "n"),
        node("Relu", "n", "r"),
        node("BatchNormalization", "r g h m v", "z", name="norm"),
        node("Sigmoid", "z"),
    ]
    graph = optimized(build(nodes, MAP, ["y"], {"w": normal(4, 4, 2, 2), **parameters})).graph
    assert [item.outputs[0].name for item in graph] == ["c", "r", "UNIT_CONV_FOR_norm", "y"]


def test_a_lone_batch_normalisation_becomes_depthwise() -> None:
    parameters = {"g": normal(4), "h": normal(4), "m": normal(4), "v": np.abs(normal(4)) + 0.1}
    nodes = [
        node("MaxPool", "x", "p", kernel_shape=[2, 2]),
        node("BatchNormalization", "p g h m v", "n"),
        node("Sigmoid", "n"),
    ]
    after = optimized(build(nodes, MAP, ["y"], parameters))
    assert census(after) == {"MaxPool": 1, "Conv": 1, "Sigmoid": 1}
    assert after.graph[1].attributes["group"].value == 4


def test_a_factor_of_one_channel_between_reshapes_multiplies_channels() -> None:
    nodes = [
        node("Reshape", "x row", "r"),
        node("Conv", "r w b", "c", name="k"),
        node("Reshape", "c flat", "y"),
    ]
    constants = {"row": np.array([1, 1, 1, 5]), "w": np.full((1, 1, 1, 1), 1.5, np.float32)}
    constants |= {"b": np.zeros(1, np.float32), "flat": np.array([1, 5])}
    modified, after = applied(FactorBetweenReshapes(), build(nodes, {"x": (1, 5, 1, 1)}, ["y"], constants))
    conv = after.graph[1]
    assert modified
    assert conv.name == "k_reshape_conv"
    assert tuple(conv.inputs[0].shape) == tuple(conv.outputs[0].shape) == (1, 5, 1, 1)
    np.testing.assert_allclose(conv.inputs[1].const_value.numpy()[:, :, 0, 0], 1.5 * np.eye(5))
