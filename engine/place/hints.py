"""What to change in a network so that a node that runs on the CPU would run on the BPU."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from engine.ops.core.reasons import Code, Reason

DEFAULT_HINT = "change its shapes or attributes as the reason says, or accept a CPU node and the copies around it"
"""For reasons whose text already says what is allowed."""

_BY_OPERATOR = {
    "Min": "multiply both operands by -1, use Max, multiply by -1",
    "Neg": "multiply by -1",
    "LogSoftmax": "remove it from the model and apply it to the outputs in the application",
    "Cast": "remove it; quantised tensors have no other types",
    "Sub": "multiply the second operand by -1 and add",
    "Gemm": "make the second operand a constant and transA 0",
    "ReduceMin": "multiply by -1, use ReduceMax, multiply by -1",
    "ReduceSumSquare": "multiply the tensor by itself, then ReduceSum",
    "LpPool": "use MaxPool or AveragePool",
    "LRN": "train with BatchNormalization instead",
    "LpNormalization": "write it as ReduceL2 and Div",
    "LSTM": "use a forward LSTM of constant weights and at most 64 steps, without initial states, sequence_lens, "
    "peepholes, clip or other activations: that is unrolled into convolutions",
    "Celu": "use Elu",
    "ThresholdedRelu": "use Relu",
    "ReduceMean": "average height and width together, or use GlobalAveragePool",
    "Reshape": "keep rank-4 maps; move the Reshape to the end of the network",
}
"""Hints for operators that the BPU does not have, by type."""

_EXACT_TAIL = "none needed: the convolution before it keeps its exact int32 result"
_RANK_4 = "use rank-4 tensors (N, C, H, W)"
_TWO_DIMENSIONS = (
    "of one spatial axis: write it in two dimensions with a height of 1; of three: as the sum of two-dimensional ones, "
    "one per slice of the kernel's depth"
)
_POOLING = "of one spatial axis: write it in two dimensions with a height of 1; of three: pool two axes, then the third"
_LAST_AXIS = (
    "move that axis to the end with a Transpose in front and one behind, and ask for it with node_info ON: BPU (before "
    "opset 13, a Softmax normalises over all axes from its own on)"
)
_INDICES = "compute indices and masks in the application, or make them constants"
_CONSTANT = "make the operand a constant of the model, one value or one per channel"
_ONE_AXIS = "reduce one axis at a time, with keepdims 1"
_SMALLER = "split it into several smaller ones"
_SCALES = "use whole factors that are powers of two, several one after another, or mode linear"
_RESIZE = "use mode nearest or linear"
_BROADCAST = "give both operands the same shape, or broadcast one of them only"

HINTS: Mapping[Code, str] = MappingProxyType(
    {
        Code.CUSTOM: "nothing; or rewrite it with BPU operators and move it to the start or end of the network",
        Code.ASKED_FOR: "remove the node from run_on_cpu and node_info",
        Code.PART_OF_ASKED_FOR: "remove the node from run_on_cpu and node_info",
        Code.ON_REQUEST: "ask for it with run_on_bpu, or node_info ON: BPU",
        Code.PART_OF_CPU_NODE: "change the node named in the reason",
        Code.PASSIVE_TAIL: _EXACT_TAIL,
        Code.ACTIVATION_TAIL: _EXACT_TAIL,
        Code.ADDED_NODE: "let the application read the output in the layout of the BPU (remove_node_type)",
        Code.RANK_4_ONLY: _RANK_4,
        Code.RANK_4: _RANK_4,
        Code.RANK_2_TO_4: _RANK_4,
        Code.SCALAR: _RANK_4,
        Code.RANK_MOVED: _RANK_4,
        Code.RANK_GATHERED: _RANK_4,
        Code.POSITIONS: _RANK_4,
        Code.ONE_AXIS_REPEATED: "repeat one axis at a time, or let the operator that reads it broadcast",
        Code.RANK_4_SIZES: _RANK_4,
        Code.RANK_4_SEARCH: _RANK_4,
        Code.RANK_4_SLOPES: _RANK_4,
        Code.RANK_OF_MATRICES: _RANK_4,
        Code.RANKS_DIFFER: _RANK_4,
        Code.CONVOLUTION_2D: _TWO_DIMENSIONS,
        Code.DECONVOLUTION_2D: _TWO_DIMENSIONS,
        Code.POOLING_2D: _POOLING,
        Code.LAST_AXIS: _LAST_AXIS,
        Code.NOT_FLOAT: _INDICES,
        Code.INDICES_NOT_CONSTANT: _INDICES,
        Code.UNDEFINED_CONSTANT: "replace infinite and undefined numbers by large finite ones",
        Code.CONSTANT_OPERAND: "remove the constant from the model and concatenate it in the application",
        Code.NOT_CONSTANT: _CONSTANT,
        Code.EXPONENT_NOT_SCALAR: _CONSTANT,
        Code.BOUNDS_NOT_CONSTANT: _CONSTANT,
        Code.COUNT_NOT_CONSTANT: _CONSTANT,
        Code.PADS: _CONSTANT,
        Code.CONSTANT_NOT_FOLDED: _CONSTANT,
        Code.ONE_AXIS: _ONE_AXIS,
        Code.AXIS_DROPPED: _ONE_AXIS,
        Code.DILATION: "use a smaller dilation, or larger strides before it",
        Code.WINDOW: _SMALLER,
        Code.KERNEL: _SMALLER,
        Code.KERNEL_SIDES: _SMALLER,
        Code.KERNEL_VOLUME: _SMALLER,
        Code.INPUT_CHANNELS: "split the channels into groups and add the results",
        Code.NEAREST_SCALES: _SCALES,
        Code.NEAREST_NOT_WHOLE: _SCALES,
        Code.RESIZE_MODE: _RESIZE,
        Code.COORDINATES: _RESIZE,
        Code.PAD_MODE: "use mode constant or edge",
        Code.BOTH_BROADCAST: _BROADCAST,
        Code.ONE_CHANNEL_ADDED: _BROADCAST,
        Code.NEGATIVE_STEP: "use a positive step",
    }
)
"""Hints by code; the texts of all other codes already say what is allowed."""


def hint_for(op_type: str, reason: Reason) -> str:
    """What to change so that an ``op_type`` that ``reason`` keeps on the CPU runs on the BPU."""
    if reason.code is Code.NO_OPERATOR:
        return _BY_OPERATOR.get(op_type, "replace it by supported operators, or compute it in the application")
    return HINTS.get(reason.code, DEFAULT_HINT)
