"""Measured compilations: reading ``latency.jsonl`` and building the schedules that its rows describe.

A row's ``spec`` declares a network layer by layer. :func:`network_of_row` turns it into the schedule that the compiler
would make of it, without converting a model, so that the fit of the constants takes seconds. Operators that the reader
does not know make it return ``None``; such rows do not take part in the fit.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from engine.chips import load_chip
from engine.chips.latency import Latency
from engine.compile.layers import CHANNEL_PARAMETER_BYTES, MAXIMUM, Layer
from engine.compile.memory import Memory
from engine.compile.packing import Block, packed_bytes, weight_layout
from engine.compile.schedule import InputTensor, Schedule, schedule_layers
from engine.errors import ConfigError
from engine.ops.core.costs import CostKind
from research.networks import NETWORKS

Spec = Mapping[str, Any]


class MeasuredRow(BaseModel):
    """One measured compilation; see ``reference/latency.md`` for the fields."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    kind: str
    march: str
    group: str
    optimize_level: str
    compile_mode: str
    core_num: int
    spec: dict[str, Any]
    latency_us: float
    ddr_bytes: int
    loaded_bytes: int
    stored_bytes: int
    subgraphs: int
    cpu_nodes: tuple[tuple[str, str], ...] = ()
    per_layer: tuple[tuple[Any, ...], ...] = ()

    @property
    def compute_us(self) -> float:
        """Computing time of all layers together, 0 where the row does not say; "<1 us" counts as half of it."""
        return sum(_microseconds(layer[_COMPUTE_COLUMN]) for layer in self.per_layer)


_COMPUTE_COLUMN = 4
_BELOW_ONE = "<1 us"


def _microseconds(value: float | str) -> float:
    return 0.5 if value == _BELOW_ONE else float(value)


def read_rows(path: Path) -> tuple[MeasuredRow, ...]:
    """All rows of a corpus file.

    Raises:
        ConfigError: the file is missing or a line is not such a row.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return tuple(MeasuredRow.model_validate(json.loads(line)) for line in lines if line.strip())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not a corpus of measured compilations: {error}") from error


def network_of_row(row: MeasuredRow, latency: Latency) -> MeasuredNetwork | None:
    """A row's network, or ``None`` where it is no chain or graph of known operators."""
    try:
        return MeasuredNetwork(row, latency)
    except _UnknownOperatorError:
        return None


_WIDE_BITS, _ACCUMULATOR_BITS = 16, 32


class _UnknownOperatorError(Exception):
    """The spec holds an operator that the reader does not know."""


class MeasuredNetwork:
    """The layers of one row: what folds, fuses and stays float is decided as the converter decides it."""

    def __init__(self, row: MeasuredRow, latency: Latency) -> None:
        if row.subgraphs != 1 or "wmode" in row.spec:
            raise _UnknownOperatorError(row.id)
        self._row = row
        self._march = load_chip(row.march)
        self._specs = _layers(row.spec)
        self._block = Block(**latency.weight_block.model_dump())
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._alias: dict[str, str] = {}
        self._layers: list[Layer] = []
        self._wide = self._wide_clips()
        self._dilation = {spec["n"]: spec["d"] for spec in self._specs if spec.get("d", 1) > 1}
        self._inputs = tuple(self._input(name, shape) for name, shape in row.spec["in"].items())
        self._add_layers()
        outputs = tuple(self._resolve(name) for name in row.spec.get("out", [self._last]))
        self._outputs = self._without_cpu_tail(outputs)
        self._layers = [
            part
            for layer in self._layers
            for part in (_narrowed(self._as_tail(layer)) if layer.output in self._outputs else (layer,))
        ]

    def schedule(self, memory: Memory) -> Schedule:
        """The layers, grouped and with their memory planned."""
        return schedule_layers(self._row.id, self._inputs, self._outputs, tuple(self._layers), memory)

    def _input(self, name: str, nchw: Sequence[int]) -> InputTensor:
        batch, channels, height, width = nchw
        shape = (batch, height, width, channels)
        self._shapes[name] = shape
        kind = self._row.spec.get("in_type", "rgb" if "net" in self._row.spec else "featuremap")
        if kind != "featuremap":
            self._alias[name] = f"{name}_preprocessed"
            self._weighted(f"{name}_preprocessed", CostKind.CONV, (name,), channels, (1, 1), (1, 1), 1, shape)
        first = self._specs[0]["n"]
        wide = self._requested(first, "InputType") == "int16"
        return InputTensor(name=name, dtype="int16" if wide else "int8", shape=shape, nv12=kind == "nv12")

    def _wide_clips(self) -> set[str]:
        """Names of the clipped maps if one of them ends the graph: the Clips share their limits, so all are int16."""
        clipped = {spec["n"] for spec in self._specs if spec.get("act") == "relu6"}
        ends = self._row.spec.get("out", [self._specs[-1]["n"]])
        return clipped if self._march.int16 and clipped.intersection(ends) else set()

    def _add_layers(self) -> None:
        specs = self._specs
        uses = Counter(name for spec, before in _with_previous(specs, self._row.spec) for name in _inputs(spec, before))
        self._last = next(iter(self._row.spec["in"]))
        for spec, before in _with_previous(specs, self._row.spec):
            inputs = tuple(self._resolve(name) for name in _inputs(spec, before))
            self._add(spec, inputs, fusable={name for name, count in uses.items() if count == 1})
            self._last = spec["n"]

    def _resolve(self, name: str) -> str:
        while name in self._alias:
            name = self._alias[name]
        return name

    def _add(self, spec: Spec, inputs: tuple[str, ...], fusable: set[str]) -> None:
        name, batch = spec["n"], self._shapes[inputs[0]][0]
        _, height, width, channels = self._shapes[inputs[0]]
        match spec["op"]:
            case "conv":
                self._conv(spec, inputs)
            case "deconv":
                kernel, stride, pad = spec.get("k", 2), spec.get("s", 2), spec.get("p", 0)
                out = ((height - 1) * stride - 2 * pad + kernel, (width - 1) * stride - 2 * pad + kernel)
                shape = (batch, *out, spec.get("cout", channels))
                group = channels if spec.get("g") == "dw" else spec.get("g", 1)
                pair = (kernel, kernel)
                self._weighted(name, CostKind.TRANSPOSED, inputs, channels, pair, (stride, stride), group, shape)
            case "act":
                self._append(name, CostKind.LUT, inputs, self._shapes[inputs[0]])
            case "add" if "const" not in spec:
                self._add_maps(spec, inputs, fusable)
            case "mul" if "const" not in spec:
                self._append(name, CostKind.MUL, inputs, max(self._shapes[i] for i in inputs))
            case "concat":
                total = sum(self._shapes[i][3] for i in inputs)
                self._append(name, CostKind.JOIN, inputs, (batch, height, width, total))
            case "maxpool":
                self._pool(spec, inputs)
            case "gap":
                self._append(name, CostKind.REDUCE, inputs, (batch, 1, 1, channels))
            case "resize":
                factor = spec.get("f", 2)
                shape = (batch, int(height * factor), int(width * factor), channels)
                self._append(name, CostKind.RESIZE, inputs, shape)
            case _:
                raise _UnknownOperatorError(spec["op"])
        if spec["op"] != "act" and spec.get("act") not in (None, "relu", "relu6"):
            before = self._resolve(name)
            self._append(f"{name}_act", CostKind.LUT, (before,), self._shapes[before])
            self._alias[name] = f"{name}_act"

    def _conv(self, spec: Spec, inputs: tuple[str, ...]) -> None:
        batch, height, width, channels = self._shapes[inputs[0]]
        kernel = spec.get("k", 1)
        kh, kw = kernel if isinstance(kernel, list) else (kernel, kernel)
        stride, dilation, pad = spec.get("s", 1), spec.get("d", 1), spec.get("p")
        group = channels if spec.get("g") == "dw" else spec.get("g", 1)

        def size(length: int, window: int) -> int:
            padding = (window - 1) * dilation // 2 if pad is None else pad
            return int((length + 2 * padding - dilation * (window - 1) - 1) // stride + 1)

        shape = (batch, size(height, kh), size(width, kw), spec.get("cout", channels))
        kind = CostKind.CONV if group == 1 else CostKind.DEPTHWISE if group == channels else CostKind.GROUPED
        self._weighted(spec["n"], kind, inputs, channels, (kh, kw), (stride, stride), group, shape)

    def _add_maps(self, spec: Spec, inputs: tuple[str, ...], fusable: set[str]) -> None:
        """An addition joins the convolution that computes one of its inputs, if nothing else reads that."""
        for position, layer in enumerate(self._layers):
            is_sum = layer.output in inputs and layer.output in fusable and layer.kind is CostKind.CONV
            others = tuple(name for name in inputs if name != layer.output)
            ready = {before.output for before in self._layers[:position]} | {tensor.name for tensor in self._inputs}
            if is_sum and others and ready.issuperset(others):
                shapes = (*layer.input_shapes, *(self._shapes[name] for name in others))
                fused = {"inputs": (*layer.inputs, *others), "input_shapes": shapes, "output": spec["n"]}
                self._layers[position] = layer.model_copy(update=fused)
                self._shapes[spec["n"]] = layer.output_shape
                return
        self._append(spec["n"], CostKind.ADD, inputs, self._shapes[inputs[0]])

    def _pool(self, spec: Spec, inputs: tuple[str, ...]) -> None:
        batch, height, width, channels = self._shapes[inputs[0]]
        kernel, stride, pad = spec.get("k", 2), spec.get("s", 2), spec.get("p", 0)
        out = ((height + 2 * pad - kernel) // stride + 1, (width + 2 * pad - kernel) // stride + 1)
        window: dict[str, Any] = {"kernel": (kernel, kernel), "strides": (stride, stride), "padded": pad > 0}
        self._append(spec["n"], CostKind.POOL, inputs, (batch, *out, channels), op_type=MAXIMUM, **window)

    def _append(
        self,
        name: str,
        kind: CostKind,
        inputs: tuple[str, ...],
        shape: tuple[int, ...],
        op_type: str = "",
        **details: Any,
    ) -> None:
        """A layer that computes ``shape`` from ``inputs``; ``details`` are further fields of :class:`Layer`."""
        layer = Layer(
            name=name,
            op_type=op_type or kind,
            kind=kind,
            inputs=inputs,
            output=name,
            input_shapes=tuple(self._shapes[i] for i in inputs),
            output_shape=shape,
            **details,
        )
        self._layers.append(layer)
        self._shapes[name] = shape

    def _weighted(
        self,
        name: str,
        kind: CostKind,
        inputs: tuple[str, ...],
        channels: int,
        kernel: tuple[int, int],
        strides: tuple[int, int],
        group: int,
        shape: tuple[int, ...],
    ) -> None:
        weight = (shape[3], *kernel, channels // group)
        macs = math.prod(shape) * math.prod(weight[1:])
        if kind is CostKind.TRANSPOSED:
            macs //= strides[0] * strides[1]
        self._append(
            name,
            kind,
            inputs,
            shape,
            kernel=kernel,
            strides=strides,
            dilations=(self._dilation.get(name, 1),) * 2,
            group=group,
            macs=macs,
            input_bits=16 if self._requested(name, "InputType") == "int16" or inputs[0] in self._wide else 8,
            output_bits=16 if name in self._wide else 8,
            weight_bytes=packed_bytes("int8", weight, weight_layout(weight, self._block), self._block),
            parameter_bytes=CHANNEL_PARAMETER_BYTES * shape[3],
        )

    def _without_cpu_tail(self, outputs: tuple[str, ...]) -> tuple[str, ...]:
        """The outputs with operators left out that run on the CPU at the end: windows, on some marches averages too."""
        on_cpu = {CostKind.POOL} | ({CostKind.REDUCE} if self._march.graph.global_pooling_as_conv else set())
        while outputs == (self._layers[-1].output,) and self._layers[-1].kind in on_cpu:
            outputs = self._layers.pop().inputs
        return outputs

    def _as_tail(self, layer: Layer) -> Layer:
        """What ends the graph leaves it NCHW and wide: accumulators of an undilated convolution; 16 bits of a table."""
        layer = layer.model_copy(update={"planar": True})
        if layer.name in self._dilation or layer.name in self._wide:
            return layer
        if layer.kind is CostKind.LUT and self._march.int16:
            return layer.model_copy(update={"output_bits": 16})
        if not layer.macs:
            return layer
        narrow = self._requested(layer.name, "OutputType") == "int16"
        return layer.model_copy(update={"output_bits": 16 if narrow else 32})

    def _requested(self, name: str, key: str) -> str | None:
        """Type that ``node_info`` asks for at the convolution of layer ``name``."""
        wanted: str | None = self._row.spec.get("node_info", {}).get(f"Conv_{name}", {}).get(key)
        return wanted


def _narrowed(layer: Layer) -> tuple[Layer, ...]:
    """What ends the graph as int32 reads int8: of int16 inputs behind a change of type."""
    if layer.input_bits < _WIDE_BITS or layer.output_bits < _ACCUMULATOR_BITS:
        return (layer,)
    narrow = f"{layer.inputs[0]}_narrow"
    change = Layer(
        name=narrow,
        op_type="HzRequantize",
        kind=CostKind.ADD,
        inputs=layer.inputs[:1],
        output=narrow,
        input_shapes=layer.input_shapes[:1],
        output_shape=layer.input_shapes[0],
        input_bits=_WIDE_BITS,
    )
    return change, layer.model_copy(update={"inputs": (narrow, *layer.inputs[1:]), "input_bits": 8})


def _layers(spec: Spec) -> list[Spec]:
    """The layers of a spec, each with a name; whole networks are looked up."""
    if "net" in spec and spec["net"] not in NETWORKS:
        raise _UnknownOperatorError(spec["net"])
    layers = NETWORKS[spec["net"]]() if "net" in spec else spec["layers"]
    return [{"n": f"L{index}", **layer} for index, layer in enumerate(layers)]


def _with_previous(specs: Sequence[Spec], whole: Spec) -> Iterator[tuple[Spec, str]]:
    before = next(iter(whole["in"]))
    for spec in specs:
        yield spec, before
        before = spec["n"]


def _inputs(spec: Spec, before: str) -> Sequence[str]:
    names: Sequence[str] = spec.get("i", [before])
    return names
