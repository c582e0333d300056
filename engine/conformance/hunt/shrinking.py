"""From a network that departs to the smallest that departs in the same way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx
import onnx_ir as ir

from engine.conformance.hunt.cutting import cut_out, with_model
from engine.conformance.hunt.draws import Draw
from engine.debug.bisection.shrink import FaultyCase, shrink
from engine.errors import PtqlabError
from engine.simulate import Session

RADII = (1, 2, 3, 5)
"""How far around the node that departs its neighbours are kept, at first."""

OPTIONS = (
    *(("model_parameters", key) for key in ("remove_node_type", "remove_node_name", "node_info")),
    *(
        ("calibration_parameters", key)
        for key in ("max_percentile", "per_channel", "optimization", "run_on_cpu", "run_on_bpu")
    ),
)
"""Parameters that are dropped if the departure does not need them, by group."""

Departs = Callable[[Draw], bool]
"""Asks both toolchains whether a network departs in the same way."""


@dataclass
class AskBudget:
    """How often the original may still be asked.

    Attributes:
        left: times.
        asked: times so far.
    """

    left: int
    asked: int = 0

    def allows(self, departs: Departs, item: Draw) -> bool:
        """Whether ``item`` departs in the same way; no without asking once the budget is spent."""
        if self.left <= 0:
            return False
        self.left -= 1
        self.asked += 1
        return departs(item)


@dataclass
class Shrinker:
    """Shrinks one network.

    Attributes:
        departs: asks both toolchains.
        budget: how often.
    """

    departs: Departs
    budget: AskBudget = field(default_factory=lambda: AskBudget(40))

    def smallest(self, item: Draw, place: str) -> Draw:
        """The smallest network that departs in the same way as ``item``.

        Options are dropped first, then nodes: neighbours of ``place`` are tried, then ends, then every node; at last
        rows, columns and channels, by the minimiser of ``bisect``.

        Args:
            item: departs.
            place: name of the node or tensor where it does; empty where none is known.
        """
        for group, key in OPTIONS:
            simpler = _without(item, group, key)
            item = simpler if simpler is not None and self._departs(simpler) else item
        item = self._window(item, place)
        item = self._half(item, first=True)
        item = self._half(item, first=False)
        item = self._without_each(item)
        return self._narrow(item)

    def _departs(self, item: Draw) -> bool:
        return self.budget.allows(self.departs, item)

    def _try(self, item: Draw, names: Sequence[str]) -> Draw | None:
        """The part of ``item`` that has ``names`` alone, if it departs in the same way."""
        if not names or len(names) >= len(item.model.graph.node) or self.budget.left <= 0:
            return None
        part = cut_out(item, set(names))
        return part if part is not None and self._departs(part) else None

    def _window(self, item: Draw, place: str) -> Draw:
        """The neighbours of ``place`` alone, as few as depart."""
        for radius in RADII:
            found = self._try(item, neighbours(item.model, place, radius))
            if found is not None:
                return found
        return item

    def _half(self, item: Draw, *, first: bool) -> Draw:
        """As short a beginning (or end) of the nodes as departs, by halving."""
        names = [node.name for node in item.model.graph.node]
        low, high, best = 0, len(names), item
        while high - low > 1:
            middle = (low + high) // 2
            found = self._try(item, names[:middle] if first else names[-middle:])
            low, high, best = (low, middle, found) if found is not None else (middle, high, best)
        return best

    def _without_each(self, item: Draw) -> Draw:
        """Without every node that the departure does not need."""
        for name in [node.name for node in item.model.graph.node][::-1]:
            names = [node.name for node in item.model.graph.node if node.name != name]
            item = self._try(item, names) or item
        return item

    def _narrow(self, item: Draw) -> Draw:
        """Rows, columns, channels halved as long as it departs."""
        best = item

        def shows(case: FaultyCase) -> bool:
            nonlocal best
            narrow = _narrowed(item, case)
            if narrow is None:
                return True  # as it was
            if not self._departs(narrow):
                return False
            best = narrow
            return True

        try:
            model = ir.from_proto(item.model)
            sample = {name: samples[0] for name, samples in item.data.items()}
            result = next(iter(Session(model, threads=1).run(sample).values()))
            shrink(FaultyCase(model, model, sample, result, result), shows)
        except (PtqlabError, ValueError, LookupError):
            return best  # a network that the minimiser cannot run
        return best


def neighbours(model: onnx.ModelProto, place: str, radius: int) -> list[str]:
    """Names of the nodes within ``radius`` steps of the node or tensor ``place``, in graph order; none if unknown."""
    nodes = list(model.graph.node)
    near = {node.name for node in nodes if place == node.name or place in node.output}
    near = near or {node.name for node in nodes if place in node.input}
    constants = {each.name for each in model.graph.initializer}
    for _ in range(radius):
        near_tensors = {
            name for node in nodes if node.name in near for name in (*node.input, *node.output) if name not in constants
        }
        near |= {node.name for node in nodes if near_tensors & {*node.input, *node.output} - {""}}
    return [node.name for node in nodes if node.name in near]


def _without(item: Draw, group: str, key: str) -> Draw | None:
    """``item`` without the parameter ``key``; None where it has none."""
    if key not in item.parameters[group]:
        return None
    less = {name: value for name, value in item.parameters[group].items() if name != key}
    return replace(item, parameters={**item.parameters, group: less})


def _narrowed(item: Draw, case: FaultyCase) -> Draw | None:
    """``item`` with the shapes of ``case``; None where it has them already."""
    shapes = {name: array.shape for name, array in case.inputs.items()}
    if all(item.data[name].shape[1:] == shape for name, shape in shapes.items()):
        return None
    data = {
        name: np.ascontiguousarray(samples[(slice(None), *(slice(size) for size in shapes[name]))])
        for name, samples in item.data.items()
    }
    return with_model(item, ir.to_proto(case.model), data)
