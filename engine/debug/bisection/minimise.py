"""A minimal model that still shows what a bisection found: one node, one sample, shapes as small as they can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.debug.analysis.variants import dynamic_values
from engine.debug.bisection.bisect import Material, PairReport
from engine.debug.bisection.difference import float_difference, integer_difference
from engine.debug.bisection.shrink import FaultyCase, Shows, shrink
from engine.debug.bisection.stages import FLOAT_STAGES, Bounds, StageName
from engine.debug.bisection.tensors import Feed, fed, float_tensors, integer_tensors, with_rearranged
from engine.debug.bisection.thresholds import threshold_losses
from engine.errors import ModelError
from engine.floats.float_model import FloatSession, Kernels
from engine.ir import MARK_MARCH, constant_of, is_calibration, shape_of
from engine.ops.foreign.composite import PREPROCESS
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


def minimise(report: PairReport, material: Material) -> MinimalCase:
    """Cut the node that ``report`` names out of its stage, with the sample that shows the fault best, and crop both.

    Args:
        report: a pair with a finding.
        material: what was bisected.

    Raises:
        ModelError: the report has no finding.
    """
    if report.node is None or report.tensor is None:
        raise ModelError(f"{report.after} is within its bound, so there is nothing to minimise")
    case = shrink(_cut(report, report.tensor, material), _shows(report, material))
    return MinimalCase(case.model, case.inputs, case.expected, case.actual)


def _cut(report: PairReport, tensor: str, material: Material) -> FaultyCase:
    """The node at fault with the sample that shows the fault best."""
    if report.after is StageName.DUMPS:
        return _of_dump(report, tensor, material)
    feed, before, model = material.feed, material.stages[report.before], material.stages[report.after]
    if is_quantized(before):  # the stage at fault may lack the nodes at the inputs
        feed = {**feed, **integer_tensors(before, feed)}
    node = next(node for node in model.graph if node.name == report.node)
    dynamic = dynamic_values(model.graph)
    inputs = list(dict.fromkeys(value for value in node.inputs if value is not None and value in dynamic))
    if not inputs:
        return _of_weight(model, node)
    names = [str(value.name) for value in inputs]
    cut = _between(model, names, [str(node.outputs[0].name)])
    samples = _samples(model, feed)
    rows = _tensors(model, feed, names)
    wanted = np.split(_expected(report, tensor, material), samples)
    right = _right(report, node, names, material)
    session = Session(cut)
    cases = []
    for index in range(samples):
        sample = {name: np.split(array, samples)[index] for name, array in rows.items()}
        actual = session.run(sample)[str(node.outputs[0].name)]
        cases.append(FaultyCase(cut, right, sample, wanted[index], actual))
    return max(cases, key=lambda case: _difference(case.actual, case.expected))


def _between(model: ir.Model, inputs: Sequence[str], outputs: Sequence[str]) -> ir.Model:
    cut = ir.Model(ir.convenience.extract(model.graph, inputs, outputs), ir_version=model.ir_version)
    cut.metadata_props.update(model.metadata_props)
    return cut


def _of_weight(model: ir.Model, node: ir.Node) -> FaultyCase:
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
    return FaultyCase(cut, None, sample, sample[str(value.name)], Session(cut).run(sample)[str(result.name)])


def _of_dump(report: PairReport, tensor: str, material: Material) -> FaultyCase:
    """A node that a board computes differently: its result is the dump, so no shape can be smaller."""
    model, dumps = material.stages[report.before], material.dumps or {}
    node = next(node for node in model.graph if node.name == report.node)
    dynamic = dynamic_values(model.graph)
    names = [str(value.name) for value in dict.fromkeys(node.inputs) if value is not None and value in dynamic]
    cut = _between(model, names, [tensor])
    samples = _samples(model, material.feed)
    rows = {name: np.split(array, samples) for name, array in _tensors(model, material.feed, [*names, tensor]).items()}
    dumped = dumps[tensor]
    cases = [
        FaultyCase(cut, cut, {name: rows[name][index] for name in names}, rows[tensor][index], actual)
        for index, actual in enumerate(np.split(dumped, len(dumped) // len(rows[tensor][0])))
    ]
    return max(cases, key=lambda case: _difference(case.actual, case.expected))


def _shows(report: PairReport, material: Material) -> Shows:
    """Whether a case shows the fault that ``report`` names."""
    bounds = material.bounds.get(report.after, Bounds())
    if report.after is StageName.CALIBRATED:
        return lambda case: any(loss.decibel > bounds.threshold for loss in threshold_losses(case.model, case.inputs))
    differs = float_difference(bounds.relative) if report.after in FLOAT_STAGES else integer_difference(bounds.lsb)
    return lambda case: differs(case.actual, case.expected) is not None


def _right(report: PairReport, node: ir.Node, inputs: Sequence[str], material: Material) -> ir.Model | None:
    """What the stage before computes between the same tensors; see ``FaultyCase``."""
    if node.op_type == PREPROCESS or is_calibration(node):
        return None
    before, after = material.stages[report.before], material.stages[report.after]
    model = _lowered(before) if is_quantized(after) and not is_quantized(before) else before
    try:
        return _between(model, inputs, [str(node.outputs[0].name)])
    except ValueError:  # there are no such tensors: the node alone, with which no smaller case differs
        return _between(after, inputs, [str(node.outputs[0].name)])


def _lowered(calibrated: ir.Model) -> ir.Model:
    return quantize(calibrated, calibrated.metadata_props[MARK_MARCH])


def _expected(report: PairReport, tensor: str, material: Material) -> Array:
    """The right values of ``tensor``: those of the stage before."""
    stages, feed = material.stages, material.feed
    before = stages[report.before]
    if is_quantized(stages[report.after]) and not is_quantized(before):
        return integer_tensors(_lowered(before), feed)[tensor]
    if is_quantized(before):
        return integer_tensors(before, feed)[tensor]
    if report.before is StageName.SOURCE:
        node = next(node for node in stages[report.after].graph if node.name == report.node)
        name = str(node.inputs[0].name) if node.op_type == PREPROCESS and node.inputs[0] is not None else tensor
        return _tensors(before, material.source_feed or feed, [name])[name]
    after = stages[report.after]
    return with_rearranged(after, {**feed, **float_tensors(before, feed)}, float_tensors(after, feed))[tensor]


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
        known = {**fed(model, feed), **integer_tensors(model, feed)}
        return {name: known[name] for name in names}
    inner = [name for name in names if name not in feed]
    found = FloatSession(model, inner, kernels=Kernels.PLAIN, max_batch=1).run(feed) if inner else {}
    return {name: found[name] if name in found else feed[name] for name in names}
