"""Weight and bias of a convolution that takes in an affine function per channel, and what they are called.

Weights are rounded to float32 once, biases in every step.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import MARK_CONVOLUTION, attribute, static_shape
from engine.optimize.affine import Affine, representable
from engine.optimize.base import Array, add_initializer, graph_of, initializer_of, ints, replace_constant

CONVOLUTIONS = ("Conv", "ConvTranspose")


def with_affine_behind(conv: ir.Node, affine: Affine) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Weight, not rounded yet, and bias of ``conv`` with ``affine`` behind it; ``None`` where they cannot be."""
    weight, bias = initializer_of(conv.inputs[1]), constant_bias(conv)
    if weight is None or bias is None:
        return None
    found = _scale_outputs(conv, weight, affine.scale), affine.of(bias)
    return found if representable(*found) else None


def take_in(
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
    if MARK_CONVOLUTION in node.metadata_props and not has_bias(conv):
        zeros = add_initializer(graph_of(conv), f"UNIT_BIAS_FOR_{node.name}", bias.astype(np.float32))
        conv.resize_inputs(3)
        conv.replace_input_with(2, zeros)
    elif node.op_type not in ("Mul", "Div") or has_bias(conv):
        set_bias(conv, bias, _suffix(node), for_all=for_all)


def constant_bias(conv: ir.Node) -> NDArray[np.float64] | None:
    """The constant bias of ``conv``, zeros where it has none, ``None`` where it is computed."""
    if has_bias(conv):
        bias = initializer_of(conv.inputs[2])
        return None if bias is None else bias.astype(np.float64)
    shape = static_shape(conv.outputs[0])
    return None if shape is None else np.zeros(shape[1])


def has_bias(conv: ir.Node) -> bool:
    return len(conv.inputs) > 2 and conv.inputs[2] is not None


def _suffix(node: ir.Node) -> str:
    """What the name of a bias ends in that ``node`` gives a convolution without one."""
    return "hz_bias" if node.op_type == "BatchNormalization" else "bias"


def _rename_bias(conv: ir.Node) -> None:
    """Give the bias of ``conv`` that takes in a sum the name of a new one."""
    old = conv.inputs[2] if has_bias(conv) else None
    array = initializer_of(old)
    if old is not None and array is not None:
        conv.replace_input_with(2, add_initializer(graph_of(conv), f"{conv.name}{old.name}_fuse_add_sub", array))


def set_bias(conv: ir.Node, bias: NDArray[np.float64], suffix: str, *, for_all: bool = False) -> None:
    array = bias.astype(np.float32)
    if has_bias(conv):
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


def pads_somewhere(conv: ir.Node) -> bool:
    return attribute(conv, "auto_pad", "NOTSET") not in ("NOTSET", "VALID") or any(ints(conv, "pads", ()))
