"""Every remedy that is printed for a node on the CPU, tried on the network that it is printed for.

A row is a network with a node that a reason keeps on the CPU, the remedy, and the network after it: written otherwise,
or by the rewrite that the remedy names. The node, or what took its place, must run on the BPU then.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest

from engine.config import NodeInfo
from engine.convert import Draft, check
from engine.errors import UnsupportedError
from engine.frontend import load_network
from engine.ir import save_model
from engine.ops.core.reasons import Code
from engine.place.hints import BY_OPERATOR, HINTS, hint_for
from engine.rewrite import rewrite_names, rewritings_of
from engine.rewrite.proof import ExactOutputs
from tests.engine.spelled import network

TOKENS = "q = Add(MatMul(Transpose(Reshape(c, [1, 8, 64]), perm=[0, 2, 1]), W(8, 24)), W(24)); "
HEAD = "c = Relu(Conv(x, W(8, 4, 3, 3), W(8), pads=[1, 1, 1, 1])); "
TAIL = "; z = Conv(y, W(4, 8, 1, 1), W(4))"
OTHER = "o = Conv(x, W(8, 4, 1, 1)); "
MAP = (1, 4, 8, 8)

NEEDS_NOTHING = frozenset({Code.PASSIVE_TAIL, Code.ACTIVATION_TAIL, Code.ADDED_NODE})
"""What runs on the CPU without loss, and is no cost of the remedy."""


@dataclass(frozen=True)
class Remedy:
    """One remedy.

    Attributes:
        code: of the reason.
        op_type: of the node.
        before: network.
        part: of the remedy's text.
        after: network; empty where the remedy names a rewrite, or is a request.
        rewrite: name.
        march, opset, shape: of the networks.
        on_cpu, on_bpu: types that ``node_info`` sends there before, and after.
        same: whether the network after computes the same.
    """

    code: Code
    op_type: str
    before: str
    part: str
    after: str = ""
    rewrite: str = ""
    march: str = "bayes-e"
    opset: int = 13
    shape: Sequence[int] = MAP
    on_cpu: Sequence[str] = ()
    on_bpu: Sequence[str] = ()
    same: bool = field(default=False)

    @property
    def label(self) -> str:
        return f"{self.code.value}-{self.op_type}"


def operator(op_type: str, before: str, part: str, **more: Any) -> Remedy:
    return Remedy(Code.NO_OPERATOR, op_type, before, part, **more)


REMEDIES = [
    Remedy(
        Code.RECTIFIER_WITHIN,
        "LeakyRelu",
        f"{HEAD}a = LeakyRelu(c, alpha=0.1); y = LRN(a, size=3){TAIL}",
        "Relu",
        after=f"{HEAD}a = Relu(c); y = LRN(a, size=3){TAIL}",
    ),
    Remedy(
        Code.RECTIFIED_FLOATS,
        "PRelu",
        f"{HEAD}a = LRN(c, size=3); y = PRelu(a, W(8, 1, 1)){TAIL}",
        "Relu",
        after=f"{HEAD}a = LRN(c, size=3); y = Relu(a){TAIL}",
    ),
    operator("Min", f"{HEAD}{OTHER}y = Min(c, o){TAIL}", "Max", rewrite="min"),
    operator("Neg", f"{HEAD}y = Neg(c){TAIL}", "-1", rewrite="minus"),
    operator(
        "LogSoftmax", f"{HEAD}a = Conv(c, W(4, 8, 1, 1)); y = LogSoftmax(a, axis=1)", "application", rewrite="tail"
    ),
    operator("Cast", f"{HEAD}y = Cast(ArgMax(c, axis=1), to=1)", "remove it", after=f"{HEAD}y = ArgMax(c, axis=1)"),
    operator("Sub", f"{HEAD}{OTHER}y = Sub(c, o){TAIL}", "add", rewrite="minus", march="bernoulli2"),
    operator(
        "Gemm",
        f"{HEAD}a = Reshape(GlobalAveragePool(c), [1, 8]); m = MaxPool(c, kernel_shape=[8, 4], strides=[8, 4]); "
        "y = Gemm(a, Reshape(m, [8, 2]))",
        "second operand a constant",
        after=f"{HEAD}a = Reshape(GlobalAveragePool(c), [1, 8]); y = Gemm(a, W(8, 2))",
    ),
    operator("ReduceMin", f"{HEAD}y = ReduceMin(c, axes=[1]); z = Conv(y, W(4, 1, 1, 1))", "ReduceMax", rewrite="min"),
    operator(
        "ReduceSumSquare",
        f"{HEAD}y = ReduceSumSquare(c, axes=[1]); z = Conv(y, W(4, 1, 1, 1))",
        "by itself",
        rewrite="norms",
    ),
    operator("LpNormalization", f"{HEAD}y = LpNormalization(c, axis=1){TAIL}", "ReduceL2", rewrite="norms"),
    operator(
        "LpPool",
        f"{HEAD}y = LpPool(c, kernel_shape=[2, 2]){TAIL}",
        "AveragePool",
        after=f"{HEAD}y = AveragePool(c, kernel_shape=[2, 2]){TAIL}",
    ),
    operator(
        "LRN",
        f"{HEAD}y = LRN(c, size=3){TAIL}",
        "BatchNormalization",
        after=f"{HEAD}y = BatchNormalization(c, W(8), W(8), W(8), {[1.0] * 8}){TAIL}",
    ),
    operator(
        "LSTM",
        f"{HEAD}s = Reshape(Transpose(c, perm=[2, 0, 1, 3]), [8, 1, 64]); "
        "y = LSTM(s, W(1, 16, 64), W(1, 16, 4), hidden_size=4, clip=1.0)",
        "clip or other activations",
        after=f"{HEAD}s = Reshape(Transpose(c, perm=[2, 0, 1, 3]), [8, 1, 64]); "
        "y = LSTM(s, W(1, 16, 64), W(1, 16, 4), hidden_size=4)",
    ),
    operator("Celu", f"{HEAD}y = Celu(c){TAIL}", "Elu", after=f"{HEAD}y = Elu(c){TAIL}"),
    operator("ThresholdedRelu", f"{HEAD}y = ThresholdedRelu(c){TAIL}", "Relu", after=f"{HEAD}y = Relu(c){TAIL}"),
    operator(
        "ReduceMean",
        f"{HEAD}y = ReduceMean(c, axes=[1]); z = Conv(y, W(4, 1, 1, 1))",
        "1x1 convolution with equal weights",
        after=f"{HEAD}y = Conv(c, {[[[[0.125]]] * 8]}); z = Conv(y, W(4, 1, 1, 1))",
        march="bernoulli2",
        same=True,
    ),
    operator(
        "ReduceMean",
        f"{HEAD}y = ReduceMean(ReduceMean(c, axes=[3]), axes=[2]){TAIL}",
        "height and width together",
        after=f"{HEAD}y = GlobalAveragePool(c){TAIL}",
        march="bernoulli2",
        same=True,
    ),
    operator(
        "Reshape",
        f"{HEAD}y = Reshape(c, [1, 16, 4, 8]); z = Conv(y, W(4, 16, 1, 1))",
        "keep rank-4 maps",
        after=f"{HEAD}z = Conv(c, W(4, 8, 1, 1))",
        march="bernoulli2",
    ),
    operator(
        "Einsum", f'{HEAD}y = Einsum(c, W(8, 8), equation="bchw,ck->bkhw"){TAIL}', "1x1 convolution", rewrite="einsum"
    ),
    operator(
        "ScatterND",
        f"{HEAD}y = ScatterND(c, [[0, 0], [0, 3]], W(2, 8, 8)){TAIL}",
        "Slice and Concat",
        rewrite="scatter",
    ),
    operator(
        "GridSample",
        f"{HEAD}y = GridSample(c, W(1, 8, 16, 2)); z = Conv(y, W(4, 8, 1, 1), W(4))",
        "cut it off",
        rewrite="grid_sample,tail",
        opset=16,
    ),
    operator("CumSum", f"{HEAD}a = Conv(c, W(4, 8, 1, 1)); y = CumSum(a, 1)", "in the application", rewrite="tail"),
    Remedy(Code.ASKED_FOR, "Conv", f"{HEAD}y = Conv(c, W(8, 8, 1, 1)){TAIL}", "run_on_cpu", on_cpu=("Conv_2",)),
    Remedy(Code.ON_REQUEST, "Softmax", f"{HEAD}y = Softmax(c, axis=3){TAIL}", "run_on_bpu", on_bpu=("Softmax_2",)),
    Remedy(
        Code.UNDEFINED_CONSTANT,
        "Add",
        f"{HEAD}y = Add(c, 1e999){TAIL}",
        "finite ones little larger",
        after=f"{HEAD}y = Add(c, 100.0){TAIL}",
    ),
    Remedy(
        Code.PART_OF_CPU_NODE,
        "Relu",
        "c = Relu(Conv(Reshape(x, [1, 4, 64]), W(8, 4, 3), pads=[1, 1])); y = Reshape(c, [1, 8, 8, 8])" + TAIL,
        "the node named in the reason",
        rewrite="conv_1d",
    ),
    Remedy(
        Code.CONVOLUTION_2D,
        "Conv",
        "c = Conv(Reshape(x, [1, 4, 64]), W(8, 4, 3), pads=[1, 1]); y = Reshape(c, [1, 8, 8, 8])" + TAIL,
        "height of 1",
        rewrite="conv_1d",
    ),
    Remedy(
        Code.CONVOLUTION_2D,
        "Conv",
        f"{HEAD}c = Conv(Reshape(c, [1, 2, 4, 8, 8]), W(2, 2, 3, 3, 3), pads=[1, 1, 1, 1, 1, 1]); "
        "y = Reshape(c, [1, 8, 8, 8])" + TAIL,
        "conv_3d",
        rewrite="conv_3d",
    ),
    Remedy(
        Code.DECONVOLUTION_2D,
        "ConvTranspose",
        f"{HEAD}t = ConvTranspose(Reshape(c, [1, 8, 64]), W(8, 8, 4), strides=[2], pads=[1, 1]); "
        "y = Reshape(t, [1, 8, 8, 16])" + TAIL,
        "height of 1",
        rewrite="conv_1d",
    ),
    Remedy(
        Code.DECONVOLUTION_PIXEL,
        "ConvTranspose",
        f"{HEAD}y = ConvTranspose(c, W(8, 8, 1, 1)){TAIL}",
        "a Conv of 1x1",
        after=f"{HEAD}y = Conv(c, W(8, 8, 1, 1)){TAIL}",
    ),
    Remedy(
        Code.DECONVOLUTION_GAPS,
        "ConvTranspose",
        f"{HEAD}y = ConvTranspose(c, W(8, 8, 2, 2), strides=[4, 4]){TAIL}",
        "the size of the stride",
        after=f"{HEAD}y = ConvTranspose(c, W(8, 8, 4, 4), strides=[4, 4]){TAIL}",
    ),
    Remedy(
        Code.DECONVOLUTION_STRIDE,
        "ConvTranspose",
        f"{HEAD}y = ConvTranspose(c, W(8, 8, 3, 3), pads=[1, 1, 1, 1]){TAIL}",
        "turned by 180 degrees",
        after=f"{HEAD}y = Conv(c, W(8, 8, 3, 3), pads=[1, 1, 1, 1]){TAIL}",
        march="bernoulli2",
    ),
    Remedy(
        Code.POOLING_2D,
        "MaxPool",
        f"{HEAD}p = MaxPool(Reshape(c, [1, 2, 4, 8, 8]), kernel_shape=[2, 2, 2], strides=[2, 2, 2]); "
        "y = Reshape(p, [1, 8, 2, 4])" + TAIL,
        "then the third",
        rewrite="pooling",
    ),
    Remedy(
        Code.POOLING_2D,
        "AveragePool",
        f"{HEAD}p = AveragePool(Reshape(c, [1, 2, 4, 8, 8]), kernel_shape=[2, 2, 2], strides=[2, 2, 2]); "
        "y = Reshape(p, [1, 8, 2, 4])" + TAIL,
        "then the third",
        rewrite="pooling",
    ),
    Remedy(Code.LAST_AXIS, "Softmax", f"{HEAD}y = Softmax(c, axis=1){TAIL}", "a Transpose in front", rewrite="softmax"),
    Remedy(
        Code.LAST_AXIS,
        "Softmax",
        f"{HEAD}y = Softmax(c, axis=1){TAIL}",
        "ask for it with run_on_bpu",
        after=f"{HEAD}y = Transpose(Softmax(Transpose(c, perm=[0, 3, 2, 1]), axis=3), perm=[0, 3, 2, 1]){TAIL}",
        on_bpu=("Softmax_3",),
        same=True,
    ),
    Remedy(
        Code.ONE_AXIS,
        "ReduceSum",
        f"{HEAD}y = ReduceSum(c, [1, 2]); z = Conv(y, W(4, 1, 1, 1))",
        "one axis at a time",
        rewrite="reductions",
    ),
    Remedy(
        Code.RANK_GATHERED,
        "Gather",
        f"{HEAD}{TOKENS}r = Transpose(Reshape(q, [1, 64, 3, 2, 4]), perm=[2, 0, 3, 1, 4]); a = Gather(r, 0, axis=0); "
        "b = Gather(r, 1, axis=0); d = Gather(r, 2, axis=0); e = MatMul(a, Transpose(b, perm=[0, 1, 3, 2])); "
        "y = MatMul(e, d); z = MatMul(y, W(4, 4))",
        "before the Reshape",
        rewrite="attention",
    ),
    Remedy(
        Code.RANK_4_ONLY,
        "Slice",
        f"{HEAD}s = Slice(Reshape(c, [1, 2, 4, 8, 8]), [0], [1], [1]); y = Reshape(s, [1, 4, 8, 8]); "
        "z = Conv(y, W(4, 4, 1, 1))",
        "rank-4",
        after=f"{HEAD}y = Slice(c, [0], [4], [1]); z = Conv(y, W(4, 4, 1, 1))",
        march="bernoulli2",
        same=True,
    ),
    Remedy(
        Code.RANK_4,
        "Pad",
        f"{HEAD}y = Reshape(Pad(Reshape(c, [1, 8, 64]), [0, 0, 0, 0, 0, 8]), [1, 8, 9, 8]){TAIL}",
        "rank-4",
        after=f"{HEAD}y = Pad(c, [0, 0, 0, 0, 0, 0, 1, 0]){TAIL}",
        same=True,
    ),
    Remedy(
        Code.RANK_2_TO_4,
        "TopK",
        f"{HEAD}v, i = TopK(Reshape(c, [1, 2, 4, 8, 8]), [2], axis=4); y = Reshape(v, [1, 8, 8, 2]){TAIL}",
        "rank-4",
        after=f"{HEAD}y, i = TopK(c, [2], axis=3){TAIL}",
        same=True,
    ),
    Remedy(
        Code.RANK_MOVED,
        "Transpose",
        f"{HEAD}r = Transpose(Reshape(c, [1, 2, 2, 2, 2, 2, 2, 2, 4]), perm=[0, 2, 1, 3, 4, 5, 6, 7, 8]); "
        f"y = Reshape(r, [1, 8, 8, 8]){TAIL}",
        "rank-4",
        after=f"{HEAD}r = Transpose(Reshape(c, [1, 2, 2, 128]), perm=[0, 2, 1, 3]); y = Reshape(r, [1, 8, 8, 8]){TAIL}",
        same=True,
    ),
    Remedy(
        Code.SCALAR,
        "ReduceMax",
        f"{HEAD}y = ReduceMax(c, keepdims=0)",
        "keepdims 1",
        after=f"{HEAD}y = ReduceMax(ReduceMax(ReduceMax(c, axes=[1]), axes=[2]), axes=[3])",
    ),
    Remedy(
        Code.POSITIONS,
        "Gather",
        f"{HEAD}y = Gather(c, [[0, 1], [2, 3]], axis=1); z = Conv(Reshape(y, [1, 4, 8, 8]), W(4, 4, 1, 1))",
        "a vector of positions, then Reshape",
        after=f"{HEAD}y = Gather(c, [0, 1, 2, 3], axis=1); z = Conv(y, W(4, 4, 1, 1))",
        same=True,
    ),
    Remedy(
        Code.RANK_4_SIZES,
        "Resize",
        f"{HEAD}y = Resize(Reshape(c, [1, 8, 64]), None, [1., 1., 2.]); y = Reshape(y, [1, 8, 8, 16]){TAIL}",
        "height and width of a rank-4",
        after=f"{HEAD}y = Resize(c, None, [1., 1., 1., 2.]){TAIL}",
        same=True,
    ),
    Remedy(
        Code.RANK_4_SEARCH,
        "ArgMax",
        f"{HEAD}y = ArgMax(Reshape(c, [1, 8, 64]), axis=1)",
        "channels of a rank-4",
        after=f"{HEAD}y = ArgMax(c, axis=1)",
    ),
    Remedy(
        Code.RANK_4_SLOPES,
        "PRelu",
        f"{HEAD}{OTHER}y = PRelu(o, W(8, 8, 8)){TAIL}",
        "one per channel",
        after=f"{HEAD}{OTHER}y = PRelu(o, W(8, 1, 1)){TAIL}",
    ),
    Remedy(
        Code.RANK_OF_MATRICES,
        "MatMul",
        f"{HEAD}y = Reshape(MatMul(Reshape(c, [512]), W(512, 512)), [1, 8, 8, 8]){TAIL}",
        "rank-4",
        after=f"{HEAD}y = Reshape(MatMul(Reshape(c, [1, 1, 1, 512]), W(512, 512)), [1, 8, 8, 8]){TAIL}",
        same=True,
    ),
    Remedy(
        Code.SEVERAL_MATRICES,
        "MatMul",
        f"{HEAD}y = MatMul(c, c){TAIL}",
        "one by one",
        after="a = Conv(x, W(1, 4, 1, 1), W(1)); y = MatMul(a, a); z = Conv(y, W(4, 1, 1, 1), W(4))",
        march="bernoulli2",
    ),
    Remedy(
        Code.RANKS_DIFFER,
        "Add",
        f"{HEAD}s = Reshape(ReduceMax(c, axes=[1]), [8, 8]); y = Add(c, s){TAIL}",
        "the same rank",
        after=f"{HEAD}y = Add(c, ReduceMax(c, axes=[1])){TAIL}",
        same=True,
    ),
    Remedy(
        Code.ONE_AXIS_REPEATED,
        "Tile",
        f"{HEAD}y = Tile(c, [1, 1, 2, 2]){TAIL}",
        "one axis at a time",
        after=f"{HEAD}y = Tile(Tile(c, [1, 1, 2, 1]), [1, 1, 1, 2]){TAIL}",
        same=True,
    ),
    Remedy(
        Code.NOT_CONSTANT,
        "Conv",
        f"{HEAD}w = Reshape(MaxPool(c, kernel_shape=[8, 1], strides=[8, 1]), [8, 8, 1, 1]); y = Conv(c, w){TAIL}",
        "a constant",
        after=f"{HEAD}y = Conv(c, W(8, 8, 1, 1)){TAIL}",
    ),
    Remedy(
        Code.NOT_CONSTANT,
        "PRelu",
        f"{HEAD}{OTHER}y = PRelu(o, Sigmoid(o)){TAIL}",
        "one value or one per channel",
        after=f"{HEAD}{OTHER}y = PRelu(o, 0.5){TAIL}",
    ),
    Remedy(
        Code.EXPONENT_NOT_SCALAR,
        "Pow",
        f"{HEAD}{OTHER}y = Pow(c, o){TAIL}",
        "a constant",
        after=f"{HEAD}{OTHER}y = Pow(c, 2.0){TAIL}",
    ),
    Remedy(
        Code.CONSTANT_NOT_FOLDED,
        "Mul",
        f"{HEAD}y = Mul(c, W(8, 8, 8)){TAIL}",
        "one value or one per channel",
        after=f"{HEAD}y = Mul(c, W(8, 1, 1)){TAIL}",
        march="bernoulli2",
        shape=(2, 4, 8, 8),
    ),
    Remedy(
        Code.PADDED_AXES,
        "Pad",
        f"{HEAD}y = Pad(c, [0, 1, 0, 0, 0, 1, 0, 0]); z = Conv(y, W(4, 10, 1, 1))",
        "filters of weight 0",
        after="y = Relu(Conv(x, W(10, 4, 3, 3), W(10), pads=[1, 1, 1, 1])); z = Conv(y, W(4, 10, 1, 1))",
        march="bernoulli2",
    ),
    Remedy(
        Code.PADS,
        "Pad",
        f'{HEAD}y = Pad(c, [0, 0, -1, 0, 0, 0, 0, 0], mode="edge"){TAIL}',
        "crop with Slice",
        after=f"{HEAD}y = Slice(c, [1], [8], [2]){TAIL}",
        same=True,
    ),
    Remedy(
        Code.INDICES_NOT_CONSTANT,
        "Gather",
        f"{HEAD}n = Reshape(ArgMax(c, axis=1), [64]); y = Gather(c, n, axis=1); z = Conv(y, W(4, 64, 1, 1))",
        "make them constants",
        after=f"{HEAD}y = Gather(c, {[index % 8 for index in range(64)]}, axis=1); z = Conv(y, W(4, 64, 1, 1))",
    ),
    Remedy(
        Code.NOT_FLOAT,
        "MaxPool",
        f"{HEAD}y, i = MaxPool(c, kernel_shape=[2, 2], strides=[2, 2])",
        "compute indices and masks in the application",
        after=f"{HEAD}y = MaxPool(c, kernel_shape=[2, 2], strides=[2, 2])",
    ),
    Remedy(
        Code.COMPARISON,
        "Equal",
        f"{HEAD}{OTHER}y = Mul(c, Cast(Equal(c, o), to=1)){TAIL}",
        "its own MaxPool",
        after=f"{HEAD}y = Mul(c, Cast(Equal(c, MaxPool(c, kernel_shape=[3, 3], pads=[1, 1, 1, 1])), to=1)){TAIL}",
    ),
    Remedy(
        Code.BOTH_BROADCAST,
        "Mul",
        f"{HEAD}a = MaxPool(c, kernel_shape=[8, 1]); b = MaxPool(c, kernel_shape=[1, 8]); y = Mul(a, b){TAIL}",
        "broadcast one of them only",
        after=f"{HEAD}a = MaxPool(c, kernel_shape=[8, 8]); y = Mul(c, a){TAIL}",
        march="bernoulli2",
    ),
    Remedy(
        Code.SINGLE_NUMBER,
        "Mul",
        f"{HEAD}n = MaxPool(Conv(x, W(1, 4, 1, 1), W(1)), kernel_shape=[8, 8]); y = Mul(c, n){TAIL}",
        "once per channel",
        after=f"{HEAD}n = MaxPool(Conv(x, W(8, 4, 1, 1), W(8)), kernel_shape=[8, 8]); y = Mul(c, n){TAIL}",
        march="bernoulli2",
    ),
    Remedy(
        Code.DILATION_POWER,
        "Conv",
        f"y = Conv(x, W(8, 4, 3, 3), dilations=[3, 3], pads=[3, 3, 3, 3]){TAIL}",
        "a dilation of 1, 2 or 4",
        after=f"y = Conv(x, W(8, 4, 3, 3), dilations=[2, 2], pads=[2, 2, 2, 2]){TAIL}",
        march="bernoulli2",
    ),
    Remedy(
        Code.DILATION_ROWS,
        "Conv",
        f"y = Conv(x, W(8, 4, 3, 3), dilations=[2, 1], pads=[2, 1, 2, 1]){TAIL}",
        "columns as much as rows",
        after=f"y = Conv(x, W(8, 4, 3, 3), dilations=[2, 2], pads=[2, 2, 2, 2]){TAIL}",
        march="bernoulli2",
    ),
    Remedy(
        Code.LINE_REPEATED,
        "Mul",
        f"{HEAD}a = MaxPool(c, kernel_shape=[8, 1]); y = Mul(c, a){TAIL}",
        "a single pixel",
        after=f"{HEAD}a = MaxPool(c, kernel_shape=[8, 8]); y = Mul(c, a){TAIL}",
        march="bernoulli2",
    ),
    Remedy(
        Code.ONE_CHANNEL_ADDED,
        "Add",
        f"{HEAD}a = Conv(x, W(1, 4, 1, 1)); y = Add(c, a){TAIL}",
        "the same shape",
        after=f"{HEAD}a = Conv(x, W(8, 4, 1, 1)); y = Add(c, a){TAIL}",
        march="bernoulli2",
    ),
    Remedy(
        Code.DIVISION,
        "Reciprocal",
        f"{HEAD}a = MaxPool(c, kernel_shape=[8, 1]); b = MaxPool(Exp(c), kernel_shape=[1, 8]); y = Div(a, b){TAIL}",
        "change the product",
        after=f"{HEAD}y = Div(c, MaxPool(Exp(c), kernel_shape=[8, 8])){TAIL}",
        march="bernoulli2",
    ),
    Remedy(
        Code.PRODUCT_TAIL,
        "Mul",
        f"{HEAD}{OTHER}y = Mul(Sigmoid(c), Sigmoid(o))",
        "in the application",
        rewrite="tail",
        march="bernoulli2",
    ),
    Remedy(
        Code.REDUCED_VALUES,
        "ReduceMax",
        "c = Conv(x, W(8, 4, 1, 1)); y = ReduceMax(c, axes=[2]); z = Conv(y, W(4, 8, 1, 1))",
        "parts of it first",
        after="c = Conv(x, W(8, 4, 1, 1)); a, b = Split(c, [2500, 2500], axis=2); "
        "y = Max(ReduceMax(a, axes=[2]), ReduceMax(b, axes=[2])); z = Conv(y, W(4, 8, 1, 1))",
        shape=(1, 4, 5000, 2),
        same=True,
    ),
    Remedy(
        Code.SEARCHED_VALUES,
        "TopK",
        "c = Conv(x, W(8, 4, 1, 1)); y, i = TopK(c, [1], axis=2); z = Conv(y, W(4, 8, 1, 1))",
        "of parts first",
        after="c = Conv(x, W(8, 4, 1, 1)); a, b = Split(c, [20000, 20000], axis=2); v, i = TopK(a, [1], axis=2); "
        "w, j = TopK(b, [1], axis=2); y, k = TopK(Concat(v, w, axis=2), [1], axis=2); z = Conv(y, W(4, 8, 1, 1))",
        shape=(1, 4, 40000, 1),
        same=True,
    ),
    Remedy(
        Code.SEARCHED_CHANNELS,
        "ArgMax",
        "y = ArgMax(Conv(x, W(300, 4, 1, 1)), axis=1)",
        "fewer channels",
        after="y = ArgMax(Conv(x, W(200, 4, 1, 1)), axis=1)",
    ),
    Remedy(
        Code.LAST_INDEX,
        "ArgMax",
        f"{HEAD}y = ArgMax(c, axis=1, select_last_index=1)",
        "select_last_index at 0",
        after=f"{HEAD}y = ArgMax(c, axis=1)",
    ),
    Remedy(
        Code.BATCH_SEARCHED,
        "TopK",
        f"{HEAD}y, i = TopK(c, [1], axis=0)",
        "another axis",
        after=f"{HEAD}y, i = TopK(c, [1], axis=1)",
    ),
    Remedy(
        Code.DILATION,
        "MaxPool",
        f"{HEAD}y = MaxPool(c, kernel_shape=[2, 2], dilations=[2, 2]){TAIL}",
        "larger strides before it",
        after=f"{HEAD}y = MaxPool(MaxPool(c, kernel_shape=[1, 1], strides=[2, 2]), kernel_shape=[2, 2]){TAIL}",
    ),
    Remedy(
        Code.WINDOW,
        "MaxPool",
        f"y = MaxPool(Conv(x, W(8, 4, 1, 1)), kernel_shape=[65, 1]){TAIL}",
        "several smaller ones",
        after=f"y = MaxPool(MaxPool(Conv(x, W(8, 4, 1, 1)), kernel_shape=[33, 1]), kernel_shape=[33, 1]){TAIL}",
        shape=(1, 4, 80, 2),
        same=True,
    ),
    Remedy(
        Code.KERNEL,
        "ConvTranspose",
        f"{HEAD}y = ConvTranspose(c, W(8, 8, 16, 16), strides=[16, 16]){TAIL}",
        "several smaller ones",
        after=f"{HEAD}y = ConvTranspose(ConvTranspose(c, W(8, 8, 4, 4), strides=[4, 4]), W(8, 8, 4, 4), strides=[4, 4])"
        + TAIL,
    ),
    Remedy(
        Code.KERNEL_SIDES,
        "Conv",
        f"{HEAD}y = Conv(c, W(8, 8, 9, 9), pads=[4, 4, 4, 4]){TAIL}",
        "several smaller ones",
        after=f"{HEAD}y = Conv(Conv(c, W(8, 8, 5, 5), pads=[2, 2, 2, 2]), W(8, 8, 5, 5), pads=[2, 2, 2, 2]){TAIL}",
        march="bernoulli2",
    ),
    Remedy(
        Code.KERNEL_VOLUME,
        "Conv",
        f"c = Conv(x, W(2048, 4, 1, 1)); y = Conv(c, W(8, 2048, 4, 5)){TAIL}",
        "several smaller ones",
        after="c = Conv(x, W(2048, 4, 1, 1)); a, b = Split(c, [1024, 1024], axis=1); "
        f"y = Add(Conv(a, W(8, 1024, 4, 5)), Conv(b, W(8, 1024, 4, 5))){TAIL}",
        shape=(1, 4, 6, 6),
    ),
    Remedy(
        Code.INPUT_CHANNELS,
        "Conv",
        f"c = Conv(x, W(8200, 4, 1, 1)); y = Conv(c, W(8, 8200, 1, 1)){TAIL}",
        "add the results",
        after="c = Conv(x, W(8200, 4, 1, 1)); a, b = Split(c, [4100, 4100], axis=1); "
        f"y = Add(Conv(a, W(8, 4100, 1, 1)), Conv(b, W(8, 4100, 1, 1))){TAIL}",
        shape=(1, 4, 2, 2),
    ),
    Remedy(
        Code.STRIDE,
        "ConvTranspose",
        f"{HEAD}y = ConvTranspose(c, W(8, 8, 14, 14), strides=[15, 15]){TAIL}",
        "several steps",
        after=f"{HEAD}y = ConvTranspose(ConvTranspose(c, W(8, 8, 5, 5), strides=[5, 5]), W(8, 8, 3, 3), strides=[3, 3])"
        + TAIL,
    ),
    Remedy(
        Code.PADDING,
        "ConvTranspose",
        f"{HEAD}y = ConvTranspose(c, W(8, 8, 14, 14), strides=[7, 7], pads=[8, 8, 8, 8]){TAIL}",
        "crop the result with Slice",
        after=f"{HEAD}y = ConvTranspose(c, W(8, 8, 14, 14), strides=[7, 7], pads=[7, 7, 7, 7]); "
        f"y = Slice(y, [1, 1], [-1, -1], [2, 3]){TAIL}",
        same=True,
    ),
    Remedy(
        Code.OUTPUT_PADDING,
        "ConvTranspose",
        f"{HEAD}y = ConvTranspose(c, W(8, 8, 4, 4), strides=[4, 4], output_padding=[2, 2]){TAIL}",
        "add the border with Pad",
        after=f"{HEAD}y = Pad(ConvTranspose(c, W(8, 8, 4, 4), strides=[4, 4]), [0, 0, 0, 0, 0, 0, 2, 2]){TAIL}",
        same=True,
    ),
    Remedy(
        Code.SCALE,
        "Resize",
        'y = Resize(Conv(x, W(8, 4, 1, 1)), None, [1., 1., 128., 1.], mode="linear"); z = Conv(y, W(4, 8, 1, 1))',
        "several steps",
        after='y = Resize(Resize(Conv(x, W(8, 4, 1, 1)), None, [1., 1., 16., 1.], mode="linear"), None, '
        '[1., 1., 8., 1.], mode="linear"); z = Conv(y, W(4, 8, 1, 1))',
        shape=(1, 4, 1, 2),
    ),
    Remedy(
        Code.NEAREST_SCALES,
        "Resize",
        f"{HEAD}y = Resize(c, None, [1., 1., 3., 3.]){TAIL}",
        "mode linear",
        after=f'{HEAD}y = Resize(c, None, [1., 1., 3., 3.], mode="linear"){TAIL}',
    ),
    Remedy(
        Code.NEAREST_SCALES,
        "Resize",
        "y = Resize(Conv(x, W(8, 4, 1, 1)), None, [1., 1., 64., 1.]); z = Conv(y, W(4, 8, 1, 1))",
        "several one after another",
        after="y = Resize(Resize(Conv(x, W(8, 4, 1, 1)), None, [1., 1., 8., 1.]), None, [1., 1., 8., 1.]); "
        "z = Conv(y, W(4, 8, 1, 1))",
        shape=(1, 4, 1, 2),
    ),
    Remedy(
        Code.NEAREST_NOT_WHOLE,
        "Resize",
        f"{HEAD}y = Resize(c, None, [1., 1., 1.5, 1.5]){TAIL}",
        "mode linear",
        after=f'{HEAD}y = Resize(c, None, [1., 1., 1.5, 1.5], mode="linear"){TAIL}',
    ),
    Remedy(
        Code.NEAREST_ROWS,
        "Resize",
        f"{HEAD}y = Resize(c, None, [1., 1., 2., 1.]){TAIL}",
        "every second one with Slice",
        after=f"{HEAD}r = Resize(c, None, [1., 1., 2., 2.]); y = Slice(r, [0], [16], [3], [2]){TAIL}",
        march="bernoulli2",
        same=True,
    ),
    Remedy(
        Code.RESIZE_MODE,
        "Resize",
        f'{HEAD}y = Resize(c, None, [1., 1., 2., 2.], mode="cubic"){TAIL}',
        "nearest or linear",
        after=f'{HEAD}y = Resize(c, None, [1., 1., 2., 2.], mode="linear"){TAIL}',
    ),
    Remedy(
        Code.COORDINATES,
        "Resize",
        f'{HEAD}y = Resize(c, None, [1., 1., 2., 2.], mode="linear", '
        f'coordinate_transformation_mode="tf_half_pixel_for_nn"){TAIL}',
        "align_corners",
        after=f'{HEAD}y = Resize(c, None, [1., 1., 2., 2.], mode="linear", '
        f'coordinate_transformation_mode="align_corners"){TAIL}',
    ),
    Remedy(
        Code.ANTIALIAS,
        "Resize",
        f'{HEAD}y = Resize(c, None, [1., 1., 0.5, 0.5], mode="linear", antialias=1){TAIL}',
        "as the reason says",
        after=f'{HEAD}y = Resize(c, None, [1., 1., 0.5, 0.5], mode="linear"){TAIL}',
        opset=18,
    ),
    Remedy(
        Code.PAD_MODE,
        "Pad",
        f'{HEAD}y = Pad(c, [0, 0, 1, 1, 0, 0, 1, 1], mode="reflect"){TAIL}',
        "can be joined",
        rewrite="reflect",
    ),
    Remedy(
        Code.PAD_MODE,
        "Pad",
        f'{HEAD}y = Pad(c, [0, 0, 1, 1, 0, 0, 1, 1], mode="reflect"){TAIL}',
        "constant or edge",
        after=f'{HEAD}y = Pad(c, [0, 0, 1, 1, 0, 0, 1, 1], mode="edge"){TAIL}',
    ),
    Remedy(
        Code.NEGATIVE_STEP,
        "Slice",
        f"{HEAD}y = Slice(c, [-1], [-99], [2], [-1]){TAIL}",
        "a positive step",
        after=f"{HEAD}y = Slice(c, [0], [99], [2], [1]){TAIL}",
    ),
    Remedy(
        Code.NEGATIVE_SLOPE,
        "PRelu",
        f"{HEAD}{OTHER}y = PRelu(o, -0.1){TAIL}",
        "not negative",
        after=f"{HEAD}{OTHER}y = PRelu(o, 0.1){TAIL}",
        march="bernoulli2",
    ),
]

WITHOUT_NAME = ("the node named in the reason", "in the application")
"""Remedies that leave the way open."""

NOT_TRIED = {
    Code.CUSTOM: "there is nothing to change: the user's Python code computes it",
    Code.PASSIVE_TAIL: "none is needed",
    Code.ACTIVATION_TAIL: "none is needed",
    Code.ADDED_NODE: "no node of the network: it goes with remove_node_type, tests/engine/compile/test_removal.py",
    Code.AXIS_DROPPED: "the optimiser keeps the axis (KeepReducedAxis)",
    Code.BOUNDS_NOT_CONSTANT: "the shape depends on the data then, and the network is refused",
    Code.COUNT_NOT_CONSTANT: "the shape depends on the data then, and the network is refused",
    Code.INDICES: "said as not_float: indices are integers",
}
"""Codes without a row, and why."""


def draft(remedy: Remedy, on_cpu: Sequence[str] = (), on_bpu: Sequence[str] = ()) -> Draft:
    info = {name: NodeInfo.model_validate({"ON": "CPU"}) for name in on_cpu}
    info |= {name: NodeInfo.model_validate({"ON": "BPU"}) for name in on_bpu}
    return Draft(remedy.march, node_info=info)


def placed(path: Path, wanted: Draft) -> dict[str, tuple[str, Code]]:
    """Type and code of every node that the CPU computes, by name."""
    return {
        row.node: (row.type, row.reason.code)
        for row in check(path, wanted).nodes
        if row.reason is not None and row.reason.code not in NEEDS_NOTHING
    }


def model_of(text: str, remedy: Remedy) -> ir.Model:
    return ir.from_proto(network(text.replace("; ", "\n"), remedy.opset, remedy.shape))


@pytest.mark.parametrize("remedy", REMEDIES, ids=lambda remedy: remedy.label)
def test_a_remedy_helps(remedy: Remedy, tmp_path: Path) -> None:
    before = save_model(model_of(remedy.before, remedy), tmp_path / "before.onnx")
    rows = check(before, draft(remedy, remedy.on_cpu)).nodes
    hints = [
        hint_for(row.type, row.reason)
        for row in rows
        if row.reason is not None and (row.type, row.reason.code) == (remedy.op_type, remedy.code)
    ]
    assert hints, [(row.type, row.reason) for row in rows if row.reason is not None]
    assert remedy.part in hints[0]
    on_bpu = tuple(remedy.on_bpu)
    if remedy.rewrite:
        if remedy.part not in WITHOUT_NAME:
            assert any(f"--apply {remedy.rewrite}" in hint or f"or {remedy.rewrite}" in hint for hint in hints)
        found = rewritings_of(load_network(before), remedy.march, wanted=remedy.rewrite.split(","))
        after, on_bpu = save_model(found.end.model, tmp_path / "after.onnx"), found.end.requests
        assert all(proposal.comparison.equal for proposal in found.proposals)
    else:
        after = save_model(model_of(remedy.after or remedy.before, remedy), tmp_path / "after.onnx")
    if remedy.same:
        assert ExactOutputs.of(load_network(before)).compare(load_network(after)).equal
    left = placed(after, draft(remedy, on_bpu=on_bpu))
    assert (remedy.op_type, remedy.code) not in left.values(), left
    assert len(left) < len(placed(before, draft(remedy, remedy.on_cpu))), left


def test_a_network_without_a_node_on_the_bpu_says_what_to_change(tmp_path: Path) -> None:
    remedy = Remedy(Code.CONVOLUTION_2D, "Conv", "y = Relu(Conv(x, W(8, 4, 3)))", "", shape=(1, 4, 64))
    path = save_model(model_of(remedy.before, remedy), tmp_path / "net.onnx")
    with pytest.raises(UnsupportedError, match="ptqlab rewrite --apply conv_1d"):
        check(path, draft(remedy))
    found = rewritings_of(load_network(path), "bayes-e", wanted=["conv_1d"])
    assert found.end.figures is not None
    assert not placed(save_model(found.end.model, tmp_path / "after.onnx"), draft(remedy))


def test_every_reason_has_a_row() -> None:
    tried = {remedy.code for remedy in REMEDIES}
    assert not tried & set(NOT_TRIED)
    assert tried | set(NOT_TRIED) == set(Code)


def test_every_operator_with_a_hint_has_a_row() -> None:
    tried = {remedy.op_type for remedy in REMEDIES if remedy.code is Code.NO_OPERATOR}
    assert set(BY_OPERATOR) - tried == {"GroupNormalization"}  # tried in tests/engine/rewrite/test_group_norm.py


def test_rewrites_that_are_named_exist() -> None:
    texts = " ".join((*HINTS.values(), *BY_OPERATOR.values()))
    found = re.findall(r"--apply ([a-z0-9_]+(?:,[a-z0-9_]+)*)", texts)
    named = {name for part in found for name in part.split(",")}
    assert named
    assert named <= set(rewrite_names())
