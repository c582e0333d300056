"""Time of what runs on the CPU: operators of the network, quantisation, layout changes at borders.

Measured where the user has measured it (:mod:`engine.board`), else estimated.

Estimates are rough, for orders of magnitude: the only measurement at hand is the log of MobileNetV1 on an RDK X3 in
the vendor's guide (1000 values dequantised in 44 to 274 us, Softmax of them 42 to 338 us, a layout change 12 to 69 us),
which gives the time to start a task. The time per element is that of a 1.2 GHz in-order core: memory-bound, or
arithmetic-bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import onnx_ir as ir

from engine.board import BoardTimes
from engine.compile import CompiledModel
from engine.ir import attribute
from engine.terms import Device

OPERATOR_START_US, COPY_START_US = 42.0, 12.0
COPY_NS, CONVERT_NS, ARITHMETIC_NS, FUNCTION_NS, MAC_NS = 1.0, 2.0, 2.0, 20.0, 0.5
"""Nanoseconds per element moved, (de)quantised, computed simply, computed by a function; per multiply-accumulate."""

_COPIES = frozenset(
    {"Transpose", "Reshape", "Flatten", "Concat", "Split", "Slice", "Gather", "Tile", "Expand", "Pad", "Identity"}
)
_CONVERSIONS = frozenset({"HzQuantize", "HzDequantize", "Cast"})
_FUNCTIONS = frozenset(
    {
        "Softmax",
        "HzSoftmax",
        "LogSoftmax",
        "Exp",
        "Log",
        "Sigmoid",
        "Tanh",
        "Erf",
        "Pow",
        "Sqrt",
        "Sin",
        "Cos",
        "Gelu",
        "Elu",
    }
)


@dataclass(frozen=True)
class CpuCost:
    """One node that the CPU runs.

    Attributes:
        name: of the node.
        op_type: operator of the quantised graph.
        estimated_us: estimated microseconds per run.
        elements: of its largest tensor.
        measured_us: what it takes by measurements on a board; None where there are none.
    """

    name: str
    op_type: str
    estimated_us: float
    elements: int = 0
    measured_us: float | None = None

    @property
    def us(self) -> float:
        """Microseconds per run: measured where that is known."""
        return self.estimated_us if self.measured_us is None else self.measured_us


def cpu_costs(compiled: CompiledModel, board: BoardTimes | None = None) -> tuple[CpuCost, ...]:
    """All nodes outside the BPU subgraphs, in running order; ``board``: what was measured on one."""
    nodes = (node for segment in compiled.segments if segment.device is Device.CPU for node in segment.nodes)
    costs = (CpuCost(node.name or "", node.op_type, _microseconds(node), _largest(node)) for node in nodes)
    return tuple(costs if board is None else (replace(cost, measured_us=board.us(cost)) for cost in costs))


def layout_costs(compiled: CompiledModel) -> tuple[CpuCost, ...]:
    """Estimates for what the board does around BPU subgraphs: padding and layout of what they read and store.

    Under the names of the vendor's guide: ``Preprocess`` for the model's inputs, ``SUBGRAPH_input_layout_convert`` for
    what else subgraphs read, ``SUBGRAPH_output_layout_convert``. They are nodes of no graph, so :func:`cpu_costs` does
    not have them.
    """
    values = {str(value.name): value for value in compiled.model.graph.inputs}
    fed = set(values)
    values |= {str(value.name): value for node in compiled.model.graph for value in node.outputs}
    preprocessed = 0.0
    found = []
    for schedule in compiled.schedules:
        read = [name for tensor in schedule.inputs if (name := tensor.name) in values]
        preprocessed += sum(_copied(values[name]) for name in read if name in fed)
        for what, names in (("input", [name for name in read if name not in fed]), ("output", schedule.outputs)):
            moved = sum(_copied(values[name]) for name in names if name in values)
            if moved:
                found.append(CpuCost(f"{schedule.name}_{what}_layout_convert", "", COPY_START_US + moved))
    if preprocessed:
        found.insert(0, CpuCost("Preprocess", "", COPY_START_US + preprocessed))
    return tuple(found)


def _copied(value: ir.Value) -> float:
    """Microseconds to move every element of ``value``."""
    return _elements(value) * COPY_NS / 1e3


def _microseconds(node: ir.Node) -> float:
    elements = _largest(node)
    if node.op_type in _COPIES:
        return COPY_START_US + elements * COPY_NS / 1e3
    if node.op_type in _CONVERSIONS:
        return OPERATOR_START_US + elements * CONVERT_NS / 1e3
    work = elements * (FUNCTION_NS if node.op_type in _FUNCTIONS else ARITHMETIC_NS)
    return OPERATOR_START_US + (work + _macs(node) * MAC_NS) / 1e3


def _largest(node: ir.Node) -> int:
    """Elements of the largest tensor that ``node`` reads or computes."""
    return max(_elements(value) for value in (*node.inputs, *node.outputs) if value is not None)


def _elements(value: ir.Value) -> int:
    return math.prod(_shape(value))


def _shape(value: ir.Value | None) -> tuple[int, ...]:
    shape = None if value is None else value.shape
    return () if shape is None else tuple(dim if isinstance(dim, int) else 1 for dim in shape)


def _macs(node: ir.Node) -> int:
    """Multiply-accumulates of a convolution or a product of matrices, else 0."""
    first, second = (_shape(node.inputs[index]) if index < len(node.inputs) else () for index in (0, 1))
    if not first or not second:
        return 0
    match node.op_type:
        case "Conv":
            return _elements(node.outputs[0]) * math.prod(second[1:])
        case "ConvTranspose":
            return math.prod(first) * math.prod(second[1:])
        case "MatMul":
            return _elements(node.outputs[0]) * first[-1]
        case "Gemm":
            return _elements(node.outputs[0]) * first[0 if attribute(node, "transA", 0) else -1]
        case _:
            return 0
