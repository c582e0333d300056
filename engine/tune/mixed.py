"""Search for the nodes to compute in int16, or on the CPU, under a latency budget.

Nodes are tried in the order of what their quantisation costs alone. A node is kept where the outputs become more
similar to the float ones, or where asked the task's metric becomes better, and the latency stays in the budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx_ir as ir

from engine.board import stored_times
from engine.calibrate import CalibrationData, Statistics, collect_for, needs_data
from engine.calibrate.methods.sensitivity import calibrations_by_node, sensitivities
from engine.chips import load_chip
from engine.convert.items import (
    CALIBRATED,
    COMPILED,
    DATA,
    OPTIMIZED,
    PLACED,
    QUANTIZED,
    REQUESTS,
    STATISTICS,
    THREADS,
    THRESHOLDS,
)
from engine.convert.refusals import is_for_bpu_alone
from engine.convert.runner import Given, Item, Run
from engine.convert.stages.calibrate import calibration_options
from engine.debug.bisection.breaks import Break, broken_in_words, usual_break
from engine.errors import ConfigError
from engine.evaluate.similarity import Evaluator, Similarity
from engine.facts.chains import chains
from engine.facts.devices import on_bpu
from engine.graph import float_readers
from engine.ir import CALIBRATION_OP
from engine.ops.foreign.composite import PREPROCESS
from engine.perf import estimate
from engine.place import NodeTypes, Placement, PlacementOptions
from engine.place.options import INT16
from engine.terms import Device

SIDES = ("input_type", "output_type")


@dataclass(frozen=True)
class LatencyBudget:
    """What the search may spend.

    Attributes:
        latency_us: most that the model may take per frame on the BPU, with what its CPU nodes take more than those of
            int8; None for 1.25 times what int8 takes.
        trials: most models to build.
        minutes: after these no further model is built.
        cpu: whether nodes that cannot be int16 may go to the CPU.
    """

    latency_us: float | None = None
    trials: int = 40
    minutes: float = 10.0
    cpu: bool = False


@dataclass(frozen=True)
class Mix:
    """One choice of types, and what it gives.

    Attributes:
        int16: what is asked of the nodes with int16, by name.
        cpu: names of the nodes on the CPU.
        score: similarity to the float model on the samples that mixes are chosen by.
        test: likewise on samples that nothing was chosen by; None where there are none, and of mixes on the way.
        latency_us: microseconds per frame on the BPU.
        cpu_us: microseconds per frame on the CPU, measured on a board or a rough estimate.
        task: the task's metric on the samples that mixes are chosen by; None where they are chosen by similarity.
    """

    int16: Mapping[str, NodeTypes]
    cpu: tuple[str, ...]
    score: Similarity
    latency_us: float
    cpu_us: float
    test: Similarity | None = None
    task: float | None = None


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
        broken: which outputs of the chosen model no longer say what the float model's do, where that begins, and what
            to do, a sentence each.
    """

    int8: Mix
    ceiling: Mix
    chosen: Mix
    latency_budget_us: float
    ranking: tuple[tuple[str, float], ...]
    trials: int
    seconds: float
    broken: tuple[str, ...] = ()

    def fragment(
        self, node_info: Mapping[str, Mapping[str, str]] | None = None, run_on_cpu: Sequence[str] = ()
    ) -> dict[str, Any]:
        """The choice in the form of a configuration file; empty where int8 is kept.

        Args:
            node_info: what the configuration has there already: it stays beside what was chosen.
            run_on_cpu: likewise.
        """
        found: dict[str, Any] = {}
        if self.chosen.int16:
            added = {name: _as_written(types) for name, types in self.chosen.int16.items()}
            given = node_info or {}
            merged = {name: {**added.get(name, {}), **given.get(name, {})} for name in (*given, *added)}
            found["model_parameters"] = {"node_info": merged}
        if self.chosen.cpu:
            found["calibration_parameters"] = {"run_on_cpu": ";".join((*run_on_cpu, *self.chosen.cpu))}
        return found


def _as_written(types: NodeTypes) -> dict[str, str]:
    """``types`` as ``node_info`` takes them."""
    sides = {"InputType": types.input_type, "OutputType": types.output_type}
    return {"ON": Device.BPU.value, **{key: kind for key, kind in sides.items() if kind is not None}}


DEFAULT_LATENCY_RATIO = 1.25


@dataclass
class MixedPrecisionSearch:
    """The search on one model.

    Args:
        conversion: what the configuration asks for already; it is kept.
        evaluator: scores models; mixes are chosen by it.
        test: scores what was chosen, on samples that ``evaluator`` does not see; None for no such score.
        task: the task's metric of a quantised model: mixes are chosen by it, and by similarity where it is equal; None
            to choose by similarity alone.
        higher_is_better: direction of ``task``.
    """

    conversion: Run
    evaluator: Evaluator
    test: Evaluator | None = None
    task: Callable[[ir.Model], float] | None = None
    higher_is_better: bool = True
    _built: dict[tuple[frozenset[str], frozenset[str]], Mix] = field(default_factory=dict, init=False)
    _statistics: Statistics | None = field(default=None, init=False)

    @property
    def march(self) -> str:
        """The BPU architecture."""
        return self.conversion.config.march.value

    @property
    def requests(self) -> PlacementOptions:
        """What the configuration asks of the placement."""
        return self.conversion[REQUESTS]

    def run(self, budget: LatencyBudget, report: Callable[[str], None] = lambda text: None) -> TuningResult:
        """Search until everything was tried or the budget is spent; ``report`` is called for every model built.

        A keyboard interrupt ends the search with the best mix so far.

        Raises:
            ConfigError: the march has no int16, and the CPU is not allowed either.
        """
        start = time.monotonic()
        if not load_chip(self.march).int16 and not budget.cpu:
            raise ConfigError(f"march {self.march} has no int16; only CPU nodes can be tuned, with --cpu")
        possible = self._possible(self.conversion[PLACED].model)
        self._statistics = self._collect(possible)
        ranking = self._ranking()
        int8 = self._build({}, ())
        ceiling = self._build({name: possible[name] for name, _ in ranking if name in possible}, ())
        limit = int8.latency_us * DEFAULT_LATENCY_RATIO if budget.latency_us is None else budget.latency_us
        report(f"int8 {_scored(int8)}, {int8.latency_us:.0f} us; all int16 {_scored(ceiling)}")
        most = limit + int8.cpu_us
        chosen = ceiling if self._is_better(ceiling, int8, most) else int8
        alone = {str(node.name) for node in self.conversion[OPTIMIZED].graph if is_for_bpu_alone(node)}
        to_cpu = {name for name, _ in ranking if budget.cpu and name not in {*self.requests.node_info, *alone}}
        try:
            for name in [name for name, _ in ranking if name in possible or name in to_cpu]:
                if len(self._built) >= budget.trials or time.monotonic() - start > 60 * budget.minutes:
                    break
                if name not in chosen.int16:
                    chosen = self._step(chosen, name, possible.get(name), most, report)
        except KeyboardInterrupt:
            report("interrupted; the result so far follows")
        int8, ceiling, chosen = (self._tested(mix) for mix in (int8, ceiling, chosen))
        broken = self._broken(chosen)
        return TuningResult(int8, ceiling, chosen, limit, ranking, len(self._built), time.monotonic() - start, broken)

    def _tested(self, mix: Mix) -> Mix:
        return mix if self.test is None else replace(mix, test=self.test.integer(self.model(mix)))

    def _broken(self, chosen: Mix) -> tuple[str, ...]:
        """As :attr:`TuningResult.broken`, on the samples that mixes are chosen by."""
        run = self._converted(chosen.int16, chosen.cpu)

        def find() -> Break | None:
            return usual_break(run[OPTIMIZED], run[CALIBRATED], run[QUANTIZED], self._data())

        return broken_in_words(self.evaluator.distances(run[QUANTIZED]), find)

    def _step(self, chosen: Mix, name: str, types: NodeTypes | None, most: float, report: Callable[[str], None]) -> Mix:
        """``chosen`` with node ``name`` in int16, on the CPU where it has no ``types``, if that is better."""
        cpu = (*chosen.cpu, name)
        if types is None and not _runs_on_bpu(self._converted(chosen.int16, cpu)[PLACED].model):
            report(f"{name}: dropped, because no node would remain on the BPU")
            return chosen
        if types is None:
            mix = self._build(chosen.int16, cpu)
        else:
            mix = self._build({**chosen.int16, name: types}, chosen.cpu)
        kept = self._is_better(mix, chosen, most)
        besides = "" if types is not None else f" and {mix.cpu_us:.0f} us on the CPU"
        report(f"{name}: {_scored(mix)}, {mix.latency_us:.0f} us{besides}, {'kept' if kept else 'dropped'}")
        return mix if kept else chosen

    def _possible(self, placed: ir.Model) -> dict[str, NodeTypes]:
        """What int16 can be asked of every BPU node that the configuration asks nothing of there, where it is granted.

        A result that no BPU node reads is left as it is: a convolution's is int32, which is better.
        """
        march = load_chip(self.march)
        if not march.int16:
            return {}
        found = {str(node.name): self.requests.node_info.get(str(node.name), NodeTypes()) for node in placed.graph}
        wanted = {str(node.name) for node in placed.graph if on_bpu(node)}
        inner = {str(node.name) for chain in chains(placed, march) if _is_read_on_bpu(chain[-1]) for node in chain}
        granted: dict[str, dict[str, Any]] = {}
        for side, names in zip(SIDES, (wanted, wanted & inner), strict=True):
            free = {name for name in names if getattr(found[name], side) is None and not found[name].input_types}
            change: dict[str, Any] = {side: INT16}
            asked = {name: replace(found[name], **change) for name in free}
            options = replace(self.requests, node_info={**self.requests.node_info, **asked})
            refused = {refusal.node for refusal in self._placed(options).refusals}
            for name in free - refused:
                granted.setdefault(name, {})[side] = INT16
        return {name: replace(found[name], **sides) for name, sides in granted.items()}

    def _ranking(self) -> tuple[tuple[str, float], ...]:
        """BPU nodes, most sensitive first, in the model with the thresholds of int8."""
        calibrated = self._converted({}, ())[THRESHOLDS]
        wanted = [str(node.name) for node in calibrated.graph if on_bpu(node)]
        nodes = [name for name in calibrations_by_node(calibrated) if name in set(wanted)]
        found = sensitivities(calibrated, self._data().read(0, 1), nodes, threads=self.conversion[THREADS])
        return tuple(sorted(found.items(), key=lambda item: item[1]))

    def _data(self) -> CalibrationData:
        data = self.conversion[DATA]
        if data is None:
            raise ConfigError("calibration_parameters.cal_data_dir: tuning needs calibration data to compare models on")
        return data

    def _placed(self, requests: PlacementOptions) -> Placement:
        """The placement under other requests; nodes that run as several stay those of the configuration."""
        given: dict[Item[Any], Given] = {
            REQUESTS: Given(requests),
            OPTIMIZED: Given(self.conversion[OPTIMIZED]),
        }
        return self.conversion.replacing(given)[PLACED]

    def _converted(self, int16: Mapping[str, NodeTypes], cpu: tuple[str, ...]) -> Run:
        """The conversion with these nodes in int16 and on the CPU."""
        requests = replace(
            self.requests,
            node_info={**self.requests.node_info, **int16},
            run_on_cpu=self.requests.run_on_cpu | set(cpu),
        )
        given: dict[Item[Any], Given] = {
            REQUESTS: Given(requests),
            OPTIMIZED: Given(self.conversion[OPTIMIZED]),
            STATISTICS: Given(self._statistics),
        }
        return self.conversion.replacing(given)

    def _collect(self, possible: Mapping[str, NodeTypes]) -> Statistics | None:
        """Statistics for the placement in int8 and in int16."""
        options = calibration_options(self.conversion.config)
        if not needs_data(options):
            return None
        placements = [self._converted(int16, ())[PLACED].model for int16 in ({}, possible)]
        threads = self.conversion[THREADS]
        return collect_for(self.conversion[OPTIMIZED], placements, self._data(), options, threads=threads)

    def model(self, mix: Mix) -> ir.Model:
        """The quantised model of ``mix``, one of those that :meth:`run` returned."""
        return self._converted(mix.int16, mix.cpu)[QUANTIZED]

    def _build(self, int16: Mapping[str, NodeTypes], cpu: tuple[str, ...]) -> Mix:
        key = (frozenset(int16), frozenset(cpu))
        if key not in self._built:
            converted = self._converted(int16, cpu)
            performance = estimate(converted[COMPILED], stored_times(self.march))
            times = performance.latency_us / performance.frames, performance.cpu_us / performance.frames
            task = None if self.task is None else self.task(converted[QUANTIZED])
            self._built[key] = Mix(int16, cpu, self.evaluator.integer(converted[QUANTIZED]), *times, task=task)
        return self._built[key]

    def _is_better(self, mix: Mix, chosen: Mix, most: float) -> bool:
        """Whether ``mix`` is better and takes, BPU and CPU together, at most ``most`` us."""
        return self._merit(mix) > self._merit(chosen) and mix.latency_us + mix.cpu_us <= most

    def _merit(self, mix: Mix) -> tuple[float, float]:
        """The task's metric, where mixes are chosen by it, then the similarity to the float model."""
        task = 0.0 if mix.task is None else mix.task
        return task if self.higher_is_better else -task, mix.score.cosine


def _scored(mix: Mix) -> str:
    """What mixes are compared by."""
    by_task = "" if mix.task is None else f"metric {mix.task:.4f}, "
    return f"{by_task}{mix.score.cosine:.6f}"


def _runs_on_bpu(placed: ir.Model) -> bool:
    return any(on_bpu(node) and node.op_type not in (PREPROCESS, CALIBRATION_OP) for node in placed.graph)


def _is_read_on_bpu(node: ir.Node) -> bool:
    return any(on_bpu(reader) for value in node.outputs for reader in float_readers(value))
