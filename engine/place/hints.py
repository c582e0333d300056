"""What to change in a network so that a node that runs on the CPU would run on the BPU."""

from __future__ import annotations

import re

DEFAULT_HINT = "change its shapes or attributes as the reason says, or accept a CPU node and the copies around it"
"""For reasons that say themselves what is allowed."""

_BY_OPERATOR = {
    "Min": "multiply both operands by -1, use Max, multiply by -1",
    "Neg": "multiply by -1",
    "LogSoftmax": "leave it out of the model and apply it to the outputs in the application",
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

_BY_REASON = (
    (r"custom operator", "nothing; or write it with operators of the BPU, and put it at an end of the network"),
    (r"run_on_cpu is set", "take the node out of run_on_cpu and node_info"),
    (r"runs on the BPU only if", "ask for it with run_on_bpu, or node_info ON: BPU"),
    (r"passive and no BPU node reads it", "nothing: so the convolution before it keeps its exact int32 result"),
    (r"on an int32 output", "nothing: so the convolution before it keeps its exact int32 result"),
    (r"added by the conversion", "let the application read the output in the layout of the BPU (remove_node_type)"),
    (r"rank", "use rank-4 tensors (N, C, H, W)"),
    (r"2-D", "write it in two dimensions, with a height of 1"),
    (r"only float32 tensors|int64", "compute indices and masks in the application, or make them constants"),
    (r"constant", "make the operand a constant of the model, one value or one per channel"),
    (r"one axis|reduced axis", "reduce one axis at a time, with keepdims 1"),
    (r"dilation", "use a smaller dilation, or larger strides before it"),
    (r"kernel|window", "split it into several smaller ones"),
    (r"input channels", "split the channels into groups and add the results"),
    (r"nearest scales", "use whole factors that are powers of two, several one after another, or mode linear"),
    (r"mode|coordinate_transformation", "use mode nearest or linear"),
    (r"broadcast|one channel is added", "give both operands the same shape, or broadcast one of them only"),
    (r"negative step", "use a positive step"),
)
"""Hints by a pattern that the reason contains; the first that fits."""


def hint_for(op_type: str, reason: str) -> str:
    """What to change so that an ``op_type`` that ``reason`` keeps on the CPU runs on the BPU."""
    if "has no operator for" in reason:
        return _BY_OPERATOR.get(op_type, "replace it by supported operators, or compute it in the application")
    return next((hint for pattern, hint in _BY_REASON if re.search(pattern, reason)), DEFAULT_HINT)
