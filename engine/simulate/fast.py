"""The fast simulator: the reference's bits for whole batches at once."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.simulate.reference import name_of, sorted_copy, split_constants
from engine.simulate.stacked import StackedFunction, stacked_function
from engine.simulate.tensors import check_feed, check_outputs, describe, graph_inputs

Array = NDArray[Any]

CHUNK = 8
"""Samples that are computed together; memory does not grow with more."""


@dataclass(frozen=True)
class Step:
    """One node of the plan; ``dead`` names the values that nothing reads after it."""

    function: StackedFunction
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    dead: tuple[str, ...]


class FastSimulator:
    """Runs a quantised graph batch by batch; equal to the reference simulator bit for bit."""

    def __init__(self, model: ir.Model, threads: int | None = None) -> None:
        model = sorted_copy(model)
        self.inputs = describe(graph_inputs(model))
        self.outputs = describe(model.graph.outputs)
        self._constants, nodes = split_constants(model)
        keep = {info.name for info in self.outputs} | set(self._constants)
        self._steps = _plan(nodes, model, self._constants, keep)

    def run(self, feed: Mapping[str, Array], output_names: Sequence[str] | None = None) -> dict[str, Array]:
        """Outputs by name, for a feed of any number of samples.

        Raises:
            InferenceError: the feed does not fit the model.
        """
        names = check_outputs(output_names, self.outputs)
        count = check_feed(feed, self.inputs)
        stacked = {info.name: feed[info.name].reshape(count, *info.shape) for info in self.inputs}
        chunks = [
            self._chunk({name: array[start : start + CHUNK] for name, array in stacked.items()}, names, size)
            for start in range(0, count, CHUNK)
            if (size := min(CHUNK, count - start))
        ]
        return {name: _unstack([chunk[name] for chunk in chunks]) for name in names}

    def _chunk(self, feed: Mapping[str, Array], names: Sequence[str], count: int) -> dict[str, Array]:
        values = {**self._constants, **feed}
        for step in self._steps:
            results = step.function([None if name is None else values[name] for name in step.inputs])
            values.update(zip(step.outputs, results, strict=False))
            for name in step.dead:
                del values[name]
        return {name: self._every_sample(values[name], name, count) for name in names}

    def _every_sample(self, value: Array, name: str, count: int) -> Array:
        """A constant output, which is not stacked, is the same for every sample."""
        return np.broadcast_to(value, (count, *value.shape)) if name in self._constants else value


def _plan(nodes: Sequence[ir.Node], model: ir.Model, known: Container[str], keep: set[str]) -> list[Step]:
    last_use = {name_of(value): index for index, node in enumerate(nodes) for value in node.inputs if value is not None}
    steps = []
    for index, node in enumerate(nodes):
        inputs = tuple(None if value is None else name_of(value) for value in node.inputs)
        outputs = tuple(name_of(value) for value in node.outputs)
        done = {name for name in (*inputs, *outputs) if name is not None and last_use.get(name, index) <= index}
        steps.append(Step(stacked_function(node, model, known), inputs, outputs, tuple(sorted(done - keep))))
    return steps


def _unstack(chunks: Sequence[Array]) -> Array:
    """Samples back into the first dimension; scalars become a vector."""
    stacked = chunks[0] if len(chunks) == 1 else np.concatenate(chunks)
    if stacked.ndim == 1:
        return stacked if len(stacked) > 1 else stacked[0]
    return stacked.reshape(-1, *stacked.shape[2:])
