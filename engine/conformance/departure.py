"""The first stage and node where our conversion of a case departs from the original's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from itertools import zip_longest

import numpy as np
import onnx_ir as ir
from pydantic import BaseModel, ConfigDict

from engine.conformance.cases import Case
from engine.conformance.conversion import Conversion, Outcome
from engine.conformance.stages import (
    FloatNode,
    activation_thresholds,
    calibrated_tensors,
    float_nodes,
    same_thresholds,
    weight_thresholds,
)
from engine.quantize.diff import Aspect, Difference, diff


class Stage(StrEnum):
    """Stages in the order in which they are compared."""

    REFUSAL = "refusal"
    GRAPH = "graph"
    PLACEMENT = "placement"
    CALIBRATION = "calibration"
    QUANTISATION = "quantisation"
    DEVICES = "devices"
    COMPILATION = "compilation"
    CONVERSION = "conversion"
    OUTPUTS = "outputs"


class Departure(BaseModel):
    """Where ours departs first.

    Attributes:
        stage: of the conversion.
        node: name of the node or tensor, as the original calls it where it has it.
        cause: in one line; the original is named first.
    """

    model_config = ConfigDict(frozen=True)

    stage: Stage
    node: str
    cause: str

    def __str__(self) -> str:
        return f"{self.stage.value}: {self.node}: {self.cause}" if self.node else f"{self.stage.value}: {self.cause}"


def departure(
    case: Case, ours: Conversion, calibrated: ir.Model | None, quantized: ir.Model | None, outputs: str
) -> Departure | None:
    """The first departure; ``None`` where everything agrees.

    Args:
        case: what was converted.
        ours: what we made of it.
        calibrated: the original's calibrated model.
        quantized: the original's quantised model.
        outputs: why our outputs are not the original's; empty where they are.
    """
    if case.refusal:
        text = f"the original refuses: {case.refusal}"
        if ours.outcome is Outcome.REFUSED:
            return None
        kind = "ours converts" if ours.outcome is Outcome.CONVERTED else f"ours ends with {ours.message}"
        return Departure(stage=Stage.REFUSAL, node="", cause=f"{text}; {kind}")
    steps: list[Callable[[], Departure | None]] = []
    if calibrated is not None and ours.calibrated is not None:
        first, second = calibrated, ours.calibrated
        steps += [lambda: _graph(first, second), lambda: _placement(first, second)]
        steps += [lambda: _thresholds(first, second)] if case.has_weights else []
    if quantized is not None and ours.quantized is not None:
        third, fourth = quantized, ours.quantized
        steps += [lambda: _quantisation(third, fourth)] if case.has_weights else []
        steps.append(lambda: _order(third, fourth))
    if ours.outcome is Outcome.CONVERTED:
        steps += [lambda: _devices(case.devices, ours.devices), lambda: _subgraphs(case, ours)]
    else:
        steps.append(lambda: Departure(stage=Stage.CONVERSION, node="", cause=f"{ours.outcome.value}: {ours.message}"))
    if outputs:
        steps.append(lambda: Departure(stage=Stage.OUTPUTS, node="", cause=outputs))
    return next((found for step in steps if (found := step()) is not None), None)


def _graph(theirs: ir.Model, ours: ir.Model) -> Departure | None:
    """Operators of the float graph behind the optimiser, by name; then what they read, attributes and order."""
    expected, actual = float_nodes(theirs), float_nodes(ours)
    found = {node.name: node for node in actual}
    for index, node in enumerate(expected):
        cause = _node_difference(node, found.get(node.name), actual[index] if index < len(actual) else None)
        if cause:
            return Departure(stage=Stage.GRAPH, node=node.name, cause=cause)
    known = {node.name for node in expected}
    for node in actual:
        if node.name not in known:
            return Departure(stage=Stage.GRAPH, node=node.name, cause=f"only ours has this {node.type}")
    for node, other in zip(expected, actual, strict=True):
        if node.name != other.name:
            return Departure(stage=Stage.GRAPH, node=node.name, cause=f"order: ours has {other.name} in its place")
    return None


def _node_difference(node: FloatNode, same: FloatNode | None, placed: FloatNode | None) -> str:
    """What distinguishes ``node`` from ours of that name; ``placed`` is ours at its place."""
    if same is None:
        beside = f"{placed.type} {placed.name} in its place" if placed else "nothing in its place"
        return f"ours has no such {node.type}, {beside}"
    if same.type != node.type:
        return f"{node.type} | {same.type}"
    if same.inputs != node.inputs:
        return f"reads {', '.join(node.inputs)} | {', '.join(same.inputs)}"
    for name in sorted({*node.attributes, *same.attributes}):
        left, right = node.attributes.get(name), same.attributes.get(name)
        if not _same(left, right):
            return f"attribute {name}: {left} | {right}"
    return ""


def _same(first: object, second: object) -> bool:
    if first == second:
        return True
    if first is None or second is None:
        return False
    left, right = np.asarray(first), np.asarray(second)
    kinds = {left.dtype.kind, right.dtype.kind}
    return left.shape == right.shape and kinds <= set("fiu") and bool(np.allclose(left, right, rtol=1e-6, atol=0.0))


def _placement(theirs: ir.Model, ours: ir.Model) -> Departure | None:
    """Which tensors are quantised, and to what type."""
    expected, actual = calibrated_tensors(theirs), calibrated_tensors(ours)
    for name in (*expected, *actual):
        if expected.get(name) != actual.get(name):
            cause = f"quantised to {expected.get(name, 'nothing')} | {actual.get(name, 'nothing')}"
            return Departure(stage=Stage.PLACEMENT, node=name, cause=cause)
    return None


def _thresholds(theirs: ir.Model, ours: ir.Model) -> Departure | None:
    for read, what in ((weight_thresholds, "weight"), (activation_thresholds, "activation")):
        expected, actual = read(theirs), read(ours)
        for name, values in expected.items():
            if not same_thresholds(values, actual[name]):
                cause = f"{what} threshold {_threshold_text(values)} | {_threshold_text(actual[name])}"
                return Departure(stage=Stage.CALIBRATION, node=name, cause=cause)
    return None


def _threshold_text(values: Sequence[float] | np.ndarray) -> str:
    array = np.asarray(values)
    if array.size == 1:
        return f"{array.ravel()[0]:.8g}"
    return f"{array.size} channels, largest {array.max(initial=0):.8g}, first {array.ravel()[:1]}"


def _quantisation(theirs: ir.Model, ours: ir.Model) -> Departure | None:
    """The earliest node of the original's graph that differs."""
    found = diff(theirs, ours)
    order = {str(node.name): index for index, node in enumerate(theirs.graph)}
    serious = [item for item in found if item.aspect is not Aspect.NAME] or found
    if serious:
        first = min(serious, key=lambda item: order.get(item.where, len(order)))
        return Departure(stage=Stage.QUANTISATION, node=first.where, cause=_text(first))
    return None


def _order(theirs: ir.Model, ours: ir.Model) -> Departure | None:
    for node, other in zip_longest(theirs.graph, ours.graph):
        types = [getattr(item, "op_type", "nothing") for item in (node, other)]
        if types[0] != types[1]:
            name = str(getattr(node, "name", "the end"))
            return Departure(stage=Stage.QUANTISATION, node=name, cause=f"order: {types[0]} | {types[1]}")
    return None


def _text(item: Difference) -> str:
    count = f" ({item.elements} of {item.total})" if item.total > 1 else ""
    return f"{item.aspect.value} {item.what}: {item.first} | {item.second}{count}"


def _devices(expected: Mapping[str, str], actual: Mapping[str, str]) -> Departure | None:
    for name, on in expected.items():
        if actual.get(name) != on:
            return Departure(stage=Stage.DEVICES, node=name, cause=f"{on} | {actual.get(name, 'not in the table')}")
    return None


def _subgraphs(case: Case, ours: Conversion) -> Departure | None:
    first, second = len(case.latencies_us), len(ours.latencies_us)
    if case.reduced or not first or first == second:
        return None
    return Departure(stage=Stage.COMPILATION, node="", cause=f"{first} BPU subgraphs | {second}")
