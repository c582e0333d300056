"""Attributes that the original's files always carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import attribute, static_shape
from engine.optimize.base import (
    AXES_AS_INPUT,
    SPLIT_TAKES_SIZES,
    SUM_AXES_AS_INPUT,
    NodePass,
    Padding,
    add_initializer,
    graph_of,
    initializer_of,
    padding_of,
)

_REDUCTIONS = frozenset(
    f"Reduce{what}" for what in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
)
_SLOPE = float(np.float32(0.01))
_NAMED = {"DepthToSpace": ir.AttrString("mode", "DCR"), "LeakyRelu": ir.AttrFloat32("alpha", _SLOPE)}
"""What is written out where it is not there."""
_SAYS_ALL_AXES = frozenset({"ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceSum"})
"""Reductions that get all axes where they name none; Min, Prod, SumSquare and LogSumExp do not (4 of 4 asked)."""


class CompleteAttributes(NodePass):
    """Convolutions and pools get their default ``strides``, ``pads``, ``group``; ``auto_pad`` becomes ``pads``.

    A ``Pad`` gets the value that it pads with, whatever its mode (``style``), and pads of all axes. Reductions say
    whether they keep their axes, five of them (:data:`_SAYS_ALL_AXES`) all axes where they name none, and they and
    ``Concat`` count axes from the front (174 of 174 and 395 of 395 in the networks that are seen). Axes that are an
    input, as in newer opsets, stay as they are. A ``Clip`` of one limit gets the other, the largest number or the
    smallest (4 of 4 asked), a ``LeakyRelu`` its slope. A ``Split`` says how long its parts are (17 of 17).
    """

    op_types = frozenset(
        {
            "Conv",
            "ConvTranspose",
            "MaxPool",
            "AveragePool",
            "DepthToSpace",
            "Pad",
            "Clip",
            "Concat",
            "Split",
            "LeakyRelu",
        }
        | _REDUCTIONS
    )

    def rewrite(self, node: ir.Node) -> bool:
        if node.op_type == "Pad":
            return _complete_pad(node)
        if node.op_type == "Clip":
            return _complete_clip(node)
        if node.op_type == "Split":
            return _complete_split(node)
        before = dict(node.attributes)
        if node.op_type == "Concat" or node.op_type in _REDUCTIONS:
            _count_from_the_front(node)
            return dict(node.attributes) != before
        if node.op_type in _NAMED:
            _default(node, _NAMED[node.op_type])
            return dict(node.attributes) != before
        kernel = attribute(node, "kernel_shape") or (static_shape(node.inputs[1]) or ())[2:]
        spatial = len(kernel)
        _default(node, ir.AttrInt64s("kernel_shape", kernel))
        _default(node, ir.AttrInt64s("strides", [1] * spatial))
        if node.op_type in ("Conv", "ConvTranspose"):
            _default(node, ir.AttrInt64("group", 1))
        if node.op_type == "ConvTranspose":
            _resolve_output_shape(node, kernel)
        else:
            self._resolve_auto_pad(node, kernel)
        if attribute(node, "output_shape") is None and attribute(node, "auto_pad") is None:
            _default(node, ir.AttrInt64s("pads", [0] * (2 * spatial)))
        return dict(node.attributes) != before

    def remains(self, node: ir.Node) -> bool:
        """One without ``strides``, ``kernel_shape``, ``mode`` or ``keepdims``, or with an axis from the back."""
        if node.op_type == "Pad":
            return _lacks_value(node) or _of_named_axes(node) is not None
        if node.op_type == "Clip":
            return _lacks_limit(node) is not None
        if node.op_type == "Split":
            return _lacks_lengths(node) is not None
        if node.op_type == "Concat" or node.op_type in _REDUCTIONS:
            from_back = min([*attribute(node, "axes", ()), attribute(node, "axis", 0)]) < 0
            lacks = node.op_type != "Concat" and "keepdims" not in node.attributes
            return lacks or _names_no_axes(node) or (from_back and static_shape(node.inputs[0]) is not None)
        names = (_NAMED[node.op_type].name,) if node.op_type in _NAMED else ("kernel_shape", "strides")
        return any(name not in node.attributes for name in names)

    @staticmethod
    def _resolve_auto_pad(node: ir.Node, kernel: Sequence[int]) -> None:
        """Write ``SAME_UPPER``, ``SAME_LOWER`` and ``VALID`` as explicit ``pads``."""
        mode = attribute(node, "auto_pad", "NOTSET")
        shape, result = static_shape(node.inputs[0]), static_shape(node.outputs[0])
        if shape is None or result is None:
            return
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            strides = attribute(node, "strides")
            dilations = attribute(node, "dilations", [1] * len(kernel))
            before, after = [], []
            for axis, size in enumerate(shape[2:]):
                extent = (kernel[axis] - 1) * dilations[axis] + 1
                total = max(0, (result[axis + 2] - 1) * strides[axis] + extent - size)
                small, large = total // 2, total - total // 2
                before.append(small if mode == "SAME_UPPER" else large)
                after.append(large if mode == "SAME_UPPER" else small)
            node.attributes["pads"] = ir.AttrInt64s("pads", before + after)
        node.attributes.pop("auto_pad", None)


def _resolve_output_shape(node: ir.Node, kernel: Sequence[int]) -> None:
    """Write ``output_shape`` and ``auto_pad`` of a ``ConvTranspose`` as ``pads``, as ONNX Runtime and the original do.

    What is too much is cut off on both sides, the odd one at the end with ``SAME_UPPER``, else at the beginning. A
    larger ``output_shape`` than there is becomes ``output_padding``.
    """
    mode, wanted, shape = attribute(node, "auto_pad"), attribute(node, "output_shape"), static_shape(node.inputs[0])
    if (mode is None and wanted is None) or shape is None:
        return
    strides, more = attribute(node, "strides"), list(attribute(node, "output_padding", [0] * len(kernel)))
    dilations = attribute(node, "dilations", [1] * len(kernel))
    begin, end = [], []
    for axis, size in enumerate(shape[2:]):
        whole = strides[axis] * (size - 1) + more[axis] + (kernel[axis] - 1) * dilations[axis] + 1
        total = 0
        if wanted is not None:
            total = whole - wanted[axis]
        elif mode in ("SAME_UPPER", "SAME_LOWER"):
            total = max(0, whole - size * strides[axis])
        more[axis] -= min(0, total)
        small, large = max(0, total) // 2, (max(0, total) + 1) // 2
        begin.append(small if mode == "SAME_UPPER" else large)
        end.append(large if mode == "SAME_UPPER" else small)
    if wanted is not None or mode != "NOTSET":
        node.attributes["pads"] = ir.AttrInt64s("pads", begin + end)
    if any(more):
        node.attributes["output_padding"] = ir.AttrInt64s("output_padding", more)
    for name in ("auto_pad", "output_shape"):
        node.attributes.pop(name, None)


class ReshapeWithoutZeros(NodePass):
    """The target of a ``Reshape`` that says 0, the size of that axis before, says the size.

    It is called ``<node>_<target>_target_shape`` then (``fpn_retina_gn``, three of three, on three marches; no recorded
    network keeps a 0).
    """

    op_types = frozenset({"Reshape"})

    def rewrite(self, node: ir.Node) -> bool:
        target, shape = initializer_of(node.inputs[1]), static_shape(node.inputs[0])
        if target is None or shape is None or not _copies_sizes(node, target, shape):
            return False
        sizes = np.array([shape[axis] if size == 0 else size for axis, size in enumerate(target)], np.int64)
        name = f"{node.name}_{'' if node.inputs[1] is None else node.inputs[1].name}_target_shape"
        node.replace_input_with(1, add_initializer(graph_of(node), name, sizes))
        return True

    def remains(self, node: ir.Node) -> bool:
        target, shape = initializer_of(node.inputs[1]), static_shape(node.inputs[0])
        return target is not None and shape is not None and _copies_sizes(node, target, shape)


def _copies_sizes(node: ir.Node, target: NDArray[Any], shape: Sequence[int]) -> bool:
    return not attribute(node, "allowzero", 0) and not target.all() and all(shape)


def _count_from_the_front(node: ir.Node) -> None:
    shape = static_shape(node.inputs[0])
    if node.op_type != "Concat":
        _default(node, ir.AttrInt64("keepdims", 1))
    if shape is None:
        return
    axes, axis = attribute(node, "axes"), attribute(node, "axis")
    if _names_no_axes(node):
        node.attributes["axes"] = ir.AttrInt64s("axes", list(range(len(shape))))
    elif axes is not None and min(axes, default=0) < 0:
        node.attributes["axes"] = ir.AttrInt64s("axes", [each % len(shape) for each in axes])
    if axis is not None and axis < 0:
        node.attributes["axis"] = ir.AttrInt64("axis", axis % len(shape))


def _names_no_axes(node: ir.Node) -> bool:
    """Whether ``node`` reduces all axes of a tensor that has some by naming none, where axes are attributes."""
    if node.op_type not in _SAYS_ALL_AXES or "axes" in node.attributes:
        return False
    as_input = SUM_AXES_AS_INPUT if node.op_type == "ReduceSum" else AXES_AS_INPUT
    return graph_of(node).opset_imports.get("", 0) < as_input and bool(static_shape(node.inputs[0]))


def _complete_pad(node: ir.Node) -> bool:
    padding = _of_named_axes(node)
    if padding is not None:
        pads = add_initializer(
            graph_of(node), f"{node.name}_pads", np.asarray(padding.before + padding.after, np.int64)
        )
        node.replace_input_with(1, pads)
        node.resize_inputs(_PAD_WITHOUT_VALUE if node.inputs[2] is None else _PAD_WITHOUT_VALUE + 1)
    if not _lacks_value(node):
        return padding is not None
    value = add_initializer(graph_of(node), f"{node.name}_default_constant_value", np.zeros((), np.float32))
    node.resize_inputs(_PAD_WITHOUT_VALUE + 1)
    node.replace_input_with(_PAD_WITHOUT_VALUE, value)
    return True


def _complete_clip(node: ir.Node) -> bool:
    missing = _lacks_limit(node)
    if missing is None:
        return False
    what, limit = (("min", np.finfo(np.float32).min), ("max", np.finfo(np.float32).max))[missing - 1]
    value = add_initializer(graph_of(node), f"{node.name}_default_{what}", np.asarray(limit, np.float32))
    node.resize_inputs(_OF_CLIP)
    node.replace_input_with(missing, value)
    return True


def _complete_split(node: ir.Node) -> bool:
    lengths = _lacks_lengths(node)
    if lengths is None:
        return False
    node.attributes["split"] = ir.AttrInt64s("split", lengths)
    return True


def _lacks_lengths(node: ir.Node) -> list[int] | None:
    """How long the parts of a ``Split`` are that does not say it; ``None`` of one that does, or takes them as input."""
    given = "split" in node.attributes or graph_of(node).opset_imports.get("", 0) >= SPLIT_TAKES_SIZES
    shapes = [static_shape(part) for part in node.outputs]
    if given or None in shapes:
        return None
    axis = attribute(node, "axis", 0)
    return [shape[axis] for shape in shapes if shape is not None]


def _lacks_limit(node: ir.Node) -> int | None:
    """Which input of a ``Clip`` that has one limit is the other; ``None`` where it has none, or both."""
    low, high, *_ = (*node.inputs[1:], None, None)
    is_float = node.inputs[0] is not None and node.inputs[0].dtype == ir.DataType.FLOAT
    return (1 if low is None else 2) if is_float and (low is None) != (high is None) else None


def _of_named_axes(node: ir.Node) -> Padding | None:
    """What a ``Pad`` adds that names its axes, as since opset 18; ``None`` for any other and what is computed."""
    if len(node.inputs) <= _PAD_WITHOUT_VALUE + 1:
        return None
    return padding_of(node, len(static_shape(node.inputs[0]) or ()))


def _lacks_value(node: ir.Node) -> bool:
    source = node.inputs[0]
    return len(node.inputs) == _PAD_WITHOUT_VALUE and source is not None and source.dtype == ir.DataType.FLOAT


_PAD_WITHOUT_VALUE = 2
_OF_CLIP = 3


def _default(node: ir.Node, attr: ir.Attr) -> None:
    if attr.name not in node.attributes:
        node.attributes[attr.name] = attr
