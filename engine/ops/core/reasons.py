"""Why a node runs on the CPU: a code with parameters, and the sentence that each code is printed as."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

import onnx_ir as ir

from engine.errors import ModelError
from engine.ir import MARK_REASON, mark

Parameter = str | int


class Code(StrEnum):
    """What keeps a node on the CPU; :data:`SENTENCES` has the words, with the parameters of each in braces."""

    NO_OPERATOR = "no_operator"
    CUSTOM = "custom"
    RANK_4_ONLY = "rank_4_only"
    NOT_FLOAT = "not_float"
    ON_REQUEST = "on_request"
    ASKED_FOR = "asked_for"
    UNDEFINED_CONSTANT = "undefined_constant"
    PART_OF_CPU_NODE = "part_of_cpu_node"
    DIVISION = "division"
    PASSIVE_TAIL = "passive_tail"
    PRODUCT_TAIL = "product_tail"
    RECTIFIER_WITHIN = "rectifier_within"
    RECTIFIED_FLOATS = "rectified_floats"
    ACTIVATION_TAIL = "activation_tail"
    ADDED_NODE = "added_node"
    RANK_4 = "rank_4"
    RANK_2_TO_4 = "rank_2_to_4"
    SCALAR = "scalar"
    RANK_MOVED = "rank_moved"
    RANK_GATHERED = "rank_gathered"
    POSITIONS = "positions"
    ONE_AXIS_REPEATED = "one_axis_repeated"
    RANK_4_SIZES = "rank_4_sizes"
    RANK_4_SEARCH = "rank_4_search"
    RANK_4_SLOPES = "rank_4_slopes"
    RANK_OF_MATRICES = "rank_of_matrices"
    SEVERAL_MATRICES = "several_matrices"
    RANKS_DIFFER = "ranks_differ"
    CONVOLUTION_2D = "convolution_2d"
    DECONVOLUTION_2D = "deconvolution_2d"
    DECONVOLUTION_PIXEL = "deconvolution_pixel"
    DECONVOLUTION_STRIDE = "deconvolution_stride"
    DECONVOLUTION_GAPS = "deconvolution_gaps"
    POOLING_2D = "pooling_2d"
    NOT_CONSTANT = "not_constant"
    EXPONENT_NOT_SCALAR = "exponent_not_scalar"
    BOUNDS_NOT_CONSTANT = "bounds_not_constant"
    COUNT_NOT_CONSTANT = "count_not_constant"
    INDICES_NOT_CONSTANT = "indices_not_constant"
    PADS = "pads"
    PADDED_AXES = "padded_axes"
    COMPARISON = "comparison"
    CONSTANT_NOT_FOLDED = "constant_not_folded"
    BOTH_BROADCAST = "both_broadcast"
    SINGLE_NUMBER = "single_number"
    LINE_REPEATED = "line_repeated"
    ONE_CHANNEL_ADDED = "one_channel_added"
    ONE_AXIS = "one_axis"
    AXIS_DROPPED = "axis_dropped"
    LAST_AXIS = "last_axis"
    REDUCED_VALUES = "reduced_values"
    SEARCHED_VALUES = "searched_values"
    SEARCHED_CHANNELS = "searched_channels"
    LAST_INDEX = "last_index"
    BATCH_SEARCHED = "batch_searched"
    INDICES = "indices"
    DILATION = "dilation"
    DILATION_POWER = "dilation_power"
    DILATION_ROWS = "dilation_rows"
    WINDOW = "window"
    KERNEL = "kernel"
    KERNEL_SIDES = "kernel_sides"
    KERNEL_VOLUME = "kernel_volume"
    INPUT_CHANNELS = "input_channels"
    STRIDE = "stride"
    PADDING = "padding"
    OUTPUT_PADDING = "output_padding"
    SCALE = "scale"
    NEAREST_SCALES = "nearest_scales"
    NEAREST_NOT_WHOLE = "nearest_not_whole"
    NEAREST_ROWS = "nearest_rows"
    RESIZE_MODE = "resize_mode"
    COORDINATES = "coordinates"
    ANTIALIAS = "antialias"
    PAD_MODE = "pad_mode"
    NEGATIVE_STEP = "negative_step"
    NEGATIVE_SLOPE = "negative_slope"


SENTENCES: Mapping[Code, str] = MappingProxyType(
    {
        Code.NO_OPERATOR: "{march} has no operator for {op_type}",
        Code.CUSTOM: "a custom operator, computed by the user's Python code",
        Code.RANK_4_ONLY: "{march} computes tensors of rank 4",
        Code.NOT_FLOAT: "only float32 tensors are quantised",
        Code.ON_REQUEST: "{op_type} runs on the BPU only if node_info or run_on_bpu asks for it",
        Code.ASKED_FOR: "run_on_cpu is set",
        Code.UNDEFINED_CONSTANT: "a constant operand is infinite or undefined: it has no threshold",
        Code.PART_OF_CPU_NODE: "{node}, of which it would be a part, runs on the CPU",
        Code.DIVISION: "the product that divides by it runs on the CPU",
        Code.PASSIVE_TAIL: "{op_type} is passive and no BPU node reads it",
        Code.PRODUCT_TAIL: "{march} has no {op_type} whose result no BPU node reads",
        Code.RECTIFIER_WITHIN: "{march} has no {op_type} that the CPU alone reads before the BPU computes again",
        Code.RECTIFIED_FLOATS: "it reads what the CPU computes",
        Code.ACTIVATION_TAIL: "{march} has no {op_type} on an int32 output",
        Code.ADDED_NODE: "added by the conversion where a float tensor changes its layout or rank",
        Code.RANK_4: "only rank-4 tensors are {done} on the BPU",
        Code.RANK_2_TO_4: "only tensors of rank 2 to 4 are {done} on the BPU",
        Code.SCALAR: "a tensor without dimensions",
        Code.RANK_MOVED: "only tensors of rank {low} to {high} are moved on the BPU",
        Code.RANK_GATHERED: "rank {rank}; only tensors of rank up to {limit} are gathered on the BPU",
        Code.POSITIONS: "only a vector of positions is gathered on the BPU",
        Code.ONE_AXIS_REPEATED: "only one axis is repeated on the BPU",
        Code.RANK_4_SIZES: "only height and width of a rank-4 tensor can be resized",
        Code.RANK_4_SEARCH: "the BPU computes {op_type} only over the channels of a rank-4 tensor that keeps them",
        Code.RANK_4_SLOPES: "only one slope, or one per channel of a rank-4 tensor",
        Code.RANK_OF_MATRICES: "only matrices and stacks of matrices are multiplied on the BPU",
        Code.SEVERAL_MATRICES: "{march} multiplies one matrix by one, not stacks of them",
        Code.RANKS_DIFFER: "operands of different rank",
        Code.CONVOLUTION_2D: "only 2-D convolutions run on the BPU",
        Code.DECONVOLUTION_2D: "only 2-D transposed convolutions run on the BPU",
        Code.DECONVOLUTION_PIXEL: "a transposed convolution with a kernel of 1x1",
        Code.DECONVOLUTION_STRIDE: "a transposed convolution with an odd stride, such as 1",
        Code.DECONVOLUTION_GAPS: "a transposed convolution with a kernel smaller than its stride",
        Code.POOLING_2D: "only 2-D pooling runs on the BPU",
        Code.NOT_CONSTANT: "its {input} is not a constant",
        Code.EXPONENT_NOT_SCALAR: "its exponent is not a constant scalar",
        Code.BOUNDS_NOT_CONSTANT: "its bounds are not constants",
        Code.COUNT_NOT_CONSTANT: "the number of values is not a constant",
        Code.INDICES_NOT_CONSTANT: "BPU does not support int64 featuremap indices",
        Code.PADS: "its pads are not constant, or negative in another mode than constant",
        Code.PADDED_AXES: "{march} pads only height and width",
        Code.COMPARISON: "the BPU compares a map only with its own MaxPool, cast to float",
        Code.CONSTANT_NOT_FOLDED: "a constant operand that could not be folded into a convolution",
        Code.BOTH_BROADCAST: "both operands are broadcast",
        Code.SINGLE_NUMBER: "one operand is a single number that is computed",
        Code.LINE_REPEATED: "one operand is a row or column that is repeated",
        Code.ONE_CHANNEL_ADDED: "a map of one channel is added to several",
        Code.ONE_AXIS: "the BPU only supports {op_type} over one axis",
        Code.AXIS_DROPPED: "the reduced axis is dropped",
        Code.LAST_AXIS: "BPU only supports {op_type} over the last axis, not over axis {axis}",
        Code.REDUCED_VALUES: "{length} values are reduced; at most {limit} are possible",
        Code.SEARCHED_VALUES: "{length} values are searched; at most {limit} are possible",
        Code.SEARCHED_CHANNELS: "{length} channels are searched; at most {limit} are possible",
        Code.LAST_INDEX: "the BPU finds the first index of {op_type}, not the last",
        Code.BATCH_SEARCHED: "the batch is not searched on the BPU",
        Code.INDICES: "indices are computed on the CPU only",
        Code.DILATION: "dilation above {limit}",
        Code.DILATION_POWER: "a dilation that is no power of two",
        Code.DILATION_ROWS: "rows are dilated by {rows}, columns by {columns} only",
        Code.WINDOW: "window above {limit}",
        Code.KERNEL: "kernel above {limit}",
        Code.KERNEL_SIDES: "kernel {height}x{width} above {limit}x{limit}",
        Code.KERNEL_VOLUME: "kernel volume above {limit}",
        Code.INPUT_CHANNELS: "{channels} input channels; a 1x1 convolution may have at most {limit}",
        Code.STRIDE: "stride above {limit}",
        Code.PADDING: "padding above {limit}",
        Code.OUTPUT_PADDING: "output padding above {limit}",
        Code.SCALE: "scale above {limit}",
        Code.NEAREST_SCALES: "nearest scales must be of {allowed}",
        Code.NEAREST_NOT_WHOLE: "BPU does not support nearest scales that are not whole",
        Code.NEAREST_ROWS: "repeats rows and leaves columns as they are",
        Code.RESIZE_MODE: "BPU does not support mode == {mode}",
        Code.COORDINATES: "BPU does not support coordinate_transformation_mode == {mode}",
        Code.ANTIALIAS: "antialias",
        Code.PAD_MODE: "mode {mode}",
        Code.NEGATIVE_STEP: "a negative step",
        Code.NEGATIVE_SLOPE: "a negative slope",
    }
)


@dataclass(frozen=True)
class Reason:
    """Why a node runs on the CPU.

    Attributes:
        code: what it is.
        params: what the sentence of ``code`` names.
    """

    code: Code
    params: Mapping[str, Parameter] = field(default_factory=dict)


def because(code: Code, **params: Parameter) -> Reason:
    """The reason ``code`` with its parameters."""
    return Reason(code, params)


def set_reason(node: ir.Node, reason: Reason | None) -> None:
    """Let ``node`` carry ``reason``, or none."""
    text = None if reason is None else json.dumps({"code": reason.code, "params": dict(reason.params)}, sort_keys=True)
    mark(node, MARK_REASON, text)


def reason_of(node: ir.Node) -> Reason | None:
    """The reason that ``node`` carries.

    Raises:
        ModelError: what it carries was not written by :func:`set_reason`.
    """
    text = node.metadata_props.get(MARK_REASON)
    if text is None:
        return None
    try:
        found = json.loads(text)
        return Reason(Code(found["code"]), found["params"])
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(
            f"node {node.name}: {MARK_REASON} is {text!r}, not a reason that this version knows"
        ) from error


def sentence(reason: Reason | None) -> str:
    """``reason`` as users read it; empty for none."""
    return "" if reason is None else SENTENCES[reason.code].format(**reason.params)


def sentence_of(node: ir.Node) -> str:
    """The reason that ``node`` carries, as users read it; empty for none."""
    return sentence(reason_of(node))
