"""Convolutions over one and over three axes, as two-dimensional ones."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.ir import attribute, shape_of
from engine.optimize.base import initializer_of, ints
from engine.rewrite.base import Array, Chain, Rewrite, float_source

_AUTO = ("", "NOTSET", "VALID")
MOST_SLICES = 64
"""Most slices of depth: each is a convolution of its own."""


class ConvolutionOfOneAxis(Rewrite):
    """``Conv`` and ``ConvTranspose`` of rank 3 with a height of 1, between Reshapes."""

    name = "conv_1d"
    says = "A convolution over one axis becomes one over two, with a height of 1."
    op_types = frozenset({"Conv", "ConvTranspose"})

    def replaced(self, node: ir.Node, chain: Chain) -> bool:
        source, weights = float_source(node), initializer_of(node.inputs[1])
        if source is None or weights is None:
            return False
        shape, result = shape_of(source), shape_of(node.outputs[0])
        if len(shape) != 3 or attribute(node, "auto_pad", "") not in _AUTO:
            return False
        pads = ints(node, "pads", (0, 0))
        given: dict[str, Any] = {
            name: [nothing, *ints(node, name, (nothing,))]
            for name, nothing in (("strides", 1), ("dilations", 1), ("output_padding", 0))
            if name in node.attributes
        }
        kernel = chain.constant("weights", weights[:, :, None, :])
        flat = chain.reshape(source, (*shape[:2], 1, shape[2]))
        made = chain.add(
            node.op_type,
            [flat, kernel, *node.inputs[2:]],
            (*result[:2], 1, result[2]),
            kernel_shape=[1, weights.shape[2]],
            pads=[0, pads[0], 0, pads[1]],
            group=attribute(node, "group", 1),
            **given,
        )
        chain.reshape(made, result)
        return True


class ConvolutionInSlices(Rewrite):
    """``Conv`` of rank 5 as a two-dimensional one per slice of the result's depth, joined.

    Slice ``d`` of the result reads the slices of the source that the kernel's depth covers there: laid one behind the
    other along the channels, the kernel is one of two dimensions.
    """

    name = "conv_3d"
    says = "A convolution over three axes becomes a two-dimensional one per slice of depth, joined along the channels."
    op_types = frozenset({"Conv"})

    def replaced(self, node: ir.Node, chain: Chain) -> bool:
        source, weights = float_source(node), initializer_of(node.inputs[1])
        if source is None or weights is None:
            return False
        shape, result = shape_of(source), shape_of(node.outputs[0])
        if len(shape) != 5:
            return False
        plain = attribute(node, "group", 1) == 1 and attribute(node, "auto_pad", "") in _AUTO
        if not plain or result[2] > MOST_SLICES:
            self.remarks.append(
                f"{node.name} (Conv): it has groups, auto_pad, or more than {MOST_SLICES} slices of depth; it stays on "
                "the CPU"
            )
            return False
        batch, channels, depth = shape[:3]
        # Depth before channels, so that neighbouring slices are neighbouring channels.
        ahead = chain.transpose(chain.reshape(source, (batch, channels, depth, prod(shape[3:]))), (0, 2, 1, 3))
        maps = chain.reshape(ahead, (batch, depth * channels, *shape[3:]))
        slices = [self._slice(node, chain, maps, weights, at) for at in range(result[2])]
        joined = chain.reshape(chain.concat(slices, 1), (batch, result[2], result[1], prod(result[3:])))
        chain.reshape(chain.transpose(joined, (0, 2, 1, 3)), result)
        return True

    @staticmethod
    def _slice(node: ir.Node, chain: Chain, maps: ir.Value, weights: Array, at: int) -> ir.Value:
        """Slice ``at`` of the result, shape (N, output channels, H, W)."""
        filters, channels, taps = weights.shape[:3]
        depth = shape_of(maps)[1] // channels
        pads, strides = ints(node, "pads", (0,) * 6), ints(node, "strides", (1,) * 3)
        dilations = ints(node, "dilations", (1,) * 3)
        reads = [at * strides[0] - pads[0] + tap * dilations[0] for tap in range(taps)]
        inside = [(tap, place) for tap, place in enumerate(reads) if 0 <= place < depth]
        first, last = (inside[0][1], inside[-1][1]) if inside else (0, 0)
        # Slices between the taps of a dilated kernel are read with weights of 0.
        kernel = np.zeros((filters, last - first + 1, channels, *weights.shape[3:]), np.float32)
        for tap, place in inside:
            kernel[:, place - first] = weights[:, :, tap]
        window = chain.slice(maps, 1, first * channels, (last + 1) * channels)
        values = [window, chain.constant("weights", kernel.reshape(filters, -1, *weights.shape[3:]))]
        sides = shape_of(node.outputs[0])[3:]
        return chain.add(
            "Conv",
            [*values, *node.inputs[2:]],
            (shape_of(maps)[0], filters, *sides),
            kernel_shape=list(weights.shape[3:]),
            pads=[*pads[1:3], *pads[4:6]],
            strides=list(strides[1:]),
            dilations=list(dilations[1:]),
        )
