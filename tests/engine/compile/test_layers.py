"""Layers: the kind that an operator declares, and what follows from a node's weights and shapes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.compile.layers import CHANNEL_PARAMETER_BYTES, layers_of
from engine.compile.packing import Block
from engine.errors import UnsupportedError
from engine.ops.core.costs import CostKind

BLOCK = Block(out_channels=8, in_channels=4)


def tensor(name: str, *shape: int) -> ir.Value:
    return ir.Value(name=name, type=ir.TensorType(ir.DataType.INT8), shape=ir.Shape(shape))


def weights(*shape: int) -> ir.Value:
    array = np.zeros(shape, np.int8)
    value = tensor("w", *shape)
    value.const_value = ir.tensor(array)
    return value


def node(
    op_type: str, inputs: list[ir.Value], output: tuple[int, ...], domain: str = "horizon", **rest: int
) -> ir.Node:
    return ir.node(op_type, inputs, rest, domain=domain, outputs=[tensor("y", *output)], name="n")


@pytest.mark.parametrize(
    ("shape", "group", "kind"),
    [((8, 3, 3, 4), 1, CostKind.CONV), ((8, 3, 3, 1), 4, CostKind.DEPTHWISE), ((8, 3, 3, 2), 2, CostKind.GROUPED)],
)
def test_groups_of_a_convolution_make_its_kind(shape: tuple[int, ...], group: int, kind: CostKind) -> None:
    convolution = node("HzSQuantizedConv", [tensor("x", 1, 6, 6, 4), weights(*shape)], (1, 4, 4, 8), group=group)
    (layer,) = layers_of([convolution], BLOCK)
    assert layer.kind is kind
    assert layer.macs == 4 * 4 * 8 * np.prod(shape[1:])
    assert layer.parameter_bytes == 8 * CHANNEL_PARAMETER_BYTES


def test_tables_in_a_row_are_looked_up_once() -> None:
    """Asked on bayes-e and bernoulli2: two and three tables load and take what the last one does."""
    first = node("HzLut", [tensor("x", 1, 4, 4, 8)], (1, 4, 4, 8))
    second = node("HzLut", [first.outputs[0]], (1, 4, 4, 8))
    kinds = [layer.kind for layer in layers_of([first, second], BLOCK)]
    assert kinds == [CostKind.RESHAPE, CostKind.LUT]
    (alone,) = layers_of([node("HzLut", [tensor("x", 1, 4, 4, 8)], (1, 4, 4, 8))], BLOCK)
    assert alone.kind is CostKind.LUT


def test_a_transposed_convolution_multiplies_every_input_pixel() -> None:
    transposed = node("HzSQuantizedConvTranspose", [tensor("x", 1, 4, 4, 8), weights(8, 2, 2, 6)], (1, 8, 8, 6))
    (layer,) = layers_of([transposed], BLOCK)
    assert (layer.kind, layer.macs) == (CostKind.TRANSPOSED, 4 * 4 * 8 * 2 * 2 * 6)


def test_a_product_of_matrices_multiplies_rows_by_columns() -> None:
    (layer,) = layers_of([node("HzSQuantizedMatmul", [tensor("a", 1, 5, 7), tensor("b", 1, 7, 3)], (1, 5, 3))], BLOCK)
    assert (layer.kind, layer.macs, layer.weight_bytes) == (CostKind.MATMUL, 5 * 3 * 7, 0)


def test_layout_changes_are_no_layers_and_other_operators_must_be_known() -> None:
    layout = ir.node("Transpose", [tensor("x", 1, 8, 4, 4)], {"perm": [0, 2, 3, 1]}, outputs=[tensor("t", 1, 4, 4, 8)])
    assert layers_of([layout], BLOCK) == ()
    with pytest.raises(UnsupportedError, match="the BPU has no operator ::Mod"):
        layers_of([node("Mod", [tensor("x", 1, 4)], (1, 4), domain="")], BLOCK)
