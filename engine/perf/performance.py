"""Latency and DDR traffic of a compiled model, per run, subgraph and layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from engine.board import BoardTimes, cpu_statement
from engine.chips.latency import Latency, ModelAccuracy, load_latency
from engine.compile import CompiledModel
from engine.compile.cost import Cost, aligned_shape, layer_costs, load_us, moving_us, store_us, subgraph_us
from engine.compile.layers import Overlap
from engine.compile.schedule import Schedule
from engine.compile.traffic import Traffic
from engine.perf.cpu import CpuCost, cpu_costs


@dataclass(frozen=True)
class LayerPerformance:
    """One layer; times in microseconds if the layer ran alone, but for ``latency_us``.

    Attributes:
        name: the layer's name.
        op_type: operator of the quantised graph.
        ops: operations per run, two per multiply-accumulate.
        output_shape: NHWC.
        aligned_shape: as the hardware computes it.
        compute_us: computing time.
        load_us: time to load its weights and inputs from DDR.
        store_us: time to store its output there.
        loaded_bytes: bytes loaded from DDR.
        stored_bytes: bytes stored to DDR.
        overhead_us: time that it takes besides computing and traffic.
        latency_us: its part of the latency of the subgraph.
    """

    name: str
    op_type: str
    ops: int
    output_shape: tuple[int, ...]
    aligned_shape: tuple[int, ...]
    compute_us: float
    load_us: float
    store_us: float
    loaded_bytes: int
    stored_bytes: int
    overhead_us: float = 0.0
    latency_us: float = 0.0

    @property
    def transfer_us(self) -> float:
        """Time to load and store."""
        return self.load_us + self.store_us


@dataclass(frozen=True)
class SubgraphPerformance:
    """One BPU subgraph per run, which the BPU runs in one or more function calls."""

    name: str
    latency_us: float
    loaded_bytes: int
    stored_bytes: int
    layers: tuple[LayerPerformance, ...]
    function_calls: int = 1

    @property
    def ops(self) -> int:
        """Operations per run."""
        return sum(layer.ops for layer in self.layers)


@dataclass(frozen=True)
class Performance:
    """The estimate for a model; CPU operators, quantisation and layout changes are not in it.

    Attributes:
        march: BPU architecture.
        subgraphs: in running order.
        cpu_nodes: (name, type) of the operators that run on the CPU.
        frames: samples that one run computes.
        cpu_costs: of all that the CPU runs, quantisation and layout changes too, measured on a board or roughly
            estimated; not in the latency.
        board: where measured CPU times are from; empty where there are none.
        unfused: whether nothing stays on the chip between layers (O0).
    """

    march: str
    subgraphs: tuple[SubgraphPerformance, ...]
    cpu_nodes: tuple[tuple[str, str], ...]
    frames: int = 1
    cpu_costs: tuple[CpuCost, ...] = ()
    board: str = ""
    unfused: bool = False

    @property
    def uncertainty(self) -> ModelAccuracy:
        """Relative errors that nine of ten such estimates stay within."""
        return load_latency(self.march).accuracy_at(self.latency_us, unfused=self.unfused)

    @property
    def cpu_us(self) -> float:
        """Microseconds per run on the CPU."""
        return sum(cost.us for cost in self.cpu_costs)

    @property
    def cpu_measured_us(self) -> float:
        """The part of :attr:`cpu_us` that was measured on a board."""
        return sum(cost.measured_us or 0.0 for cost in self.cpu_costs)

    @property
    def cpu_statement(self) -> str:
        """What :attr:`cpu_us` rests on, in a sentence; empty where nothing runs on the CPU."""
        return cpu_statement(self.cpu_us, self.cpu_measured_us, self.board)

    @property
    def latency_us(self) -> float:
        """Microseconds per run on the BPU."""
        return sum(subgraph.latency_us for subgraph in self.subgraphs)

    @property
    def fps(self) -> float:
        """Frames per second, of the cores that share a frame."""
        return 1e6 * self.frames / self.latency_us

    @property
    def loaded_bytes(self) -> int:
        """Bytes loaded from DDR per run."""
        return sum(subgraph.loaded_bytes for subgraph in self.subgraphs)

    @property
    def stored_bytes(self) -> int:
        """Bytes stored to DDR per run."""
        return sum(subgraph.stored_bytes for subgraph in self.subgraphs)

    @property
    def ddr_bytes(self) -> int:
        """Bytes over the DDR interface per run."""
        return self.loaded_bytes + self.stored_bytes

    @property
    def bpu_ops(self) -> int:
        """Operations per run, two per multiply-accumulate."""
        return sum(subgraph.ops for subgraph in self.subgraphs)

    @property
    def layers(self) -> tuple[LayerPerformance, ...]:
        """All layers in running order."""
        return tuple(layer for subgraph in self.subgraphs for layer in subgraph.layers)


def estimate(compiled: CompiledModel, board: BoardTimes | None = None) -> Performance:
    """Estimate the performance of a compiled model on its march.

    Errors against measured compilations are tabled in ``docs/evidence/latency.md``.

    Args:
        compiled: the model.
        board: what was measured of CPU nodes on a board; None for estimates alone.
    """
    latency = load_latency(compiled.march)
    return Performance(
        march=compiled.march,
        subgraphs=tuple(
            estimate_subgraph(schedule, latency, compiled.options.max_time_per_fc) for schedule in compiled.schedules
        ),
        cpu_nodes=tuple((node.name or "", node.op_type) for node in compiled.cpu_nodes),
        frames=frames_per_run(compiled.model),
        cpu_costs=cpu_costs(compiled, board),
        board="" if board is None else board.origin,
        unfused=any(schedule.overlap is Overlap.NONE for schedule in compiled.schedules),
    )


def frames_per_run(model: ir.Model) -> int:
    """Samples that one run of ``model`` computes: the batch of its inputs of rank 4 if they agree on one, else 1."""
    batches = {value.shape[0] for value in model.graph.inputs if value.shape is not None and len(value.shape) == 4}
    batch = batches.pop() if len(batches) == 1 else 1
    return batch if isinstance(batch, int) else 1


def estimate_subgraph(schedule: Schedule, latency: Latency, longest_call_us: int = 0) -> SubgraphPerformance:
    """Estimate one BPU subgraph.

    Args:
        schedule: of the subgraph.
        latency: of the march.
        longest_call_us: ``max_time_per_fc``: a subgraph that takes longer is started in several function calls, each
            with the fixed costs of a subgraph; 0: one call.
    """
    costs = layer_costs(schedule, latency)
    total = sum((cost.traffic for cost in costs), Traffic())
    whole = subgraph_us(schedule, costs, latency.fitted)
    calls = math.ceil(whole / longest_call_us) if longest_call_us else 1
    again = (calls - 1) * (latency.fitted.fixed_us + latency.fitted.entry_us)
    return SubgraphPerformance(
        name=schedule.name,
        latency_us=whole + again,
        function_calls=calls,
        loaded_bytes=total.loaded,
        stored_bytes=total.stored,
        layers=_layers(schedule, costs, whole + again, latency),
    )


def _layers(
    schedule: Schedule, costs: Sequence[Cost], whole_us: float, latency: Latency
) -> tuple[LayerPerformance, ...]:
    """The layers; each takes what nothing hides, and of the rest in proportion to its computing and traffic."""
    fitted = latency.fitted
    own = [cost.overhead_us for cost in costs]
    alone = [cost.working_us + cost.arrange_us + moving_us(cost, fitted) for cost in costs]
    rest = (whole_us - sum(own)) / (sum(alone) or 1.0)
    return tuple(
        _layer(schedule, index, cost, latency, own[index] + rest * alone[index]) for index, cost in enumerate(costs)
    )


def _layer(schedule: Schedule, index: int, cost: Cost, latency: Latency, latency_us: float) -> LayerPerformance:
    layer = schedule.layers[index]
    return LayerPerformance(
        name=layer.name,
        op_type=layer.op_type,
        ops=layer.ops,
        output_shape=layer.output_shape,
        aligned_shape=aligned_shape(layer.output_shape, latency.alignment),
        compute_us=cost.working_us,
        load_us=load_us(cost.traffic, latency.fitted) + cost.arrange_us,
        store_us=store_us(cost.traffic, latency.fitted),
        loaded_bytes=cost.traffic.loaded,
        stored_bytes=cost.traffic.stored,
        overhead_us=cost.overhead_us,
        latency_us=latency_us,
    )
