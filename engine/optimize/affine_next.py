"""Padding, batch normalisation and arithmetic with constants are folded into the convolution behind them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.graph import sole_reader
from engine.ir import MARK_MADE, attribute, static_shape
from engine.optimize.affine import MAP_RANK, Affine, affine_of, representable
from engine.optimize.affine_constants import constant_bias, has_bias, pads_somewhere, set_bias
from engine.optimize.base import NodePass, graph_of, initializer_of, ints, is_standard, padding_of, replace_constant
from engine.optimize.contract import GraphPass
from engine.optimize.dense import (
    GEMMS,
    MARK_PRODUCT,
    ROWS,
    SCORES,
    dense_of,
    reader_of_channels,
    says_its_axis,
    with_offset,
)
from engine.terms import Compatibility


class FoldPadIntoConv(NodePass):
    """``Pad`` with zeros on H and W becomes part of the ``pads`` of the one node that reads it, a convolution.

    Where anything else reads it too, a second convolution, pooling, a function or an output, it stays (HGNetV2; 6 of 6
    asked on two marches).
    """

    op_types = frozenset({"Conv"})

    def rewrite(self, node: ir.Node) -> bool:
        value = node.inputs[0]
        pad = value.producer() if value is not None else None
        if (
            value is None
            or pad is None
            or not is_standard(pad, "Pad")
            or attribute(node, "auto_pad", "NOTSET") != "NOTSET"
            or sole_reader(value) is not node
        ):
            return False
        rank = len(static_shape(value) or ())
        padding = padding_of(pad, rank) if rank > 2 else None
        if padding is None or padding.mode != "constant" or padding.value != 0.0:
            return False
        if any(padding.before[:2] + padding.after[:2]) or min(padding.before + padding.after) < 0:
            return False
        own = ints(node, "pads", (0,) * (2 * (rank - 2)))
        added = padding.before[2:] + padding.after[2:]
        node.attributes["pads"] = ir.AttrInt64s("pads", [a + b for a, b in zip(own, added, strict=True)])
        node.replace_input_with(0, pad.inputs[0])
        return True


class FoldChannelsIntoNext(GraphPass):
    """Factors and sums of a number per channel of what a convolution reads change that convolution, before they move.

    Directly or through Transposes and Reshapes that make channels of their axis, whether that is joined and divided on
    the way or not (7 of 7 asked, among them the windows of MobileViT): the scale and shift of a normalisation of tokens
    that become a map (SegFormer, PVT), or of a map, channels last, in front of a patch (DaViT). The convolution may
    have any window and step, but one group and no padding; a difference and one number for all stay, and so does what
    several nodes read. A convolution in front takes in what nothing moves (``FoldAffineIntoPrevious``), this one
    what does (139 of 139 asked on three marches). Factors alone leave one without a bias without (6 of 6; CAFormer).
    Shared weights as there.
    """

    def __init__(self, compatibility: Compatibility = Compatibility.ORIGINAL) -> None:
        self._for_all = compatibility is Compatibility.ORIGINAL

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        modified = False
        for node in reversed(tuple(model.graph)):
            if is_standard(node, "Add", "Mul", "Div", "BatchNormalization"):
                modified |= self.rewrite(node)
        return ir.passes.PassResult(model, modified)

    def rewrite(self, node: ir.Node) -> bool:
        """Fold ``node`` into the convolution or ``Gemm`` that reads it."""
        if node.op_type == "BatchNormalization":
            return self._fold_norm(node)
        vector = _vector_of(node)
        conv = None if vector is None else reader_of_channels(node, vector.axis)
        if vector is not None and conv is not None and is_standard(conv, "Gemm"):
            return _fold_into_gemm(node, vector, conv)
        if vector is None or conv is None or not is_standard(conv, "Conv"):
            return False
        is_product = MARK_PRODUCT in conv.metadata_props or conv.metadata_props.get(MARK_MADE) in GEMMS
        if is_product or attribute(conv, "group", 1) != 1 or pads_somewhere(conv) or not says_its_axis(node, conv):
            return False
        return _fold_into_next(node, vector.value, vector.affine, conv, zeros=False, for_all=self._for_all)

    @staticmethod
    def _fold_norm(node: ir.Node) -> bool:
        """Fold a BatchNormalization of rows into the ``Gemm`` that reads them."""
        found, gemm = affine_of(node), sole_reader(node.outputs[0], once=True)
        if found is None or gemm is None or not is_standard(gemm, "Gemm") or gemm.inputs[0] is not node.outputs[0]:
            return False
        value, affine = found
        return _fold_into_gemm(node, _Vector(value, 1, Affine(affine.scale, affine.offset)), gemm)


def _fold_into_gemm(node: ir.Node, vector: _Vector, gemm: ir.Node) -> bool:
    """Let the ``gemm`` that reads the row of ``node`` compute what this makes of it; whether constants allow it."""
    dense = dense_of(gemm)
    if dense is None or attribute(gemm, "alpha", 1.0) != 1.0 or attribute(gemm, "beta", 1.0) != 1.0:
        return False
    bias = np.zeros(len(dense.weight)) if dense.bias is None else dense.bias.astype(np.float64)
    scaled = dense.weight.astype(np.float64) * vector.affine.scale
    moved = with_offset(dense.weight, bias, vector.affine.offset)
    if not representable(scaled, moved):
        return False
    weight = scaled.astype(np.float32)
    replace_constant(gemm, 1, weight if attribute(gemm, "transB", 0) else weight.T)
    if np.any(vector.affine.offset != 0.0):
        set_bias(gemm, moved, "bias")
    node.outputs[0].replace_all_uses_with(vector.value)
    graph_of(node).remove(node, safe=True)
    return True


class FoldAffineIntoNext(GraphPass):
    """A per-channel affine operator that only a convolution reads changes that convolution's weight and bias.

    Also through Reshapes that keep batch and channels apart, as factors along the last axis reach their product. What
    cannot be folded elsewhere is: by then the convolution has taken in the sums behind it, so the bias of ``min_ln``
    has the name that those give it. From the last operator to the first, so that a whole chain is. None passes a
    convolution that pads: the padded zeros would not get a sum, and factors stay too (2 of 2 asked). A sum of a
    number per channel is folded (48 of 48 asked on two marches); a difference, or one number for all channels, stays
    (96 of 96) unless it is behind a factor, or in front of a ``MatMul`` of three dimensions (1 asked). Through a
    Reshape a number per channel reaches a convolution of one group, and one number for all another (36 of 36 asked).
    Shared weights as in ``FoldAffineIntoPrevious``.
    """

    def __init__(self, compatibility: Compatibility = Compatibility.ORIGINAL) -> None:
        self._for_all = compatibility is Compatibility.ORIGINAL

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        modified = False
        for node in reversed(tuple(model.graph)):
            if is_standard(node, "BatchNormalization", "Add", "Sub", "Mul", "Div"):
                modified |= self.rewrite(node)
        return ir.passes.PassResult(model, modified)

    def rewrite(self, node: ir.Node) -> bool:
        """Fold ``node`` into the convolution that reads it."""
        found = affine_of(node)
        source = _before_reshapes(node.outputs[0])
        following = sole_reader(source, once=True)
        if found is None or following is None or not is_standard(following, "Conv"):
            return False
        value, affine = found
        is_grouped = attribute(following, "group", 1) > 1
        if source is not node.outputs[0] and _is_one_number(node) != is_grouped:
            return False
        of_rows = following.metadata_props.get(MARK_PRODUCT) in (ROWS, SCORES)
        if node.op_type in ("Add", "Sub") and not (of_rows or _is_scaled(node) or _adds_to_channels(node, following)):
            return False
        if following.inputs[0] is not source or pads_somewhere(following) or not _is_of_channels(node, following):
            return False
        return _fold_into_next(node, value, affine, following, for_all=self._for_all)


def _fold_into_next(
    node: ir.Node, value: ir.Value, affine: Affine, conv: ir.Node, *, for_all: bool, zeros: bool = True
) -> bool:
    """Let the convolution ``conv`` compute what ``node`` makes of ``value`` first; whether its numbers allow that.

    With ``zeros`` one without a bias gets one from a factor too. With ``for_all`` a Mul or Div also changes a weight
    that others share.
    """
    weight, bias = initializer_of(conv.inputs[1]), constant_bias(conv)
    if weight is None or bias is None:
        return False
    group = attribute(conv, "group", 1)
    channels_per_group = weight.shape[1]
    wide = weight.astype(np.float64).reshape(group, -1, channels_per_group, int(np.prod(weight.shape[2:])))
    scaled = wide * affine.scale.reshape(group, 1, channels_per_group, 1)
    moved = with_offset(weight, bias, affine.offset, group)
    if not representable(scaled, moved):
        return False
    for_all &= node.op_type in ("Mul", "Div")
    replace_constant(conv, 1, scaled.reshape(weight.shape).astype(np.float32), for_all=for_all)
    if np.any(affine.offset != 0.0) or (zeros and not has_bias(conv)):
        set_bias(conv, moved, "bias")
    node.outputs[0].replace_all_uses_with(value)
    graph_of(node).remove(node, safe=True)
    return True


@dataclass(frozen=True)
class _Vector:
    """What a node does to one tensor with a number for each element along one axis.

    Attributes:
        value: the tensor, of the shape of the result.
        axis: along which the numbers lie.
        affine: the function, of a scale and shift per element of that axis.
    """

    value: ir.Value
    axis: int
    affine: Affine


def _vector_of(node: ir.Node) -> _Vector | None:
    """The product, quotient or sum that ``node`` computes of a tensor and a constant vector; ``None`` for others."""
    arrays = [initializer_of(value) for value in node.inputs]
    index = next((i for i, array in enumerate(arrays) if array is not None), None)
    if index is None or len(arrays) != 2 or arrays[1 - index] is not None or (node.op_type == "Div" and index == 0):
        return None
    value, array, shape = node.inputs[1 - index], arrays[index], static_shape(node.outputs[0])
    if value is None or array is None or static_shape(value) != shape or shape is None or array.ndim > len(shape):
        return None
    along = [axis for axis, size in enumerate(array.shape, len(shape) - array.ndim) if size > 1]
    numbers = array.reshape(-1).astype(np.float64)
    if len(along) != 1 or value.dtype != ir.DataType.FLOAT or (node.op_type == "Div" and not np.all(numbers)):
        return None
    zero, one = np.zeros_like(numbers), np.ones_like(numbers)
    if node.op_type == "Add":
        affine = Affine(one, numbers)
    else:
        affine = Affine(numbers if node.op_type == "Mul" else one / numbers, zero)
    return _Vector(value, along[0], affine)


def _is_one_number(node: ir.Node) -> bool:
    """Whether the constant operand of ``node`` is a single number."""
    arrays = [array for array in map(initializer_of, node.inputs) if array is not None]
    return bool(arrays) and all(array.size == 1 for array in arrays)


def _is_of_channels(node: ir.Node, following: ir.Node) -> bool:
    """Whether the constant of ``node`` is of the axis that ``following`` takes for channels, by its size.

    A factor of rows that are no map yet stays in front of a product if there are as many rows as channels (one network
    drawn); once they are a map it does not (``tests/parity/recorded/passes``).
    """
    is_map = len(static_shape(node.outputs[0]) or ()) == MAP_RANK
    return is_map or MARK_PRODUCT not in following.metadata_props or says_its_axis(node, following)


def _adds_to_channels(node: ir.Node, following: ir.Node) -> bool:
    """Whether ``node`` adds one number per channel to the map that the convolution ``following`` reads.

    No other axis may be as long (on two marches 11 of 11 that are as long stay, and 45 of 45 others are folded), and
    that convolution has one group (9 of 9 sums in front of others stay, on three marches).
    """
    constants = [value for value in node.inputs if initializer_of(value) is not None]
    is_whole = MARK_PRODUCT not in following.metadata_props and attribute(following, "group", 1) == 1
    shape = (static_shape(node.outputs[0]) or ()) if is_whole else ()
    if (
        node.op_type != "Add"
        or len(constants) != 1
        or len(shape) != MAP_RANK
        or node.outputs[0] is not following.inputs[0]
    ):
        return False
    added = static_shape(constants[0]) or ()
    return shape.count(shape[1]) == 1 and added[-3:] == (shape[1], 1, 1)


def _is_scaled(node: ir.Node) -> bool:
    """Whether the sum ``node`` is behind a factor per channel, sums or none between, each read by the next alone."""
    reader: ir.Node | None = node
    while reader is not None and is_standard(reader, "Add", "Sub") and (found := affine_of(reader)) is not None:
        value = found[0]
        if sole_reader(value, once=True) is not reader:
            return False
        reader = value.producer()
    return is_standard(reader, "Mul", "Div", "BatchNormalization") and reader is not None and bool(affine_of(reader))


def _before_reshapes(value: ir.Value) -> ir.Value:
    """What Reshapes that keep batch and channels apart make of ``value``, each the only reader of what it reads."""
    while is_standard(reshape := sole_reader(value, once=True), "Reshape") and reshape is not None:
        before, after = static_shape(value), static_shape(reshape.outputs[0])
        if before is None or after is None or before[:2] != after[:2]:
            break
        value = reshape.outputs[0]
    return value
