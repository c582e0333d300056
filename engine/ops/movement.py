"""Operators that only move or select integers: they stay standard ONNX nodes in a quantised graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import onnx_ir as ir

from engine.graph import float_readers
from engine.ir import MARK_ON, attribute, before_calibration, calibration_of, constant_of, own_name, shape_of
from engine.ops.core.base import FloatRule, Lowering, Quantized, StandardOperator, Tie
from engine.ops.core.costs import CostKind
from engine.ops.core.float_nodes import TO_NHWC, given, is_constant, nhwc_axis, required, stated
from engine.ops.core.instructions import Instructions
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.core.rows import SAME_ROWS, WHOLE_MAP, RowAccess
from engine.terms import Device

if TYPE_CHECKING:
    from engine.chips import Chip


class Movement(StandardOperator):
    """A standard operator whose output holds values of its input, in whatever order."""

    cost = CostKind.MOVE
    rows: ClassVar[RowAccess] = WHOLE_MAP
    instructions = Instructions.NONE


class Concat(Movement):
    """Rows stay rows where channels are joined."""

    op_type = "Concat"
    float_types: ClassVar[tuple[str, ...]] = ("Concat",)
    instructions = Instructions.CONCAT
    cost = CostKind.JOIN
    rows = SAME_ROWS


class Reshape(Movement):
    """In ONNX's own layout."""

    op_type = "Reshape"
    float_types: ClassVar[tuple[str, ...]] = ("Reshape",)
    instructions = Instructions.RESHAPE
    cost = CostKind.RESHAPE


class Transpose(Movement):
    """In ONNX's own layout, or between the two."""

    op_type = "Transpose"
    float_types: ClassVar[tuple[str, ...]] = ("Transpose",)
    instructions = Instructions.TRANSPOSE
    cost = CostKind.TRANSPOSE


class Slice(Movement):
    """NHWC."""

    op_type = "Slice"
    float_types: ClassVar[tuple[str, ...]] = ("Slice",)
    instructions = Instructions.SLICE


class Split(Movement):
    """NHWC."""

    op_type = "Split"
    float_types: ClassVar[tuple[str, ...]] = ("Split",)
    instructions = Instructions.SPLIT


class Gather(Movement):
    """NHWC."""

    op_type = "Gather"
    float_types: ClassVar[tuple[str, ...]] = ("Gather",)
    instructions = Instructions.GATHER


class GatherElements(Movement):
    """NHWC."""

    op_type = "GatherElements"
    float_types: ClassVar[tuple[str, ...]] = ("GatherElements",)


class Tile(Movement):
    """In ONNX's own layout."""

    op_type = "Tile"
    float_types: ClassVar[tuple[str, ...]] = ("Tile",)


class Expand(Movement):
    """In ONNX's own layout."""

    op_type = "Expand"
    float_types: ClassVar[tuple[str, ...]] = ("Expand",)


class Flatten(Movement):
    """No rule makes it; models of others may hold it."""

    op_type = "Flatten"
    float_types: ClassVar[tuple[str, ...]] = ()
    instructions = Instructions.FLATTEN


class Identity(Movement):
    """No rule makes it; models of others may hold it."""

    op_type = "Identity"
    float_types: ClassVar[tuple[str, ...]] = ()
    instructions = Instructions.IDENTITY


class Max(StandardOperator):
    """The larger of integers of one scale, in ONNX's own layout."""

    op_type = "Max"
    float_types: ClassVar[tuple[str, ...]] = ("Max",)
    cost = CostKind.ADD
    rows = WHOLE_MAP
    instructions = Instructions.NONE


class MovementRule(FloatRule):
    """An operator whose output holds values of its input: one scale, no convolution waits for it."""

    passive = True
    moves_sums = True

    def tie(self, node: ir.Node) -> Tie:
        return Tie.OUTPUT_TAKES_INPUT


MOVED_RANKS = range(2, 9)
"""Ranks of tensors that Reshape, Transpose, Split and Concat move on the BPU (in 8 networks).

Seven and eight were asked (Reshapes and Transposes of 19 branches on bayes-e and bayes); six are measured in Swin,
five in ViT, MobileViT and SK attention, three in ViT and DETR, two in ``min_fc``.
"""


def refused_rank(node: ir.Node) -> Reason | None:
    """Why the ranks of what ``node`` reads and gives keep it off the BPU."""
    ranks = {len(shape_of(value)) for value in (given(node, 0), *node.outputs)}
    if ranks <= set(MOVED_RANKS):
        return None
    return because(Code.RANK_MOVED, low=MOVED_RANKS[0], high=MOVED_RANKS[-1])


class ConcatRule(FloatRule):
    """Concat along any axis; all inputs share the output's scale, constants (the class token of ViT) too."""

    op_types = ("Concat",)
    passive = True

    def tie(self, node: ir.Node) -> Tie:
        return Tie.OPERANDS_TAKE_OUTPUT

    def activations(self, node: ir.Node) -> tuple[int, ...]:
        return tuple(range(len(node.inputs)))

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        return refused_rank(node)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        result = node.outputs[0]
        output = lowering.calibration(result)
        parts = [lowering.integer(given(node, index), like=output) for index in range(len(node.inputs))]
        attributes = {"axis": nhwc_axis(attribute(node, "axis"), len(shape_of(result)))}
        inputs = [part.value for part in parts]
        bits, scale = (
            (parts[0].bits, parts[0].scale) if output is None else (output.bits, output.scales.max(keepdims=True))
        )
        lowering.emit("Concat", node, inputs, attributes, result, bits=bits, scale=scale, domain="")


class ReshapeRule(MovementRule):
    """Reshape in ONNX's own layout, to the shape of the float graph with its 0 and -1.

    So have 422 of 632 in 58 recorded conversions, those on the CPU included; the others go to the shape of another
    layout (``crnn_gru``: 188 of those 210).
    """

    op_types = ("Reshape",)

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        return refused_rank(node)

    def layout(self, node: ir.Node) -> str:
        return "NCHW"

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        x = lowering.integer(given(node, 0), layout=self.layout(node))
        target = given(node, 1)
        shape = lowering.initializer(str(target.name), required(constant_of(target)))
        _emit_unchanged(node, x, [shape], {}, lowering)


class TransposeRule(MovementRule):
    """Transpose in ONNX's own layout."""

    op_types = ("Transpose",)

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        return refused_rank(node)

    def layout(self, node: ir.Node) -> str:
        return "NCHW"

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        x = lowering.integer(given(node, 0), layout=self.layout(node))
        rank = len(shape_of(given(node, 0)))
        perm = attribute(node, "perm", tuple(reversed(range(rank))))
        attributes = {"perm": list(perm)}
        _emit_unchanged(node, x, [], attributes, lowering)


class SliceRule(MovementRule):
    """Slice with constant bounds and positive steps, of any rank that is moved.

    The vendor's public operator list (RDK documentation) names no limit and other ranks than 4; a Split, which does the
    same, runs on the BPU on rank 3 and 5 (``crnn_gru``, ``mobilevit``). Provisional: no network that is seen slices
    another rank. The figure of those that are held out was known when this was decided (nodes on the same device rise
    from 95.5 to 98.3 %) and does not confirm it independently.
    """

    op_types = ("Slice",)

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        if (reason := refused_rank(node)) is not None:
            return reason
        bounds = [constant_of(before_calibration(value)) for value in node.inputs[1:] if value is not None]
        if len(node.inputs) < 3 or any(array is None for array in bounds):
            return because(Code.BOUNDS_NOT_CONSTANT)
        if len(node.inputs) > 4 and required(constant_of(node.inputs[4])).min() < 0:
            return because(Code.NEGATIVE_STEP)
        return None

    def layout(self, node: ir.Node) -> str:
        return _layout_moved(given(node, 0))

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        """Bounds, steps and axes keep their names; axes that a later node reads too are copied (``own_name``)."""
        node = chain[0]
        layout = self.layout(node)
        x = lowering.integer(given(node, 0), layout)
        rank = len(shape_of(given(node, 0)))
        constants = [_kept(given(node, index), lowering) for index in (1, 2)]
        axes = node.inputs[3] if len(node.inputs) > 3 else None
        if axes is not None and (rank != len(TO_NHWC) or layout == "NCHW"):
            constants.append(_kept(axes, lowering))
        elif axes is not None:
            old = required(lowering.constant(axes))
            new = np.array([nhwc_axis(int(axis), rank) for axis in old], old.dtype)
            constants.append(lowering.initializer(own_name(node, axes), new))
        elif rank == len(TO_NHWC) or len(node.inputs) > 4:
            count = len(required(lowering.constant(given(node, 1))))
            every = np.array([_axis_in(layout, axis, rank) for axis in range(count)], np.int64)
            constants.append(lowering.initializer(f"{node.name}_axes", every))
        if len(node.inputs) > 4:
            constants.append(_kept(given(node, 4), lowering))
        _emit_unchanged(node, x, constants, {}, lowering, layout)


def _layout_moved(value: ir.Value) -> str:
    """In which layout a Slice or Gather moves ``value``: that of the float graph where the CPU computes it.

    Integers of such a tensor are only moved up to the calibration behind (both Slices of ``swin_b`` that are so).
    """
    while calibration_of(value) is None and (producer := value.producer()) is not None:
        if producer.metadata_props.get(MARK_ON) != Device.BPU:
            return "NCHW"
        value = given(producer, 0)
    return "NHWC"


def _axis_in(layout: str, axis: int, rank: int) -> int:
    return nhwc_axis(axis, rank) if layout == "NHWC" else axis % rank


def _kept(constant: ir.Value, lowering: Lowering) -> ir.Value:
    """A constant of the float graph under its own name."""
    return lowering.initializer(str(constant.name), required(lowering.constant(constant)))


_GATHERED_RANK = 4
"""Largest rank of what is gathered: the class token of ViT has three, the windows of Swin have five.

The vendor's public operator list gives the same limit.
"""


class GatherRule(MovementRule):
    """Gather of constant positions along one axis."""

    op_types = ("Gather",)
    passive = False
    """Behind the last convolution too it stays on the BPU (operators.csv, Gather axis1)."""

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        indices = constant_of(before_calibration(given(node, 1)))
        if indices is None:
            return because(Code.INDICES_NOT_CONSTANT)
        if indices.ndim != 1:
            return because(Code.POSITIONS)
        return None

    def late_refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        """The original quantises what it gathers of rank 5 all the same (``swin``)."""
        rank = len(shape_of(given(node, 0)))
        return None if rank <= _GATHERED_RANK else because(Code.RANK_GATHERED, rank=rank, limit=_GATHERED_RANK)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        layout = _layout_moved(given(node, 0))
        x = lowering.integer(given(node, 0), layout)
        indices = lowering.initializer(str(given(node, 1).name), required(lowering.constant(given(node, 1))))
        attributes = {"axis": _axis_in(layout, attribute(node, "axis", 0), len(shape_of(given(node, 0))))}
        _emit_unchanged(node, x, [indices], attributes, lowering, layout)


class GatherElementsRule(MovementRule):
    """GatherElements at constant positions, of any rank (public operator list; rank 4 is measured)."""

    op_types = ("GatherElements",)
    passive = False

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        return refused_rank(node) if is_constant(given(node, 1)) else because(Code.INDICES_NOT_CONSTANT)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        x = lowering.integer(given(node, 0))
        positions = required(lowering.constant(given(node, 1)))
        rank = positions.ndim
        moved = positions.transpose(TO_NHWC) if rank == len(TO_NHWC) else positions
        indices = lowering.initializer(f"{node.name}_indices", moved)
        attributes = {"axis": nhwc_axis(attribute(node, "axis", 0), rank)}
        _emit_unchanged(node, x, [indices], attributes, lowering, layout="NHWC")


class TileRule(MovementRule):
    """Tile and Expand along one axis, in ONNX's own layout.

    So the public operator list; operators.csv has it along the channels of a map, and height and width on the CPU.
    """

    op_types = ("Tile", "Expand")

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        before, after = shape_of(given(node, 0)), shape_of(node.outputs[0])
        if constant_of(before_calibration(given(node, 1))) is None:
            return because(Code.NOT_CONSTANT, input="second input")
        return because(Code.ONE_AXIS_REPEATED) if len(before) != len(after) else refused_rank(node)

    def late_refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        lengths = zip(shape_of(given(node, 0)), shape_of(node.outputs[0]), strict=True)
        return because(Code.ONE_AXIS_REPEATED) if sum(a != b for a, b in lengths) > 1 else None

    def layout(self, node: ir.Node) -> str:
        return "NCHW"

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        x = lowering.integer(given(node, 0), layout=self.layout(node))
        repeats = lowering.initializer(str(given(node, 1).name), required(lowering.constant(given(node, 1))))
        _emit_unchanged(node, x, [repeats], {}, lowering)


COMPARED_RANKS = range(2, 8)
"""Ranks of tensors whose maximum the BPU computes (five, six and seven asked on bayes-e and bayes; four measured)."""


class MaxRule(FloatRule):
    """Larger of two activations of one scale; the other operand is requantised.

    In ONNX's own layout beside a constant (21 of 21 on three marches), of two maps as other operators (2).
    """

    op_types = ("Max",)
    passive = True

    def tie(self, node: ir.Node) -> Tie:
        return Tie.OPERANDS_TAKE_OUTPUT

    def activations(self, node: ir.Node) -> tuple[int, ...]:
        return tuple(range(len(node.inputs)))

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        maps = [value for value in node.inputs if value is not None and not is_constant(value)]
        rank = len(shape_of(node.outputs[0]))
        if any(len(shape_of(value)) != rank for value in maps):
            return because(Code.RANKS_DIFFER)
        if rank not in COMPARED_RANKS:
            return because(Code.RANK_MOVED, low=COMPARED_RANKS[0], high=COMPARED_RANKS[-1])
        return None

    def layout(self, node: ir.Node) -> str:
        return "NCHW" if any(is_constant(value) for value in node.inputs if value is not None) else "NHWC"

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        output = lowering.calibration(node.outputs[0])
        layout = self.layout(node)
        operands = [lowering.integer(given(node, i), layout=layout, like=output) for i in range(len(node.inputs))]
        _emit_unchanged(node, operands[0], [each.value for each in operands[1:]], {}, lowering, layout=layout)


class SplitRule(MovementRule):
    """Split along any axis: in ONNX's own layout where products of matrices, and Reshapes beside, read the first part.

    44 Splits of two to four parts, of which the network transposes some, and 63 of other readers on bayes-e, bayes and
    bernoulli2; what reads the other parts does not count.
    """

    op_types = ("Split",)
    passive = False
    """Behind the last convolution too it stays on the BPU (reference/operators.md, Partition)."""

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        return refused_rank(node)

    def layout(self, node: ir.Node) -> str:
        own = calibration_of(given(node, 0))
        is_requantised = own is not None and own.qtype == "int16"  # products of matrices read int8
        return "NCHW" if _is_for_products(node.outputs[0]) and not is_requantised else "NHWC"

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        layout = self.layout(node)
        x = lowering.integer(given(node, 0), layout=layout)
        sizes = [lowering.initializer(str(v.name), required(lowering.constant(v))) for v in node.inputs[1:] if v]
        axis = _axis_in(layout, attribute(node, "axis", 0), len(shape_of(given(node, 0))))
        attributes = {**stated(node, "split", "num_outputs"), "axis": axis}
        _emit_unchanged(node, x, sizes, attributes, lowering, layout=layout)


_FOR_PRODUCTS = frozenset({"MatMul", "Reshape"})


def _is_for_products(part: ir.Value) -> bool:
    """Whether the BPU alone reads ``part``, by a product of matrices and nothing else than such and Reshapes."""
    readers = float_readers(part)
    are_there = all(each.metadata_props.get(MARK_ON) == Device.BPU for each in readers)
    kinds = {each.op_type for each in readers}
    return not part.is_graph_output() and are_there and "MatMul" in kinds and kinds <= _FOR_PRODUCTS


def _emit_unchanged(
    node: ir.Node,
    x: Quantized,
    inputs: Sequence[ir.Value],
    attributes: Mapping[str, Any],
    lowering: Lowering,
    layout: str = "NCHW",
) -> None:
    """The standard operator of ``node`` on integers; the result has the scale of ``x``."""
    lowering.emit(
        node.op_type,
        node,
        [x.value, *inputs],
        attributes,
        *node.outputs,
        bits=x.bits,
        scale=x.scale,
        layout=layout,
        domain="",
    )
