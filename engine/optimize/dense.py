"""``Gemm`` and ``MatMul`` by a constant matrix become convolutions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from engine.chips import GraphRules
from engine.graph import sole_reader
from engine.graph.order import Order, joined
from engine.ir import attribute, mark, static_shape
from engine.optimize.base import (
    Array,
    NodePass,
    add_initializer,
    graph_of,
    initializer_of,
    ints,
    is_standard,
    make_node,
    replace_constant,
    substitute,
)
from engine.optimize.contract import GraphPass

_LAST_AXIS_FIRST, _LAST_AXIS_BACK = (0, 3, 1, 2), (0, 2, 3, 1)
"""Permutations that make the last axis the channels of a map, and back."""
_CHANNELS = 1
"""The axis that a convolution sums over."""

MARK_PRODUCT = "hz.product"
"""Mark of convolutions that compute a ``MatMul``: of a map, of :data:`ROWS` that a Reshape makes a map of, or of
:data:`SCORES`, a map by a constant in front of it."""
ROWS, SCORES = "rows", "scores"


@dataclass(frozen=True)
class Dense:
    """``y = x @ weight + bias`` over the last axis of ``x``.

    Attributes:
        weight: float32, shape (out, in).
        weight_name: the initializer's name in the source.
        bias: float32, shape (out,); ``None`` without bias.
        bias_name: the initializer's name in the source.
    """

    weight: Array
    weight_name: str
    bias: Array | None = None
    bias_name: str = ""


class GemmOfMapToConv(NodePass):
    """``Gemm`` behind a flattened map becomes a convolution whose kernel covers the map, and a ``Reshape``.

    Of several samples on bernoulli2 alone (12 of 12 asked, 12 on bayes-e stay rows). Also a map of one pixel that an
    activation made of an earlier ``Gemm`` (``senet_fc``, ``min_heads``), or that alone.
    Names as in the original's files: weight ``<node><weight>_conv_weight``, bias ``<node><bias>_conv_bias``, output
    ``replaced_<y>``.
    """

    op_types = frozenset({"Gemm"})

    def __init__(self, rules: GraphRules) -> None:
        self.rules = rules

    def rewrite(self, node: ir.Node) -> bool:
        source, dense = node.inputs[0], dense_of(node)
        if source is None or dense is None or source.dtype != ir.DataType.FLOAT:
            return False
        whole_map = self._map_of(source, dense)
        if whole_map is None:
            return False
        shape = static_shape(whole_map) or ()
        conv = _convolution(node, whole_map, dense, self._output(node), shape[2:])
        substitute(node, [conv, *_gemm_result(node, conv, self.rules)])
        return True

    def remains(self, node: ir.Node) -> bool:
        """One of a map that its kernel can cover."""
        source, dense = node.inputs[0], dense_of(node)
        if source is None or dense is None or source.dtype != ir.DataType.FLOAT:
            return False
        return self._map_of(source, dense) is not None

    def _map_of(self, source: ir.Value, dense: Dense) -> ir.Value | None:
        """The map that ``source`` is a view of and a kernel covers; ``None`` where it is none."""
        found = flattened_map(source, dense.weight.shape[1])
        several = (static_shape(source) or (1,))[0] > 1
        if found is None or _becomes_reshape(found.producer()) or (several and self.rules.dense_transposes):
            return None
        return found

    def _output(self, node: ir.Node) -> str:
        return f"{'transposed_' if self.rules.dense_transposes else ''}replaced_{node.outputs[0].name}"


class GemmToConv(GemmOfMapToConv):
    """Any other ``Gemm`` becomes a 1x1 convolution of its rows: as the batch, or as the pixels of one line."""

    def rewrite(self, node: ir.Node) -> bool:
        source, shape, dense = node.inputs[0], static_shape(node.inputs[0]), dense_of(node)
        if source is None or shape is None or dense is None or source.dtype != ir.DataType.FLOAT:
            return False
        rows, features = shape
        inner = (1, 1, rows, features) if self.rules.dense_transposes else (rows, features, 1, 1)
        name = f"{node.name}_pre_reshape"
        parts = [_reshape(node, source, inner, name, f"{name}_output", f"{name}_4dim")]
        if self.rules.dense_transposes:
            parts.append(_transpose(node, parts[-1].outputs[0], "transpose_in", _LAST_AXIS_FIRST))
        conv = _convolution(node, parts[-1].outputs[0], dense, self._output(node))
        substitute(node, [*parts, conv, *_gemm_result(node, conv, self.rules)])
        return True

    def remains(self, node: ir.Node) -> bool:
        """Any by a constant matrix."""
        source = node.inputs[0]
        is_float = source is not None and source.dtype == ir.DataType.FLOAT
        return is_float and static_shape(source) is not None and dense_of(node) is not None


GEMMS = frozenset({GemmOfMapToConv.__name__, GemmToConv.__name__})
"""The passes that make a convolution of a ``Gemm``: what is added between two of them is part of the first."""


class MatMulToConv(NodePass):
    """``MatMul`` by a constant matrix becomes a 1x1 convolution of a map whose channels are its last axis.

    Names as in the original's files, with ``_converted_weight`` and one more ``replaced_`` where the rank is not 4. One
    of five and more dimensions stays.
    """

    op_types = frozenset({"MatMul"})

    def rewrite(self, node: ir.Node) -> bool:
        source, shape, dense = node.inputs[0], static_shape(node.inputs[0]), dense_of(node)
        if source is None or shape is None or not _makes_map(shape) or dense is None:
            return False
        if source.dtype != ir.DataType.FLOAT:
            return False
        parts, name, result = [], f"{node.name}{dense.weight_name}", str(node.outputs[0].name)
        if len(shape) != _MAP_RANK:
            name, result = f"{node.name}_{node.name}_{dense.weight_name}_converted_weight", f"replaced_{result}"
            names = (f"{node.name}_reshape_input", f"{node.name}_{source.name}_reshape_in")
            parts.append(_reshape(node, source, _as_map(shape), *names, f"{node.name}_reshape_input_shape"))
        else:
            name = f"{node.name}_{dense.weight_name}"
        parts.append(_transpose(node, parts[-1].outputs[0] if parts else source, "transpose_in", _LAST_AXIS_FIRST))
        dense = replace(dense, weight_name=name, bias_name=f"{node.name}_bias")
        conv = _convolution(node, parts[-1].outputs[0], dense, f"replaced_{result}", prefix="")
        mark(conv, MARK_PRODUCT, "matmul" if len(shape) == _MAP_RANK else ROWS)
        if len(shape) == _MAP_RANK:
            _one_transpose_per_reader(node, conv)
        back = _transpose(node, conv.outputs[0], "transpose_0", _LAST_AXIS_BACK, result)
        parts += [conv, back]
        if len(shape) != _MAP_RANK:
            target = static_shape(node.outputs[0]) or ()
            names = (f"{node.name}_reshape_output", f"{node.name}_reshaped_output")
            parts.append(_reshape(node, back.outputs[0], target, *names, f"{node.name}_reshape_output_shape"))
        substitute(node, parts)
        return True

    def remains(self, node: ir.Node) -> bool:
        """One by a constant matrix."""
        source, shape = node.inputs[0], static_shape(node.inputs[0])
        is_float = source is not None and source.dtype == ir.DataType.FLOAT
        return is_float and _makes_map(shape or ()) and dense_of(node) is not None


def _makes_map(shape: tuple[int, ...]) -> bool:
    """Whether a ``MatMul`` of a tensor of this shape and a constant matrix becomes a convolution.

    Of five and more dimensions it stays (13 of 13 asked on each of three marches, 8 of fewer do not; windows of Twins).
    """
    return _VECTOR < len(shape) <= _MAP_RANK


_VECTOR = 1


class MatMulOfOneToGemm(NodePass):
    """A ``MatMul`` by a constant of three and more dimensions, one matrix on either side, is a ``Gemm``.

    It lies between two Reshapes; scores of tokens by texts (YOLO-World), one head of several (4 of 4 asked on bayes-e
    and bernoulli2 each). Of several matrices on either side it stays (41 of 41).
    """

    op_types = frozenset({"MatMul"})

    def rewrite(self, node: ir.Node) -> bool:
        source, operand = node.inputs[0], node.inputs[1]
        matrix = initializer_of(operand)
        rows, result = static_shape(source), static_shape(node.outputs[0])
        if source is None or operand is None or matrix is None or rows is None or result is None:
            return False
        if not self.remains(node):
            return False
        name, output, graph = f"{node.name}_gemm", str(node.outputs[0].name), graph_of(node)
        weight = add_initializer(graph, f"{node.name}{operand.name}_gemm_data", matrix.reshape(matrix.shape[-2:]))
        flat = _reshape(node, source, rows[-2:], f"{node.name}_reshape_in", f"{name}_input", f"{name}_input_shape")
        inputs, like = [flat.outputs[0], weight], node.outputs[0]
        gemm = make_node("Gemm", inputs, name=name, output=f"{name}_output", like=like, shape=result[-2:])
        back = (result, f"{name}_reshape_output", output, f"{node.name}_shape")
        substitute(node, [flat, gemm, _reshape(node, gemm.outputs[0], *back)])
        return True

    def remains(self, node: ir.Node) -> bool:
        """One of such matrices of floats."""
        source, matrix = node.inputs[0], initializer_of(node.inputs[1])
        rows = static_shape(source)
        if source is None or matrix is None or rows is None or source.dtype != ir.DataType.FLOAT:
            return False
        is_one = set(rows[:-2]) == set(matrix.shape[:-2]) == {1}
        return is_one and static_shape(node.outputs[0]) is not None


class MatMulOfConstantToConv(NodePass):
    """``MatMul`` of one constant matrix and a computed one becomes a 1x1 convolution of the rows of that as channels.

    As the queries of a decoder that depend on nothing (6 of 6 asked; of several matrices it stays a ``MatMul``, 2 of
    2). Names as in the original's files, where that of three dimensions is a ``<node>_gemm`` first.
    """

    op_types = frozenset({"MatMul"})

    def rewrite(self, node: ir.Node) -> bool:
        if not self.remains(node):
            return False
        left, right = node.inputs
        weight, shape = initializer_of(left), static_shape(right) or ()
        if left is None or right is None or weight is None:
            return False
        rows, columns = weight.shape[-2], shape[-1]
        name, result = str(node.name), str(node.outputs[0].name)
        if len(shape) == _MAP_RANK:
            first = _transpose(node, right, "transpose_in", (0, 2, 1, 3))
            matrix, made, target = f"{name}_{left.name}", result, f"{name}_reshape_output_shape_dim4"
        else:
            inner, target = (1, shape[-2], 1, columns), f"{name}_shape"
            name, made = f"{name}_gemm", f"{name}_gemm_output"
            first = _reshape(node, right, inner, f"{name}_pre_reshape", f"{name}_pre_reshape_output", f"{name}_4dim")
            matrix = f"{name}{node.name}{left.name}_gemm_data"
        dense = Dense(weight.reshape(rows, -1), matrix)
        conv = _convolution(node, first.outputs[0], dense, f"replaced_{made}", prefix="")
        conv.name = name
        mark(conv, MARK_PRODUCT, SCORES if len(shape) == _MAP_RANK else ROWS)
        names = (f"{name}_reshape_output", f"{name}_reshaped_output", target)
        back = _reshape(node, conv.outputs[0], static_shape(node.outputs[0]) or (), *names)
        substitute(node, [first, conv, back])
        return True

    def remains(self, node: ir.Node) -> bool:
        """One of a single constant matrix by a computed one."""
        left, right = node.inputs[0], node.inputs[1]
        weight, shape = initializer_of(left), static_shape(right)
        return (
            weight is not None
            and initializer_of(right) is None
            and right is not None
            and right.dtype == ir.DataType.FLOAT
            and shape is not None
            and len(shape) in (_MAP_RANK - 1, _MAP_RANK)
            and weight.ndim == len(shape)
            and int(np.prod(weight.shape[:-2])) == int(np.prod(shape[:-2])) == 1
        )


_MAP_RANK = 4


def _one_transpose_per_reader(node: ir.Node, conv: ir.Node) -> None:
    """Every reader of the product ``node`` but the first gets a ``Transpose`` of ``conv`` of its own (``swin``).

    Each takes over the name of what ``conv`` gave, which gets one more ``replaced_``.
    """
    result, output = node.outputs[0], conv.outputs[0]
    order = {reader: index for index, reader in enumerate(graph_of(node))}
    readers = sorted({usage.node for usage in result.uses()}, key=order.__getitem__)
    for number, reader in enumerate(readers if result.is_graph_output() else readers[1:], start=1):
        taken, output.name = str(output.name), f"replaced_{output.name}"
        own = _transpose(node, output, f"transpose_{number}", _LAST_AXIS_BACK, taken)
        graph_of(node).insert_before(reader, own)
        for index, value in enumerate(reader.inputs):
            if value is result:
                reader.replace_input_with(index, own.outputs[0])


def _as_map(shape: tuple[int, ...]) -> tuple[int, ...]:
    """``shape`` in four dimensions: leading ones, or the leading axes of more than four as one."""
    lead = shape[:-2]
    return (1, int(np.prod(lead, dtype=np.int64)), *shape[-2:])


class FoldAffineIntoProduct(GraphPass):
    """Factors and sums along the last axis become part of the matrix that multiplies this axis.

    The scale and shift of a LayerNorm, where one product alone reads them (``min_ln``, ViT, Swin, MobileViT; several
    products read them in ``detr`` and ``vit_sep``: they stay). Through Transposes and Reshapes that keep the axis, as
    between the normalisation and the windows of a Swin. Not where another axis of what the product reads has the same
    size, so that the numbers do not say which axis is theirs (8 of 8 asked; 7 of 7 with other sizes there).
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        modified = False
        for node in reversed(tuple(model.graph)):
            if is_standard(node, "Add", "Sub", "Mul"):
                modified |= self.rewrite(node)
        return ir.passes.PassResult(model, modified)

    def rewrite(self, node: ir.Node) -> bool:
        """Fold ``node`` into the product that reads it."""
        found, conv = _along_last_axis(node), _product_of(node)
        if found is None or conv is None or not says_its_axis(node, conv):
            return False
        before, scale, shift = found
        weight = initializer_of(conv.inputs[1])
        bias = initializer_of(conv.inputs[2]) if len(conv.inputs) > 2 else np.zeros(1)
        if weight is None or bias is None:
            return False
        scaled = weight.astype(np.float64) * scale.reshape(1, -1, 1, 1)
        moved = with_offset(weight, bias, shift)
        if not np.all(np.isfinite(np.float32(scaled))) or not np.all(np.isfinite(np.float32(moved))):
            return False
        replace_constant(conv, 1, scaled.astype(np.float32))
        if len(conv.inputs) > 2:
            replace_constant(conv, 2, moved.astype(np.float32))
        elif node.op_type != "Mul":  # also a sum with zeros, as in swin
            conv.resize_inputs(3)
            added = add_initializer(graph_of(conv), f"{conv.name}_bias", moved.astype(np.float32))
            conv.replace_input_with(2, added)
        node.outputs[0].replace_all_uses_with(before)
        graph_of(node).remove(node, safe=True)
        return True


def with_offset(weight: Array, bias: Array, offset: Array, group: int = 1) -> Array:
    """The bias of a convolution that takes in what is added to its input, float64 that holds float32 numbers.

    Products and sums are rounded to float32 one after the other, by channel and then by row and column of the window;
    the bias comes last: all biases of 7 of 7 convolutions and products asked, in groups too, and of the maps of
    InceptionNeXt and ConvNeXtV2 that a normalisation reaches.

    Args:
        weight: shape (outputs, channels / group, ...).
        bias: shape (outputs,), or of one number.
        offset: shape (channels,).
        group: of channels.
    """
    parts = np.repeat(offset.astype(np.float32).reshape(group, -1), len(weight) // group, axis=0)
    with np.errstate(all="ignore"):
        products = weight.astype(np.float32) * parts.reshape(*parts.shape, *(1,) * (weight.ndim - 2))
        total = np.add.accumulate(products.reshape(len(weight), -1), axis=1)[:, -1]
        return np.asarray(total + bias.astype(np.float32), np.float64)


def _along_last_axis(node: ir.Node) -> tuple[ir.Value, Array, Array] | None:
    """Operand, factor and summand, each of shape (features,), of ``node``; ``None`` where it is something else."""
    shape = static_shape(node.outputs[0])
    operands = [initializer_of(item) for item in node.inputs]
    index = next((i for i, array in enumerate(operands) if array is not None), None)
    if not shape or index is None or operands[1 - index] is not None or (node.op_type == "Sub" and index == 0):
        return None
    other, array = node.inputs[1 - index], operands[index]
    if other is None or array is None or static_shape(other) != shape or array.size == 1:
        return None
    if array.shape[-1:] != shape[-1:] or array.size != shape[-1]:
        return None
    vector = np.broadcast_to(array.reshape(-1).astype(np.float64), shape[-1:])
    if node.op_type == "Mul":
        return other, vector, np.zeros_like(vector)
    return other, np.ones_like(vector), vector if node.op_type == "Add" else -vector


def says_its_axis(node: ir.Node, product: ir.Node) -> bool:
    """Whether no other axis of what ``product`` reads is as long as the constant of ``node``, if that is a vector."""
    sizes = [array.size for array in map(initializer_of, node.inputs) if array is not None]
    shape = static_shape(product.inputs[0]) or ()
    return all(size == 1 or shape.count(size) < 2 for size in sizes)


def _product_of(node: ir.Node) -> ir.Node | None:
    """The convolution that multiplies the last axis of what ``node`` computes, where nothing else reads it."""
    found = _reader_of_last_axis(node)
    return found[0] if found is not None and found[1] == 1 and MARK_PRODUCT in found[0].metadata_props else None


def _reader_of_last_axis(node: ir.Node) -> tuple[ir.Node, int] | None:
    """What alone reads the result of ``node`` behind movements, and which axis of that the last one is then."""
    return reader_of_axis(node, len(static_shape(node.outputs[0]) or (0,)) - 1)


def reader_of_axis(node: ir.Node, axis: int) -> tuple[ir.Node, int] | None:
    """What alone reads the result of ``node`` behind Transposes and Reshapes, and where ``axis`` of that is then.

    ``None`` where there is no such node, or a Reshape makes something else of the axis.
    """
    features = (static_shape(node.outputs[0]) or (0,))[axis]
    reader = sole_reader(node.outputs[0], once=True)
    while reader is not None:
        if is_standard(reader, "Transpose"):
            axis = list(ints(reader, "perm", ())).index(axis)
        elif is_standard(reader, "Reshape"):
            before, after = static_shape(reader.inputs[0]) or (), static_shape(reader.outputs[0]) or ()
            kept = [
                place
                for place in range(len(after))
                if after[place] == features and _are_before(before, axis, after, place)
            ]
            if not kept:
                return None
            axis = kept[-1]
        else:
            return reader, axis
        reader = sole_reader(reader.outputs[0], once=True)
    return None


def reader_of_channels(node: ir.Node, axis: int) -> ir.Node | None:
    """What alone reads the result of ``node`` behind Transposes and Reshapes that make channels of ``axis``.

    However they join and divide it on the way: ``None`` where its elements are not those of the channels, in order, or
    where sizes do not divide each other.
    """
    shape = static_shape(node.outputs[0]) or ()
    order, step = Order.start(math.prod(shape)), math.prod(shape[axis + 1 :])
    reader, parts = sole_reader(node.outputs[0], once=True), order.by_dimension(shape)
    while reader is not None and is_standard(reader, "Transpose", "Reshape"):
        if parts is None:
            return None
        if reader.op_type == "Transpose":
            before = static_shape(reader.inputs[0]) or ()
            order = order.transposed(before, ints(reader, "perm", range(len(before))[::-1]))
        parts = order.by_dimension(static_shape(reader.outputs[0]) or ())
        reader = sole_reader(reader.outputs[0], once=True)
    if parts is None or len(parts) < _CHANNELS + 1:
        return None
    channels = ((shape[axis], step),) if shape[axis] > 1 else ()
    return reader if joined(parts[_CHANNELS]) == channels else None


def _are_before(shape: tuple[int, ...], axis: int, reshaped: tuple[int, ...], place: int) -> bool:
    """Whether as many elements lie before ``axis`` as before ``place`` once they are reshaped."""
    return int(np.prod(shape[:axis], dtype=np.int64)) == int(np.prod(reshaped[:place], dtype=np.int64))


def joins_product(node: ir.Node) -> bool:
    """Whether :class:`FoldAffineIntoProduct` takes ``node`` once the ``MatMul`` behind it is a convolution.

    Through Transposes and Reshapes that keep the last axis, and other such nodes.
    """
    while is_standard(node, "Add", "Sub", "Mul") and _along_last_axis(node) is not None:
        found = _reader_of_last_axis(node)
        if found is None:
            return False
        reader, axis = found
        last = len(static_shape(reader.outputs[0]) or ()) - 1
        if is_standard(reader, "MatMul") and axis == last:
            is_map = _makes_map(static_shape(reader.inputs[0]) or ())
            return is_map and dense_of(reader) is not None and says_its_axis(node, reader)
        if MARK_PRODUCT in reader.metadata_props:
            return axis == 1 and says_its_axis(node, reader)
        if axis != last:
            return False
        node = reader
    return False


def _convolution(
    node: ir.Node,
    features: ir.Value,
    dense: Dense,
    output: str,
    kernel: tuple[int, ...] = (1, 1),
    prefix: str | None = None,
) -> ir.Node:
    """The convolution of ``features`` (N, C, H, W): 1x1, or with a kernel that covers the whole map."""
    graph, shape = graph_of(node), static_shape(features) or ()
    weight = dense.weight.reshape(len(dense.weight), -1, *kernel).astype(np.float32)
    start = str(node.name) if prefix is None else prefix
    inputs: list[ir.Value | None] = [
        features,
        add_initializer(graph, f"{start}{dense.weight_name}_conv_weight", weight),
    ]
    if dense.bias is not None:
        name = f"{start}{dense.bias_name}_conv_bias" if prefix is None else dense.bias_name
        inputs.append(add_initializer(graph, name, dense.bias.astype(np.float32)))
    return make_node(
        "Conv",
        inputs,
        name=str(node.name),
        output=output,
        like=node.outputs[0],
        shape=(shape[0], len(weight), *(size - window + 1 for size, window in zip(shape[2:], kernel, strict=True))),
        attributes={
            "kernel_shape": list(kernel),
            "pads": [0, 0, 0, 0],
            "strides": [1, 1],
            "dilations": [1, 1],
            "group": 1,
        },
    )


def _gemm_result(node: ir.Node, conv: ir.Node, rules: GraphRules) -> list[ir.Node]:
    """What restores the shape of ``node`` behind its convolution."""
    shape = static_shape(node.outputs[0]) or ()
    parts, output = [], f"replaced_{node.outputs[0].name}"
    if rules.dense_transposes:
        parts.append(_transpose(node, conv.outputs[0], "transpose_output", _LAST_AXIS_BACK, output))
    source = parts[-1].outputs[0] if parts else conv.outputs[0]
    names = (f"{node.name}_reshape_output", f"{node.name}_reshaped_output", f"{node.name}_reshape_output_shape_dim4")
    return [*parts, _reshape(node, source, shape, *names, written=(-1, *shape[1:]))]


def _transpose(
    node: ir.Node, value: ir.Value, suffix: str, perm: tuple[int, ...], output: str | None = None
) -> ir.Node:
    """The ``Transpose`` ``<node>_<suffix>`` before or behind the convolution that ``node`` becomes."""
    shape = static_shape(value) or ()
    return make_node(
        "Transpose",
        [value],
        name=f"{node.name}_{suffix}",
        output=output or f"{node.name}_{value.name}_{suffix}",
        like=value,
        shape=tuple(shape[axis] for axis in perm),
        attributes={"perm": list(perm)},
    )


def _reshape(
    node: ir.Node,
    value: ir.Value,
    shape: tuple[int, ...],
    name: str,
    output: str,
    target: str,
    written: tuple[int, ...] | None = None,
) -> ir.Node:
    """The ``Reshape`` ``name`` of ``value`` to ``shape``, kept in the constant ``target`` as ``written``."""
    wanted = add_initializer(graph_of(node), target, np.asarray(written or shape, np.int64))
    return make_node("Reshape", [value, wanted], name=name, output=output, like=value, shape=shape)


def dense_of(node: ir.Node) -> Dense | None:
    """The constant matrix product that ``node`` is; ``None`` where an operand is computed or ``x`` is transposed."""
    weight_value = node.inputs[1]
    weight = initializer_of(weight_value)
    if weight_value is None or weight is None or weight.ndim != 2:
        return None
    bias_value = node.inputs[2] if len(node.inputs) > 2 else None
    bias = initializer_of(bias_value)
    if bias_value is not None and bias is None:
        return None
    if node.op_type == "Gemm":
        if attribute(node, "transA", 0):
            return None
        weight = weight if attribute(node, "transB", 0) else weight.T
        weight = _scaled(weight, attribute(node, "alpha", 1.0))
        bias = None if bias is None else _scaled(bias, attribute(node, "beta", 1.0))
    else:
        weight = weight.T
    if bias is not None:
        bias = _per_output(bias, weight.shape[0])
        if bias is None:
            return None
    return Dense(weight, str(weight_value.name), bias, str(bias_value.name) if bias_value is not None else "")


def _becomes_reshape(node: ir.Node | None) -> bool:
    """Whether ``node`` is a ``Transpose`` that moves axes of length 1 alone, and so is none by the next round.

    What a Gemm right behind another reads is the map that this gives: 13 of 13 asked on bayes-e.
    """
    if not is_standard(node, "Transpose") or node is None:
        return False
    shape = static_shape(node.inputs[0]) or ()
    moved = [axis for axis in ints(node, "perm", ()) if shape[axis] > 1]
    return moved == sorted(moved)


LARGEST_COVERED_MAP = 7
"""Longest side of a map that the kernel of a dense layer covers; a larger one is flattened.

Of a MatMul, 7 x 7 is covered and 8 x 8 is not (1 asked on bernoulli2, 2 asked on bernoulli2 and bayes-e); of a Gemm,
recorded models show 4 x 4 x 16 behind a convolution covered (``case_019`` of operators.csv), 8 x 8 x 16 behind a
MaxPool (``vgg``) and 8 x 8 x 8 behind a Relu (``min_reset``) flattened."""


def flattened_map(value: ir.Value, features: int) -> ir.Value | None:
    """The map (N, C, H, W) that ``value`` (N, C*H*W) is a reshaped view of; ``None`` where it is none."""
    producer = value.producer()
    if not is_standard(producer, "Reshape") or producer is None or len(static_shape(value) or ()) != 2:
        return None
    source, shape = producer.inputs[0], static_shape(producer.inputs[0])
    if source is None or shape is None or len(shape) != 4 or int(np.prod(shape[1:])) != features:
        return None
    return source if max(shape[2:]) <= LARGEST_COVERED_MAP else None


def _per_output(bias: Array, outputs: int) -> Array | None:
    """``bias`` as one value per output; ``None`` where it differs between rows."""
    if bias.size == 1:
        return np.ascontiguousarray(np.broadcast_to(bias.reshape(()), (outputs,)))
    return bias.reshape(-1) if bias.size == outputs and bias.shape[-1] == outputs else None


def _scaled(array: Array, factor: float) -> Array:
    return array if factor == 1.0 else (array.astype(np.float64) * factor).astype(np.float32)
