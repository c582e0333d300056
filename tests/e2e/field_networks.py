"""Small networks of what people in the field met, written by these functions (docs/evidence/field.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from tests.engine.frontend.networks import network

node = helper.make_node
_MAP = {"x": (1, 4, 8, 8)}
_TOKENS = {"x": (1, 6, 16)}


def normal(*shape: int, seed: int = 0, scale: float = 0.3) -> NDArray[np.float32]:
    """Weights."""
    return (np.random.default_rng([seed, *shape]).normal(size=shape) * scale).astype(np.float32)


def int64(*values: int) -> NDArray[np.int64]:
    """A list of integers."""
    return np.array(values, np.int64)


def between_convolutions(
    nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, Any] | None = None,
    *,
    opset: int = 11,
    channels: int = 4,
) -> onnx.ModelProto:
    """A convolution ``x`` to ``c``, ``nodes`` from ``c`` to ``t``, of ``channels`` channels, a convolution to ``y``."""
    first = node("Conv", ["x", "w1", "b1"], ["c"], "first", pads=[1, 1, 1, 1])
    last = node("Conv", ["t", "w2"], ["y"], "last")
    own = {"w1": normal(4, 4, 3, 3), "b1": normal(4), "w2": normal(4, channels, 1, 1)}
    return network([first, *nodes, last], _MAP, ["y"], {**own, **(constants or {})}, opset, 8 if opset < 21 else 10)


def behind_a_convolution(
    nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Any] | None = None, *, opset: int = 11
) -> onnx.ModelProto:
    """A convolution ``x`` to ``c``, ``nodes`` from ``c`` to ``y``."""
    first = node("Conv", ["x", "w1", "b1"], ["c"], "first", pads=[1, 1, 1, 1])
    own = {"w1": normal(4, 4, 3, 3), "b1": normal(4)}
    return network([first, *nodes], _MAP, ["y"], {**own, **(constants or {})}, opset)


def of_tokens(
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[str] = ("y",),
    constants: Mapping[str, Any] | None = None,
    *,
    opset: int = 11,
) -> onnx.ModelProto:
    """Six tokens ``x`` multiplied to ``c``, ``nodes`` from there; ``m`` is a matrix of 16 x 16, ``g`` 16 scales."""
    own = {"m": normal(16, 16), "g": normal(16) + np.float32(1)}
    first = node("MatMul", ["x", "m"], ["c"], "first")
    return network([first, *nodes], _TOKENS, outputs, {**own, **(constants or {})}, opset, 8 if opset < 21 else 10)


def upsampled(**attributes: Any) -> onnx.ModelProto:
    """A ``ConvTranspose`` of a kernel of three and strides of two."""
    transposed = node("ConvTranspose", ["c", "d"], ["y"], "up", strides=[2, 2], **attributes)
    return behind_a_convolution([transposed], {"d": normal(4, 4, 3, 3)})


def masked_attention(value: float) -> onnx.ModelProto:
    """Attention of every token to itself and those before, the others masked by adding ``value``."""
    mask = np.triu(np.full((6, 6), value, np.float32), 1)
    nodes = [
        node("Transpose", ["x"], ["k"], "keys", perm=[0, 2, 1]),
        node("MatMul", ["c", "k"], ["s"], "scores"),
        node("Add", ["s", "mask"], ["masked"], "masked"),
        node("Softmax", ["masked"], ["a"], "softmax", axis=2),
        node("MatMul", ["a", "x"], ["y"], "mixed"),
    ]
    return of_tokens(nodes, constants={"mask": mask})


def parts_of_a_sequence(split: NDArray[np.int64], opset: int) -> onnx.ModelProto:
    """Channels cut into a sequence of two, joined in the other order."""
    nodes = [
        node("SplitToSequence", ["c", "split"], ["parts"], "cut", axis=1),
        node("SequenceAt", ["parts", "zero"], ["p0"], "part0"),
        node("SequenceAt", ["parts", "one"], ["p1"], "part1"),
        node("Concat", ["p1", "p0"], ["t"], "joined", axis=1),
    ]
    constants = {"split": split, "zero": np.int64(0), "one": np.int64(1)}
    return between_convolutions(nodes, constants, opset=opset)


def detector_with_suppression() -> onnx.ModelProto:
    """Boxes and scores of 16 places, and the ``NonMaxSuppression`` of them."""
    nodes = [
        node("Reshape", ["c", "shape_b"], ["boxes"], "boxes"),
        node("Conv", ["x", "w3"], ["s"], "conv_s"),
        node("Sigmoid", ["s"], ["p"], "sigmoid"),
        node("Reshape", ["p", "shape_s"], ["scores"], "scores"),
        node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["y"], "nms"),
    ]
    constants = {
        "shape_b": int64(1, 64, 4),
        "shape_s": int64(1, 1, 64),
        "w3": normal(1, 4, 1, 1),
        "most": int64(5),
        "overlap": np.array([0.5], np.float32),
        "least": np.array([0.1], np.float32),
    }
    model = behind_a_convolution(nodes, constants)
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    return model


def attention_of_heads() -> onnx.ModelProto:
    """The operator ``Attention`` of opset 23, two heads."""
    nodes = [
        node("MatMul", ["x", "mk"], ["k"], "keys"),
        node("MatMul", ["x", "mv"], ["v"], "values"),
        node("Attention", ["c", "k", "v"], ["y"], "attention", q_num_heads=2, kv_num_heads=2),
    ]
    return of_tokens(nodes, constants={"mk": normal(16, 16, seed=1), "mv": normal(16, 16, seed=2)}, opset=23)


def rotated_positions() -> onnx.ModelProto:
    """The operator ``RotaryEmbedding`` of opset 23 on two heads."""
    angles = np.arange(24, dtype=np.float32).reshape(6, 4)
    nodes = [
        node("Reshape", ["c", "shape"], ["heads"], "heads"),
        node("RotaryEmbedding", ["heads", "cos", "sin", "positions"], ["y"], "rotated"),
    ]
    constants = {
        "shape": int64(1, 2, 6, 8),
        "cos": np.cos(angles),
        "sin": np.sin(angles),
        "positions": np.arange(6, dtype=np.int64)[None],
    }
    return of_tokens(nodes, constants=constants, opset=23)


def two_norms_of_one_weight() -> onnx.ModelProto:
    """Two convolutions with the same weight, a BatchNormalization of its own behind each."""
    norm = {f"{kind}{index}": normal(4, seed=index) for kind in ("bias", "mean") for index in (1, 2)}
    norm |= {f"scale{index}": normal(4, seed=index) + np.float32(index) for index in (1, 2)}
    norm |= {"variance": np.abs(normal(4)) + np.float32(0.5), "w": normal(4, 4, 1, 1)}
    nodes = [
        node("Conv", ["x", "w"], ["c1"], "conv1"),
        node("BatchNormalization", ["c1", "scale1", "bias1", "mean1", "variance"], ["n1"], "norm1"),
        node("Relu", ["n1"], ["r1"], "relu1"),
        node("Conv", ["r1", "w"], ["c2"], "conv2"),
        node("BatchNormalization", ["c2", "scale2", "bias2", "mean2", "variance"], ["y"], "norm2"),
    ]
    return network(nodes, _MAP, ["y"], norm, 11)
