"""Models whose results are wanted in two layouts at once, which the original's compiler refuses on bernoulli2."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from engine.chips import Chip
from engine.compile.partition import Segment, partition
from engine.errors import UnsupportedError
from engine.ir import attribute, shape_of
from engine.terms import Device

_TO_NCHW = (0, 3, 1, 2)
_BROADCAST = frozenset(
    [
        "Add",
        "And",
        "BitShift",
        "Div",
        "Equal",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Or",
        "PRelu",
        "Pow",
        "Sub",
        "Where",
        "Xor",
    ]
)
"""Operators that broadcast: their result takes its shape from other operands as well, unless these are single numbers.

Asked with a map beside: Div, Equal, Greater, Less, Max, Min, Mod, Mul, Sub; with a number Div, Greater, Min, Mul, Pow.
"""
_JOINED = frozenset({"Concat", "Expand"})
"""Operators whose result always does."""


@dataclass(frozen=True)
class _Leaving:
    """A tensor that a subgraph gives, as integers or made float.

    Attributes:
        to_nchw: Transposes to the layout of the network that read it.
        others: what else reads it on the CPU.
        outputs: how many outputs of the model it is.
    """

    to_nchw: tuple[ir.Node, ...]
    others: tuple[ir.Node, ...]
    outputs: int


def refuse_torn_layouts(quantized: ir.Model, march: Chip) -> None:
    """Refuse a quantised model where some result of a subgraph is read in two layouts and most are read as NCHW.

    bernoulli2's array transposes nothing, and gives its results as NHWC. Where more of what reads the results of a
    subgraph are Transposes to NCHW than are not, the original's compiler leaves these out; of a result that something
    else reads as well, the shape behind is then wrong, and it ends in an error of its shape inference (118 of 211
    networks asked on bernoulli2: Splits, convolutions, pools, tables and sums, 1 to 5 results, six permutations,
    attention in linear time; none of 278 others recorded; none of 30 asked on bayes and bayes-e). It does not notice
    where other operands decide the shape (13 of these).

    Args:
        quantized: as it is compiled.
        march: the chip.

    Raises:
        UnsupportedError: names the nodes that read such a result, and what to do.
    """
    if march.transposes_integers:
        return
    for segment in partition(quantized.graph, march):
        if segment.device is not Device.BPU:
            continue
        results = list(_leaving(segment))
        wanted = sum(len(each.to_nchw) for each in results)
        if wanted <= sum(len(each.others) + each.outputs for each in results):
            continue
        for each in results:
            reader = next((reader for node in each.to_nchw for reader in _shaped_readers(node.outputs[0])), None)
            if reader is not None and (each.others or each.outputs):
                _refuse(reader, each, march)


def _leaving(segment: Segment) -> Iterator[_Leaving]:
    inside = set(segment.nodes)
    given = [value for node in segment.nodes for value in node.outputs]
    floats = [
        usage.node.outputs[0] for value in given for usage in value.uses() if usage.node.op_type == "HzDequantize"
    ]
    for value in (*given, *floats):
        readers = [usage.node for usage in value.uses() if usage.node not in inside]
        to_nchw = [node for node in readers if node.op_type == "Transpose" and _permutation(node) == _TO_NCHW]
        others = [node for node in readers if node not in to_nchw and node.op_type != "HzDequantize"]
        yield _Leaving(tuple(to_nchw), tuple(others), int(value.is_graph_output()))


def _permutation(node: ir.Node) -> tuple[int, ...]:
    return tuple(attribute(node, "perm", ()))


def _shaped_readers(value: ir.Value) -> Iterator[ir.Node]:
    """What reads ``value`` and takes the shape of its result from it alone."""
    for usage in value.uses():
        rest = (each for each in usage.node.inputs if each is not None and each is not value)
        kind = usage.node.op_type
        if kind not in _JOINED and (kind not in _BROADCAST or all(math.prod(shape_of(each)) == 1 for each in rest)):
            yield usage.node


def _refuse(reader: ir.Node, result: _Leaving, march: Chip) -> None:
    other = result.others[0] if result.others else None
    beside = "the model gives" if other is None else f"{other.name} ({other.op_type}) reads"
    remedy = (
        "Let it read the transposed tensor too, with its axes changed accordingly"
        if other is None or other.op_type == "Transpose"
        else "Let both read one of the two"
    )
    raise UnsupportedError(
        f"{reader.name} ({reader.op_type}) reads as NCHW what {beside} in another layout, which the compiler for "
        f"{march.name} cannot give where it gives most results of a subgraph as NCHW. {remedy}"
    )
