"""What distinguishes one march from another in arithmetic, placement and graph layout.

Source: reference/arithmetic.md, reference/operators.md.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from engine.errors import ConfigError, hint
from engine.march.yaml_files import read_facts
from engine.terms import MEASURED_MARCHES, measured_march
from engine.terms import March as MarchName

MARCHES = tuple(item.value for item in MEASURED_MARCHES)
"""Names of the measured architectures; each has a file ``<name>.yaml`` beside this module."""


class Limits(BaseModel):
    """Largest sizes that run on the BPU (reference/operators.md, Limits); beyond them a node runs on the CPU.

    Attributes:
        conv_kernel: largest side of a convolution kernel; ``None`` where only the volume counts.
        conv_kernel_volume: largest kernel height x width x input channels.
        conv_dilation: largest dilation.
        conv_1x1_channels: largest number of input channels of a 1x1 convolution.
        deconv_kernel: largest side of a transposed convolution's kernel.
        deconv_stride: largest stride of a transposed convolution.
        deconv_padding: largest padding of a transposed convolution on one side.
        deconv_output_padding: largest output padding of a transposed convolution.
        pool_kernel: largest side of a max-pooling window.
        average_pool_kernel: largest side of an average-pooling window.
        nearest_scales: whole factors of nearest-neighbour resizing; 1 where one side may keep its size.
        linear_scale: largest factor of linear resizing, either way.
        reduce_length: largest number of values that a mean, sum or maximum over one axis takes.
        argmax_channels: largest number of channels of an ArgMax.
        depth_to_space_multiple: what the output channels of a DepthToSpace must be a multiple of.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    conv_kernel: int | None
    conv_kernel_volume: int
    conv_dilation: int
    conv_1x1_channels: int
    deconv_kernel: int
    deconv_stride: int
    deconv_padding: int
    deconv_output_padding: int
    pool_kernel: int
    average_pool_kernel: int
    nearest_scales: tuple[int, ...]
    linear_scale: int
    reduce_length: int
    argmax_channels: int
    depth_to_space_multiple: int


class GraphRules(BaseModel):
    """What the optimiser of the float graph does for one march (reference/operators.md,
    reference/arithmetic.md 2.6).

    Attributes:
        pooling_window: largest side of an averaging window that one depthwise convolution computes.
        global_pooling_as_conv: whether ``GlobalAveragePool`` (and a window that covers the map) becomes convolutions.
        argmax_keeps_axis: whether an ``ArgMax`` that drops the channels keeps them and reshapes, to run on the BPU.
        dense_transposes: whether the rows of a ``Gemm`` become the pixels of a line; else they become the batch.
        norms_decomposed: whether ``ReduceL1`` and ``ReduceL2`` over one axis become sums of magnitudes and of squares.
        conv_1x1_part: input channels that one 1x1 convolution takes; one with more, within the march's limits, is
            computed in parts. ``None``: every one is computed whole.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    pooling_window: int
    global_pooling_as_conv: bool
    argmax_keeps_axis: bool
    dense_transposes: bool
    norms_decomposed: bool
    conv_1x1_part: int | None


class March(BaseModel):
    """One BPU architecture.

    Attributes:
        name: ``bernoulli2``, ``bayes``, ``bayes-e``, or a march that has the rules of one of them.
        platform: the board it is on.
        int16: whether activations may be int16.
        bias_bits: width of a convolution's bias; a 16-bit bias has a left shift per channel.
        negative_e_shift: whether the fused sum may shift right.
        sums_as_convolutions: whether the sum of two maps is a depthwise convolution with a fused sum.
        subtracts_maps: whether two maps of one shape are subtracted.
        adds_one_channel: whether a computed map of one channel is added to several.
        broadcasts_both: whether both operands of a sum, difference or product may be broadcast.
        constant_operands: whether a constant that no convolution took may be such an operand.
        joins_constants: whether a constant may be joined to others.
        pads_all_axes: whether other axes than height and width are padded.
        negative_slopes: whether slopes of a PRelu may be negative.
        transposes_integers: whether integers are transposed; else the CPU does it.
        elementwise_shift: largest left shift of the first operand of a sum or difference: what a multiplier of 15 bits
            would need beyond it is lost (22 nodes in 2 networks on bayes and bayes-e, 8 in 3 on bernoulli2).
        requantize_as_conv: whether another scale of a map is a depthwise convolution; else an HzRequantize.
        rounding_bias_in_mul: whether products carry ``add_rounding_bias``.
        floor_in_sum: whether an HzSElementwiseAdd rounds down (all 9 in ``swin``, ``mobilevit`` and ``vit_sep`` on
            bernoulli2; none of the 553 of bayes and bayes-e).
        interpolate_twice: whether linear resizing rounds after each direction.
        resize_decimal_bits: fraction bits of resizing coordinates.
        layout_outside: whether layout transposes stand outside quantise and dequantise nodes, and image inputs are
            NHWC.
        leaky_relu_operator: whether LeakyRelu has an operator of its own; else it is a look-up table.
        limits: sizes.
        graph: rewrites of the float graph.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    platform: str
    int16: bool
    bias_bits: int
    negative_e_shift: bool
    sums_as_convolutions: bool
    subtracts_maps: bool
    adds_one_channel: bool
    broadcasts_both: bool
    constant_operands: bool
    joins_constants: bool
    pads_all_axes: bool
    negative_slopes: bool
    transposes_integers: bool
    elementwise_shift: int
    requantize_as_conv: bool
    rounding_bias_in_mul: bool
    floor_in_sum: bool
    interpolate_twice: bool
    resize_decimal_bits: int
    layout_outside: bool
    leaky_relu_operator: bool
    limits: Limits
    graph: GraphRules


@cache
def load_march(name: str) -> March:
    """The march called ``name``; one that nothing was measured on has the rules of the march that stands in.

    Raises:
        ConfigError: there is none.
    """
    known = [item.value for item in MarchName]
    if name not in known:
        raise ConfigError(f"User input march invalid: {name!r} . It should in list {known}{hint(name, known)}")
    found = March.model_validate(read_facts(Path(__file__).with_name(f"{measured_march(name)}.yaml")))
    return found if found.name == name else found.model_copy(update={"name": name, "platform": "RDK S100"})
