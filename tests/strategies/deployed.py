"""Networks of the forms that people deploy: several inputs and outputs, batches, ranks 2, 3 and 5, attention, operators
that no march has in the middle, maps that are tiled; and conversions with the options that people set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper

from engine.calibrate import CalibrationOptions
from engine.place import NodeTypes, PlacementOptions
from tests.strategies.graphs import (
    INPUT_STYLES,
    WEIGHT_STYLES,
    Draw,
    GraphBuilder,
    activation,
    batch_norm,
    concat,
    conv,
    conv_tail,
    input_data,
    pool,
    residual,
    same_conv,
    squeeze_excite,
)

OPTIONS = (
    CalibrationOptions(),
    CalibrationOptions(max_percentile=0.99),
    CalibrationOptions(calibration_type="kl"),
    CalibrationOptions(per_channel=True),
    CalibrationOptions(asymmetric=True),
    CalibrationOptions(calibration_type="kl", per_channel=True, asymmetric=True),
)
"""How thresholds are chosen."""


@dataclass(frozen=True)
class DeployedCase:
    """A float network with data by input.

    Attributes:
        model: one input or several, float32; one output or several.
        calibration, samples: float32 by input, shape (samples x batch, ...).
        batch: samples that the model takes at a time.
        options: how thresholds are chosen.
        blocks: what was drawn.
    """

    model: onnx.ModelProto = field(repr=False)
    calibration: Mapping[str, NDArray[np.float32]] = field(repr=False)
    samples: Mapping[str, NDArray[np.float32]] = field(repr=False)
    batch: int
    options: CalibrationOptions
    blocks: tuple[str, ...]

    def int16(self, chosen: int) -> PlacementOptions:
        """int16 inputs for one of the convolutions."""
        names = [node.name for node in self.model.graph.node if node.op_type == "Conv"]
        return PlacementOptions(node_info={names[chosen % len(names)]: NodeTypes(input_type="int16")})


def split(b: GraphBuilder, draw: Draw, x: str) -> str:
    """Channels in two uneven parts; one is convolved, both are joined again."""
    n, channels, height, width = b.shapes[x]
    if channels < 2:
        return x
    first = draw(st.integers(1, channels - 1))
    sizes = (first, channels - first)
    parts = [f"s{len(b.nodes)}_{index}" for index in range(2)]
    given, attributes = [x], {"axis": 1}
    if b.opset < 13:
        attributes["split"] = list(sizes)
    else:
        given.append(b.constant("sizes", np.array(sizes, np.int64)))
    b.nodes.append(helper.make_node("Split", given, parts, name=f"Split_{len(b.nodes)}", **attributes))
    for part, size in zip(parts, sizes, strict=True):
        b.shapes[part] = (n, size, height, width)
    left = same_conv(b, parts[0], sizes[0], 1)
    b.blocks.append(f"split {sizes}")
    return b.node("Concat", [left, parts[1]], (n, channels, height, width), axis=1)


def slice_(b: GraphBuilder, draw: Draw, x: str) -> str:
    """Every second row, or a part of the columns."""
    n, channels, height, width = b.shapes[x]
    axis, step = draw(st.sampled_from(((2, 2), (3, 1))))
    size = (height, width)[axis - 2]
    start = draw(st.integers(0, min(1, size - 1)))
    limits = [
        b.constant(name, np.array([v], np.int64)) for name, v in zip("seap", (start, size, axis, step), strict=True)
    ]
    out = (size - start + step - 1) // step
    b.blocks.append(f"slice axis {axis} from {start} by {step}")
    shape = (n, channels, out, width) if axis == 2 else (n, channels, height, out)
    return b.node("Slice", [x, *limits], shape)


def gather(b: GraphBuilder, draw: Draw, x: str) -> str:
    """Channels in another order, some twice."""
    n, channels, height, width = b.shapes[x]
    chosen = draw(st.lists(st.integers(0, channels - 1), min_size=1, max_size=8))
    b.blocks.append(f"gather {chosen}")
    indices = b.constant("indices", np.array(chosen, np.int64))
    return b.node("Gather", [x, indices], (n, len(chosen), height, width), axis=1)


def pad(b: GraphBuilder, draw: Draw, x: str) -> str:
    """Zeros, a constant or the border around the map."""
    n, channels, height, width = b.shapes[x]
    mode, value = draw(st.sampled_from((("constant", 0.0), ("constant", 0.5), ("edge", 0.0))))
    sizes = [0, 0, *(draw(st.integers(0, 2)) for _ in range(2)), 0, 0, *(draw(st.integers(0, 2)) for _ in range(2))]
    given = [x, b.constant("pads", np.array(sizes, np.int64)), b.constant("value", np.float32(value))]
    b.blocks.append(f"pad {mode} {value} {sizes}")
    return b.node("Pad", given, (n, channels, height + sizes[2] + sizes[6], width + sizes[3] + sizes[7]), mode=mode)


def prelu(b: GraphBuilder, draw: Draw, x: str) -> str:
    """PRelu with a slope per channel."""
    channels = b.shapes[x][1]
    slope = b.constant("slope", b.rng.uniform(0.0, 0.5, (channels, 1, 1)).astype(np.float32))
    b.blocks.append("prelu")
    return b.node("PRelu", [x, slope], b.shapes[x])


def transpose(b: GraphBuilder, draw: Draw, x: str) -> str:
    """Height and width exchanged."""
    n, channels, height, width = b.shapes[x]
    b.blocks.append("transpose")
    return b.node("Transpose", [x], (n, channels, width, height), perm=[0, 1, 3, 2])


def nowhere(b: GraphBuilder, draw: Draw, x: str) -> str:
    """An operator that no march has, between a convolution and the rest."""
    kind = draw(st.sampled_from(("Neg", "ThresholdedRelu")))
    attributes = {"alpha": 0.25} if kind == "ThresholdedRelu" else {}
    b.blocks.append(kind)
    channels = b.shapes[x][1]
    return b.node(kind, [same_conv(b, x, channels, 1)], b.shapes[x], **attributes)


def attention(b: GraphBuilder, draw: Draw, x: str) -> str:
    """One head over the positions of the map: queries, keys and values are 1x1 convolutions, in rank 3."""
    n, channels, height, width = b.shapes[x]
    places = height * width
    if places > 144:
        return x
    flat = b.constant("flat", np.array([n, channels, places], np.int64))
    rows = [b.node("Reshape", [same_conv(b, x, channels, 1), flat], (n, channels, places)) for _ in range(3)]
    queries = b.node("Transpose", [rows[0]], (n, places, channels), perm=[0, 2, 1])
    scores = b.node("MatMul", [queries, rows[1]], (n, places, places))
    scores = b.node("Mul", [scores, b.constant("scale", np.float32(channels**-0.5))], (n, places, places))
    weights = b.node("Softmax", [scores], (n, places, places), axis=2)
    values = b.node("Transpose", [rows[2]], (n, places, channels), perm=[0, 2, 1])
    mixed = b.node("MatMul", [weights, values], (n, places, channels))
    mixed = b.node("Transpose", [mixed], (n, channels, places), perm=[0, 2, 1])
    back = b.constant("back", np.array([n, channels, height, width], np.int64))
    b.blocks.append(f"attention {channels} x {places}")
    return b.node("Reshape", [mixed, back], (n, channels, height, width))


def rank5(b: GraphBuilder, draw: Draw, x: str) -> str:
    """Channels of two groups exchanged through rank 5, as channel shuffles are written."""
    n, channels, height, width = b.shapes[x]
    if channels % 2:
        return x
    apart = b.constant("apart", np.array([n, 2, channels // 2, height, width], np.int64))
    y = b.node("Reshape", [x, apart], (n, 2, channels // 2, height, width))
    y = b.node("Transpose", [y], (n, channels // 2, 2, height, width), perm=[0, 2, 1, 3, 4])
    b.blocks.append("rank 5")
    together = b.constant("together", np.array([n, channels, height, width], np.int64))
    return b.node("Reshape", [y, together], (n, channels, height, width))


BLOCKS = (
    conv,
    batch_norm,
    activation,
    residual,
    concat,
    pool,
    squeeze_excite,
    split,
    slice_,
    gather,
    pad,
    prelu,
    transpose,
    nowhere,
    attention,
    rank5,
)


def dense_tail(b: GraphBuilder, draw: Draw, x: str) -> str:
    """Mean over the map, then two linear layers as MatMul and Add in rank 2."""
    n, channels, _, _ = b.shapes[x]
    y = b.node("ReduceMean", [x], (n, channels), axes=[2, 3], keepdims=0)
    for width in (draw(st.integers(1, 8)), draw(st.integers(1, 8))):
        y = b.node("MatMul", [y, b.constant("m", b.weights((b.shapes[y][1], width), channel_axis=1))], (n, width))
        y = b.node("Add", [y, b.constant("b", b.bias(width))], (n, width))
    b.blocks.append("dense tail")
    return y


def tokens_tail(b: GraphBuilder, draw: Draw, x: str) -> str:
    """Positions as tokens in rank 3."""
    n = b.shapes[x][0]
    y = same_conv(b, x, draw(st.integers(1, 6)), 1)
    _, channels, height, width = b.shapes[y]
    shape = b.constant("shape", np.array([n, channels, height * width], np.int64))
    y = b.node("Reshape", [y, shape], (n, channels, height * width))
    b.blocks.append("tokens tail")
    return b.node("Transpose", [y], (n, height * width, channels), perm=[0, 2, 1])


TAILS = (conv_tail, dense_tail, tokens_tail)


@st.composite
def deployed_cases(draw: Draw, max_blocks: int = 5, samples: int = 3, sides: tuple[int, int] = (4, 12)) -> DeployedCase:
    """Networks with one input or two of one shape that are added or joined, and one output or two."""
    b = GraphBuilder(
        opset=draw(st.sampled_from((11, 12, 13, 15, 17))),
        seed=draw(st.integers(0, 2**16)),
        style=draw(st.sampled_from(WEIGHT_STYLES)),
    )
    batch = draw(st.sampled_from((1, 1, 1, 2)))
    shape = (batch, draw(st.integers(1, 6)), draw(st.integers(*sides)), draw(st.integers(*sides)))
    names = draw(st.sampled_from((("x",), ("x",), ("x", "x2"))))
    for name in names:
        b.shapes[name] = shape
    x = batched(b, same_conv(b, names[0], shape[1], 3), batch)
    if len(names) == 2:
        other = batched(b, same_conv(b, names[1], shape[1], 1), batch)
        x = b.node("Add", [x, other], shape)
    middle = x
    for block in draw(st.lists(st.sampled_from(BLOCKS), max_size=max_blocks)):
        x = batched(b, block(b, draw, x), batch)
        middle = draw(st.sampled_from((middle, x)))
    outputs = [batched(b, draw(st.sampled_from(TAILS))(b, draw, x), batch)]
    if draw(st.booleans()):
        outputs.append(batched(b, conv_tail(b, draw, middle), batch))
    style = draw(st.sampled_from(INPUT_STYLES))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    sized = (samples * batch, *shape[1:])
    return DeployedCase(
        model=_finished(b, shape, names, outputs),
        calibration={name: input_data(rng, style, sized) for name in names},
        samples={name: input_data(rng, "normal", sized) for name in names},
        batch=batch,
        options=draw(st.sampled_from(OPTIONS)),
        blocks=(f"opset {b.opset}", f"batch {batch}", f"weights {b.style}", f"data {style}", *names, *b.blocks),
    )


def batched(b: GraphBuilder, value: str, batch: int) -> str:
    """``value``, whose shape holds the batch: blocks write shapes for one sample."""
    for name, shape in b.shapes.items():
        b.shapes[name] = (batch, *shape[1:])
    return value


def _finished(b: GraphBuilder, shape: tuple[int, ...], names: tuple[str, ...], outputs: list[str]) -> onnx.ModelProto:
    """Close the graph over its inputs and ``outputs``, each under a name of its own."""
    ends = [b.node("Identity", [name], b.shapes[name]) for name in outputs]
    graph = helper.make_graph(
        b.nodes,
        "deployed",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)) for name in names],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(b.shapes[name])) for name in ends],
        b.initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", b.opset)], ir_version=7)
    onnx.checker.check_model(model, full_check=True)
    return model
