"""Thresholds per channel: which tensors take them, and how channels are equalised (docs/evidence/agreement.md)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.chips import Chip, ChipFamily, load_chip
from engine.graph import sole_reader
from engine.ir import (
    MARK_MARCH,
    attribute,
    before_calibration,
    calibration_of,
    constant_of,
    is_calibration,
    shape_of,
)
from engine.ops.add import runs_as_convolution
from engine.ops.core.float_nodes import given, is_constant
from engine.ops.foreign.composite import PREPROCESS
from engine.ops.registry import rule_for

ACTIVATIONS = ("Relu", "PRelu")
"""What may stand between a convolution and a tensor with a threshold per channel (2 of 2; not behind 7 others)."""

LEAST_WEIGHT = np.float32(0.2)
"""Where no convolution that reads a tensor has a weight of this magnitude, the tensor keeps one threshold.

Asked with 110 tensors: 0.199 keeps one, 0.201 does not. EfficientNet-Lite0 has six such tensors.
"""

LEAST_MAXIMUM = np.float32(16)
"""Tensors without a value of this magnitude keep one threshold (110 tensors: 15.9 keeps one, 16.0 does not)."""

LEAST_PIXELS = 10
"""Smaller maps keep one threshold (102 sizes asked, of 3 and 12 channels: 1 x 10 and 2 x 5 do not, 3 x 3 does)."""

LEAST_HEADROOM = np.float32(3)
"""Channels are multiplied for the sake of weights only where this leaves room (110 tensors: 2.999 is too little)."""

LARGEST_FACTOR_OF_SUM = np.float32(16)
"""What a channel is multiplied by at most for the sake of a convolution that adds the tensor to its result.

So it is in 14 asked conversions on two marches, and in 179 channels of 23 tensors of others.
"""

_FLOOR = np.float32(0.001)
"""Share of the largest channel's maximum that is added to every channel's: it keeps empty channels finite."""
_ALIKE = np.float32(1) - _FLOOR
"""Weights of this share of the largest count as the largest (17 tensors: 0.99900 does, 0.9989 does not)."""
_LARGEST = np.finfo(np.float32).max / np.float32(2)
"""More than this counts as this, infinity among others, so that the sum is finite."""


@dataclass(frozen=True, eq=False)
class ChannelReaders:
    """What reads a tensor, as far as it decides by what channels are multiplied.

    Attributes:
        convolutions: of each that convolves the tensor, the largest magnitude among the weights of every channel
            (float32, shape (channels,)) and the number of groups.
        is_added: whether a convolution adds the tensor to its result.
    """

    convolutions: tuple[tuple[NDArray[np.float32], int], ...] = ()
    is_added: bool = False

    def factors(self, channel_max: NDArray[np.float32]) -> NDArray[np.float32]:
        """What every channel is multiplied by: the largest factor that one of the readers asks for.

        A convolution asks for what brings its largest weights down, which are divided by the same factor; one that
        only adds the tensor asks for channels of equal maxima. To the last bit those of 282 tensors that were asked on
        three marches (docs/evidence/agreement.md).

        Args:
            channel_max: largest magnitude of every channel, float32, shape (channels,).

        Returns:
            float32, same shape, at least 1; 1 everywhere where all values are zero, or as good as.
        """
        maxima = np.minimum(channel_max, _LARGEST)
        floor = _FLOOR * maxima.max(initial=np.float32(0))
        if floor == 0:
            return np.ones_like(maxima)
        ranges = maxima + floor
        ranges = ranges / ranges.max()
        found = [_factors_of_weights(ranges, weights, groups) for weights, groups in self.convolutions]
        if self.is_added:
            found.append(np.minimum(np.float32(1) / ranges, LARGEST_FACTOR_OF_SUM))
        return np.asarray(np.max(found, axis=0), np.float32)


def _factors_of_weights(ranges: NDArray[np.float32], weights: NDArray[np.float32], groups: int) -> NDArray[np.float32]:
    """The factors by which a convolution's largest weights shrink, channel after channel.

    Every group is first multiplied by the room that its largest channel leaves: its output channels read no other. Then
    the channels with the largest weights are multiplied until the next largest weights are as large, and so on, as far
    as each of them has room for :data:`LEAST_HEADROOM`.

    Args:
        ranges: of the channels, the largest being 1; float32, shape (channels,).
        weights: the largest magnitude among the weights of every channel, same shape. Those of zeros alone count as
            equal: nothing is measured of them, and no factor changes them.
        groups: of the convolution; the first of two has the first half of the channels.
    """
    floor = _FLOOR * weights.max()
    weights = (weights + floor) / (weights.max() + floor) if floor > 0 else np.ones_like(weights)
    factors = np.empty_like(ranges)
    for part in np.split(np.arange(len(ranges)), groups):
        own = np.full(len(part), np.float32(1) / ranges[part].max(), np.float32)
        while True:
            left = weights[part] / own
            top = left >= _ALIKE * left.max()
            room = (np.float32(1) / (ranges[part] * own))[top].min()
            if room < LEAST_HEADROOM or top.all():
                break
            own[top] *= min(left.max() / left[~top].max(), room)
        factors[part] = own
    return factors


def tensors_per_channel(model: ir.Model, tensors: Collection[str]) -> dict[str, ChannelReaders]:
    """The members of ``tensors`` that take a threshold per channel if they are large enough (:data:`LEAST_MAXIMUM`).

    They are inputs of the network, preprocessed images and results of convolutions, with the sum and the activation
    that the BPU computes together with them, that nothing reads but convolutions and sums that one computes; one of
    these convolutions has a large weight (:data:`LEAST_WEIGHT`). Asked with 40 producers and 30 readers, alone and
    together, on three marches. The original counts a Mul, Add, Sub or AveragePool that runs on the CPU as a convolution
    too (12 of 12), which nothing knows before placement.

    Args:
        model: optimised or placed model; what may run on the BPU counts as running there.
        tensors: names to choose from.

    Returns:
        What decides their channels' factors, by name.
    """
    march = model.metadata_props.get(MARK_MARCH)
    chip = load_chip(march) if march is not None else None
    found = {
        str(value.name): _readers_of_channels(value, chip)
        for value in (*model.graph.inputs, *(value for node in model.graph for value in node.outputs))
        if value.name in tensors and chip is not None and _is_map(value) and _is_convolved(value, chip)
    }
    return {name: readers for name, readers in found.items() if readers is not None}


def is_large(channel_max: NDArray[np.float32]) -> bool:
    """Whether a tensor whose channels have these largest magnitudes reaches :data:`LEAST_MAXIMUM`."""
    return bool(channel_max.max(initial=np.float32(0)) >= LEAST_MAXIMUM)


def tensors_of_wide_sums(placed: ir.Model) -> frozenset[str]:
    """Names of the float tensors that keep one threshold because a sum reads or gives them that reads int16.

    No convolution computes such a sum (20 of 20 tensors asked in four networks on two marches; without int16 all 12
    have several).

    Args:
        placed: model with ``HzCalibration`` nodes.
    """
    found: set[str] = set()
    for node in placed.graph:
        types = [calibration.qtype for value in node.inputs if (calibration := calibration_of(value))]
        if node.op_type != "Add" or len(types) < 2 or "int16" not in types:
            continue
        after = sole_reader(node.outputs[0])
        behind = after.outputs if after is not None and after.op_type in ACTIVATIONS else ()
        values = [*node.inputs, *node.outputs, *behind]
        found |= {str(before_calibration(value).name) for value in values if value is not None}
    return frozenset(found)


def _is_map(value: ir.Value) -> bool:
    shape = shape_of(value)
    return len(shape) == 4 and shape[2] * shape[3] >= LEAST_PIXELS


def _is_convolved(value: ir.Value, chip: Chip) -> bool:
    """Whether one convolution of the BPU computes ``value``, with a sum and an activation if there are any.

    So the preprocessing of an image counts, and an input of the network that is none (14 of 14 asked on two marches). A
    product of matrices on bernoulli2, whose CPU computes it, counts as a convolution too (5 of 5 asked; none of 5 on
    bayes and bayes-e each, nor what a Transpose makes of it on any, nor one by a constant that became a convolution).
    """
    node = _producer(value)
    if node is None or node.op_type == PREPROCESS:
        return True
    if node is not None and node.op_type in ACTIVATIONS:
        before = before_calibration(given(node, 0))
        node = _producer(before) if sole_reader(before) is node else None
    return node is not None and (
        node.op_type == "Conv" or _is_product_on_cpu(node, chip) or _is_convolved_sum(node, chip)
    )


def _is_product_on_cpu(node: ir.Node, chip: Chip) -> bool:
    """Whether ``node`` is a product of matrices that no convolution took the place of, and ``chip`` has none."""
    return node.op_type == "MatMul" and chip.family is ChipFamily.BERNOULLI


def _is_convolved_sum(node: ir.Node, chip: Chip) -> bool:
    """Whether a convolution computes the sum ``node``, of its own result or of two maps; no transposed one does."""
    taking = _taking_convolution(node, chip) if node.op_type == "Add" else None
    if taking is not None:
        return taking.op_type == "Conv"
    return node.op_type == "Add" and runs_as_convolution(node, chip)


def _taking_convolution(sum_: ir.Node, chip: Chip) -> ir.Node | None:
    """The convolution, transposed or not, that computes ``sum_`` together with its own result."""
    for operand in sum_.inputs:
        node = None if operand is None else operand.producer()
        rule = None if node is None or node.op_type not in ("Conv", "ConvTranspose") else rule_for(node)
        if node is None or rule is None or sole_reader(node.outputs[0]) is not sum_:
            continue
        if rule.absorbs([node], sum_, chip) and not rule.declines([node], sum_, chip):
            return node
    return None


def _readers_of_channels(value: ir.Value, chip: Chip) -> ChannelReaders | None:
    """None where something else reads ``value``, or no weight is large."""
    if value.is_graph_output():
        return None
    convolutions: list[tuple[NDArray[np.float32], int]] = []
    is_added = False
    for node in _readers(value):
        weight = _weight(node, value) if node.op_type == "Conv" else None
        if weight is not None:
            groups = attribute(node, "group", 1)
            convolutions.append((_largest_weights(weight, groups), groups))
        elif not _is_convolved_sum(node, chip):
            return None
        elif _taking_convolution(node, chip) is None and before_calibration(_convolved_operand(node)) is value:
            convolutions.append((np.ones(shape_of(value)[1], np.float32), shape_of(value)[1]))
        else:
            is_added = True
    if convolutions and max(weights.max() for weights, _ in convolutions) < LEAST_WEIGHT:
        return None
    return ChannelReaders(tuple(convolutions), is_added) if convolutions or is_added else None


def _convolved_operand(sum_: ir.Node) -> ir.Value:
    """The operand that a sum reads through a convolution of its own (:mod:`engine.place.sums`)."""
    first, second = given(sum_, 0), given(sum_, 1)
    return second if is_constant(first) else first


def _producer(value: ir.Value) -> ir.Node | None:
    return before_calibration(value).producer()


def _readers(value: ir.Value) -> list[ir.Node]:
    """The nodes that read ``value``, looking through ``HzCalibration``."""
    found = []
    for user in value.consumers():
        found += (
            _readers(user.outputs[0])
            if is_calibration(user) and before_calibration(user.outputs[0]) is value
            else [user]
        )
    return found


def _weight(convolution: ir.Node, value: ir.Value) -> NDArray[np.float32] | None:
    """The constant that ``value`` is convolved with; None where it is not convolved, or with what is computed."""
    if before_calibration(given(convolution, 0)) is not value:
        return None
    return constant_of(before_calibration(given(convolution, 1)))


def _largest_weights(weight: NDArray[np.float32], groups: int) -> NDArray[np.float32]:
    """The largest magnitude among the weights of every input channel, float32, shape (channels,); finite."""
    magnitudes = np.nan_to_num(np.abs(weight), nan=0.0, posinf=float(_LARGEST))
    of_groups = magnitudes.reshape(groups, -1, weight.shape[1], *weight.shape[2:])
    return np.asarray(of_groups.max(axis=(1, *range(3, of_groups.ndim))).reshape(-1), np.float32)
