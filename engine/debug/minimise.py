"""A minimal model that still shows what a bisection found: one node, one sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.forward import FloatSession, Kernels
from engine.debug.bisect import Feed, PairReport, StageName, as_integers, integer_tensors
from engine.debug.variants import dynamic_values
from engine.errors import ModelError
from engine.ir import MARK_MARCH, constant_of, shape_of
from engine.quantize import quantize
from engine.simulate import Session
from engine.simulate.session import is_quantized

Array = NDArray[Any]


@dataclass(frozen=True)
class MinimalCase:
    """What is left.

    Attributes:
        model: the node at fault with its constants, cut from the stage at fault.
        inputs: one sample by input name: what the node really read there.
        expected: what the stage before makes of it.
        actual: what the node makes of it.
    """

    model: ir.Model
    inputs: Mapping[str, Array]
    expected: Array
    actual: Array


def minimise(
    report: PairReport, stages: Mapping[StageName, ir.Model], feed: Feed, source_feed: Feed | None = None
) -> MinimalCase:
    """Cut the node that ``report`` names out of its stage, with the sample that shows the fault best.

    Args:
        report: a pair with a finding.
        stages: models by stage.
        feed: what was bisected on, samples along the first dimension.
        source_feed: likewise, what the source model takes.

    Raises:
        ModelError: the report has no finding.
    """
    if report.node is None or report.tensor is None:
        raise ModelError(f"{report.after} keeps its bound: there is nothing to minimise")
    model = stages[report.after]
    node = next(node for node in model.graph if node.name == report.node)
    dynamic = dynamic_values(model.graph)
    inputs = list(dict.fromkeys(value for value in node.inputs if value is not None and value in dynamic))
    if not inputs:
        return _of_weight(model, node)
    graph = ir.convenience.extract(model.graph, inputs, [value for value in node.outputs if value.name])
    cut = ir.Model(graph, ir_version=model.ir_version)
    cut.metadata_props.update(model.metadata_props)
    samples = _samples(model, feed)
    rows = _tensors(model, feed, [str(value.name) for value in inputs])
    wanted = np.split(_expected(report, report.tensor, stages, feed, source_feed or feed), samples)
    session = Session(cut)
    cases = []
    for index in range(samples):
        sample = {name: np.split(array, samples)[index] for name, array in rows.items()}
        actual = session.run(sample)[str(node.outputs[0].name)]
        cases.append(MinimalCase(cut, sample, wanted[index], actual))
    return max(cases, key=lambda case: _difference(case.actual, case.expected))


def _of_weight(model: ir.Model, node: ir.Node) -> MinimalCase:
    """The calibration node of a weight, which becomes the input."""
    weight = constant_of(node.inputs[0])
    if weight is None or node.inputs[0] is None:
        raise ModelError(f"node {node.name!r} reads nothing that depends on the inputs")
    value = ir.Value(name=node.inputs[0].name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(weight.shape))
    result = ir.Value(name=node.outputs[0].name, type=value.type, shape=value.shape)
    copy = ir.Node(node.domain, node.op_type, [value], node.attributes.values(), outputs=[result], name=node.name)
    graph = ir.Graph([value], [result], nodes=[copy], opset_imports=dict(model.opset_imports), name="minimal")
    cut = ir.Model(graph, ir_version=model.ir_version)
    sample = {str(value.name): np.asarray(weight, np.float32)}
    return MinimalCase(cut, sample, sample[str(value.name)], Session(cut).run(sample)[str(result.name)])


def _expected(
    report: PairReport, tensor: str, stages: Mapping[StageName, ir.Model], feed: Feed, source_feed: Feed
) -> Array:
    """The right values of ``tensor``: those of the stage before."""
    before = stages[report.before]
    if report.after is StageName.QUANTIZED or (is_quantized(stages[report.after]) and not is_quantized(before)):
        return integer_tensors(quantize(before, before.metadata_props[MARK_MARCH]), feed)[tensor]
    if is_quantized(before):
        return integer_tensors(before, feed)[tensor]
    if report.before is StageName.SOURCE:
        node = next(node for node in stages[report.after].graph if node.name == report.node)
        name = str(node.inputs[0].name) if node.op_type == "HzPreprocess" and node.inputs[0] is not None else tensor
        return _tensors(before, source_feed, [name])[name]
    return _tensors(before, feed, [tensor])[tensor]


def _difference(actual: Array, expected: Array) -> float:
    if actual.shape != expected.shape:
        return float("inf")
    return float(np.abs(actual.astype(np.float64) - expected.astype(np.float64)).sum())


def _samples(model: ir.Model, feed: Feed) -> int:
    first = model.graph.inputs[0]
    return len(feed[str(first.name)]) // shape_of(first)[0]


def _tensors(model: ir.Model, feed: Feed, names: list[str]) -> dict[str, Array]:
    """Values of the tensors ``names`` in ``model``: graph inputs as they are fed, others computed."""
    if is_quantized(model):
        known = integer_tensors(model, feed)
        return {name: known[name] if name in known else _as_fed(model, feed, name) for name in names}
    inner = [name for name in names if name not in feed]
    found = FloatSession(model, inner, kernels=Kernels.PLAIN, max_batch=1).run(feed) if inner else {}
    return {name: found[name] if name in found else feed[name] for name in names}


def _as_fed(model: ir.Model, feed: Feed, name: str) -> Array:
    value = next(value for value in model.graph.inputs if value.name == name)
    kind = np.dtype((value.dtype or ir.DataType.FLOAT).numpy())
    return as_integers(feed[name], kind) if np.issubdtype(kind, np.integer) else feed[name].astype(kind)
