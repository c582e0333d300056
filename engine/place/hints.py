"""What to change in a network so that a node that runs on the CPU would run on the BPU."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from engine.ops.core.reasons import Code, Reason

DEFAULT_HINT = "change its shapes or attributes as the reason says, or accept a CPU node and the copies around it"
"""For reasons whose text already says what is allowed."""

_REWRITE = "ptqlab rewrite --apply"
"""Command that does what a hint says; the name of the rewrite follows."""

BY_OPERATOR = {
    "Min": f"multiply both operands by -1, use Max, multiply by -1: {_REWRITE} min",
    "Neg": f"multiply by -1: {_REWRITE} minus",
    "LogSoftmax": f"remove it from the model and apply it to the outputs in the application: {_REWRITE} tail",
    "Cast": "remove it; quantised tensors have no other types",
    "Sub": f"multiply the second operand by -1 and add: {_REWRITE} minus",
    "Gemm": "make the second operand a constant and transA 0",
    "ReduceMin": f"multiply by -1, use ReduceMax, multiply by -1: {_REWRITE} min",
    "ReduceSumSquare": f"multiply the tensor by itself, then ReduceSum: {_REWRITE} norms",
    "LpPool": "use MaxPool or AveragePool",
    "LRN": "train with BatchNormalization instead",
    "LpNormalization": f"write it as ReduceL2 and Div: {_REWRITE} norms",
    "LSTM": "use an LSTM of constant weights and at most 64 steps, without sequence_lens, peepholes, "
    "clip or other activations: that is unrolled into convolutions",
    "Celu": "use Elu",
    "ThresholdedRelu": "use Relu",
    "ReduceMean": "average height and width together, or use GlobalAveragePool; average channels by a 1x1 convolution "
    "with equal weights",
    "Reshape": "keep rank-4 maps; move the Reshape to the end of the network",
    "Einsum": f"write it as MatMul between Transposes, or as a 1x1 convolution: {_REWRITE} einsum",
    "ScatterND": f"where the indices are constant, use Slice and Concat: {_REWRITE} scatter",
    "GridSample": "move 1x1 convolutions behind it before it, and cut it off at the end of the network: "
    f"{_REWRITE} grid_sample,tail",
    "GroupNormalization": f"write it with global pooling and 1x1 convolutions: {_REWRITE} group_norm",
}
"""Hints for operators that the BPU does not have, by type."""

_EXACT_TAIL = "none needed: what a convolution before it gives stays an exact int32, what the CPU gives stays float"
_RANK_4 = "use rank-4 tensors (N, C, H, W)"
_TWO_DIMENSIONS = (
    "of one spatial axis: write it in two dimensions with a height of 1; of three: as a two-dimensional one per slice "
    f"of depth: {_REWRITE} conv_1d, or conv_3d"
)
_TRANSPOSED = f"of one spatial axis: write it in two dimensions with a height of 1: {_REWRITE} conv_1d"
_POOLING = (
    "of one spatial axis: write it in two dimensions with a height of 1; of three: pool two axes, then the third: "
    f"{_REWRITE} pooling"
)
_LAST_AXIS = (
    "move that axis to the end with a Transpose in front and one behind, and ask for it with run_on_bpu (before opset "
    f"13, a Softmax normalises over all axes from its own on): {_REWRITE} softmax"
)
_INDICES = "compute indices and masks in the application, or make them constants"
_CONSTANT = "make the operand a constant of the model, one value or one per channel"
_SAME_RANK = "give both operands the same rank, with dimensions of 1 (Reshape)"
_FIRST_OUTPUT = "use the largest values alone, not their indices"
_ONE_AXIS = f"reduce one axis at a time, with keepdims 1: {_REWRITE} reductions"
_SMALLER = "split it into several smaller ones"
_SCALES = "use whole factors that are powers of two, several one after another, or mode linear"
_RESIZE = "use mode nearest or linear"
_BROADCAST = "give both operands the same shape, or broadcast one of them only"

HINTS: Mapping[Code, str] = MappingProxyType(
    {
        Code.CUSTOM: "nothing; or rewrite it with BPU operators and move it to the start or end of the network",
        Code.ASKED_FOR: "remove the node from run_on_cpu and node_info",
        Code.ON_REQUEST: "ask for it with run_on_bpu, or node_info ON: BPU",
        Code.PART_OF_CPU_NODE: "change the node named in the reason",
        Code.UNDEFINED_CONSTANT: "replace infinite and undefined numbers by finite ones little larger than the others, "
        "such as -100 in a Softmax's mask: beside much larger ones the others vanish",
        Code.PASSIVE_TAIL: _EXACT_TAIL,
        Code.ACTIVATION_TAIL: _EXACT_TAIL,
        Code.ADDED_NODE: "let the application read the output in the layout of the BPU (remove_node_type)",
        Code.RANK_4_ONLY: _RANK_4,
        Code.RANK_4: _RANK_4,
        Code.RANK_2_TO_4: _RANK_4,
        Code.SCALAR: f"keep the dimensions of a reduction (keepdims 1): {_REWRITE} reductions",
        Code.RANK_MOVED: _RANK_4,
        Code.RANK_GATHERED: "take the parts out before the Reshape that makes it of rank 5, with Split or Slice: "
        f"{_REWRITE} attention",
        Code.POSITIONS: "gather with a vector of positions, then Reshape",
        Code.ONE_AXIS_REPEATED: "repeat one axis at a time, or let the operator that reads it broadcast",
        Code.RANK_4_SIZES: "resize height and width of a rank-4 tensor (N, C, H, W)",
        Code.RANK_4_SEARCH: "search the channels of a rank-4 tensor (N, C, H, W), with keepdims 1",
        Code.RANK_4_SLOPES: "use one slope, or one per channel of a rank-4 tensor (N, C, H, W)",
        Code.RANK_OF_MATRICES: _RANK_4,
        Code.SEVERAL_MATRICES: "split the heads, and multiply them one by one (Split, MatMul, Concat)",
        Code.RANKS_DIFFER: _SAME_RANK,
        Code.CONVOLUTION_2D: _TWO_DIMENSIONS,
        Code.DECONVOLUTION_2D: _TRANSPOSED,
        Code.DECONVOLUTION_PIXEL: "use a Conv of 1x1, behind or in front of a Resize where it enlarges",
        Code.DECONVOLUTION_STRIDE: "use strides of 2 or 4; of 1 use a Conv with the kernel turned by 180 degrees, "
        "behind a Resize of mode nearest where one side is enlarged",
        Code.DECONVOLUTION_GAPS: "let the kernel have the size of the stride, weights of 0 behind the others",
        Code.POOLING_2D: _POOLING,
        Code.LAST_AXIS: _LAST_AXIS,
        Code.NOT_FLOAT: _INDICES,
        Code.INDICES_NOT_CONSTANT: _INDICES,
        Code.NOT_CONSTANT: _CONSTANT,
        Code.EXPONENT_NOT_SCALAR: _CONSTANT,
        Code.BOUNDS_NOT_CONSTANT: _CONSTANT,
        Code.COUNT_NOT_CONSTANT: _CONSTANT,
        Code.PADS: "make the pads constants; crop with Slice",
        Code.CONSTANT_NOT_FOLDED: _CONSTANT,
        Code.ONE_AXIS: _ONE_AXIS,
        Code.AXIS_DROPPED: _ONE_AXIS,
        Code.DILATION: "use a smaller dilation, or larger strides before it",
        Code.DILATION_POWER: "use a dilation of 1, 2 or 4",
        Code.DILATION_ROWS: "dilate columns as much as rows",
        Code.STRIDE: "enlarge in several steps of smaller strides",
        Code.PADDING: "use less padding and crop the result with Slice, or a smaller kernel",
        Code.OUTPUT_PADDING: "use less output padding and add the border with Pad",
        Code.REDUCED_VALUES: "reduce parts of it first, then what they give (a Softmax over so many stays on the CPU)",
        Code.SEARCHED_VALUES: "search the largest of parts first, or in the application",
        Code.SEARCHED_CHANNELS: "search fewer channels, or in the application",
        Code.INDICES: _FIRST_OUTPUT,
        Code.WINDOW: _SMALLER,
        Code.KERNEL: _SMALLER,
        Code.KERNEL_SIDES: _SMALLER,
        Code.KERNEL_VOLUME: _SMALLER,
        Code.INPUT_CHANNELS: "split the channels into groups and add the results",
        Code.NEAREST_SCALES: _SCALES,
        Code.NEAREST_NOT_WHOLE: _SCALES,
        Code.NEAREST_ROWS: "repeat the columns too, and take every second one with Slice",
        Code.RESIZE_MODE: _RESIZE,
        Code.COORDINATES: "use coordinate_transformation_mode half_pixel, align_corners or asymmetric",
        Code.PAD_MODE: "use mode constant or edge; a narrow reflected border can be joined out of slices: "
        f"{_REWRITE} reflect",
        Code.PADDED_AXES: "widen the convolution before it: filters of weight 0 give the channels that are added",
        Code.COMPARISON: "compare a map with its own MaxPool and cast that to float, or compare in the application",
        Code.LAST_INDEX: "leave select_last_index at 0",
        Code.BATCH_SEARCHED: "search another axis",
        Code.SCALE: "resize in several steps",
        Code.NEGATIVE_SLOPE: "use slopes that are not negative",
        Code.PRODUCT_TAIL: f"none needed, or multiply in the application: {_REWRITE} tail",
        Code.RECTIFIER_WITHIN: "none needed; or use a Relu, or change what the CPU computes behind it",
        Code.RECTIFIED_FLOATS: "none needed; or use a Relu or LeakyRelu",
        Code.DIVISION: "change the product, as its own reason says",
        Code.BOTH_BROADCAST: _BROADCAST,
        Code.SINGLE_NUMBER: "compute it once per channel: a 1x1 convolution with the outputs of the other operand",
        Code.LINE_REPEATED: "give both operands the same shape, or one of them a single pixel",
        Code.ONE_CHANNEL_ADDED: _BROADCAST,
        Code.NEGATIVE_STEP: "use a positive step",
    }
)
"""Hints by code; the texts of all other codes already say what is allowed."""


def hint_for(op_type: str, reason: Reason) -> str:
    """What to change so that an ``op_type`` that ``reason`` keeps on the CPU runs on the BPU."""
    if reason.code is Code.NO_OPERATOR:
        return BY_OPERATOR.get(op_type, "replace it by supported operators, or compute it in the application")
    return HINTS.get(reason.code, DEFAULT_HINT)
