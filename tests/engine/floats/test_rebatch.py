"""Networks for several samples at once: equal to single runs, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx import helper

from engine.calibrate import apply_thresholds
from engine.compile import CompileOptions, compile_model
from engine.errors import ConfigError, UnsupportedError
from engine.floats.rebatch import rebatch
from engine.ir import load_model, shape_of
from engine.optimize import optimize
from engine.perf import estimate
from engine.place import place
from engine.quantize import quantize
from engine.simulate import Session
from engine.simulate.tensors import random_feed
from tests.conftest import ROOT
from tests.engine.calibrate.models import graph, residual

MARCH = "bayes-e"
Constants = dict[str, NDArray[Any]]


def calibrated(source: ir.Model) -> ir.Model:
    return apply_thresholds(place(optimize(source, MARCH), MARCH).model, None)


def one_operator(
    *nodes: onnx.NodeProto, constants: Constants | None = None, shape: Sequence[int] = (1, 4, 6, 6)
) -> Any:
    return graph(nodes, {"x": tuple(shape)}, [nodes[-1].output[0]], constants)


def heads() -> ir.Model:
    """Attention's way of folding heads into the batch: a shape that begins with 2 becomes one that begins with 2 n."""
    shapes = {
        "split": np.asarray([1, 2, 2, 36], np.int64),
        "fold": np.asarray([2, 2, 36], np.int64),
        "join": np.asarray([1, 4, 6, 6], np.int64),
    }
    return one_operator(
        helper.make_node("Reshape", ["x", "split"], ["a"], "split_heads"),
        helper.make_node("Reshape", ["a", "fold"], ["b"], "fold_heads"),
        helper.make_node("Softmax", ["b"], ["c"], "softmax", axis=-1),
        helper.make_node("Reshape", ["c", "join"], ["y"], "join_heads"),
        constants=shapes,
    )


def resize() -> ir.Model:
    sizes = {"sizes": np.asarray([1, 4, 12, 12], np.int64)}
    node = helper.make_node(
        "Resize", ["x", "", "", "sizes"], ["y"], "resize", mode="nearest", coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )  # fmt: skip
    return one_operator(node, constants=sizes)


@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize("source", [residual, heads, resize], ids=["residual", "heads", "resize"])
def test_every_stage_equals_single_runs(source: Any, count: int) -> None:
    single = calibrated(source())
    several = rebatch(single, count)
    assert shape_of(several.graph.inputs[0])[0] == count
    feed = random_feed(Session(single).inputs, count)
    for one, many in zip(Session(single).run(feed).values(), Session(several).run(feed).values(), strict=True):
        np.testing.assert_allclose(many, one, rtol=1e-5, atol=1e-5)
    expected = Session(quantize(single, MARCH)).run(feed)
    for mode in ("fast", "reference"):
        actual = Session(quantize(several, MARCH), mode).run(feed)
        for name, array in expected.items():
            np.testing.assert_array_equal(actual[name], array)


@pytest.mark.parametrize("name", ["mnist_lenet", "mnist_resnet8", "scene_yolo"])
def test_networks_of_the_zoo(name: str) -> None:
    single = calibrated(load_model(ROOT / "suites" / "zoo" / f"{name}.onnx"))
    models = [quantize(single, MARCH), quantize(rebatch(single, 3), MARCH)]
    feed = random_feed(Session(models[1]).inputs, 1)
    one, several = (Session(model).run(feed) for model in models)
    for key, array in one.items():
        np.testing.assert_array_equal(several[key], array)
    latencies = [estimate(compile_model(model, MARCH, CompileOptions(), "m")).latency_us for model in models]
    assert latencies[1] > latencies[0]


def test_the_given_model_is_left_alone() -> None:
    single = calibrated(residual())
    before = ir.to_proto(single).SerializeToString(deterministic=True)
    rebatch(single, 4)
    assert ir.to_proto(single).SerializeToString(deterministic=True) == before


@pytest.mark.parametrize(
    "node",
    [
        helper.make_node("ReduceMean", ["x"], ["y"], "mean", axes=[0]),
        helper.make_node("Softmax", ["x"], ["y"], "softmax", axis=0),
        helper.make_node("Transpose", ["x"], ["y"], "transpose", perm=[1, 0, 2, 3]),
        helper.make_node("Concat", ["x", "x"], ["y"], "concat", axis=0),
    ],
    ids=lambda node: node.op_type,
)
def test_samples_that_depend_on_each_other_are_refused(node: onnx.NodeProto) -> None:
    with pytest.raises(UnsupportedError, match="input_batch 4: the model does not support batches"):
        rebatch(calibrated(one_operator(node)), 4)


def test_shapes_that_contradict_are_refused() -> None:
    constants = {"c": np.ones((1, 4, 6, 6), np.float32)}
    node = helper.make_node("Concat", ["x", "c"], ["y"], "concat", axis=1)
    with pytest.raises(UnsupportedError, match="does not support batches"):
        rebatch(calibrated(one_operator(node, constants=constants)), 4)


def test_models_that_are_batches_already_are_refused() -> None:
    model = calibrated(one_operator(helper.make_node("Relu", ["x"], ["y"], "relu"), shape=(2, 4, 6, 6)))
    with pytest.raises(ConfigError, match=r"input_batch 3: input 'x' has shape \[2, 4, 6, 6\], the first dimension"):
        rebatch(model, 3)
