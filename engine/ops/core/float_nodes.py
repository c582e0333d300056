"""Reading float nodes: what rules ask of the optimised graph."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

import onnx_ir as ir

from engine.errors import ModelError
from engine.ir import attribute, before_calibration, constant_of, shape_of
from engine.ops.core.reasons import Code, Reason, because

if TYPE_CHECKING:
    from engine.chips import Chip

T = TypeVar("T")

TO_NHWC = (0, 2, 3, 1)
"""Axes of an NCHW tensor in the order of NHWC."""
NHWC_AXIS = (0, 3, 1, 2)
"""Position of each NCHW axis in NHWC."""


def given(node: ir.Node, index: int) -> ir.Value:
    """Input ``index`` of ``node``.

    Raises:
        ModelError: it is omitted.
    """
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None:
        raise ModelError(f"node {node.name} ({node.op_type}): input {index} is missing")
    return value


def required(value: T | None) -> T:
    """``value``, which placement and calibration guarantee.

    Raises:
        ModelError: it is missing.
    """
    if value is None:
        raise ModelError("a tensor that must be calibrated is not: the model was not placed and calibrated")
    return value


def stated(node: ir.Node, *names: str) -> dict[str, Any]:
    """The attributes of ``names`` that ``node`` has."""
    return {name: attribute(node, name) for name in names if name in node.attributes}


def channels_of(value: ir.Value) -> int:
    """How long lists per channel are: the channels of a map, else the last axis (ViT, DETR, group normalisation)."""
    shape = shape_of(value)
    return shape[1] if len(shape) == len(TO_NHWC) else shape[-1] if shape else 1


def nhwc_axis(axis: int, rank: int) -> int:
    """Where axis ``axis`` of a float tensor is in its quantised form: NHWC for rank 4, else the same."""
    axis %= rank
    return NHWC_AXIS[axis] if rank == 4 else axis


def clip_limits(node: ir.Node) -> tuple[float | None, float | None]:
    """Lower and upper limit of a Clip, from attributes or constant inputs."""
    constants = [constant_of(value) for value in node.inputs[1:3]]
    low, high = [None if array is None else float(array.reshape(-1)[0]) for array in (*constants, None, None)][:2]
    return attribute(node, "min", low), attribute(node, "max", high)


def is_saturation(node: ir.Node) -> bool:
    """A Clip to (-a, a): its producer's saturation at threshold a does the same (reference/arithmetic.md 2.1)."""
    low, high = clip_limits(node) if node.op_type == "Clip" else (None, None)
    return low is not None and high is not None and low == -high


def is_relu(node: ir.Node) -> bool:
    """Relu, or a Clip between 0 and another number: the upper one is the output's saturation.

    Source: reference/arithmetic.md 2.1 for 6 and 1, the network min_clip for 255.
    """
    if node.op_type == "Relu":
        return True
    low, high = clip_limits(node) if node.op_type == "Clip" else (None, None)
    return low == 0.0 and high is not None and high > 0.0


def is_constant(value: ir.Value) -> bool:
    """Whether ``value``, seen through its calibration node, is a constant."""
    return constant_of(before_calibration(value)) is not None


_RANK_MAX = 8
"""Of sums, differences, products (16 of 16 asked of six to eight dimensions on bayes-e and bayes each)."""


def refused_broadcast(node: ir.Node, march: Chip) -> Reason | None:
    """Why an element-wise operator on two tensors runs on the CPU; the lower rank of a constant is no reason.

    bernoulli2 multiplies or shifts a line by a constant nowhere but in a normalisation: 18 heads of YOLOs, the
    positions of ``vit_timm`` and ``detr``, 7 of 7 asked; nor does it multiply two lines (24 of 24).
    """
    a, b = (given(node, index) for index in (0, 1))
    constants = [is_constant(value) for value in (a, b)]
    first, second, out = (shape_of(value) for value in (a, b, node.outputs[0]))
    if not march.constant_operands and any(constants):
        constant = second if constants[1] else first
        if _one_for_all_samples(constant, out) or (len(out) != len(TO_NHWC) and not scales_normalised(node)):
            return because(Code.CONSTANT_NOT_FOLDED)
    multiplies_lines = node.op_type == "Mul" and len(out) == len(TO_NHWC) - 1 and not any(constants)
    if multiplies_lines and not march.constant_operands and not _normalises(node):
        return because(Code.RANK_4_ONLY)
    if not 1 <= len(out) <= _RANK_MAX or (len(first) != len(second) and not any(constants)):
        return because(Code.RANKS_DIFFER)
    if not march.broadcasts_both and first != out and second != out:
        return because(Code.BOTH_BROADCAST)
    # 11 of 11 in three networks on bernoulli2, and the product of two such numbers, which it computes
    single = first != second and 1 in (prod(first), prod(second))
    if single and not march.broadcasts_numbers and not any(constants) and not _normalises(node):
        return because(Code.SINGLE_NUMBER)
    repeated = any(_is_repeated_line(shape, out) for shape in (first, second))
    if repeated and not march.broadcasts_lines and not _normalises(node):
        return because(Code.LINE_REPEATED)
    return None


def refused_constant(node: ir.Node, march: Chip) -> Reason | None:
    """Why an element-wise operator with a constant runs on the CPU though its inputs are quantised.

    26 products and sums behind a normalisation, in ``detr``, ``pvt``, ``vit_sep``, ``vit_timm``, ``fpn_retina_gn`` and
    ``swin`` on bernoulli2. Of other maps products with a constant of all pixels are computed on the BPU (4 of 4 asked),
    and so are sums with a number per channel, also of one channel (2 of 2). Of other ranks, others than those of a
    normalisation are refused at once (:func:`refused_broadcast`).
    """
    values = [given(node, index) for index in (0, 1)]
    constants = [is_constant(value) for value in values]
    if march.constant_operands or not any(constants):
        return None
    shape, out = shape_of(values[0] if constants[0] else values[1]), shape_of(node.outputs[0])
    if len(out) == len(TO_NHWC) and not scales_normalised(node) and (prod(shape) > 1 or out[1] == 1):
        return None
    return because(Code.CONSTANT_NOT_FOLDED)


def refused_number(node: ir.Node, march: Chip) -> Reason | None:
    """Why a sum with one number, as in a Gelu that is written with its Tanh, runs on the CPU, which reads floats.

    12 of 12 asked on bernoulli2, behind five operators, and seven drawn networks; a normalisation's shift is quantised
    (:func:`refused_constant`), and so are products and differences.
    """
    constants = [shape_of(given(node, index)) for index in (0, 1) if is_constant(given(node, index))]
    out = shape_of(node.outputs[0])
    means = [before_calibration(given(node, index)).producer() for index in (0, 1)]
    if march.constant_operands or len(out) != len(TO_NHWC) or out[1] == 1 or scales_normalised(node):
        return None
    if any(mean is not None and mean.op_type == "ReduceMean" for mean in means):
        return None
    return because(Code.CONSTANT_NOT_FOLDED) if any(prod(shape) == 1 for shape in constants) else None


def scales_normalised(node: ir.Node) -> bool:
    """Whether ``node`` multiplies what a normalisation divided by its deviation, or shifts that product."""
    producers = [before_calibration(given(node, index)).producer() for index in (0, 1)]
    found = [each for each in producers if each is not None]
    if node.op_type == "Add":
        return any(each.op_type == "Mul" and scales_normalised(each) for each in found)
    return any(each.op_type == "Mul" and _divides_by_root(each) for each in found)


def _normalises(node: ir.Node) -> bool:
    """Whether ``node`` is the difference, the quotient, the factor or the shift of a normalisation."""
    if node.op_type == "Sub":
        return subtracts_mean(node)
    if node.op_type != "Mul":
        return scales_normalised(node)
    return scales_normalised(node) or _divides_by_root(node) or _squares_difference(node)


def _squares_difference(node: ir.Node) -> bool:
    """Whether ``node`` multiplies a difference from a mean by itself."""
    first, second = (before_calibration(given(node, index)) for index in (0, 1))
    head = first.producer()
    return first is second and head is not None and head.op_type == "Sub" and subtracts_mean(head)


def subtracts_mean(node: ir.Node) -> bool:
    """Whether the second operand is a mean over axes."""
    producer = before_calibration(given(node, 1)).producer()
    return producer is not None and producer.op_type == "ReduceMean"


def _divides_by_root(node: ir.Node) -> bool:
    producers = [before_calibration(given(node, index)).producer() for index in (0, 1)]
    return any(each is not None and each.op_type == "HzRsqrt" for each in producers)


def _is_repeated_line(shape: tuple[int, ...], out: tuple[int, ...]) -> bool:
    """Whether a map that is not one pixel is broadcast over rows or columns.

    11 of 11 asked, 5 of them computed, and 2 of 2 pixels not.
    """
    wide = (1,) * (len(out) - len(shape)) + shape
    return len(out) == len(TO_NHWC) and wide[2:] != out[2:] and wide[2:] != (1, 1)


def _one_for_all_samples(constant: tuple[int, ...], out: tuple[int, ...]) -> bool:
    """Whether a constant is broadcast over the batch of a map: ``Mul_45`` of ``mobilevit``, ``Add_241`` of ``swin``."""
    return len(out) == len(TO_NHWC) and out[0] != 1 and (len(constant) < len(out) or constant[0] == 1)


def reduced_axis(node: ir.Node) -> int:
    """The only axis that a reduction reduces.

    Raises:
        ModelError: it reduces several or all axes; :func:`refused_reduction` keeps those on the CPU.
    """
    axes = _reduced_axes(node)
    if len(axes) != 1:
        raise ModelError(f"node {node.name} ({node.op_type}) reduces {len(axes)} axes, the BPU reduces one")
    return axes[0]


def _reduced_axes(node: ir.Node) -> list[int]:
    """Axes of a reduction from attribute or constant input, not negative; all of them where none is given."""
    rank = len(shape_of(given(node, 0)))
    constant = constant_of(node.inputs[1]) if len(node.inputs) > 1 else None
    axes = attribute(node, "axes") if constant is None else constant.tolist()
    return [axis % rank for axis in (range(rank) if axes is None else axes)]


def refused_reduction(node: ir.Node, march: Chip) -> Reason | None:
    """Why a reduction runs on the CPU."""
    axes = _reduced_axes(node)
    if len(axes) != 1:
        return because(Code.ONE_AXIS, op_type=node.op_type)
    if not attribute(node, "keepdims", 1):
        return because(Code.AXIS_DROPPED)
    length = shape_of(given(node, 0))[axes[0]]
    if length > march.limits.reduce_length:
        return because(Code.REDUCED_VALUES, length=length, limit=march.limits.reduce_length)
    return None
