"""From a quantised model to a ``.bin``: partition, schedule, pack; and back."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Annotated

import onnx_ir as ir
from pydantic import BaseModel, ConfigDict, Field

from engine.chips import March, load_chip
from engine.chips.latency import Latency, load_latency
from engine.compile.codec import decode_graph, encode_graph
from engine.compile.container import ContainerReader, Section, SectionKind, encode
from engine.compile.layers import Overlap
from engine.compile.memory import Memory
from engine.compile.overheads import vectors_above
from engine.compile.packing import Block
from engine.compile.partition import CPU_OPS, Segment, is_border_copy, partition
from engine.compile.records import GraphRecord, Name, Record, RemovedNode, decode_record, encode_record
from engine.compile.schedule import Schedule, schedule_of
from engine.compile.tiles import tiled_model
from engine.errors import ConfigError, ContainerError, UnsupportedError
from engine.frontend.preprocess import saved_inputs
from engine.ir import shape_of, write_atomically
from engine.terms import DEFAULT_OPTIMIZE_LEVEL, CompileMode, Device, InputSource, InputType, OptimizeLevel


class CompileOptions(BaseModel):
    """The compiler parameters of a conversion, under their documented names.

    Attributes:
        optimize_level: O0 stores every layer's output to DDR; O1 to O3 keep feature maps on the chip, O3 as O2 does.
        compile_mode: minimise latency or DDR traffic.
        core_num: cores that share one frame; 2 on bernoulli2 only.
        debug: keep per-layer figures in the result.
        input_source: source by input name; an input that is not named is chosen by its type.
        max_time_per_fc: longest function call in microseconds; 0 is no limit.
        jobs: processes to compile with; does not change the result.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    optimize_level: OptimizeLevel = DEFAULT_OPTIMIZE_LEVEL
    compile_mode: CompileMode = CompileMode.LATENCY
    core_num: Annotated[int, Field(ge=1, le=2)] = 1
    debug: bool = False
    input_source: dict[str, InputSource] = {}
    max_time_per_fc: Annotated[int, Field(ge=0, le=4_294_967_295)] = 0
    jobs: Annotated[int, Field(ge=1)] | None = Field(default=None, exclude=True)


Parameters = dict[Name, dict[Name, Name]]
"""Parameters of the conversion as text, by group: what ``hb_model_info`` shows."""


class Metadata(Record):
    """The META section: where a ``.bin`` comes from."""

    name: Name
    march: Name
    options: CompileOptions
    producer: Name = "ptqlab"
    parameters: Parameters = Field(default={})
    removed: tuple[RemovedNode, ...] = ()


@dataclass(frozen=True)
class CompiledModel:
    """A compiled model: what a ``.bin`` holds.

    Attributes:
        name: name of the model; subgraphs are called ``<name>_subgraph_<k>``.
        march: the BPU architecture that it is compiled for.
        options: the compiler parameters.
        model: the quantised model; running it is running the ``.bin``.
        segments: its partition, in running order.
        schedules: one per BPU segment.
        parameters: of the conversion, by group, as text; empty where it was compiled without one.
        removed: nodes that were removed from its ends.
    """

    name: str
    march: str
    options: CompileOptions
    model: ir.Model
    segments: tuple[Segment, ...]
    schedules: tuple[Schedule, ...]
    parameters: Mapping[str, dict[str, str]] = field(default_factory=dict)
    removed: tuple[RemovedNode, ...] = ()

    @property
    def cpu_nodes(self) -> tuple[ir.Node, ...]:
        """Operators of the network that run on the CPU; quantisation and layout changes at borders are not counted."""
        nodes = (node for segment in self.segments if segment.device is Device.CPU for node in segment.nodes)
        return tuple(node for node in nodes if node.op_type not in CPU_OPS and not is_border_copy(node))

    @property
    def executable(self) -> ir.Model:
        """The model with its tiles written out: what running the ``.bin`` runs."""
        return tiled_model(self.model, self.segments, self.schedules, load_latency(self.march).group_bytes)

    def to_bytes(self) -> bytes:
        """The bytes of the ``.bin``; equal models give equal bytes."""
        block = _weight_block(self.march)
        record, data, cpu_models = encode_graph(self.model, self.segments, _segment_names(self), block)
        metadata = Metadata(
            name=self.name,
            march=self.march,
            options=self.options,
            parameters=dict(self.parameters),
            removed=self.removed,
        )
        return encode(
            [
                Section(SectionKind.METADATA, 0, encode_record(metadata)),
                Section(SectionKind.GRAPH, 0, encode_record(record)),
                *(Section(SectionKind.SCHEDULE, k, encode_record(s)) for k, s in enumerate(self.schedules)),
                *(Section(SectionKind.CPU_MODEL, k, model) for k, model in enumerate(cpu_models)),
                Section(SectionKind.DATA, 0, data),
            ]
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the ``.bin``, atomically."""
        return write_atomically(path, self.to_bytes())


def compile_model(
    quantized: ir.Model, march: str, options: CompileOptions | None = None, name: str | None = None
) -> CompiledModel:
    """Compile a quantised model.

    Args:
        quantized: a model of the quantised stage, ours or the original's, all tensor types and shapes known.
        march: ``bernoulli2``, ``bayes`` or ``bayes-e``.
        options: compiler parameters.
        name: name of the model; the graph's own where it is None.

    Raises:
        UnsupportedError: the march is unknown or cannot do what the options ask for.
        ConfigError: the options do not fit the model.
        ModelError: the model is not a quantised one, or a tensor has no static type.
    """
    options = options or CompileOptions()
    check_options(options, quantized, march)
    name = name or quantized.graph.name or "model"
    segments = partition(quantized.graph, load_chip(march))
    on_bpu = [segment for segment in segments if segment.device is Device.BPU]
    block = _weight_block(march)
    latency = load_latency(march)
    memory = memory_of(latency, options)
    nv12 = {spec.name for spec in saved_inputs(quantized) if spec.type_rt is InputType.NV12}
    schedules = [schedule_of(segment, f"{name}_subgraph_{k}", block, memory, nv12) for k, segment in enumerate(on_bpu)]
    on_cores = tuple(schedule.on_cores(options.core_num) for schedule in schedules)
    return CompiledModel(name, march, options, quantized, segments, on_cores)


def memory_of(latency: Latency, options: CompileOptions) -> Memory:
    """On-chip memory that an optimisation level uses: none, whole maps only, or fused layers too.

    Without fused layers inputs (O0) and outputs are rearranged over DDR. ``compile_mode: bandwidth`` leaves all memory
    to maps and brings weights in when they are needed (``docs/performance_model.md``). Cores that share a frame hand
    maps to each other over DDR between groups of layers.
    """
    relay = latency.output_relay
    match options.optimize_level:
        case OptimizeLevel.O0:
            if latency.unfused_layers and not latency.unfused_computes:  # what layers move is told layer by layer
                return Memory(0, 0, overlap=Overlap.NONE, by_layer=True)
            told = bool(latency.unfused_layers)
            return Memory(0, 0, relay_inputs=True, relay_outputs=relay.rows, overlap=Overlap.NONE, by_layer=told)
        case OptimizeLevel.O1:
            overlap = Overlap.BORDERS if relay.keeps else Overlap.NONE
            return Memory(
                0,
                latency.unfused_bytes,
                relay_outputs=relay.rows,
                relay_above=relay.keeps,
                relay_results=relay.maps,
                operands_leave=relay.maps,
                vector_bytes=latency.input_row.block,
                vectors_above=vectors_above(Overlap.BORDERS, latency),
                overlap=overlap,
            )
        case OptimizeLevel.O2 | OptimizeLevel.O3:
            thrifty = options.compile_mode is CompileMode.BANDWIDTH
            shared = options.core_num > 1
            return Memory(
                latency.group_bytes,
                0 if shared else latency.group_bytes if thrifty else latency.map_bytes,
                overlap=Overlap.GROUPS if latency.groups_apart else Overlap.ALL,
                strips=latency.strips,
                tables_through_ddr=latency.tables_through_ddr,
                small_tables=latency.small_tables,
                skips_whole=latency.skips_whole and not shared,
                joins_apart=latency.joins_apart and not thrifty,
                weights_on_chip=(latency.weights_on_chip and not thrifty) or shared,
                unfolding=latency.unfolding,
                folding=latency.folding,
                columns=None if thrifty else latency.columns,
            )


def check_options(options: CompileOptions, quantized: ir.Model, march: str) -> None:
    """Refuse what the model or ``march`` cannot do.

    Args:
        options: of the compilation.
        quantized: the model; its inputs count.
        march: name of the BPU architecture.

    Raises:
        ConfigError: ``input_source`` names an unknown input, or an input too large for the resizer.
        UnsupportedError: ``core_num`` exceeds the march's cores.
    """
    cores = load_latency(march).cores
    if options.core_num > cores:
        raise UnsupportedError(f"core_num is {options.core_num}; march {march} supports {cores} per frame")
    inputs = {value.name: shape_of(value) for value in quantized.graph.inputs}
    for name, source in options.input_source.items():
        if name not in inputs:
            raise ConfigError(f"input_source names input {name!r}; the model's inputs are {list(inputs)}")
        pixels = math.prod(sorted(inputs[name])[-2:])
        if source is InputSource.RESIZER and pixels >= _RESIZER_PIXELS:
            raise ConfigError(f"input_source of {name!r} is resizer: height x width must be below {_RESIZER_PIXELS}")


_RESIZER_PIXELS = 18_432
"""Bound on height x width of an input that comes from the resizer (``input_source``)."""


def load_bin(path: str | os.PathLike[str]) -> CompiledModel:
    """Read a ``.bin`` file.

    Raises:
        ContainerError: the file is missing, damaged, truncated, of another version, or does not hold a valid model.
    """
    try:
        return from_bytes(Path(path).read_bytes(), os.fspath(path))
    except OSError as error:
        raise ContainerError(f"{os.fspath(path)}: cannot be read: {error.strerror}") from error


def from_bytes(data: bytes, where: str = "model") -> CompiledModel:
    """Inverse of :meth:`CompiledModel.to_bytes`; ``where`` is how messages call the file.

    Raises:
        ContainerError: see :func:`load`.
    """
    reader = ContainerReader(BytesIO(data), where)
    if reader.count(SectionKind.MODEL):
        raise ContainerError(f"{where}: pack model is not supported.")
    metadata = decode_record(Metadata, reader.read(SectionKind.METADATA), f"{where}: META")
    if metadata.march not in list(March):
        raise ContainerError(f"{where}: META: march {metadata.march!r}; known are {', '.join(March)}")
    record = decode_record(GraphRecord, reader.read(SectionKind.GRAPH), f"{where}: GRPH")
    cpu_models = [reader.read(SectionKind.CPU_MODEL, k) for k in range(reader.count(SectionKind.CPU_MODEL))]
    schedules = tuple(
        decode_record(Schedule, reader.read(SectionKind.SCHEDULE, k), f"{where}: SCHD[{k}]")
        for k in range(reader.count(SectionKind.SCHEDULE))
    )
    if len(schedules) != sum(segment.device is Device.BPU for segment in record.segments):
        raise ContainerError(f"{where}: {len(schedules)} schedules do not match the BPU subgraphs")
    model, segments = decode_graph(record, reader.read(SectionKind.DATA), cpu_models)
    return CompiledModel(
        metadata.name,
        metadata.march,
        metadata.options,
        model,
        segments,
        schedules,
        metadata.parameters,
        metadata.removed,
    )


def load_quantized(path: Path) -> ir.Model:
    """The quantised model in a ``.bin`` file with its tiles written out, for sessions: they run what the schedule says.

    Raises:
        ContainerError: see :func:`load`.
    """
    compiled = load_bin(path)
    try:
        return compiled.executable
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ContainerError(f"{path}: its schedule does not fit its graph: {error!r}") from error


def _weight_block(march: str) -> Block:
    return Block(**load_latency(march).weight_block.model_dump())


def _segment_names(compiled: CompiledModel) -> list[str]:
    bpu = iter(schedule.name for schedule in compiled.schedules)
    cpu = iter(f"{compiled.name}_cpu_{k}" for k in range(len(compiled.segments)))
    return [next(bpu) if segment.device is Device.BPU else next(cpu) for segment in compiled.segments]
