"""Batch normalisation and arithmetic with constants are folded into the convolution before them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.graph import sole_reader
from engine.ir import MARK_CONVOLUTION, MARK_MADE, attribute, static_shape
from engine.optimize.affine import MAP_RANK, Affine, affine_of, representable
from engine.optimize.affine_constants import (
    CONVOLUTIONS,
    pads_somewhere,
    set_bias,
    take_in,
    with_affine_behind,
)
from engine.optimize.base import NodePass, absorb_next, bypass, is_standard, replace_constant
from engine.optimize.dense import dense_of
from engine.optimize.pooling import AveragePoolToConv
from engine.terms import Compatibility


class FoldAffineIntoPrevious(NodePass):
    """A per-channel affine operator behind a convolution changes that convolution's weight and bias.

    The convolution takes over the result of arithmetic and its name, and keeps its own where it takes in a
    BatchNormalization (all 3 of ``db_text``). A new bias is called ``<convolution>_bias`` (176 of arithmetic) or
    ``<convolution>_hz_bias`` (BatchNormalization); one that takes in a sum ``<convolution><bias>_fuse_add_sub`` (66 in
    six networks). Arithmetic behind a Reshape goes before it first (33 results of ``crnn_gru`` are named so). A
    BatchNormalization behind one stays behind it; of two or three dimensions it is arithmetic
    (``NormOfRowsToProduct``; 28 of 28 asked on bayes-e, 4 of 4 on bayes, 25 of 28 on bernoulli2). A factor that a
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
            set_bias(gemm, bias, "hz_bias")
            return bypass(node)
        value, affine = found
        conv = value.producer()
        if conv is None or not is_standard(conv, *CONVOLUTIONS):
            return False
        if sole_reader(value, once=True) is not node or not _takes(conv, node):
            return False
        folded = with_affine_behind(conv, affine)
        if folded is None:
            return False
        take_in(conv, node, affine, *folded, for_all=self._for_all)
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
        return _takes(conv, node) and with_affine_behind(conv, found[1]) is not None


def takes_in_next(conv: ir.Node) -> bool:
    """Whether :class:`FoldAffineIntoPrevious` will make what alone reads the convolution ``conv`` part of it."""
    reader = sole_reader(conv.outputs[0], once=True)
    found = None if reader is None or reader.op_type not in FoldAffineIntoPrevious.op_types else affine_of(reader)
    if reader is None or found is None or not _takes(conv, reader):
        return False
    return found[0] is conv.outputs[0] and with_affine_behind(conv, found[1]) is not None


def _takes(conv: ir.Node, node: ir.Node) -> bool:
    """Whether the convolution ``conv`` takes in what ``node`` behind it computes.

    One of a single channel takes in no sum or difference with a number, which a convolution of several does: scores of
    tokens by a Linear of one column and the like (26 of 26 asked on bayes-e; LightGlue, SwiftFormer). Factors it does,
    and a BatchNormalization. One of a line takes in sums and a BatchNormalization, and no factor (24 of 24 on bayes-e).

    A factor that waited for a movement (``mark_factors``) is merged as one convolution with another: into what pads
    nowhere, of any window, step, dilation or groups, and into no ConvTranspose (258 of 258 asked, 86 on each march). So
    is a BatchNormalization behind an average, which has become one before that has (12 of 12 asked; DDRNet).
    """
    shape = static_shape(conv.outputs[0]) or ()
    if node.op_type in ("Add", "Sub") and len(shape) > 1 and shape[1] == 1:
        return False
    if node.op_type in ("Mul", "Div") and len(shape) != MAP_RANK:
        return False
    is_norm = node.op_type == "BatchNormalization" and conv.metadata_props.get(MARK_MADE) == AveragePoolToConv.__name__
    is_one = MARK_CONVOLUTION in node.metadata_props or is_norm
    return not is_one or (is_standard(conv, "Conv") and not pads_somewhere(conv))


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
    return (gemm, weight, offset) if representable(weight, offset) else None


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
        tried = [with_affine_behind(conv, part) for conv, part in zip(convolutions, parts, strict=True)]
        folded = [constants for constants in tried if constants is not None]
        if len(folded) < len(convolutions):
            return False
        if take:
            for conv, part, constants in zip(convolutions, parts, folded, strict=True):
                take_in(conv, node, part, *constants, for_all=False)
            bypass(node)
        return True


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
