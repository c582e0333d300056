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
from engine.ir import shape_of
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


def minimise(report: PairReport, stages: Mapping[StageName, ir.Model], feed: Feed, expected: Array) -> MinimalCase:
    """Cut the node that ``report`` names out of its stage, with the sample that shows the fault best.

    Args:
        report: a pair with a finding.
        stages: models by stage.
        feed: what was bisected on, samples along the first dimension.
        expected: the right values of ``report.tensor``, all samples along the first dimension.

    Raises:
        ModelError: the report has no finding.
    """
    if report.node is None or report.tensor is None:
        raise ModelError(f"{report.after} keeps its bound: there is nothing to minimise")
    model = stages[report.after]
    node = next(node for node in model.graph if node.name == report.node)
    dynamic = dynamic_values(model.graph)
    inputs = list(dict.fromkeys(value for value in node.inputs if value is not None and value in dynamic))
    outputs = [value for value in node.outputs if value.name]
    inputs = inputs or [value for value in node.inputs if value is not None]
    graph = ir.convenience.extract(model.graph, inputs, outputs)
    cut = ir.Model(graph, ir_version=model.ir_version)
    cut.metadata_props.update(model.metadata_props)
    tensors = _tensors(model, feed, [str(value.name) for value in inputs])
    samples = _samples(model, feed)
    rows = {name: np.split(array, samples) for name, array in tensors.items()}
    wanted = np.split(expected, samples) if len(expected) % samples == 0 else [expected]
    best = (-1.0, 0, wanted[0])
    for index in range(samples):
        actual = Session(cut).run({name: parts[index] for name, parts in rows.items()})[str(outputs[0].name)]
        error = _difference(actual, wanted[index]) if len(wanted) == samples else 0.0
        if error > best[0]:
            best = (error, index, actual)
    _, index, actual = best
    sample = {name: parts[index] for name, parts in rows.items()}
    return MinimalCase(cut, sample, wanted[min(index, len(wanted) - 1)], actual)


def _difference(actual: Array, expected: Array) -> float:
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
