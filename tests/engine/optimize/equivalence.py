"""Small networks, run before and after a pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx_ir.passes.common import RemoveUnusedNodesPass

from engine.ir import to_bytes
from engine.ops.foreign.composite import expand_composites
from engine.optimize import optimize
from engine.terms import Compatibility

Array = NDArray[Any]


def build(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int]],
    outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
    opset: int = 13,
) -> ir.Model:
    """A model with inferred shapes, as the frontend gives it; unnamed nodes are called ``<OpType>_<index>``."""
    for index, node in enumerate(nodes):
        node.name = node.name or f"{node.op_type}_{index}"
    shapes = {name: np.shape(array) for name, array in (constants or {}).items()}
    graph = helper.make_graph(
        list(nodes),
        "network",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes.get(name)) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True, data_prop=True))


def run(model: ir.Model, seed: int = 0) -> list[Array]:
    """Outputs for normal random inputs."""
    rng = np.random.default_rng(seed)
    feed = {
        str(value.name): rng.normal(size=tuple(value.shape or ())).astype(np.float32) for value in model.graph.inputs
    }
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(to_bytes(expand_composites(model)), options)
    return list(session.run(None, feed))


def assert_equivalent(before: ir.Model, after: ir.Model, seed: int = 0) -> None:
    """Same outputs by name, but for those of means and of what was computed before, and by value up to rounding.

    Operands are of the order of 1, of which float32 rounds off up to 6e-8: a result may be off by 1e-7 however small it
    is (``n - n * z`` beside ``(1 - z) * n`` in a GRU).
    """
    named = {value.name for node in before.graph for value in node.outputs}
    for value, other in zip(after.graph.outputs, before.graph.outputs, strict=True):
        assert value.name == other.name or _of_a_mean(value) or value.name in named
    onnx.checker.check_model(ir.to_proto(expand_composites(after)), full_check=True)
    for actual, expected in zip(run(after, seed), run(before, seed), strict=True):
        assert actual.shape == expected.shape
        largest = float(np.max(np.abs(expected[np.isfinite(expected)]), initial=1e-2))
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5 * largest)


def _of_a_mean(value: ir.Value) -> bool:
    producer = value.producer()
    is_mean = producer is not None and producer.op_type in ("Conv", "GlobalAveragePool", "Reshape")
    return is_mean and str(value.name).endswith("_output")


def optimized(
    before: ir.Model, march: str = "bayes-e", compatibility: Compatibility = Compatibility.ORIGINAL
) -> ir.Model:
    """``before`` optimised, and checked: equivalent, stable under repetition, input untouched, shapes complete."""
    kept = to_bytes(before)
    after = optimize(before, march, compatibility)
    assert to_bytes(before) == kept
    assert to_bytes(optimize(after, march, compatibility)) == to_bytes(after)
    assert_equivalent(before, after)
    names = [node.name for node in after.graph]
    assert len(set(names)) == len(names)
    for node in after.graph:
        assert all(value.shape is not None and value.shape.is_static() for value in node.outputs if value.name), (
            node.name
        )
    return after


def census(model: ir.Model) -> dict[str, int]:
    """Number of nodes by operator type."""
    return dict(Counter(node.op_type for node in model.graph))


def applied(change: ir.passes.PassBase, before: ir.Model, *, exact: bool = True) -> tuple[bool, ir.Model]:
    """Whether ``change`` alone modifies a copy of ``before``, and the copy, which computes the same if ``exact``.

    What nothing reads any longer is removed.
    """
    after = before.clone()
    modified = change(after).modified
    assert modified == (to_bytes(after) != to_bytes(before))
    RemoveUnusedNodesPass()(after)
    if exact:
        assert_equivalent(before, after)
    return modified, after


def operators(model: ir.Model) -> list[str]:
    """Operator types in order."""
    return [node.op_type for node in model.graph]
