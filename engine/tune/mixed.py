"""Search for the nodes to compute in int16, or on the CPU, under a latency budget.

Nodes are tried in the order of what their quantisation costs alone. A node is kept where the outputs become more
similar to the float ones and the latency stays in the budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import onnx_ir as ir

from engine.calibrate import (
    CalibrationData,
    CalibrationOptions,
    Statistics,
    collect_for,
    needs_data,
    run_calibration,
    to_signed,
)
from engine.calibrate.sensitivity import calibrations_by_node, sensitivities
from engine.place import NodeTypes, Placement, PlacementOptions, place
from engine.place.chains import on_bpu
from engine.quantize import quantize
from engine.tune.evaluation import Evaluator, Score

INT16 = NodeTypes(input_type="int16", output_type="int16")

Latency = Callable[[ir.Model], float]
"""Microseconds per frame of a quantised model."""


@dataclass(frozen=True)
class Budget:
    """What the search may spend.

    Attributes:
        latency_us: most that the model may take per frame; None for 1.25 times what int8 takes.
        trials: most models to build.
        minutes: after these no further model is built.
        cpu: whether nodes that cannot be int16 may go to the CPU, whose time the latency does not hold.
    """

    latency_us: float | None = None
    trials: int = 40
    minutes: float = 10.0
    cpu: bool = False


@dataclass(frozen=True)
class Mix:
    """One choice of types, and what it gives.

    Attributes:
        int16: names of the nodes with int16 inputs and outputs.
        cpu: names of the nodes on the CPU.
        score: similarity to the float model.
        latency_us: microseconds per frame on the BPU.
    """

    int16: tuple[str, ...]
    cpu: tuple[str, ...]
    score: Score
    latency_us: float


@dataclass(frozen=True)
class TuningResult:
    """What a search found.

    Attributes:
        int8: nothing but what the configuration asks for.
        ceiling: int16 wherever it is possible.
        chosen: the best within the budget.
        latency_budget_us: the budget that held.
        ranking: node names, most sensitive first, with the cosine that the node's quantisation alone leaves.
        trials: models built.
        seconds: time taken.
    """

    int8: Mix
    ceiling: Mix
    chosen: Mix
    latency_budget_us: float
    ranking: tuple[tuple[str, float], ...]
    trials: int
    seconds: float

    def fragment(self) -> dict[str, Any]:
        """The choice in the form of a configuration file; empty where int8 is kept."""
        types = {name: {"ON": "BPU", "InputType": "int16", "OutputType": "int16"} for name in self.chosen.int16}
        found: dict[str, Any] = {"model_parameters": {"node_info": types}} if types else {}
        if self.chosen.cpu:
            found["calibration_parameters"] = {"run_on_cpu": ";".join(self.chosen.cpu)}
        return found


DEFAULT_LATENCY_RATIO = 1.25


@dataclass
class MixedPrecisionSearch:
    """The search on one model.

    Args:
        optimized: float model.
        march: ``bernoulli2``, ``bayes`` or ``bayes-e``.
        data: calibration data.
        calibration: how thresholds are chosen.
        placement: what the configuration asks for already; it is kept.
        evaluator: scores models.
        latency: of a quantised model.
        threads: CPU threads; None for all.
    """

    optimized: ir.Model
    march: str
    data: CalibrationData
    calibration: CalibrationOptions
    placement: PlacementOptions
    evaluator: Evaluator
    latency: Latency
    threads: int | None = None
    _built: dict[tuple[tuple[str, ...], tuple[str, ...]], Mix] = field(default_factory=dict, init=False)
    _statistics: Statistics | None = field(default=None, init=False)

    def run(self, budget: Budget, report: Callable[[str], None] = lambda text: None) -> TuningResult:
        """Search until everything was tried or the budget is spent; ``report`` is told of every model built."""
        start = time.monotonic()
        placed = place(self.optimized, self.march, self.placement).model
        self._statistics = self._collect(placed)
        ranking = self._ranking(placed)
        int8 = self._build((), ())
        names = tuple(name for name, _ in ranking)
        ceiling = self._build(names, ())
        limit = int8.latency_us * DEFAULT_LATENCY_RATIO if budget.latency_us is None else budget.latency_us
        report(f"int8 {int8.score.cosine:.6f}, {int8.latency_us:.0f} us; all int16 {ceiling.score.cosine:.6f}")
        chosen = ceiling if ceiling.latency_us <= limit else int8
        for step in self._steps(names, budget) if chosen is int8 else ():
            if len(self._built) >= budget.trials or time.monotonic() - start > 60 * budget.minutes:
                break
            mix = self._build((*chosen.int16, *step[0]), (*chosen.cpu, *step[1]))
            kept = mix.latency_us <= limit and mix.score.cosine > chosen.score.cosine
            chosen = mix if kept else chosen
            verdict = "kept" if kept else "dropped"
            report(f"{', '.join((*step[0], *step[1]))}: {mix.score.cosine:.6f}, {mix.latency_us:.0f} us, {verdict}")
        return TuningResult(int8, ceiling, chosen, limit, ranking, len(self._built), time.monotonic() - start)

    def _ranking(self, placed: ir.Model) -> tuple[tuple[str, float], ...]:
        """BPU nodes, most sensitive first, in the model with the thresholds of int8."""
        calibrated = self._calibrate(placed)
        wanted = [str(node.name) for node in calibrated.graph if on_bpu(node)]
        nodes = [name for name in calibrations_by_node(calibrated) if name in set(wanted)]
        found = sensitivities(calibrated, self.data.read(0, 1), nodes, threads=self.threads)
        return tuple(sorted(found.items(), key=lambda item: item[1]))

    def _steps(self, names: Iterable[str], budget: Budget) -> Iterable[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Nodes to add, one at a time: to int16, or to the CPU where int16 is refused."""
        for name in names:
            if not self._refused(name):
                yield (name,), ()
            elif budget.cpu:
                yield (), (name,)

    def _refused(self, name: str) -> bool:
        return any(refusal.node == name for refusal in self._place((name,), ()).refusals)

    def _place(self, int16: tuple[str, ...], cpu: tuple[str, ...]) -> Placement:
        requests: Mapping[str, NodeTypes] = {**dict.fromkeys(int16, INT16), **self.placement.node_info}
        options = replace(self.placement, node_info=requests, run_on_cpu=self.placement.run_on_cpu | set(cpu))
        return place(self.optimized, self.march, options)

    def _calibrate(self, placed: ir.Model) -> ir.Model:
        return run_calibration(
            self.optimized, placed, self.data, self.calibration, statistics=self._statistics, threads=self.threads
        )

    def _collect(self, placed: ir.Model) -> Statistics | None:
        """Statistics for the placement in int8 and in int16."""
        if not needs_data(self.calibration):
            return None
        names = tuple(str(node.name) for node in placed.graph if on_bpu(node))
        placements = [placed, self._place(names, ()).model]
        return collect_for(self.optimized, placements, self.data, self.calibration, threads=self.threads)

    def model(self, mix: Mix) -> ir.Model:
        """The quantised model of ``mix``, one of those that :meth:`run` returned."""
        return self._quantized(mix.int16, mix.cpu)

    def _quantized(self, int16: tuple[str, ...], cpu: tuple[str, ...]) -> ir.Model:
        return quantize(to_signed(self._calibrate(self._place(int16, cpu).model)), self.march)

    def _build(self, int16: tuple[str, ...], cpu: tuple[str, ...]) -> Mix:
        key = (tuple(sorted(int16)), tuple(sorted(cpu)))
        if key not in self._built:
            quantized = self._quantized(int16, cpu)
            self._built[key] = Mix(int16, cpu, self.evaluator.integer(quantized), self.latency(quantized))
        return self._built[key]
