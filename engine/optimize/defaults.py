"""Attributes that the original's files always carry."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from engine.ir import attribute
from engine.optimize.base import NodePass, static_shape


class CompleteAttributes(NodePass):
    """Convolutions and pools get their default ``strides``, ``pads``, ``group``; ``auto_pad`` becomes ``pads``."""

    op_types = frozenset({"Conv", "ConvTranspose", "MaxPool", "AveragePool", "DepthToSpace"})

    def rewrite(self, node: ir.Node) -> bool:
        before = dict(node.attributes)
        if node.op_type == "DepthToSpace":
            _default(node, ir.AttrString("mode", "DCR"))
            return dict(node.attributes) != before
        kernel = attribute(node, "kernel_shape") or (static_shape(node.inputs[1]) or ())[2:]
        spatial = len(kernel)
        _default(node, ir.AttrInt64s("kernel_shape", kernel))
        _default(node, ir.AttrInt64s("strides", [1] * spatial))
        if node.op_type in ("Conv", "ConvTranspose"):
            _default(node, ir.AttrInt64("group", 1))
        self._resolve_auto_pad(node, kernel)
        if attribute(node, "output_shape") is None:
            _default(node, ir.AttrInt64s("pads", [0] * (2 * spatial)))
        return dict(node.attributes) != before

    @staticmethod
    def _resolve_auto_pad(node: ir.Node, kernel: Sequence[int]) -> None:
        """Write ``SAME_UPPER``, ``SAME_LOWER`` and ``VALID`` as explicit ``pads`` (not for ``ConvTranspose``)."""
        mode = attribute(node, "auto_pad", "NOTSET")
        shape, result = static_shape(node.inputs[0]), static_shape(node.outputs[0])
        if node.op_type == "ConvTranspose" or shape is None or result is None:
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


def _default(node: ir.Node, attr: ir.Attr) -> None:
    if attr.name not in node.attributes:
        node.attributes[attr.name] = attr
