"""Many choices of quantised tensors of a calibrated model; each costs only what it changes.

A *variant* is the set of ``HzCalibration`` nodes that quantise; all others pass through. The float model is computed
once per sample and all its tensors are kept. A variant then computes only what lies behind the tensors that it
quantises (:class:`engine.floats.switched.SwitchedModel`); variants run side by side, one thread each. One
sample is held at a time, so that memory does not grow with their number.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import InferenceError
from engine.floats.switched import Comparison, Results, SwitchedModel
from engine.ir import calibration_nodes, read_calibration, shape_of

Array = NDArray[Any]
Variant = frozenset[str]
"""Names of the ``HzCalibration`` nodes that quantise."""

FLOAT: Variant = frozenset()
"""The variant that quantises nothing."""

Watcher = Callable[[float], None]
"""Called now and then with the share of the work that is done, 0 to 1."""


def unwatched(share: float) -> None:
    """A watcher that does nothing."""


def watchers(watch: Watcher, sizes: Sequence[float]) -> list[Watcher]:
    """A watcher for each of several parts of a work, which follow one another and take times like ``sizes``."""
    total = sum(sizes)
    return [partial(_tell, watch, sum(sizes[:index]) / total, size / total) for index, size in enumerate(sizes)]


def _tell(watch: Watcher, start: float, size: float, share: float) -> None:
    watch(start + size * share)


class VariantRunner:
    """Runs a calibrated model in many variants.

    Args:
        calibrated: model with thresholds and static shapes; not changed.
        fetch: names of the tensors wanted: any that a node computes, not of weights.
        threads: CPU threads; None for all.

    Raises:
        InferenceError: a name in ``fetch`` is not such a tensor.
    """

    def __init__(self, calibrated: ir.Model, fetch: Collection[str], *, threads: int | None = None) -> None:
        computed = dynamic_values(calibrated.graph) - set(calibrated.graph.inputs)
        made = [str(value.name) for node in calibrated.graph for value in node.outputs if value in computed]
        missing = sorted(set(fetch) - set(made))
        if missing:
            raise InferenceError(f"not computed by any node of the model: {missing}")
        self._inputs = {str(value.name): shape_of(value) for value in calibrated.graph.inputs}
        self._calibrations = {str(node.name): read_calibration(node) for node in calibration_nodes(calibrated)}
        wanted = [name for name in made if name in set(fetch)]
        self._model = SwitchedModel(calibrated, fetch=wanted, threads=threads or len(os.sched_getaffinity(0)))

    def run(
        self,
        feed: Mapping[str, Array],
        variants: Sequence[Variant],
        compare: Comparison,
        watch: Watcher = unwatched,
    ) -> Iterator[list[Results]]:
        """What ``compare`` says of every wanted tensor of every variant, also where nothing changed: by sample.

        Args:
            feed: any number of samples by input name.
            variants: what quantises.
            compare: takes the name of a tensor, what a variant makes of it, and the float one; a function of these
                alone, as it is called once for what several variants have in common, from several threads.
            watch: told of the share of all samples and variants that is done.

        Raises:
            InferenceError: an input is missing, unknown or has the wrong shape.
        """
        choices = [{name: self._calibrations[name] for name in variant} for variant in variants]
        name, shape = next(iter(self._inputs.items()))
        samples = len(feed[name]) // shape[0] if name in feed else 1
        for index, sample in enumerate(self._model.on(feed)):
            costs = [sample.cost(choice) for choice in choices]
            yield sample.compared(choices, compare, _Progress(watch, index / samples, 1 / samples, costs))


class _Progress:
    """Adds up what threads have done of a sample, and tells the sum.

    Args:
        watch: is told.
        start: share that was done before the sample.
        size: share of the sample.
        costs: of its choices.
    """

    def __init__(self, watch: Watcher, start: float, size: float, costs: Sequence[float]) -> None:
        self._watch, self._share, self._costs = watch, start, costs
        self._factor = size / (sum(costs) or 1.0)
        self._lock = Lock()

    def __call__(self, choice: int) -> None:
        with self._lock:
            self._share += self._factor * self._costs[choice]
            self._watch(min(self._share, 1.0))


def switch(model: ir.Model, working: Collection[str]) -> None:
    """Let exactly the ``HzCalibration`` nodes named in ``working`` quantise."""
    for node in calibration_nodes(model):
        node.attributes.add(ir.AttrString("switch", "ON" if node.name in working else "OFF"))


def dynamic_values(graph: ir.Graph) -> set[ir.Value | None]:
    """The values that depend on the inputs of the graph."""
    found: set[ir.Value | None] = set(graph.inputs)
    for node in graph:
        if any(value in found for value in node.inputs if value is not None):
            found.update(node.outputs)
    return found
