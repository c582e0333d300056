"""What no recorded conversion and no published log tells, and a network for each that would.

A question names what is not known and what ptqlab does meanwhile. Its network has few nodes, so that the answer can be
read from the original's files; where the answer depends on data or on a limit, it has many of the same kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np

from engine.chips import DEFAULT_MARCH, HB_MAPPER_MARCHES, March, load_chip
from engine.conformance.questions.network import SmallNetwork

Parameters = Mapping[str, Any]
_MAX: Parameters = MappingProxyType({"calibration_type": "max"})
_KL: Parameters = MappingProxyType({"calibration_type": "kl"})
_ALL = HB_MAPPER_MARCHES
_WITH_INT16 = tuple(march for march in _ALL if load_chip(march).int16)


@dataclass(frozen=True)
class Question:
    """One thing to be learned from the original.

    Attributes:
        name: of the network and its folder.
        asks: what is not known.
        meanwhile: what ptqlab does.
        build: the network.
        calibrations: ``calibration_parameters``, by what is appended to the name of the configuration.
        marches: BPU architectures it is asked on.
        compiler: ``compiler_parameters`` other than the usual ones.
    """

    name: str
    asks: str
    meanwhile: str
    build: Callable[[], SmallNetwork]
    calibrations: Mapping[str, Parameters] = field(default_factory=lambda: {"max": _MAX})
    marches: tuple[March, ...] = _ALL
    compiler: Mapping[str, Any] = field(default_factory=dict)


def _shuffled_channels() -> SmallNetwork:
    net = SmallNetwork("channel_shuffle", (1, 8, 16, 16), 1)
    x = net.op("Relu", net.conv("x", 8, 16))
    for _ in range(3):
        kept, taken = net.ops("Split", 2, x, axis=1, split=[8, 8])
        taken = net.op("Relu", net.conv(taken, 8, 8))
        taken = net.conv(taken, 8, 8, 3, group=8)
        taken = net.op("Relu", net.conv(taken, 8, 8))
        joined = net.op("Concat", kept, taken, axis=1)
        groups = net.transpose(net.reshape(joined, 1, 2, 8, 16, 16), 0, 2, 1, 3, 4)
        x = net.reshape(groups, 1, 16, 16, 16)
    net.output(net.conv(x, 16, 4))
    return net


def _dilated_lines() -> SmallNetwork:
    net = SmallNetwork("lines", (1, 8, 64), 2)
    x = net.op("Relu", net.conv("x", 8, 16, 3, rank=3))
    for dilation in (1, 2, 4):
        wide = net.conv(x, 16, 16, 3, rank=3, dilations=[dilation], pads=[2 * dilation, 2 * dilation])
        cut = net.op("Slice", wide, net.ints(0), net.ints(64), net.ints(2))
        inner = net.op("Relu", net.conv(net.op("Relu", cut), 16, 16, 1, rank=3))
        x = net.op("Relu", net.op("Add", inner, x))
    pooled = net.op("MaxPool", x, kernel_shape=[2], strides=[2])
    mean = net.op("ReduceMean", net.conv(pooled, 16, 16, 1, rank=3), axes=[2], keepdims=0)
    net.output(net.op("Gemm", mean, net.normal(5, 16), net.normal(5), transB=1))
    return net


def _decoded_boxes() -> SmallNetwork:
    net = SmallNetwork("decoded_boxes", (1, 8, 8, 8), 3)
    heads = []
    for size, stride in ((8, 8.0), (4, 16.0)):
        x = net.conv("x", 8, 8, 3, strides=[8 // size] * 2)
        head = net.conv(net.op("Relu", x), 8, 3 * 7)
        cells = net.transpose(net.reshape(head, 1, 3, 7, size, size), 0, 1, 3, 4, 2)
        centre, extent, rest = net.ops("Split", 3, net.op("Sigmoid", cells), axis=4, split=[2, 2, 3])
        doubled = net.op("Add", net.op("Mul", centre, net.constant(2.0)), net.normal(1, 3, size, size, 2))
        extent = net.op("Pow", net.op("Mul", extent, net.constant(2.0)), net.constant(2.0))
        boxes = net.op("Mul", doubled, net.constant(stride)), net.op("Mul", extent, net.normal(1, 3, size, size, 2))
        heads.append(net.reshape(net.op("Concat", *boxes, rest, axis=4), 1, 3 * size * size, 7))
    net.output(net.op("Concat", *heads, axis=1))
    return net


def _pooled_context() -> SmallNetwork:
    net = SmallNetwork("pooled_context", (1, 8, 16, 16), 4)
    x = net.op("Relu", net.conv("x", 8, 16, 3))
    branches = [net.op("Relu", net.conv(x, 16, 8))]
    branches += [net.op("Relu", net.conv(x, 16, 8, 3, dilations=[rate, rate])) for rate in (2, 4, 6)]
    single = net.op("Relu", net.conv(net.op("GlobalAveragePool", x), 16, 8))
    branches.append(net.enlarge(single, 1, 8, 16, 16, mode="linear"))
    x = net.op("Relu", net.conv(net.op("Concat", *branches, axis=1), 40, 16))
    net.output(net.enlarge(net.conv(x, 16, 4), 1, 4, 64, 64, mode="linear"))
    return net


def _reduced_attention() -> SmallNetwork:
    net = SmallNetwork("reduced_attention", (1, 8, 8, 8), 5)
    tokens = net.transpose(net.reshape(net.conv("x", 8, 16), 1, 16, 64), 0, 2, 1)
    normed = net.layer_norm(tokens, 16)
    queries = net.transpose(net.reshape(net.linear(normed, 16, 16), 1, 64, 2, 8), 0, 2, 1, 3)
    image = net.reshape(net.transpose(normed, 0, 2, 1), 1, 16, 8, 8)
    small = net.conv(image, 16, 16, 4, strides=[4, 4], pads=[0, 0, 0, 0])
    few = net.layer_norm(net.transpose(net.reshape(small, 1, 16, 4), 0, 2, 1), 16)
    both = net.transpose(net.reshape(net.linear(few, 16, 32), 1, 4, 2, 2, 8), 2, 0, 3, 1, 4)
    keys, values = (net.op("Gather", both, net.constant(index, np.int64), axis=0) for index in (0, 1))
    scores = net.op("Mul", net.op("MatMul", queries, net.transpose(keys, 0, 1, 3, 2)), net.constant(8**-0.5))
    mixed = net.op("MatMul", net.op("Softmax", scores, axis=3), values)
    tokens = net.op("Add", tokens, net.linear(net.reshape(net.transpose(mixed, 0, 2, 1, 3), 1, 64, 16), 16, 16))
    image = net.reshape(net.transpose(tokens, 0, 2, 1), 1, 16, 8, 8)
    net.output(net.conv(image, 16, 4))
    return net


def _depth_to_space() -> SmallNetwork:
    net = SmallNetwork("enlarged_by_channels", (1, 4, 16, 16), 6)
    x = net.op("Tanh", net.conv("x", 4, 16, 5))
    x = net.op("DepthToSpace", net.conv(x, 16, 16, 3), blocksize=2, mode="CRD")
    x = net.op("Tanh", net.conv(x, 4, 16, 3))
    net.output(net.op("DepthToSpace", net.conv(x, 16, 16, 3), blocksize=2, mode="CRD"))
    return net


def _mixed_tokens() -> SmallNetwork:
    net = SmallNetwork("mixed_tokens", (1, 8, 8, 8), 7)
    x = net.transpose(net.reshape(net.conv("x", 8, 16), 1, 16, 64), 0, 2, 1)
    across = net.transpose(net.layer_norm(x, 16), 0, 2, 1)
    across = net.linear(net.gelu(net.linear(across, 64, 32)), 32, 64)
    x = net.op("Add", x, net.transpose(across, 0, 2, 1))
    x = net.op("Add", x, net.linear(net.gelu(net.linear(net.layer_norm(x, 16), 16, 32)), 32, 16))
    mean = net.op("ReduceMean", net.layer_norm(x, 16), axes=[1], keepdims=0)
    net.output(net.op("Gemm", mean, net.normal(5, 16), net.normal(5), transB=1))
    return net


def _channels_last() -> SmallNetwork:
    net = SmallNetwork("channels_last", (1, 8, 8, 8), 8)
    x = net.conv("x", 8, 16)
    for _ in range(2):
        inner = net.transpose(net.conv(x, 16, 16, 7, group=16), 0, 2, 3, 1)
        inner = net.linear(net.gelu(net.linear(net.layer_norm(inner, 16), 16, 64)), 64, 16)
        inner = net.op("Mul", inner, net.normal(16, scale=0.5))
        x = net.op("Add", net.transpose(inner, 0, 3, 1, 2), x)
    net.output(net.conv(x, 16, 4))
    return net


def _classes_of_pixels() -> SmallNetwork:
    net = SmallNetwork("classes_of_pixels", (1, 8, 8, 8), 9)
    x = net.op("Relu", net.conv("x", 8, 16, 3))
    weights = net.normal(16, 8, 4, 4, scale=0.1)
    upper = net.op("Relu", net.conv(net.enlarge("x", 1, 8, 16, 16), 8, 8, 3))
    x = net.op("ConvTranspose", x, weights, net.normal(8), kernel_shape=[4, 4], strides=[2, 2], pads=[1, 1, 1, 1])
    x = net.op("Relu", net.conv(net.op("Concat", net.op("Relu", x), upper, axis=1), 16, 8, 3))
    net.output(net.op("Softmax", net.transpose(net.conv(x, 8, 5), 0, 2, 3, 1), axis=3))
    return net


_REACHES = (6.0, 12.0, 15.5, 16.5, 20.0, 40.0)
_LARGEST_WEIGHTS = (0.1, 0.19, 0.21, 0.4, 1.0)


def _ranges_of_channels() -> SmallNetwork:
    """Every pair of a range of activations and a largest weight of what reads them."""
    net = SmallNetwork("ranges_of_channels", (1, 8, 16, 16), 10)
    samples, rng = net.samples(), np.random.default_rng(10)
    results = []
    for reach, largest in product(_REACHES, _LARGEST_WEIGHTS):
        weights = rng.normal(size=(8, 8)) * np.geomspace(1, 0.05, 8)[:, None]
        weights *= reach / np.maximum(np.einsum("oc,nchw->nohw", weights, samples[:, 0]), 0).max()
        wide = net.op("Conv", "x", net.constant(weights[:, :, None, None]), kernel_shape=[1, 1])
        results.append(net.conv(net.op("Relu", wide), 8, 2, 3, largest=largest))
    net.output(*results)
    return net


def _stack(name: str, seed: int, depth: int, width: int, size: int) -> SmallNetwork:
    net = SmallNetwork(name, (1, 4, size, size), seed)
    x = net.op("Relu", net.conv("x", 4, width, 3))
    for _ in range(depth):
        x = net.op("Relu", net.conv(x, width, width, 3))
    net.output(net.conv(x, width, 4))
    return net


def _masked_scores() -> SmallNetwork:
    net = SmallNetwork("masked_scores", (1, 8, 8, 8), 12)
    results = []
    for bias, mask in product((False, True), repeat=2):
        parts = [net.reshape(net.conv("x", 8, 16), 4, 2, 8, 16) for _ in range(2)]
        scores = net.op("MatMul", parts[0], net.transpose(parts[1], 0, 1, 3, 2))
        scores = net.op("Mul", scores, net.constant(0.25))
        if bias:
            scores = net.op("Add", scores, net.normal(1, 2, 8, 8, scale=2.0))
        if mask:
            shut = np.where(np.random.default_rng(12).random((4, 1, 8, 8)) < 0.5, -100.0, 0.0)
            scores = net.op("Add", scores, net.constant(shut))
        mixed = net.op("MatMul", net.op("Softmax", scores, axis=3), parts[1])
        results.append(net.conv(net.reshape(mixed, 1, 16, 8, 8), 16, 2))
    net.output(*results)
    return net


def _joined_norms() -> SmallNetwork:
    net = SmallNetwork("joined_norms", (1, 8, 8, 8), 13)
    x = net.op("Relu", net.conv("x", 8, 8, 3))
    pairs = [
        (net.conv(x, 8, 8), net.conv(x, 8, 8, 3)),
        (net.conv(x, 8, 8), x),
        (net.conv(x, 8, 8), net.op("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])),
        (net.conv(x, 8, 8), net.op("Relu", net.conv(x, 8, 8))),
        (net.conv(x, 8, 8), net.conv(x, 8, 8, 3, group=8)),
    ]
    results = []
    for pair in pairs:
        joined = net.op("Concat", *pair, axis=1)
        positive = [net.constant(np.random.default_rng(13).uniform(0.5, 1.5, 16)) for _ in range(2)]
        normed = net.op("BatchNormalization", joined, positive[0], net.normal(16), net.normal(16), positive[1])
        results.append(net.conv(net.op("Relu", normed), 16, 2))
    net.output(*results)
    return net


def _dropped_axes() -> SmallNetwork:
    """Reshapes that drop an axis of length 1 in front of what divides, joins and reduces."""
    net = SmallNetwork("dropped_axes", (1, 8, 4, 16), 14)
    results = []
    for axis in (1, 2):
        maps = [net.op("Sigmoid", net.conv("x", 8, 1)) for _ in range(3)]
        rows = [net.reshape(each, 1, 4, 16) for each in maps]
        joined = net.op("Add", net.op("Concat", *rows[:2], axis=axis), net.constant(1.5))
        length = (8, 32)[axis - 1]
        first, second = net.ops("Split", 2, joined, axis=axis, split=[length // 2] * 2)
        total = net.op("Add", first, second)
        low = net.op("Slice", rows[2], net.ints(0), net.ints(2), net.ints(axis))
        results += [net.op("Mul", total, rows[2]), net.op("Add", low, low)]
        results.append(net.op("ReduceMax", net.op("Add", rows[2], total), axes=[axis], keepdims=1))
    net.output(*results)
    return net


def _picked_channels() -> SmallNetwork:
    net = SmallNetwork("picked_channels", (1, 8, 8, 8), 15)
    head = net.conv("x", 8, 12)
    points = net.reshape(head, 1, 12, 64)
    across = [net.op("Slice", points, net.ints(first), net.ints(12), net.ints(1), net.ints(3)) for first in range(3)]
    visible = net.op("Sigmoid", across[2])
    placed = [net.op("Add", net.op("Mul", each, net.constant(2.0)), net.normal(1, 1, 64)) for each in across[:2]]
    columns = [net.reshape(each, 1, 4, 1, 64) for each in (*placed, visible)]
    net.output(net.reshape(net.op("Concat", *columns, axis=2), 1, 12, 64))
    return net


def _sliced_input() -> SmallNetwork:
    net = SmallNetwork("sliced_input", (1, 4, 16, 16), 16)
    parts = []
    for column, row in product((0, 1), repeat=2):
        rows = net.op("Slice", "x", net.ints(row), net.ints(16), net.ints(2), net.ints(2))
        parts.append(net.op("Slice", rows, net.ints(column), net.ints(16), net.ints(3), net.ints(2)))
    x = net.op("LeakyRelu", net.conv(net.op("Concat", *parts, axis=1), 16, 16, 3), alpha=0.1)
    net.output(net.conv(x, 16, 4))
    return net


def _divided_tails() -> SmallNetwork:
    """Results that float consumers read in part, and the BPU in another."""
    net = SmallNetwork("divided_tails", (1, 8, 8, 8), 17)
    x = net.op("Sigmoid", net.conv("x", 8, 8))
    first, second = net.ops("Split", 2, x, axis=1, split=[4, 4])
    y = net.op("Tanh", net.conv("x", 8, 8))
    third, fourth = net.ops("Split", 2, y, axis=1, split=[4, 4])
    z = net.op("Sigmoid", net.conv("x", 8, 8))
    joined = net.op("Concat", net.op("Mul", third, net.normal(1, 4, 8, 8)), fourth, axis=1)
    net.output(net.op("Mul", first, net.constant(3.0)), second, joined, z, net.op("Mul", z, z))
    return net


def _normed_groups() -> SmallNetwork:
    net = SmallNetwork("normed_groups", (1, 8, 16, 16), 18)
    x = net.conv("x", 8, 16)
    for groups, size in ((4, 16), (8, 8), (2, 4)):
        flat = net.reshape(x, 1, groups, -1)
        scale, shift = net.constant(np.ones(groups)), net.constant(np.zeros(groups))
        normed = net.reshape(net.op("InstanceNormalization", flat, scale, shift), 1, 16, size, size)
        normed = net.op("Add", net.op("Mul", normed, net.normal(16, 1, 1)), net.normal(16, 1, 1))
        x = net.conv(net.op("Relu", normed), 16, 16, 3, strides=[2, 2])
    net.output(net.conv(x, 16, 4))
    return net


QUESTIONS = (
    Question(
        "channel_shuffle",
        "Whose threshold do the halves of a Split take that stands behind a shuffle of channels, and is the "
        "shuffle still one operator there?",
        "HzChannelShuffle; all follow the Concat in front of the shuffle, and the half that the next Concat reads "
        "is requantised.",
        _shuffled_channels,
        {"max": _MAX, "kl": _KL, "channels": {"calibration_type": "max", "per_channel": True}},
    ),
    Question(
        "lines",
        "How are convolutions and pools over one axis written, where do they run, and what are their tensors called?",
        "Convolutions run on the CPU; sums, and a pool between them, run on the BPU.",
        _dilated_lines,
    ),
    Question(
        "decoded_boxes",
        "On which device and in which type are products and sums of five dimensions, where a part of the same "
        "Split goes to an output?",
        "int16 spreads through the Split to all its parts; products and sums run on the BPU of bayes and bayes-e.",
        _decoded_boxes,
    ),
    Question(
        "pooled_context",
        "Which thresholds do a single pixel that is enlarged, and what a Concat joins with it, take?",
        "The enlarged pixel follows the Concat, and the pixel follows it.",
        _pooled_context,
        {"max": _MAX, "kl": _KL},
    ),
    Question(
        "reduced_attention",
        "Which Reshapes and Transposes between tokens and maps stay where they are, and what does LayerNorm "
        "behind them become?",
        "Those that cancel are removed; scale and shift go into a product or convolution that alone reads them.",
        _reduced_attention,
    ),
    Question(
        "enlarged_by_channels",
        "Is a DepthToSpace that is the output quantised, and in which type is what a Tanh gives to a convolution "
        "in front of it?",
        "It runs on the CPU behind an int32 convolution.",
        _depth_to_space,
        {"max": _MAX, "default": {"calibration_type": "default"}},
    ),
    Question(
        "mixed_tokens",
        "In which order are layers over tokens and over channels moved around their Transposes?",
        "Sums and tables run on the tensor in front of a Transpose; products with a matrix stay behind it.",
        _mixed_tokens,
    ),
    Question(
        "channels_last",
        "What becomes of normalisation and dense layers on maps with their channels last, and of a scale per "
        "channel behind them?",
        "Convolutions; the scale goes into the second one.",
        _channels_last,
    ),
    Question(
        "classes_of_pixels",
        "Which threshold does what a ConvTranspose gives to a Concat take, in kl and mix?",
        "That of the Concat.",
        _classes_of_pixels,
        {"kl": _KL, "mix": {"calibration_type": "mix"}},
    ),
    Question(
        "ranges_of_channels",
        "From which activations and weights on does per_channel give a tensor a threshold per channel?",
        "From 16 and 0.2 on, two constants that fit 58 tensors (engine/calibrate/methods/channels.py).",
        _ranges_of_channels,
        {"channels": {"calibration_type": "max", "per_channel": True}, "max": _MAX},
    ),
    Question(
        "ties_of_kl",
        "How are divergences summed: which cut wins where two differ by less than a millionth?",
        "Divergences are float32 with six decimals (engine/calibrate/statistics/divergence.py).",
        lambda: _stack("ties_of_kl", 11, 40, 8, 32),
        {"kl": _KL, "mix": {"calibration_type": "mix"}},
        (DEFAULT_MARCH,),
    ),
    Question(
        "masked_scores",
        "How much more than its largest magnitude does an int16 tensor take that a Softmax on the CPU reads?",
        "1.2 times; one sum with a mask takes 1.1 times in the original (swin).",
        _masked_scores,
        marches=_WITH_INT16,
    ),
    Question(
        "joined_norms",
        "Behind which joined tensors is a BatchNormalization folded into the convolutions in front of a Concat?",
        "Where convolutions alone, read by nothing else, are joined (one published network).",
        _joined_norms,
    ),
    Question(
        "dropped_axes",
        "Which of Concat, Split, Slice, ReduceMax and sums does a Reshape pass that only drops an axis of length 1?",
        "Split, Slice and sums, and a Concat along the last axis (one published network each).",
        _dropped_axes,
    ),
    Question(
        "picked_channels",
        "Where do slices with steps, and the Concat and Reshapes behind them, run?",
        "On the BPU; a user's log counts them on the CPU.",
        _picked_channels,
    ),
    Question(
        "sliced_input",
        "Where do slices of the network's input run, without preprocessing?",
        "On the BPU; a log of an older version has them on the CPU of bernoulli2.",
        _sliced_input,
    ),
    Question(
        "divided_tails",
        "Is a result int16 where one part of it is an output and the BPU computes with another?",
        "Not where a part is an output by itself; it is where a Concat that is an output joins the part.",
        _divided_tails,
        marches=_WITH_INT16,
    ),
    Question(
        "normed_groups",
        "What does a normalisation of groups cost where nothing is kept on the chip?",
        "Less than half of what the original says (fpn_retina_gn_c).",
        _normed_groups,
        compiler={"optimize_level": "O0"},
    ),
    Question(
        "corrected_biases",
        "In which order are biases corrected, and what does a convolution see of the corrections before it?",
        "The order of the graph; the original's follows the timing of processes in one of two networks (senet_fc_c).",
        lambda: _stack("corrected_biases", 19, 4, 8, 16),
        {"corrected": {"calibration_type": "max", "optimization": "bias_correction"}},
        (DEFAULT_MARCH,),
    ),
)
"""In the order in which they are written."""
