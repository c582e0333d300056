"""Padding, batch normalisation and arithmetic with constants are folded into convolutions.

Weights are rounded to float32 once, biases in every step. Nothing is folded that would make one infinite or
undefined: an infinite constant times a zero, or an overflow, is NaN where the separate operators give a number.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.graph import sole_reader
from engine.ir import MARK_CONVOLUTION, MARK_MADE, attribute, static_shape
from engine.optimize.base import (
    ELEMENTWISE,
    Array,
    NodePass,
    absorb_next,
    add_initializer,
    bypass,
    graph_of,
    initializer_of,
    ints,
    is_standard,
    make_node,
    padding_of,
    replace_constant,
    substitute,
)
from engine.optimize.contract import GraphPass
from engine.optimize.dense import (
    MARK_PRODUCT,
    ROWS,
    SCORES,
    dense_of,
    reader_of_channels,
    says_its_axis,
    with_offset,
)
from engine.terms import Compatibility

CONVOLUTIONS = ("Conv", "ConvTranspose")


@dataclass(frozen=True)
class Affine:
    """``y = (x - mean) * scale + shift`` per channel (axis 1).

    Attributes:
        scale: float64, shape (channels,).
        shift: float64, shape (channels,).
        mean: float64, shape (channels,) or ().
    """

    scale: NDArray[np.float64]
    shift: NDArray[np.float64]
    mean: NDArray[np.float64] = field(default_factory=lambda: np.zeros(()))

    @property
    def offset(self) -> NDArray[np.float64]:
        """What zero becomes."""
        return self.of(np.zeros_like(self.scale))

    def of(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The function of ``x``, which holds float32 numbers, every step rounded to float32.

        As the original: all 8 biases of a transposed convolution that takes a batch normalisation (``db_text``).
        """
        with np.errstate(all="ignore"):
            x32, mean, scale, shift = (np.asarray(a, np.float32) for a in (x, self.mean, self.scale, self.shift))
            return np.asarray((x32 - mean) * scale + shift, np.float64)


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


class FoldAffineIntoPrevious(NodePass):
    """A per-channel affine operator behind a convolution changes that convolution's weight and bias.

    The convolution takes over the result of arithmetic and its name, and keeps its own where it takes in a
    BatchNormalization (all 3 of ``db_text``). A new bias is called ``<convolution>_bias`` (176 of arithmetic) or
    ``<convolution>_hz_bias`` (BatchNormalization); one that takes in a sum ``<convolution><bias>_fuse_add_sub`` (66 in
    six networks). Arithmetic behind a Reshape goes before it first (33 results of ``crnn_gru`` are named so). A
    BatchNormalization behind one stays behind it; of two or three dimensions it is arithmetic
    (:class:`NormOfRowsToProduct`; 28 of 28 asked on bayes-e, 4 of 4 on bayes, 25 of 28 on bernoulli2). A factor that a
    movement passed first is taken in only by a Conv that pads nowhere (:func:`_takes`). What several convolutions
    share, weight or bias, the original multiplies for all of them (``arithmetic.shared-factor``); with
    ``compatibility: clean`` each gets its own.
    """

    op_types = frozenset({"BatchNormalization", "Add", "Sub", "Mul", "Div"})

    def __init__(self, compatibility: Compatibility = Compatibility.ORIGINAL) -> None:
        self._for_all = compatibility is Compatibility.ORIGINAL

    def rewrite(self, node: ir.Node) -> bool:
        found = affine_of(node)
        if found is None:
            return False
        if (taken := _takes_as_gemm(node)) is not None:
            gemm, weight, bias = taken
            replace_constant(gemm, 1, weight.astype(np.float32))
            _set_bias(gemm, bias, "hz_bias")
            return bypass(node)
        value, affine = found
        conv = value.producer()
        if conv is None or not is_standard(conv, *CONVOLUTIONS):
            return False
        if sole_reader(value, once=True) is not node or not _takes(conv, node):
            return False
        folded = _folded(conv, affine)
        if folded is None:
            return False
        _take(conv, node, affine, *folded, for_all=self._for_all)
        if node.op_type == "BatchNormalization":
            return bypass(node)
        absorb_next(conv, node)
        return True

    def remains(self, node: ir.Node) -> bool:
        """A BatchNormalization that alone reads a convolution or Gemm of constant weight, if its numbers are finite."""
        if _takes_as_gemm(node) is not None:
            return True
        value = node.inputs[0]
        if node.op_type != "BatchNormalization" or value is None or sole_reader(value, once=True) is not node:
            return False
        conv, found = value.producer(), affine_of(node)
        if conv is None or found is None or not is_standard(conv, *CONVOLUTIONS):
            return False
        return _takes(conv, node) and _folded(conv, found[1]) is not None


def takes_in_next(conv: ir.Node) -> bool:
    """Whether :class:`FoldAffineIntoPrevious` will make what alone reads the convolution ``conv`` part of it."""
    reader = sole_reader(conv.outputs[0], once=True)
    found = None if reader is None or reader.op_type not in FoldAffineIntoPrevious.op_types else affine_of(reader)
    if reader is None or found is None or not _takes(conv, reader):
        return False
    return found[0] is conv.outputs[0] and _folded(conv, found[1]) is not None


def _takes(conv: ir.Node, node: ir.Node) -> bool:
    """Whether the convolution ``conv`` takes in what ``node`` behind it computes.

    One of a single channel takes in no sum or difference with a number, which a convolution of several does: scores of
    tokens by a Linear of one column and the like (26 of 26 asked on bayes-e; LightGlue, SwiftFormer). Factors it does,
    and a BatchNormalization. One of a line takes in sums and a BatchNormalization, and no factor (24 of 24 on bayes-e).

    A factor that waited for a movement (:func:`mark_factors`) is merged as one convolution with another: into what pads
    nowhere, of any window, step, dilation or groups, and into no ConvTranspose (258 of 258 asked, 86 on each march). So
    is a BatchNormalization behind an average, which has become one before that has (12 of 12 asked; DDRNet).
    """
    shape = static_shape(conv.outputs[0]) or ()
    if node.op_type in ("Add", "Sub") and len(shape) > 1 and shape[1] == 1:
        return False
    if node.op_type in ("Mul", "Div") and len(shape) != _MAP_RANK:
        return False
    is_norm = node.op_type == "BatchNormalization" and conv.metadata_props.get(MARK_MADE) == _AVERAGE
    is_one = MARK_CONVOLUTION in node.metadata_props or is_norm
    return not is_one or (is_standard(conv, "Conv") and not _pads(conv))


def _takes_as_gemm(node: ir.Node) -> tuple[ir.Node, NDArray[np.float64], NDArray[np.float64]] | None:
    """The ``Gemm`` that the BatchNormalization ``node`` alone reads, its weight (outputs, inputs) and its bias with it.

    With ``transB``, as layers of PointNet and of heads have it: 20 of 20 asked on bayes behind five kinds of rows, in
    front of a Relu, a Tanh, another Gemm and the end.
    """
    affine = affine_of(node) if node.op_type == "BatchNormalization" else None
    gemm = None if affine is None else affine[0].producer()
    if affine is None or gemm is None or not is_standard(gemm, "Gemm") or not attribute(gemm, "transB", 0):
        return None
    dense = dense_of(gemm)
    is_plain = attribute(gemm, "alpha", 1.0) == 1.0 == attribute(gemm, "beta", 1.0)
    if dense is None or not is_plain or sole_reader(affine[0], once=True) is not node:
        return None
    bias = np.zeros(len(dense.weight)) if dense.bias is None else dense.bias.astype(np.float64)
    weight = dense.weight.astype(np.float64) * affine[1].scale[:, None]
    offset = affine[1].of(bias)
    return (gemm, weight, offset) if _representable(weight, offset) else None


class FoldNormThroughConcat(NodePass):
    """A BatchNormalization of joined channels changes the convolutions that compute them, if those compute all.

    The published log of YOLOv5 2.0 shows it in all 8 of its blocks; where another operator computes a part it does not
    happen (2 of 2 in ``densenet``), nor where a part is of a ConvTranspose, or has a function per channel of its own,
    which its convolution takes later (44 conversions of 24 forms on three marches). There the convolutions of a Concat
    with other readers change as well, so that those read other numbers, which ptqlab does not follow (2 of 2).
    """

    op_types = frozenset({"BatchNormalization"})

    def rewrite(self, node: ir.Node) -> bool:
        return self._fold(node, take=True)

    def remains(self, node: ir.Node) -> bool:
        """Such a BatchNormalization."""
        return self._fold(node, take=False)

    def _fold(self, node: ir.Node, *, take: bool) -> bool:
        found = affine_of(node)
        convolutions = [] if found is None else _joined_convolutions(found[0])
        if found is None or not convolutions or sole_reader(found[0], once=True) is not node:
            return False
        ends = np.cumsum([(static_shape(conv.outputs[0]) or ())[1] for conv in convolutions])[:-1]
        fields = (np.split(array, ends) for array in (found[1].scale, found[1].shift, found[1].mean))
        parts = [Affine(*part) for part in zip(*fields, strict=True)]
        tried = [_folded(conv, part) for conv, part in zip(convolutions, parts, strict=True)]
        folded = [constants for constants in tried if constants is not None]
        if len(folded) < len(convolutions):
            return False
        if take:
            for conv, part, constants in zip(convolutions, parts, folded, strict=True):
                _take(conv, node, part, *constants, for_all=False)
            bypass(node)
        return True


class NormOfRowsToProduct(NodePass):
    """A BatchNormalization of two or three dimensions that no convolution takes becomes a product and a sum.

    They are called ``<node>_mul`` and ``<node>_add``, their numbers per channel ``<node>_mul_constant`` and so on. One
    that a Gemm gives or alone reads waits until that is a convolution. Speaker embeddings (ECAPA), rows behind a Linear
    or a mean: 51 of 52 forms asked on bayes-e have the original's graph (22 before).
    """

    op_types = frozenset({"BatchNormalization"})

    def rewrite(self, node: ir.Node) -> bool:
        found = affine_of(node)
        if found is None or not self.remains(node):
            return False
        (value, affine), graph, result = found, graph_of(node), node.outputs[0]
        tail = (1,) * (len(static_shape(value) or ()) - 2)
        parts: list[ir.Node] = []
        for op_type, numbers in (("Mul", affine.scale), ("Add", affine.offset)):
            name = f"{node.name}_{op_type.lower()}"
            array = numbers.astype(np.float32).reshape(1, -1, *tail)
            operand = add_initializer(graph, f"{name}_constant", array)
            source = parts[0].outputs[0] if parts else value
            parts.append(make_node(op_type, [source, operand], name=name, output=f"{name}_output", like=result))
        substitute(node, parts)
        return True

    def remains(self, node: ir.Node) -> bool:
        """One of such a tensor, neither behind nor in front of a Gemm."""
        shape, value = static_shape(node.inputs[0]), node.inputs[0]
        if shape is None or value is None or len(shape) not in (2, 3) or affine_of(node) is None:
            return False
        following, conv = sole_reader(node.outputs[0], once=True), value.producer()
        is_taken_in = is_standard(conv, *CONVOLUTIONS) and sole_reader(value, once=True) is node
        return not (is_taken_in or is_standard(conv, "Gemm") or is_standard(following, "Gemm"))


class FoldChannelsIntoNext(GraphPass):
    """Factors and sums of a number per channel of what a convolution reads change that convolution, before they move.

    Directly or through Transposes and Reshapes that make channels of their axis, whether that is joined and divided on
    the way or not (7 of 7 asked, among them the windows of MobileViT): the scale and shift of a normalisation of tokens
    that become a map (SegFormer, PVT), or of a map, channels last, in front of a patch (DaViT). The convolution may
    have any window and step, but one group and no padding; a difference and one number for all stay, and so does what
    several nodes read. A convolution in front takes in what nothing moves (:class:`FoldAffineIntoPrevious`), this one
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
        if is_product or attribute(conv, "group", 1) != 1 or _pads(conv) or not says_its_axis(node, conv):
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
    if not _representable(scaled, moved):
        return False
    weight = scaled.astype(np.float32)
    replace_constant(gemm, 1, weight if attribute(gemm, "transB", 0) else weight.T)
    if np.any(vector.affine.offset != 0.0):
        _set_bias(gemm, moved, "bias")
    node.outputs[0].replace_all_uses_with(vector.value)
    graph_of(node).remove(node, safe=True)
    return True


GEMMS = frozenset({"GemmOfMapToConv", "GemmToConv"})
"""The passes that make a convolution of a ``Gemm``: what is added between two of them is part of the first."""


class FoldAffineIntoNext(GraphPass):
    """A per-channel affine operator that only a convolution reads changes that convolution's weight and bias.

    Also through Reshapes that keep batch and channels apart, as factors along the last axis reach their product. What
    cannot be folded elsewhere is: by then the convolution has taken in the sums behind it, so the bias of ``min_ln``
    has the name that those give it. From the last operator to the first, so that a whole chain is. None passes a
    convolution that pads: the padded zeros would not get a sum, and factors stay too (2 of 2 asked). A sum of a
    number per channel is folded (48 of 48 asked on two marches); a difference, or one number for all channels, stays
    (96 of 96) unless it is behind a factor, or in front of a ``MatMul`` of three dimensions (1 asked). Through a
    Reshape a number per channel reaches a convolution of one group, and one number for all another (36 of 36 asked).
    Shared weights as in :class:`FoldAffineIntoPrevious`.
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
        if following.inputs[0] is not source or _pads(following) or not _is_of_channels(node, following):
            return False
        return _fold_into_next(node, value, affine, following, for_all=self._for_all)


def _fold_into_next(
    node: ir.Node, value: ir.Value, affine: Affine, conv: ir.Node, *, for_all: bool, zeros: bool = True
) -> bool:
    """Let the convolution ``conv`` compute what ``node`` makes of ``value`` first; whether its numbers allow that.

    With ``zeros`` one without a bias gets one from a factor too. With ``for_all`` a Mul or Div also changes a weight
    that others share.
    """
    weight, bias = initializer_of(conv.inputs[1]), _bias_of(conv)
    if weight is None or bias is None:
        return False
    group = attribute(conv, "group", 1)
    channels_per_group = weight.shape[1]
    wide = weight.astype(np.float64).reshape(group, -1, channels_per_group, int(np.prod(weight.shape[2:])))
    scaled = wide * affine.scale.reshape(group, 1, channels_per_group, 1)
    moved = with_offset(weight, bias, affine.offset, group)
    if not _representable(scaled, moved):
        return False
    for_all &= node.op_type in ("Mul", "Div")
    replace_constant(conv, 1, scaled.reshape(weight.shape).astype(np.float32), for_all=for_all)
    if np.any(affine.offset != 0.0) or (zeros and not _has_bias(conv)):
        _set_bias(conv, moved, "bias")
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


class AffineToDepthwise(NodePass):
    """A per-channel factor that no convolution takes becomes a depthwise 1x1 convolution, and takes the sum behind it.

    So does a BatchNormalization. Not a factor of several samples (windows of attention: ``mobilevit``), and no sum
    alone (10 of 10 asked behind a Tanh, a MaxPool and the input, of one number and of one per channel; in the recorded
    networks none does).
    """

    op_types = frozenset({"BatchNormalization", "Add", "Sub", "Mul", "Div"})

    def __init__(self, compatibility: Compatibility = Compatibility.ORIGINAL) -> None:
        self._fold_into_previous = FoldAffineIntoPrevious(compatibility).rewrite

    def rewrite(self, node: ir.Node) -> bool:
        if self._fold_into_previous(node):
            return True
        found = affine_of(node)
        if found is None or node.name is None:
            return False
        value, affine = found
        shape = static_shape(value)
        if shape is None or len(shape) != _MAP_RANK or node.op_type in ("Add", "Sub"):
            return False
        if node.op_type in ("Mul", "Div") and shape[0] != 1:
            return False
        # 5 of 5 in densenet, 2 of 2 in repvgg_unfused, and so is the result; products keep theirs (12 in 5 networks).
        name = f"UNIT_CONV_FOR_{node.name}" if node.op_type == "BatchNormalization" else node.name
        conv = depthwise_convolution(graph_of(node), value, affine, node.name, name, f"{node.name}_depthwise")
        substitute(node, [conv])
        if node.op_type == "BatchNormalization" and not conv.outputs[0].is_graph_output():
            conv.outputs[0].name = conv.name
        return True

    def remains(self, node: ir.Node) -> bool:
        """A BatchNormalization of a map, if its numbers are finite."""
        if node.op_type != "BatchNormalization" or node.name is None:
            return False
        return len(static_shape(node.inputs[0]) or ()) == _MAP_RANK and affine_of(node) is not None


class FactorBetweenReshapes(NodePass):
    """A factor of one channel between two Reshapes multiplies all its pixels as channels, by a diagonal weight.

    The first Reshape then gives these, (1, pixels, 1, 1): the row of a ``Gemm`` or the column of a product, times one
    number, in front of another Gemm, an output or anything else that it is reshaped for. Parts are called
    ``<factor>_reshape_conv``, the target of the Reshape is the old one's ``<name>_new``. 25 of 25 rows (bayes-e)
    and 8 of 8 columns on each of two marches; SwiftFormer, XCiT.
    """

    op_types = frozenset({"Conv"})

    def rewrite(self, node: ir.Node) -> bool:
        found = _between_reshapes(node)
        if found is None:
            return False
        reshape, scale = found
        graph, channels, name = (
            graph_of(node),
            int(np.prod(static_shape(node.inputs[0]) or ())),
            f"{node.name}_reshape_conv",
        )
        sizes = np.asarray((1, channels, 1, 1), np.int64)
        target = "" if reshape.inputs[1] is None else reshape.inputs[1].name
        reshape.replace_input_with(1, add_initializer(graph, f"{target}_new", sizes))
        for value in (reshape.outputs[0], node.outputs[0]):
            value.shape = ir.Shape(sizes.tolist())
        diagonal = scale * np.eye(channels, dtype=np.float32).reshape(channels, channels, 1, 1)
        node.replace_input_with(1, add_initializer(graph, f"{name}_weight", diagonal))
        node.replace_input_with(2, add_initializer(graph, f"{name}_bias", np.zeros(channels, np.float32)))
        node.name = name
        return True

    def remains(self, node: ir.Node) -> bool:
        """Such a factor."""
        return _between_reshapes(node) is not None


def _between_reshapes(conv: ir.Node) -> tuple[ir.Node, np.float32] | None:
    """The Reshape in front of the factor ``conv`` of one channel, and the number, if a Reshape alone reads its result.

    A factor is a convolution of 1 x 1 whose bias is zero, as :class:`AffineToDepthwise` makes it.
    """
    value, shape = conv.inputs[0], static_shape(conv.inputs[0])
    if value is None or shape is None or shape[:2] != (1, 1) or len(conv.inputs) < 3:
        return None
    weight, bias = initializer_of(conv.inputs[1]), initializer_of(conv.inputs[2])
    if weight is None or bias is None or weight.size != 1 or np.any(bias) or sole_reader(value, once=True) is not conv:
        return None
    before, behind = value.producer(), sole_reader(conv.outputs[0], once=True)
    if before is None or not is_standard(before, "Reshape") or not is_standard(behind, "Reshape"):
        return None
    return (before, np.float32(weight.reshape(-1)[0])) if static_shape(conv.outputs[0]) == shape else None


def mark_factors(model: ir.Model) -> None:
    """Mark each factor per channel of a map: from the end of a round on it is as good as a convolution.

    In its first round it lets pass what passes other arithmetic, one number as one per channel; then no movement passes
    it any more (180 of 180 branches asked on three marches). What a product gives has its first round when the product
    has become a convolution, whose movement it then meets, also behind other arithmetic: a Gelu written with its Tanh
    (48 of 48 branches asked on three marches, two marks of which 12 show); what an average gives has it when that is
    one (8 of 8). :class:`AffineToDepthwise` makes the
    convolution once the rounds have settled; another one that takes it in by then gets its bias of zeros (30 of 30).
    """
    waiting: set[ir.Node] = set()
    for node in model.graph:
        if _waits_for_product(node, waiting):
            waiting.add(node)
        elif becomes_depthwise(node):
            node.metadata_props[MARK_CONVOLUTION] = "yes"


def _waits_for_product(node: ir.Node, waiting: Collection[ir.Node]) -> bool:
    """Whether nothing has passed ``node``, which computes with what a product moves or an average gives, made just now.

    ``waiting``: the nodes before it of which that is so.
    """
    producers = [value.producer() for value in node.inputs if value is not None]
    made = any(
        each is not None and (each.metadata_props.get(MARK_MADE) in (_PRODUCT, _AVERAGE) or each in waiting)
        for each in producers
    )
    return made and MARK_MADE not in node.metadata_props and node.op_type in ELEMENTWISE


_PRODUCT, _AVERAGE = "MatMulToConv", "AveragePoolToConv"
"""The passes that make a convolution of a product, and movements around it, and of an average."""


def depthwise_convolution(
    graph: ir.Graph, value: ir.Value, affine: Affine, owner: str, name: str, output: str
) -> ir.Node:
    """A 1x1 convolution of every channel alone that computes ``value * scale + offset``; it is in no graph yet.

    Args:
        graph: gets its weight and its bias.
        value: a map, NCHW.
        affine: one number per channel.
        owner: name of the node that it stands for, after which weight and bias are called.
        name: its own.
        output: name of its result.
    """
    channels = len(affine.scale)
    weight = affine.scale.astype(np.float32).reshape(channels, 1, 1, 1)
    return make_node(
        "Conv",
        [
            value,
            add_initializer(graph, f"UNIT_WEIGHT_FOR_{owner}", weight),
            add_initializer(graph, f"UNIT_BIAS_FOR_{owner}", affine.offset.astype(np.float32)),
        ],
        name=name,
        output=output,
        like=value,
        attributes={
            "kernel_shape": [1, 1],
            "strides": [1, 1],
            "pads": [0, 0, 0, 0],
            "dilations": [1, 1],
            "group": channels,
        },
    )


def becomes_depthwise(node: ir.Node) -> bool:
    """Whether ``node`` multiplies a map per channel, as a depthwise convolution will."""
    found = affine_of(node) if node.op_type in ("Mul", "Div") else None
    shape = None if found is None else static_shape(found[0])
    return shape is not None and len(shape) == _MAP_RANK and shape[0] == 1


_MAP_RANK = 4


def _is_of_channels(node: ir.Node, following: ir.Node) -> bool:
    """Whether the constant of ``node`` is of the axis that ``following`` takes for channels, by its size.

    A factor of rows that are no map yet stays in front of a product if there are as many rows as channels (one network
    drawn); once they are a map it does not (``tests/parity/recorded/passes``).
    """
    is_map = len(static_shape(node.outputs[0]) or ()) == _MAP_RANK
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
        or len(shape) != _MAP_RANK
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


def affine_of(node: ir.Node) -> tuple[ir.Value, Affine] | None:
    """The tensor and the per-channel affine function that ``node`` applies to it.

    Returns:
        ``None`` for anything else, also where scale or shift is no finite float32 number, and for a constant minus a
        tensor, which the original has otherwise (no recorded conversion shows how; provisional).
    """
    found = _any_affine_of(node)
    return found if found is not None and _representable(found[1].scale, found[1].offset) else None


def _representable(*arrays: NDArray[Any]) -> bool:
    """Whether all numbers are finite in float32."""
    return all(bool(np.all(np.abs(array) <= np.finfo(np.float32).max)) for array in arrays)


def _any_affine_of(node: ir.Node) -> tuple[ir.Value, Affine] | None:
    if node.op_type == "BatchNormalization":
        return _affine_of_batch_norm(node)
    left, right = node.inputs[0], node.inputs[1]
    left_constant, right_constant = initializer_of(left), initializer_of(right)
    if left is None or right is None or (left_constant is None) == (right_constant is None):
        return None
    value, array = (left, right_constant) if right_constant is not None else (right, left_constant)
    shape = static_shape(value)
    if array is None or shape is None or shape != static_shape(node.outputs[0]) or value.dtype != ir.DataType.FLOAT:
        return None
    operand = per_channel(array, shape)
    if operand is None:
        return None
    one, zero = np.ones_like(operand), np.zeros_like(operand)
    match node.op_type:
        case "Add":
            return value, Affine(one, operand)
        case "Sub" if value is left:
            return value, Affine(one, -operand)
        case "Mul":
            return value, Affine(operand, zero)
        case "Div" if value is left and np.all(operand != 0.0):
            return value, Affine(one / operand, zero)
    return None


def _affine_of_batch_norm(node: ir.Node) -> tuple[ir.Value, Affine] | None:
    value = node.inputs[0]
    arrays = [initializer_of(item) for item in node.inputs[1:5]]
    training = attribute(node, "training_mode", 0) or any(output.uses() for output in node.outputs[1:])
    if value is None or any(array is None for array in arrays) or training:
        return None
    gamma, beta, mean, variance = (np.asarray(array, np.float32) for array in arrays)
    with np.errstate(all="ignore"):
        # In float32, as the original: all weights of the 8 such nodes of densenet, repvgg_unfused and db_text.
        scale = gamma / np.sqrt(variance + np.float32(attribute(node, "epsilon", 1e-5)))
        return value, Affine(*(array.astype(np.float64) for array in (scale, beta, mean)))


def per_channel(array: Array, shape: tuple[int, ...]) -> NDArray[np.float64] | None:
    """``array``, broadcast to ``shape``, as one value per channel (axis 1); ``None`` for an array of another shape.

    Its shape decides, whatever its numbers are: a vector along another axis does not count even if they are equal (the
    scales of a LayerNorm in ``swin``), nor does a map of equal pixels (12 of 12 asked: factors and summands of zeros,
    and of one number per channel; the attention of LeViT and EfficientFormerV2 before any training).
    """
    if len(shape) < 2 or array.ndim > len(shape):
        return None
    wide = np.asarray(array, np.float64).reshape((1,) * (len(shape) - array.ndim) + array.shape)
    if wide.size > wide.shape[1] or (wide.size > 1 and wide.shape[1] == 1 != shape[1]):
        return None
    return np.ascontiguousarray(np.broadcast_to(wide.reshape(-1), (shape[1],)))


def _joined_convolutions(value: ir.Value) -> list[ir.Node]:
    """The convolutions whose channels ``value`` joins, read by nothing else; none where it is something else."""
    join, rank = value.producer(), len(static_shape(value) or ())
    if join is None or not is_standard(join, "Concat") or attribute(join, "axis") not in (1, 1 - rank):
        return []
    found = [
        None if part is None or sole_reader(part, once=True) is not join else part.producer() for part in join.inputs
    ]
    convolutions = [conv for conv in found if conv is not None and is_standard(conv, "Conv")]
    known = all(static_shape(conv.outputs[0]) for conv in convolutions)
    return convolutions if known and len(convolutions) == len(found) else []


def _folded(conv: ir.Node, affine: Affine) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Weight, not rounded yet, and bias of ``conv`` with ``affine`` behind it; ``None`` where they cannot be."""
    weight, bias = initializer_of(conv.inputs[1]), _bias_of(conv)
    if weight is None or bias is None:
        return None
    found = _scale_outputs(conv, weight, affine.scale), affine.of(bias)
    return found if _representable(*found) else None


def _take(
    conv: ir.Node,
    node: ir.Node,
    affine: Affine,
    weight: NDArray[np.float64],
    bias: NDArray[np.float64],
    *,
    for_all: bool,
) -> None:
    """Let ``conv`` have the ``weight`` and ``bias`` that ``affine``, the function of ``node``, gives it.

    With ``for_all`` a Mul or Div also changes what others share.
    """
    for_all &= node.op_type in ("Mul", "Div")
    if np.any(affine.scale != 1.0):
        replace_constant(conv, 1, weight.astype(np.float32), for_all=for_all)
    if node.op_type in ("Add", "Sub"):
        _rename_bias(conv)
    if MARK_CONVOLUTION in node.metadata_props and not _has_bias(conv):
        zeros = add_initializer(graph_of(conv), f"UNIT_BIAS_FOR_{node.name}", bias.astype(np.float32))
        conv.resize_inputs(3)
        conv.replace_input_with(2, zeros)
    elif node.op_type not in ("Mul", "Div") or _has_bias(conv):
        _set_bias(conv, bias, _suffix(node), for_all=for_all)


def _before_reshapes(value: ir.Value) -> ir.Value:
    """What Reshapes that keep batch and channels apart make of ``value``, each the only reader of what it reads."""
    while is_standard(reshape := sole_reader(value, once=True), "Reshape") and reshape is not None:
        before, after = static_shape(value), static_shape(reshape.outputs[0])
        if before is None or after is None or before[:2] != after[:2]:
            break
        value = reshape.outputs[0]
    return value


def _bias_of(conv: ir.Node) -> NDArray[np.float64] | None:
    """The constant bias of ``conv``, zeros where it has none, ``None`` where it is computed."""
    if _has_bias(conv):
        bias = initializer_of(conv.inputs[2])
        return None if bias is None else bias.astype(np.float64)
    shape = static_shape(conv.outputs[0])
    return None if shape is None else np.zeros(shape[1])


def _has_bias(conv: ir.Node) -> bool:
    return len(conv.inputs) > 2 and conv.inputs[2] is not None


def _suffix(node: ir.Node) -> str:
    """What the name of a bias ends in that ``node`` gives a convolution without one."""
    return "hz_bias" if node.op_type == "BatchNormalization" else "bias"


def _rename_bias(conv: ir.Node) -> None:
    """Give the bias of ``conv`` that takes in a sum the name of a new one."""
    old = conv.inputs[2] if _has_bias(conv) else None
    array = initializer_of(old)
    if old is not None and array is not None:
        conv.replace_input_with(2, add_initializer(graph_of(conv), f"{conv.name}{old.name}_fuse_add_sub", array))


def _set_bias(conv: ir.Node, bias: NDArray[np.float64], suffix: str, *, for_all: bool = False) -> None:
    array = bias.astype(np.float32)
    if _has_bias(conv):
        replace_constant(conv, 2, array, for_all=for_all)
        return
    value = add_initializer(graph_of(conv), f"{conv.name}_{suffix}", array)
    conv.resize_inputs(3)
    conv.replace_input_with(2, value)


def _scale_outputs(conv: ir.Node, weight: Array, scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """``weight`` with every output channel multiplied by its ``scale``, not rounded yet."""
    wide = weight.astype(np.float64)
    if conv.op_type == "Conv":
        return wide * scale.reshape(-1, *(1,) * (wide.ndim - 1))
    group = attribute(conv, "group", 1)
    grouped = wide.reshape(group, wide.shape[0] // group, *wide.shape[1:])
    factors = scale.reshape(group, 1, wide.shape[1], *(1,) * (wide.ndim - 2))
    return (grouped * factors).reshape(wide.shape)


def _pads(conv: ir.Node) -> bool:
    return attribute(conv, "auto_pad", "NOTSET") not in ("NOTSET", "VALID") or any(ints(conv, "pads", ()))
