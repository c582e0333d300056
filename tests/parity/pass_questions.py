"""A network of a few nodes for every pass on the float graph: what the original makes of what the pass looks for.

``python -m tests.parity.pass_questions FOLDER [NAME...]`` writes and records them, or those that are named, with the
toolchain that ``PTQLAB_HB_MAPPER`` names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from onnx import TensorProto, numpy_helper

from engine.conformance.questions.network import SmallNetwork
from tests.parity.rule_questions import RuleQuestion, record, started

STEPS, HIDDEN = 3, 4
"""Of recurrent operators."""


def _with(op_type: str, *between: str) -> Callable[[], SmallNetwork]:
    """``op_type`` of a map, and other operators, between convolutions."""

    def build() -> SmallNetwork:
        net, x = started()
        x = net.op(op_type, net.conv(x, 8, 8))
        for other in between:
            x = net.op(other, x)
        net.output(net.conv(x, 8, 8))
        return net

    return build


def _upsample() -> SmallNetwork:
    """An Upsample, which operator set 9 has."""
    net = SmallNetwork("asked", (1, 8, 8, 8), 7, opset=9)
    x = net.op("Relu", net.conv("x", 8, 8, 3))
    net.output(net.conv(net.op("Upsample", x, net.constant([1, 1, 2, 2]), mode="nearest"), 8, 8))
    return net


def _constant_node() -> SmallNetwork:
    """A summand that a Constant holds."""
    net, x = started()
    values = np.linspace(-1, 1, 512, dtype=np.float32).reshape(1, 8, 8, 8)
    x = net.op("Relu", net.conv(net.op("Sigmoid", net.conv(x, 8, 8)), 8, 8))
    net.output(net.op("Add", x, net.op("Constant", value=numpy_helper.from_array(values, "held"))))
    return net


def _constant_arithmetic() -> SmallNetwork:
    """A summand that is the sum of two constants."""
    net, x = started()
    total = net.op("Add", net.normal(1, 8, 8, 8), net.normal(1, 8, 1, 1))
    net.output(net.conv(net.op("Add", net.op("Sigmoid", net.conv(x, 8, 8)), total), 8, 8))
    return net


def _unused() -> SmallNetwork:
    """A node that nothing reads."""
    net, x = started()
    net.op("Sigmoid", x)
    net.output(net.conv(x, 8, 8))
    return net


def _zeros_in_shape() -> SmallNetwork:
    """A Reshape whose target says 0."""
    net, x = started()
    net.output(net.conv(net.reshape(net.conv(x, 8, 8), 0, 16, 4, 8), 16, 8))
    return net


def _cast_pair(to: int) -> Callable[[], SmallNetwork]:
    """A map cast to another type and back."""

    def build() -> SmallNetwork:
        net, x = started()
        net.output(net.conv(net.op("Cast", net.op("Cast", net.conv(x, 8, 8), to=to), to=TensorProto.FLOAT), 8, 8))
        return net

    return build


def _swish(op_type: str, **attributes: float) -> Callable[[], SmallNetwork]:
    """A map times a function of it."""

    def build() -> SmallNetwork:
        net, x = started()
        x = net.conv(x, 8, 8)
        net.output(net.conv(net.op("Mul", x, net.op(op_type, x, **attributes)), 8, 8))
        return net

    return build


def _softmax_of_channels() -> SmallNetwork:
    """A Softmax of the channels, between two Transpose."""
    net, x = started()
    soft = net.op("Softmax", net.transpose(net.conv(x, 8, 8), 0, 3, 2, 1), axis=3)
    net.output(net.conv(net.transpose(soft, 0, 3, 2, 1), 8, 8))
    return net


def _flattened() -> SmallNetwork:
    """Flatten at the end."""
    net, x = started()
    net.output(net.op("Flatten", net.op("Sigmoid", net.conv(x, 8, 8)), axis=1))
    return net


def _shuffled() -> SmallNetwork:
    """Channels in two groups, shuffled."""
    net, x = started()
    moved = net.transpose(net.reshape(net.conv(x, 8, 8), 1, 2, 4, 8, 8), 0, 2, 1, 3, 4)
    net.output(net.conv(net.reshape(moved, 1, 8, 8, 8), 8, 8))
    return net


def _transposed_twice() -> SmallNetwork:
    """Two Transpose in a row."""
    net, x = started()
    net.output(net.conv(net.transpose(net.transpose(net.conv(x, 8, 8), 0, 2, 1, 3), 0, 1, 3, 2), 8, 8))
    return net


def _padded() -> SmallNetwork:
    """A Pad with zeros before a convolution."""
    net, x = started()
    padded = net.op("Pad", net.op("Sigmoid", net.conv(x, 8, 8)), net.ints(0, 0, 1, 1, 0, 0, 1, 1), net.constant(0.0))
    net.output(net.conv(padded, 8, 8, 3, pads=[0, 0, 0, 0]))
    return net


def _norm(net: SmallNetwork, x: str, channels: int) -> str:
    numbers = [net.constant(np.linspace(0.5, 1.5, channels)) for _ in range(4)]
    return net.op("BatchNormalization", x, *numbers, epsilon=1e-5)


def _normalised() -> SmallNetwork:
    """A BatchNormalization behind a convolution."""
    net, x = started()
    net.output(net.conv(net.op("Relu", _norm(net, net.conv(x, 8, 8), 8)), 8, 8))
    return net


def _scaled() -> SmallNetwork:
    """A factor per channel behind a convolution, before a sum."""
    net, x = started()
    scaled = net.op("Mul", net.conv(x, 8, 8), net.normal(1, 8, 1, 1))
    net.output(net.conv(net.op("Add", scaled, net.op("Sigmoid", net.conv(x, 8, 8))), 8, 8))
    return net


def _sum_of_two() -> SmallNetwork:
    """A Sum of two maps."""
    net, x = started()
    net.output(net.conv(net.op("Sum", *(net.op("Sigmoid", net.conv(x, 8, 8)) for _ in range(2))), 8, 8))
    return net


def _norm_of_channels(op_type: str) -> Callable[[], SmallNetwork]:
    """The length of the channels, times a map."""

    def build() -> SmallNetwork:
        net, x = started()
        x = net.conv(x, 8, 8)
        net.output(net.conv(net.op("Mul", x, net.op(op_type, x, axes=[1], keepdims=1)), 8, 8))
        return net

    return build


def _computed_where() -> SmallNetwork:
    """One of two maps by a comparison."""
    net, x = started()
    x = net.conv(x, 8, 8)
    condition = net.op("Greater", x, net.constant(0.25))
    net.output(net.conv(net.op("Where", condition, x, net.op("Sigmoid", net.conv(x, 8, 8))), 8, 8))
    return net


def _normalised_joined() -> SmallNetwork:
    """A BatchNormalization of what two convolutions give, joined."""
    net, x = started()
    joined = net.op("Concat", net.conv(x, 8, 8, 3), net.conv(x, 8, 8), axis=1)
    net.output(net.conv(_norm(net, joined, 16), 16, 8))
    return net


def _sum_of_three() -> SmallNetwork:
    """A Sum of three maps."""
    net, x = started()
    maps = [net.op("Sigmoid", net.conv(x, 8, 8)) for _ in range(3)]
    net.output(net.conv(net.op("Sum", *maps), 8, 8))
    return net


def _divided() -> SmallNetwork:
    """One map over another."""
    net, x = started()
    net.output(net.conv(net.op("Div", net.conv(x, 8, 8), net.op("Exp", net.conv(x, 8, 8))), 8, 8))
    return net


def _gate_first() -> SmallNetwork:
    """A gate times a map, the gate first."""
    net, x = started()
    gate = net.op("Sigmoid", net.conv(net.op("GlobalAveragePool", x), 8, 8))
    net.output(net.conv(net.op("Mul", gate, net.op("Sigmoid", net.conv(x, 8, 8))), 8, 8))
    return net


def _where() -> SmallNetwork:
    """One of two maps by a constant condition."""
    net, x = started()
    condition = net.constant(np.arange(512).reshape(1, 8, 8, 8) % 3 == 0, np.bool_)
    net.output(net.conv(net.op("Where", condition, net.conv(x, 8, 8), net.op("Sigmoid", net.conv(x, 8, 8))), 8, 8))
    return net


def _reciprocal_root() -> SmallNetwork:
    """A map times the reciprocal root of another."""
    net, x = started()
    positive = net.op("Add", net.op("Relu", net.conv(x, 8, 8)), net.constant(0.5))
    root = net.op("Reciprocal", net.op("Sqrt", positive))
    net.output(net.conv(net.op("Mul", x, root), 8, 8))
    return net


def _instance_norm() -> SmallNetwork:
    """An InstanceNormalization."""
    net, x = started()
    scale, shift = net.constant(np.linspace(0.5, 1.5, 8)), net.constant(np.linspace(-0.5, 0.5, 8))
    net.output(net.conv(net.op("InstanceNormalization", net.conv(x, 8, 8), scale, shift, epsilon=1e-5), 8, 8))
    return net


def _divided_by_norm() -> SmallNetwork:
    """A map over the Euclidean length of its channels."""
    net, x = started()
    x = net.conv(x, 8, 8)
    net.output(net.conv(net.op("Div", x, net.op("ReduceL2", x, axes=[1], keepdims=1)), 8, 8))
    return net


def _recurrent(op_type: str, gates: int, **attributes: int) -> Callable[[], SmallNetwork]:
    """A recurrent operator over steps of four numbers."""

    def build() -> SmallNetwork:
        net = SmallNetwork("asked", (1, 4, 1, STEPS), 7)
        x = net.op("Relu", net.conv("x", 4, 4))
        steps = net.transpose(net.reshape(x, 1, 4, STEPS), 2, 0, 1)
        weights = [net.normal(1, gates * HIDDEN, 4, scale=0.5), net.normal(1, gates * HIDDEN, HIDDEN, scale=0.5)]
        bias = net.normal(1, 2 * gates * HIDDEN, scale=0.1)
        given = net.op(op_type, steps, *weights, bias, hidden_size=HIDDEN, **attributes)
        net.output(net.reshape(given, STEPS, HIDDEN))
        return net

    return build


def _maximum_of_rows() -> SmallNetwork:
    """A ReduceMax that drops its axis, as a map of one row before a convolution."""
    net, x = started()
    rows = net.op("ReduceMax", net.conv(x, 8, 8), axes=[2], keepdims=0)
    net.output(net.conv(net.reshape(rows, 1, 8, 1, 8), 8, 8))
    return net


def _dense_of_map() -> SmallNetwork:
    """A Gemm behind a flattened map."""
    net, x = started()
    small = net.op("MaxPool", net.conv(x, 8, 8), kernel_shape=[4, 4], strides=[4, 4])
    net.output(net.op("Gemm", net.op("Flatten", small, axis=1), net.normal(8, 32), net.normal(8), transB=1))
    return net


def _dense_of_rows() -> SmallNetwork:
    """A Gemm of rows that are no map."""
    net, x = started()
    rows = net.reshape(net.conv(x, 8, 8), 64, 8)
    net.output(net.op("Gemm", rows, net.normal(4, 8), net.normal(4), transB=1))
    return net


def _sum_of_transposed() -> SmallNetwork:
    """A sum of two maps that are transposed alike."""
    net, x = started()
    maps = [net.transpose(net.op("Sigmoid", net.conv(x, 8, 8)), 0, 2, 3, 1) for _ in range(2)]
    net.output(net.op("Add", *maps))
    return net


def _product_of_transposed() -> SmallNetwork:
    """A product with a matrix along the channels, between two Transpose."""
    net, x = started()
    product = net.op("MatMul", net.transpose(net.conv(x, 8, 8), 0, 2, 3, 1), net.normal(8, 8, scale=0.3))
    net.output(net.conv(net.transpose(product, 0, 3, 1, 2), 8, 8))
    return net


def _scaled_product() -> SmallNetwork:
    """Factors and a sum along the last axis, before a product with a matrix."""
    net, x = started()
    rows = net.transpose(net.reshape(net.op("Sigmoid", net.conv(x, 8, 8)), 1, 8, 64), 0, 2, 1)
    scaled = net.op("Add", net.op("Mul", rows, net.normal(8)), net.normal(8))
    net.output(net.linear(scaled, 8, 8))
    return net


def _layer_norm() -> SmallNetwork:
    """A LayerNorm of rows before a product with a matrix."""
    net, x = started()
    rows = net.transpose(net.reshape(net.conv(x, 8, 8), 1, 8, 64), 0, 2, 1)
    net.output(net.linear(net.layer_norm(rows, 8), 8, 8))
    return net


def _short_constant() -> SmallNetwork:
    """A factor of fewer dimensions."""
    net, x = started()
    net.output(net.conv(net.op("Mul", net.op("Sigmoid", net.conv(x, 8, 8)), net.normal(8, 8)), 8, 8))
    return net


def _lines(net: SmallNetwork, x: str) -> str:
    """The lines of a map, one high, without that axis."""
    line = net.op("MaxPool", net.op("Sigmoid", net.conv(x, 8, 8)), kernel_shape=[8, 1], strides=[8, 1])
    return net.reshape(line, 1, 8, 8)


def _joined_lines() -> SmallNetwork:
    """Lines, joined along their last axis."""
    net, x = started()
    net.output(net.op("Concat", _lines(net, x), _lines(net, x), axis=2))
    return net


def _split_lines() -> SmallNetwork:
    """Lines, split along their channels."""
    net, x = started()
    first, second = net.ops("Split", 2, _lines(net, x), axis=1, split=[4, 4])
    net.output(net.op("Exp", first), net.op("Exp", second))
    return net


def _line_transposed() -> SmallNetwork:
    """A Transpose of one axis of length 1, and a Reshape."""
    net, x = started()
    line = net.op("MaxPool", net.conv(x, 8, 8), kernel_shape=[8, 1], strides=[8, 1])
    net.output(net.conv(net.reshape(net.transpose(line, 0, 2, 1, 3), 1, 16, 2, 2), 16, 8))
    return net


def _reshaped_table() -> SmallNetwork:
    """A table of a map in another shape."""
    net, x = started()
    net.output(net.conv(net.op("Sigmoid", net.reshape(net.conv(x, 8, 8), 1, 16, 4, 8)), 16, 8))
    return net


def _same_movements() -> SmallNetwork:
    """Two equal Transpose of one map."""
    net, x = started()
    x = net.op("Sigmoid", net.conv(x, 8, 8))
    for _ in range(2):
        net.output(net.conv(net.transpose(x, 0, 1, 3, 2), 8, 8))
    return net


def _cancelled_around() -> SmallNetwork:
    """Transpose, a Reshape that moves axes of length 1, and the Transpose back."""
    net, x = started()
    line = net.op("MaxPool", net.op("Sigmoid", net.conv(x, 8, 8)), kernel_shape=[8, 1], strides=[8, 1])
    moved = net.reshape(net.transpose(line, 0, 2, 3, 1), 1, 8, 1, 8)
    net.output(net.conv(net.transpose(moved, 0, 3, 2, 1), 8, 8))
    return net


def _reshaped_between() -> SmallNetwork:
    """Transpose, a Reshape that drops axes of length 1, Transpose."""
    net, x = started()
    line = net.op("MaxPool", net.op("Sigmoid", net.conv(x, 8, 8)), kernel_shape=[8, 1], strides=[8, 1])
    rows = net.reshape(net.transpose(line, 0, 2, 3, 1), 8, 8)
    net.output(net.op("MatMul", net.transpose(rows, 1, 0), net.normal(8, 4)))
    return net


def _joined_elsewhere() -> SmallNetwork:
    """Rows, joined along one axis that a Reshape puts in another place."""
    net, x = started()
    rows = [net.reshape(net.op("Sigmoid", net.conv(net.op("GlobalMaxPool", x), 8, 8)), 1, 1, 8) for _ in range(2)]
    net.output(net.op("Exp", net.reshape(net.op("Concat", *rows, axis=0), 1, 2, 8)))
    return net


def _heads() -> SmallNetwork:
    """Rows with an axis for one head, transposed."""
    net, x = started()
    rows = net.reshape(net.op("Sigmoid", net.conv(x, 8, 8)), 8, 64, 8)
    heads = net.transpose(net.reshape(rows, 8, 64, 1, 8), 0, 2, 3, 1)
    net.output(net.op("Exp", heads))
    return net


def _affine_before() -> SmallNetwork:
    """A factor per channel before a convolution."""
    net = SmallNetwork("asked", (1, 8, 8, 8), 7)
    net.output(net.conv(net.op("Mul", "x", net.normal(1, 8, 1, 1)), 8, 8))
    return net


def _many_channels() -> SmallNetwork:
    """A 1x1 convolution of more channels than one runs on."""
    net = SmallNetwork("asked", (1, 1, 2, 2), 7)
    net.output(net.conv(net.op("Relu", net.conv("x", 1, 2052)), 2052, 1))
    return net


def _one_weight() -> SmallNetwork:
    """Two convolutions of one weight."""
    net, x = started()
    weight, bias = net.normal(8, 8, 1, 1, scale=0.3), net.normal(8)
    for _ in range(2):
        x = net.op("Relu", net.op("Conv", x, weight, bias, kernel_shape=[1, 1]))
    net.output(x)
    return net


def _constant_output() -> SmallNetwork:
    """An output that is constant, beside another."""
    net, x = started()
    net.output(net.conv(x, 8, 8), net.op("Identity", net.normal(1, 8)))
    return net


BUILDERS: Mapping[str, Callable[[], SmallNetwork]] = {
    "convert_opset9": _upsample,
    "lift_constants": _constant_node,
    "fold_constants": _constant_arithmetic,
    "remove_unused_nodes": _unused,
    "reshape_without_zeros": _zeros_in_shape,
    "remove_no_ops": _with("Identity"),
    "remove_cast_pairs": _cast_pair(TensorProto.FLOAT16),
    "remove_casts_to_double": _cast_pair(TensorProto.DOUBLE),
    "collapse_activations": _swish("Sigmoid"),
    "hard_sigmoid_to_hard_swish": _swish("HardSigmoid", alpha=1 / 6, beta=0.5),
    "collapse_softmax": _softmax_of_channels,
    "reshaping_to_reshape": _flattened,
    "collapse_shuffle": _shuffled,
    "merge_transposes": _transposed_twice,
    "fold_pad_into_conv": _padded,
    "fold_affine_into_previous": _normalised,
    "fold_affine_into_sum": _scaled,
    "fold_norm_through_concat": _normalised_joined,
    "sum_to_add": _sum_of_three,
    "sum_of_two": _sum_of_two,
    "div_to_reciprocal": _divided,
    "larger_factor_first": _gate_first,
    "where_to_products": _computed_where,
    "where_of_constant": _where,
    "collapse_rsqrt": _reciprocal_root,
    "decompose_normalization": _instance_norm,
    "decompose_norm": _divided_by_norm,
    "decompose_norm_1": _norm_of_channels("ReduceL1"),
    "decompose_norm_2": _norm_of_channels("ReduceL2"),
    "norm_on_bernoulli2": _norm_of_channels("ReduceL2"),
    "unroll_lstm": _recurrent("LSTM", 4),
    "unroll_gru": _recurrent("GRU", 3, linear_before_reset=1),
    "keep_reduced_axis": _maximum_of_rows,
    "gemm_of_map_to_conv": _dense_of_map,
    "gemm_to_conv": _dense_of_rows,
    "sink_transpose": _sum_of_transposed,
    "mat_mul_to_conv": _product_of_transposed,
    "fold_affine_into_product": _scaled_product,
    "fold_affine_behind_norm": _layer_norm,
    "expand_constants": _short_constant,
    "sink_reshape_behind_concat": _joined_lines,
    "sink_reshape_behind_split": _split_lines,
    "transpose_to_reshape": _line_transposed,
    "sink_reshape": _reshaped_table,
    "share_movements": _same_movements,
    "cancel_around_reshape": _cancelled_around,
    "reshape_before_transposes": _reshaped_between,
    "join_along_reshaped_axis": _joined_elsewhere,
    "absorb_reshape_into_transpose": _heads,
    "fold_affine_into_next": _affine_before,
    "split_wide_conv": _many_channels,
    "own_weights": _one_weight,
    "constant_outputs": _constant_output,
}
"""Called as the passes that they were written for."""
MARCHES: Mapping[str, str] = {"split_wide_conv": "bernoulli2", "norm_on_bernoulli2": "bernoulli2"}
"""Where it is not bayes-e."""
QUESTIONS: Mapping[str, RuleQuestion] = {
    name: RuleQuestion(build, MARCHES.get(name, "bayes-e")) for name, build in BUILDERS.items()
}

if __name__ == "__main__":
    record(QUESTIONS)
