"""One BPU: whose command converts for it, what was measured on it, its arithmetic, limits and rewrites of the graph.

Source: reference/arithmetic.md, reference/operators.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar


class ToolchainName(StrEnum):
    """Command of the original that converts for a chip: the dialect that it reads and the files that it writes."""

    HB_MAPPER = "hb_mapper"
    HB_COMPILE = "hb_compile"


class ChipFamily(StrEnum):
    """Chips for which the rules of the original (:mod:`engine.rulebook`) are the same."""

    BERNOULLI = "bernoulli"
    BAYES = "bayes"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Largest sizes that run on the BPU (reference/operators.md, Limits); beyond them a node runs on the CPU.

    Attributes:
        conv_kernel: largest side of a convolution kernel; ``None`` where only the volume counts.
        conv_kernel_volume: largest kernel height x width x input channels.
        conv_dilation: largest dilation.
        conv_1x1_channels: largest number of input channels of a 1x1 convolution.
        deconv_kernel: largest side of a transposed convolution's kernel.
        deconv_stride: largest stride of a transposed convolution.
        deconv_even_strides: whether its strides must be even, on both sides.
        deconv_padding: largest padding of a transposed convolution on one side.
        deconv_output_padding: largest output padding of a transposed convolution.
        pool_kernel: largest side of a max-pooling window.
        average_pool_kernel: largest side of an average-pooling window.
        nearest_scales: whole factors of nearest-neighbour resizing; 1 where one side may keep its size.
        linear_scale: largest factor of linear resizing, either way.
        reduce_length: largest number of values that a mean, sum or maximum over one axis takes.
        argmax_channels: largest number of channels of an ArgMax.
        depth_to_space_multiple: what the output channels of a DepthToSpace must be a multiple of.
        depth_to_space_block: the only side that the blocks of a DepthToSpace may have; None for any.
    """

    conv_kernel: int | None
    conv_kernel_volume: int
    conv_dilation: int
    conv_1x1_channels: int
    deconv_kernel: int
    deconv_stride: int
    deconv_even_strides: bool
    deconv_padding: int
    deconv_output_padding: int
    pool_kernel: int
    average_pool_kernel: int
    nearest_scales: tuple[int, ...]
    linear_scale: int
    reduce_length: int
    argmax_channels: int
    depth_to_space_multiple: int
    depth_to_space_block: int | None


@dataclass(frozen=True, kw_only=True)
class GraphRules:
    """What the optimiser of the float graph does for one march (reference/operators.md,
    reference/arithmetic.md 2.6).

    Attributes:
        pooling_window: largest side of an averaging window that one depthwise convolution computes.
        global_pooling_as_conv: whether ``GlobalAveragePool`` (and a window that covers the map) becomes convolutions.
        argmax_keeps_axis: whether an ``ArgMax`` that drops the channels keeps them and reshapes, to run on the BPU.
        dense_transposes: whether the rows of a ``Gemm`` become the pixels of a line; else they become the batch.
        conv_1x1_part: input channels that one 1x1 convolution takes; one with more, within the march's limits, is
            computed in parts. ``None``: every one is computed whole.
    """

    pooling_window: int
    global_pooling_as_conv: bool
    argmax_keeps_axis: bool
    dense_transposes: bool
    conv_1x1_part: int | None


@dataclass(frozen=True, kw_only=True)
class Chip:
    """One chip; each has a file ``<name>.yaml`` beside this module.

    Attributes:
        name: its march, such as ``bayes-e``.
        platform: the board it is on.
        family: the chips whose rules of placement, calibration and scales it has.
        toolchain: the command that converts for it. Says nothing of whether anything was measured.
        derived_from: the chip that it was derived from; None where its file says all.
        figures: the chip on which everything that is said of this one was measured: its own name, or that of the
            nearest measured chip that it was derived from.
        int16: whether activations may be int16.
        int8_outputs: whether ``set_model_output_int8`` makes outputs int8 that it finds in int32.
        bias_bits: width of a convolution's bias; a 16-bit bias has a left shift per channel.
        negative_e_shift: whether the fused sum may shift right.
        sums_as_convolutions: whether the sum of two maps is a depthwise convolution with a fused sum.
        subtracts_maps: whether two maps of one shape are subtracted.
        adds_one_channel: whether a computed map of one channel is added to several.
        broadcasts_both: whether both operands of a sum, difference or product may be broadcast.
        broadcasts_numbers: whether one of them may be a single number that is computed.
        broadcasts_lines: whether one of them may be a computed row or column that is repeated.
        constant_operands: whether a constant that no convolution took may be such an operand.
        pads_all_axes: whether other axes than height and width are padded.
        negative_slopes: whether slopes of a PRelu may be negative.
        repeats_rows_alone: whether nearest-neighbour resizing may repeat rows and leave columns as they are.
        odd_dilations: whether a dilation may be no power of two.
        tall_dilations: whether rows may be dilated more than columns.
        sums_behind_steps: whether a convolution of any strides may add a map to its result; else strides are 2 at most.
        transposes_integers: whether integers are transposed; else the CPU does it.
        elementwise_shift: largest left shift of the first operand of a sum or difference: what a multiplier of 15 bits
            would need beyond it is lost (22 nodes in 2 networks on bayes and bayes-e, 8 in 3 on bernoulli2).
        requantize_as_conv: whether another scale of a map is a depthwise convolution; else an HzRequantize.
        rounding_bias_in_mul: whether products carry ``add_rounding_bias``.
        floor_in_sum: whether an HzSElementwiseAdd rounds down (all 9 in ``swin``, ``mobilevit`` and ``vit_sep`` on
            bernoulli2; none of the 553 of bayes and bayes-e), and an HzSQuantizedMatmul with it
            (``tests/parity/recorded/matmul``; 72 of 72 others state ROUND).
        interpolate_twice: whether linear resizing rounds after each direction.
        resize_decimal_bits: fraction bits of resizing coordinates.
        layout_outside: whether layout transposes stand outside quantise and dequantise nodes, and image inputs are
            NHWC.
        leaky_relu_operator: whether LeakyRelu has an operator of its own; else it is a look-up table.
        limits: sizes.
        graph: rewrites of the float graph.
    """

    name: str
    platform: str
    family: ChipFamily
    toolchain: ToolchainName
    derived_from: str | None = None
    figures: str
    int16: bool
    int8_outputs: bool
    bias_bits: int
    negative_e_shift: bool
    sums_as_convolutions: bool
    subtracts_maps: bool
    adds_one_channel: bool
    broadcasts_both: bool
    broadcasts_numbers: bool
    broadcasts_lines: bool
    constant_operands: bool
    pads_all_axes: bool
    negative_slopes: bool
    repeats_rows_alone: bool
    odd_dilations: bool
    tall_dilations: bool
    sums_behind_steps: bool
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

    @property
    def measured(self) -> bool:
        """Whether its own figures were measured."""
        return self.figures == self.name

    @property
    def extrapolation(self) -> str:
        """The remark on every figure for it: where it comes from; empty if it was measured."""
        return "" if self.measured else f"extrapolated from {self.figures}; nothing measured"

    @property
    def title(self) -> str:
        """Its name as tables and pages show it: with where its figures come from, if they are another's."""
        return f"{self.name} ({self.extrapolation})" if self.extrapolation else self.name

    def derive(self, name: str, *, measured: bool = False, **changes: Any) -> Chip:
        """Another chip, which is as this one but for some values.

        Args:
            name: its name.
            measured: whether its own figures were measured; else those of this one stand in. It changes nothing else.
            changes: values by attribute, as YAML has them; of ``limits`` and ``graph`` those alone that differ.

        Raises:
            ValueError: a change names no attribute, or a choice that there is not.
        """
        figures = name if measured else self.figures
        return replace(_changed(self, changes), name=name, derived_from=self.name, figures=figures)


V = TypeVar("V", bound=Limits | GraphRules | Chip)


def chip_of(name: str, content: Mapping[str, Any]) -> Chip:
    """The chip of which ``content`` says everything, by attribute.

    Raises:
        ValueError: an attribute is missing or unknown, or a choice is none.
    """
    groups = {"limits": Limits, "graph": GraphRules}
    try:
        values = {key: groups[key](**_typed(value)) if key in groups else value for key, value in content.items()}
        return Chip(name=name, figures=name, **_typed(values))
    except TypeError as error:
        raise ValueError(f"chip {name}: {error}") from error


def _changed(values: V, changes: Mapping[str, Any]) -> V:
    """``values`` with some changed; of groups within them too."""
    known = {field.name for field in fields(values)}
    if unknown := sorted(changes.keys() - known):
        raise ValueError(f"{type(values).__name__} has no {', '.join(unknown)}; it has {', '.join(sorted(known))}")
    groups = {
        key: _changed(getattr(values, key), change)
        for key, change in changes.items()
        if is_dataclass(getattr(values, key))
    }
    return replace(values, **{**_typed(changes), **groups})


def _typed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Values of YAML as attributes have them: choices, and tuples for lists."""
    choices = {"family": ChipFamily, "toolchain": ToolchainName}
    return {
        key: choices[key](value) if key in choices else tuple(value) if isinstance(value, list) else value
        for key, value in content.items()
    }
