"""Which graphs take several samples at a time."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from engine.floats.batching import (
    IN_FOURS,
    SUMMED_IN_FOURS,
    computes_samples_apart,
    mixes_samples,
    with_symbolic_batch,
)
from engine.floats.runtime import open_session
from engine.ir import constant_of, to_bytes
from tests.engine.calibrate.models import graph, residual, samples


def test_symbolic_batch_keeps_static_shapes_elsewhere() -> None:
    symbolic = with_symbolic_batch(residual())
    assert symbolic is not None
    assert [str(dim) for dim in symbolic.graph.inputs[0].shape or ()] == ["batch", "3", "6", "5"]
    assert isinstance(residual().graph.inputs[0].shape, ir.Shape)


SHAPE = (1, 2, 6)


def reshape(target: list[int], shape: tuple[int, ...] = SHAPE, **attributes: int) -> ir.Model:
    """``x`` reshaped, and made positive."""
    nodes = [
        helper.make_node("Reshape", ["x", "s"], ["t"], "reshape", **attributes),
        helper.make_node("Abs", ["t"], ["y"], "abs"),
    ]
    return graph(nodes, {"x": shape}, ["y"], {"s": np.asarray(target, np.int64)}, 14)


@pytest.mark.parametrize(
    ("target", "expected"), [([1, 12], [0, 12]), ([1, 3, -1], [0, 3, -1]), ([0, 12], [0, 12]), ([-1, 12], [-1, 12])]
)
def test_a_reshape_keeps_the_batch_that_it_is_given(target: list[int], expected: list[int]) -> None:
    model = reshape(target)
    before = to_bytes(model)
    made = with_symbolic_batch(model)
    assert made is not None
    assert constant_of(made.graph[0].inputs[1]).tolist() == expected
    assert str(made.graph.outputs[0].shape[0]) == "batch"
    assert made.graph[0].outputs[0].shape is None, "what was inferred for one sample no longer holds"
    assert to_bytes(model) == before


@pytest.mark.parametrize(
    "model",
    [
        reshape([1, 12], allowzero=1),
        reshape([2, 6]),
        reshape([1, 1, 12], (2, 6)),
        graph([helper.make_node("Abs", ["x"], ["y"], "abs")], {"x": (2, 3)}, ["y"]),
        graph([helper.make_node("Abs", ["x"], ["y"], "abs")], {"x": ()}, ["y"]),
        graph([helper.make_node("Squeeze", ["x", "a"], ["y"], "s")], {"x": SHAPE}, ["y"], {"a": np.asarray([0])}),
    ],
)
def test_a_graph_that_fixes_the_batch_is_left_alone(model: ir.Model) -> None:
    assert with_symbolic_batch(model) is None


def test_a_target_that_is_computed_fixes_the_batch() -> None:
    model = reshape([1, 12])
    model.graph[0].inputs[1].const_value = None
    assert with_symbolic_batch(model) is None


def test_samples_are_apart_where_every_operator_keeps_them_apart() -> None:
    assert computes_samples_apart(residual())
    soft = graph([helper.make_node("Softmax", ["x"], ["y"], "s", axis=1)], {"x": SHAPE}, ["y"])
    assert not computes_samples_apart(soft), "which axis it runs over is not looked at"
    assert not computes_samples_apart(graph([*_folded()], {"x": SHAPE}, ["y"], _SHAPES))


ELEMENTWISE = ("Erf", "Exp", "HardSigmoid", "LeakyRelu", "Relu", "Sigmoid", "Sqrt", "Tanh", *sorted(IN_FOURS))
RANGES = {"Acos": (-1, 1), "Asin": (-1, 1), "Log": (0.01, 4), "Sqrt": (0, 4)}


@pytest.mark.parametrize("operator", ELEMENTWISE)
def test_what_is_computed_in_fours_mixes_samples_unless_they_are_whole_fours(operator: str) -> None:
    for size in range(1, 10):
        model = graph([helper.make_node(operator, ["x"], ["y"], "n")], {"x": (1, size)}, ["y"], opset=18)
        symbolic = with_symbolic_batch(model)
        assert symbolic is not None
        session = open_session(to_bytes(symbolic), threads=1, blocked_layouts=False)
        x = np.clip(samples(800, (size,)), *RANGES.get(operator, (-4, 4)))
        alone = np.concatenate([session.run(None, {"x": row[None]})[0] for row in x])
        together = np.concatenate([session.run(None, {"x": part})[0] for part in np.split(x, 100)])
        same = together.tobytes() == alone.tobytes()
        assert same is not mixes_samples(model)
        assert same or not computes_samples_apart(model)


@pytest.mark.parametrize("operator", sorted(SUMMED_IN_FOURS))
@pytest.mark.parametrize(("channels", "length"), [(4, 11), (5, 8), (5, 11), (3, 13)])
def test_what_is_summed_in_fours_mixes_samples_unless_they_are_whole_fours(
    operator: str, channels: int, length: int
) -> None:
    rng = np.random.default_rng(channels)
    x = rng.normal(scale=100, size=(60, channels, length)).astype(np.float32)
    inputs, constants, attributes = ["x"], {}, {}
    if operator == "ReduceSum":
        inputs, constants = ["x", "axes"], {"axes": np.asarray([2], np.int64)}
    elif operator == "ReduceMean":
        attributes = {"axes": [2]}
    else:
        inputs = ["x", "s", "b"]
        constants = {name: rng.normal(size=channels).astype(np.float32) for name in "sb"}
    node = helper.make_node(operator, inputs, ["y"], "n", **attributes)
    model = graph([node], {"x": (1, channels, length)}, ["y"], constants, 13)
    symbolic = with_symbolic_batch(model)
    assert symbolic is not None
    session = open_session(to_bytes(symbolic), threads=1, blocked_layouts=False)
    alone = np.concatenate([session.run(None, {"x": row[None]})[0] for row in x])
    together = session.run(None, {"x": x})[0]
    assert (together.tobytes() == alone.tobytes()) is not mixes_samples(model)
    assert not computes_samples_apart(model)


_SHAPES = {"a": np.asarray([2, 6], np.int64), "b": np.asarray([1, 12], np.int64)}


def _folded() -> list[onnx.NodeProto]:
    """Halves of a sample as two rows, and back."""
    return [
        helper.make_node("Reshape", ["x", "a"], ["t"], "first"),
        helper.make_node("Reshape", ["t", "b"], ["y"], "second"),
    ]
