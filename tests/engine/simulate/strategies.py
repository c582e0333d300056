"""Random quantised nodes with extreme parameters and values, built by construction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.floats.recurrent import GATES
from engine.ops.comparison import COMPARISONS
from engine.simulate.lowering.floats import CASTS
from engine.simulate.reference import node_function
from tests.engine.simulate.models import node_model

Array = NDArray[Any]
Draw = st.DrawFn


@dataclass(frozen=True)
class NodeCase:
    """One quantised node: its samples per input (leading axis: the sample), constants, attributes."""

    op_type: str
    samples: dict[int, Array]
    attributes: dict[str, Any]
    constants: dict[int, Array] = field(default_factory=dict)
    domain: str = "horizon"
    opset: int = 13

    def __repr__(self) -> str:
        shapes = {k: (x.dtype.name, x.shape) for k, x in {**self.samples, **self.constants}.items()}
        return f"NodeCase({self.op_type}, {shapes}, {self.attributes})"


def integers_of(draw: Draw, shape: tuple[int, ...], dtype: Any) -> Array:
    """An array: uniform, only extremes, one value, or zeros."""
    limits, rng = np.iinfo(dtype), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    match draw(st.sampled_from(["uniform", "uniform", "extremes", "low", "small", "zero"])):
        case "uniform":
            return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        case "extremes":
            return rng.choice(np.array([limits.min, limits.max, 0, -1], dtype), shape)
        case "low":
            return np.full(shape, limits.min, dtype)
        case "small":
            return rng.integers(-3, 4, shape).astype(dtype)
        case _:
            return np.zeros(shape, dtype)


def numbers(draw: Draw, count: int, low: int, high: int) -> list[int]:
    """``count`` integers in a range; from a seed, so that long lists stay cheap to draw."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return [int(v) for v in rng.integers(low, high, count, endpoint=True)]


@st.composite
def convolutions(draw: Draw) -> NodeCase:
    kernel = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    dilations = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    extent = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = draw(st.lists(st.integers(0, 3), min_size=4, max_size=4))
    height, width = (draw(st.integers(max(1, extent[a] - pads[a] - pads[a + 2]), 18)) for a in range(2))
    group = draw(st.sampled_from([1, 1, 1, 2, 3]))
    depthwise = draw(st.booleans())
    inside, outside = (1, 1) if depthwise else (draw(st.integers(1, 20)), draw(st.integers(1, 70)))
    group = draw(st.integers(1, 40)) if depthwise else group
    in_c, out_c = group * inside, group * outside
    x_type = draw(st.sampled_from([np.int8, np.int8, np.int16]))
    bits = draw(st.sampled_from([8, 8, 16, 32]))
    count = draw(st.integers(1, 3))
    attributes: dict[str, Any] = {
        "kernel_shape": kernel,
        "pads": pads,
        "strides": draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        "dilations": dilations,
        "group": group,
        "output_bit": bits,
        "high_precision_output": int(bits == 32),
        "right_shift": numbers(draw, out_c, 0, 15),
        "scale": numbers(draw, out_c, 0, 32767),
        "out_shift": numbers(draw, out_c, draw(st.sampled_from([0, 16])), 40),
        "activation": draw(st.sampled_from(["", "relu", "other"])),
    }
    samples = {0: integers_of(draw, (count, 1, height, width, in_c), x_type)}
    constants = {
        1: integers_of(draw, (out_c, *kernel, inside), np.int8),
        2: integers_of(draw, (out_c,), np.int32),
        3: np.array(numbers(draw, out_c, -2, 12), np.int8),
    }
    if draw(st.integers(0, 4)) == 0:
        attributes["use_bias"] = 0
        constants = {1: constants[1]}
    if draw(st.booleans()):
        strides = attributes["strides"]
        out = [(size + pads[a] + pads[a + 2] - extent[a]) // strides[a] + 1 for a, size in enumerate((height, width))]
        e_type = draw(st.sampled_from([np.int8, np.int16]))
        samples[1 + len(constants)] = integers_of(draw, (count, 1, *out, out_c), e_type)
        attributes |= {"use_sumin": 1, "e_scale": numbers(draw, out_c, 0, 32768)}
        attributes["e_shift"] = numbers(draw, out_c, -20, 35 if draw(st.booleans()) else 12)
    return NodeCase("HzSQuantizedConv", samples, attributes, constants)


@st.composite
def preprocesses(draw: Draw) -> NodeCase:
    channels = draw(st.sampled_from([1, 3, 4]))
    group = draw(st.sampled_from([1, channels]))
    shape = (draw(st.integers(1, 3)), 1, draw(st.integers(1, 9)), draw(st.integers(1, 9)), channels)
    attributes = {
        "channel_group": group,
        "input_type": "RGB_128",
        "right_shift": numbers(draw, channels, 0, 15),
        "scale": numbers(draw, channels, 0, 32767),
        "out_shift": numbers(draw, channels, draw(st.sampled_from([0, 16])), 31),
        "output_bit": draw(st.sampled_from([8, 16])),
    }
    constants = {
        1: integers_of(draw, (channels, 1, 1, channels // group), np.int8),
        2: integers_of(draw, (channels,), np.int32),
        3: np.array(numbers(draw, channels, 0, 3), np.int8),
    }
    return NodeCase("HzSQuantizedPreprocess", {0: integers_of(draw, shape, np.int8)}, attributes, constants)


@st.composite
def transposed_convolutions(draw: Draw) -> NodeCase:
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    group = draw(st.sampled_from([1, 1, 2, 3]))
    inside, outside = draw(st.integers(1, 9)), draw(st.integers(1, 20))
    dilations = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (1, 3)]))
    pads = [draw(st.integers(0, min(2, k - 1))) for k in (*kernel, *kernel)]
    height, width = draw(st.tuples(st.integers(2, 8), st.integers(2, 8)))
    out_c, strides = group * outside, draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    if draw(st.booleans()):  # windows that do not overlap
        strides, dilations, pads = kernel, (1, 1), [0, 0, 0, 0]
    attributes = {
        "kernel_shape": kernel,
        "pads": pads,
        "strides": strides,
        "dilations": dilations,
        "output_padding": draw(st.tuples(st.integers(0, 1), st.integers(0, 1))),
        "group": group,
        "activation": draw(st.sampled_from(["", "relu"])),
        "b_left_shift": numbers(draw, out_c, 0, 6),
        "accu_right_shift": numbers(draw, out_c, 0, 15),
        "y_quant_scale": numbers(draw, out_c, 0, 32767),
        "y_right_shift": numbers(draw, out_c, 0, 35),
    }
    shape = (draw(st.integers(1, 2)), 1, height, width, group * inside)
    constants = {
        1: integers_of(draw, (group * inside, *kernel, outside), np.int8),
        2: integers_of(draw, (out_c,), np.int32),
    }
    if draw(st.integers(0, 4)) == 0:
        attributes["use_bias"] = 0
        del constants[2]
    return NodeCase("HzSQuantizedConvTranspose", {0: integers_of(draw, shape, np.int8)}, attributes, constants)


@st.composite
def elementwise(draw: Draw, op_type: str) -> NodeCase:
    rank = draw(st.integers(1, 5))
    shape = [1, *(draw(st.integers(1, 9)) for _ in range(rank - 1))]
    count = draw(st.integers(1, 3))
    operands: dict[int, Array] = {}
    constants: dict[int, Array] = {}
    for index in range(2):
        own = [draw(st.sampled_from([dim, dim, 1])) for dim in shape]
        dtype = draw(st.sampled_from([np.int8, np.int16]))
        if index and draw(st.integers(0, 4)) == 0:
            constants[index] = integers_of(draw, tuple(own), dtype)
        else:
            operands[index] = integers_of(draw, (count, *own), dtype)
    arrays = [constants.get(k, operands[k][0] if k in operands else None) for k in range(2)]
    channels = np.broadcast_shapes(*(a.shape for a in arrays if a is not None))[-1]
    size = draw(st.sampled_from([1, channels]))
    attributes: dict[str, Any] = {
        "accu_right_shift": numbers(draw, size, 0, 16),
        "output_scale": numbers(draw, size, 1 if op_type == "HzSElementwiseMul" else -32767, 32767),
        "output_right_shift": numbers(draw, size, 0, 30),
        "output_bit": draw(st.sampled_from([8, 16])),
        "rounding_method": draw(st.sampled_from(["ROUND", "FLOOR"])),
    }
    if op_type == "HzSElementwiseMul":
        attributes["add_rounding_bias"] = draw(st.sampled_from([0, 1]))
    else:
        attributes |= {"x_shift": numbers(draw, size, 0, 22), "e_scale": numbers(draw, size, 0, 32768)}
    if op_type == "HzSElementwiseAdd":
        attributes["e_shift"] = numbers(draw, size, 0, 3)
    return NodeCase(op_type, operands, attributes, constants)


@st.composite
def pools(draw: Draw, op_type: str) -> NodeCase:
    kernel = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    pads = [draw(st.integers(0, k - 1)) for k in (*kernel, *kernel)]
    height, width = (draw(st.integers(max(1, kernel[a] - pads[a] - pads[a + 2]), 15)) for a in range(2))
    dtype = draw(st.sampled_from([np.int8, np.int16])) if op_type == "HzQuantizedMaxPool" else np.int8
    shape = (draw(st.integers(1, 3)), 1, height, width, draw(st.integers(1, 40)))
    attributes: dict[str, Any] = {
        "kernel_shape": kernel,
        "pads": pads,
        "strides": draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        "ceil_mode": draw(st.sampled_from([0, 1])),
    }
    if op_type == "HzQuantizedAveragePool":
        attributes["scale"] = draw(st.sampled_from([9, 9, 4, 25, 31, 49, 0]))
    return NodeCase(op_type, {0: integers_of(draw, shape, dtype)}, attributes)


@st.composite
def whole_averages(draw: Draw) -> NodeCase:
    """Averages of maps by reciprocals of any length."""
    sizes = [draw(st.integers(1, 3)), 1, draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(st.integers(1, 70))]
    attributes = {"scale": draw(st.sampled_from([11, 11, 9, 25, 31, 43, 0]))}
    return NodeCase("HzQuantizedGlobalAveragePool", {0: integers_of(draw, tuple(sizes), np.int8)}, attributes)


@st.composite
def global_averages(draw: Draw) -> NodeCase:
    channels = draw(st.integers(1, 40))
    size = draw(st.sampled_from([1, channels]))
    shape = (draw(st.integers(1, 3)), 1, draw(st.integers(1, 9)), draw(st.integers(1, 9)), channels)
    attributes = {
        "accu_right_shift": numbers(draw, size, 0, 5),
        "output_scale": numbers(draw, size, 0, 32767),
        "output_right_shift": numbers(draw, size, 0, 24),
        "output_bit": draw(st.sampled_from([8, 16, 32])),
    }
    return NodeCase("HzSQuantizedGlobalAveragePool", {0: integers_of(draw, shape, np.int8)}, attributes)


@st.composite
def tables(draw: Draw, op_type: str) -> NodeCase:
    """Operators that are a function of one value per channel."""
    channels = draw(st.integers(1, 40))
    shape = (draw(st.integers(1, 3)), 1, draw(st.integers(1, 9)), draw(st.integers(1, 300)), channels)
    dtype = draw(st.sampled_from([np.int8, np.int16]))
    dtype = dtype if op_type in ("HzRequantize", "HzLut2Layer") else np.int8
    samples = {0: integers_of(draw, shape, dtype)}
    match op_type:
        case "HzLut2Layer":
            return NodeCase(op_type, samples, _segments(draw))
        case "HzLut":
            return NodeCase(op_type, samples, {"lut_type": "exp"}, {1: integers_of(draw, (256,), np.int8)})
        case "HzSPRelu":
            attributes: dict[str, Any] = {
                "positive_scale": [draw(st.integers(1, 32767))],
                "positive_right_shift": [draw(st.integers(0, 16))],
                "accu_right_shift": [draw(st.integers(0, 16))],
                "negative_scale": [draw(st.integers(1, 32767))],
                "negative_right_shift": [draw(st.integers(0, 30))],
            }
            return NodeCase(op_type, samples, attributes, {1: integers_of(draw, (1, 1, 1, channels), np.int16)})
        case "HzPRelu":
            attributes = {"alpha_scale": numbers(draw, channels, 0, 300), "alpha_shift": numbers(draw, channels, 0, 9)}
            return NodeCase(op_type, samples, attributes)
        case "HzLeakyRelu":
            attributes = {"alpha_scale": draw(st.integers(0, 300)), "alpha_shift": draw(st.integers(0, 9))}
            return NodeCase(op_type, samples, attributes)
        case _:
            attributes = {
                "output_scale": numbers(draw, channels, 0, 32767),
                "output_right_shift": numbers(draw, channels, 0, 30),
                "bits": draw(st.sampled_from([8, 16])),
                "axis": 3,
            }
            if draw(st.booleans()):
                attributes |= {"output_scale": [attributes["output_scale"][0]] * channels}
                attributes |= {"output_right_shift": [attributes["output_right_shift"][0]] * channels}
            return NodeCase(op_type, samples, attributes)


def _segments(draw: Draw) -> dict[str, Any]:
    """Attributes of a piecewise table."""
    return {
        "table_param": numbers(draw, 384, -32768, 32767),
        "bound": [*sorted(numbers(draw, 7, -32768, 32767)), 32767],
        "scale": numbers(draw, 8, 0, 32767),
        "bias": numbers(draw, 8, -32768, 32767),
        "left_shift": numbers(draw, 8, 0, 15),
        "right_shift": numbers(draw, 8, 0, 20),
        "output_bit": draw(st.sampled_from([8, 16])),
    }


@st.composite
def movements(draw: Draw, op_type: str) -> NodeCase:
    dtype = draw(st.sampled_from([np.int8, np.int16]))
    block = draw(st.integers(1, 3))
    height, width, channels = (block * block * draw(st.integers(1, 4)) for _ in range(3))
    attributes: dict[str, Any] = {
        "HzQuantizedResizeUpsample": {"scale": draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))},
        "HzDepthToSpace": {"blocksize": block, "mode": draw(st.sampled_from(["DCR", "CRD"]))},
        "HzSpaceToDepth": {"block_height": block, "block_width": draw(st.sampled_from([1, block]))},
        "HzChannelShuffle": {"group": block},
    }[op_type]
    shape = (draw(st.integers(1, 3)), 1, height, width, channels)
    return NodeCase(op_type, {0: integers_of(draw, shape, dtype)}, attributes)


@st.composite
def resizes(draw: Draw) -> NodeCase:
    bits = draw(st.sampled_from([8, 16]))
    attributes = {
        "align_mode": draw(st.sampled_from(["center", "origin", "given_step"])),
        "sizes": draw(st.tuples(st.integers(1, 14), st.integers(1, 14))),
        "step": draw(st.tuples(st.integers(0, 3 << bits), st.integers(0, 3 << bits))),
        "step_decimal_bit": bits,
        "is_interpolate_twice": int(bits == 8),
    }
    shape = (draw(st.integers(1, 3)), 1, draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(st.integers(1, 20)))
    return NodeCase("HzQuantizedRoiResize", {0: integers_of(draw, shape, np.int8)}, attributes)


@st.composite
def reductions(draw: Draw, op_type: str) -> NodeCase:
    """Reductions of maps, and of tensors of other ranks; a negative axis counts from the end."""
    rank = 4 if op_type == "HzQuantizedGlobalMaxPool" else draw(st.integers(2, 4))
    axis = draw(st.integers(-rank, rank - 1))
    attributes: dict[str, Any] = {} if op_type == "HzQuantizedGlobalMaxPool" else {"axis": axis}
    if "ReduceMean" in op_type or "ReduceSum" in op_type:
        attributes |= {
            "accu_right_shift": numbers(draw, 2, 0, 4),
            "scale": numbers(draw, 2, 0, 32767),
            "out_shift": numbers(draw, 2, 0, 24),
            "output_bit": draw(st.sampled_from([8, 16, 32])),
        }
    sizes = [draw(st.integers(1, 9)) for _ in range(rank - 1)]
    if axis in (-1, rank - 1) and rank > 1:
        sizes[-1] = draw(st.sampled_from([sizes[-1], 130, 300]))
    shape = (draw(st.integers(1, 3)), 1, *sizes)
    return NodeCase(op_type, {0: integers_of(draw, shape, draw(st.sampled_from([np.int8, np.int16])))}, attributes)


@st.composite
def selections(draw: Draw) -> NodeCase:
    rank = draw(st.integers(2, 4))
    axis = draw(st.integers(1, rank - 1))
    sizes = [1, *(draw(st.integers(1, 9)) for _ in range(rank - 1))]
    attributes = {
        "axis": axis if draw(st.booleans()) else axis - rank,
        "k": draw(st.integers(1, sizes[axis])),
        "largest": draw(st.sampled_from([0, 1])),
    }
    x = integers_of(draw, (draw(st.integers(1, 3)), *sizes), draw(st.sampled_from([np.int8, np.int16])))
    return NodeCase("HzQuantizedTopK", {0: x}, attributes)


@st.composite
def table_softmaxes(draw: Draw) -> NodeCase:
    """Softmaxes with tables of any scale."""
    rank = draw(st.integers(2, 4))
    shape = (draw(st.integers(1, 3)), 1, *(draw(st.integers(1, 9)) for _ in range(rank - 1)))
    table = np.rint(127 * np.exp(np.arange(-255, 1) * draw(st.floats(0.001, 2.0)))).astype(int).tolist()
    attributes = {"axis": draw(st.integers(-rank + 1, rank - 1).filter(bool)), "table_params": table}
    return NodeCase("HzQuantizedSoftmax", {0: integers_of(draw, shape, np.int8)}, attributes)


@st.composite
def border_pads(draw: Draw) -> NodeCase:
    rank = draw(st.integers(2, 4))
    dtype = draw(st.sampled_from([np.int8, np.int16]))
    widths = draw(st.lists(st.integers(0, 3), min_size=2 * rank, max_size=2 * rank))
    widths[0] = widths[rank] = 0
    attributes = {
        "pads": widths,
        "mode": draw(st.sampled_from(["constant", "edge"])),
    }
    value, constants = draw(st.integers(np.iinfo(dtype).min, np.iinfo(dtype).max)), {}
    if draw(st.booleans()):
        attributes["value"] = value
    else:
        constants[1] = np.array([value], dtype)
    shape = (draw(st.integers(1, 3)), 1, *(draw(st.integers(1, 9)) for _ in range(rank - 1)))
    return NodeCase("HzPad", {0: integers_of(draw, shape, dtype)}, attributes, constants)


@st.composite
def comparisons(draw: Draw) -> NodeCase:
    shape = [1, *(draw(st.integers(1, 9)) for _ in range(draw(st.integers(0, 4))))]
    count, dtype = draw(st.integers(1, 3)), draw(st.sampled_from([np.int8, np.int16]))
    name = draw(st.sampled_from(sorted(COMPARISONS)))
    x, e = (integers_of(draw, (count, *shape), dtype) for _ in range(2))
    equal = np.random.default_rng(draw(st.integers(0, 99))).random(x.shape) < 0.5
    return NodeCase("HzQuantizedComparison", {0: x, 1: np.where(equal, x, e)}, {"comparison": name})


@st.composite
def matmuls(draw: Draw) -> NodeCase:
    """Products of stacks of matrices; long ones wrap in int32, the stack of either operand may be broadcast."""
    lead = [1, *draw(st.sampled_from([[], [2], [3]]))]
    rows, columns = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    inner = draw(st.one_of(st.integers(1, 12), st.sampled_from([1030, 4200])))
    count, types = draw(st.integers(1, 3)), st.sampled_from([np.int8, np.int16])
    other = [draw(st.sampled_from([dim, 1])) for dim in lead]
    samples = {
        0: integers_of(draw, (count, *lead, rows, inner), draw(types)),
        1: integers_of(draw, (count, *other, inner, columns), draw(types)),
    }
    attributes = {
        "output_bit": draw(st.sampled_from([8, 16, 32])),
        "right_shift": [draw(st.integers(0, 15))],
        "scale": [draw(st.integers(0, 32767))],
        "out_shift": [draw(st.integers(0, 30))],
    }
    return NodeCase("HzSQuantizedMatmul", samples, attributes)


@st.composite
def conversions(draw: Draw, op_type: str) -> NodeCase:
    channels, count = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    axis = draw(st.sampled_from([1, 3]))
    dims = [draw(st.integers(1, 9)) for _ in range(3)]
    dims[axis - 1] = channels
    scale = np.abs(np.random.default_rng(draw(st.integers(0, 99))).normal(size=draw(st.sampled_from([1, channels]))))
    constants = {1: (scale + 1e-6).astype(np.float32)}
    if op_type == "HzDequantize":
        x = integers_of(draw, (count, 1, *dims), draw(st.sampled_from([np.int8, np.int16, np.int32])))
        return NodeCase("HzDequantize", {0: x}, {"axis": axis}, constants)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    values = (rng.normal(size=(count, 1, *dims)) * 10.0 ** draw(st.integers(-3, 12))).astype(np.float32)
    special = rng.choice(np.array([np.inf, -np.inf, np.nan, 0.5, -0.5, 1e38], np.float32), values.shape)
    values = np.where(rng.random(values.shape) < 0.1, special, values)
    return NodeCase("HzQuantize", {0: values}, {"axis": axis, "bits": draw(st.sampled_from([8, 16]))}, constants)


@st.composite
def standard_nodes(draw: Draw) -> NodeCase:
    """ONNX operators that move integers or floats."""
    op_type = draw(st.sampled_from(["Transpose", "Reshape", "Flatten", "Identity", "Concat", "Slice", "Split", "Max"]))
    rank = draw(st.integers(2, 5 if op_type != "Split" else 4))
    dims = [1, *(draw(st.integers(1, 7)) for _ in range(rank - 1))]
    dtype, count = draw(st.sampled_from([np.int8, np.int16, np.int32, np.int64])), draw(st.integers(1, 3))
    axis = draw(st.integers(-rank, rank - 1))
    samples, constants = {0: integers_of(draw, (count, *dims), dtype)}, {}
    attributes: dict[str, Any] = {}
    match op_type:
        case "Transpose":
            attributes = {"perm": draw(st.permutations(range(rank)))}
        case "Reshape":
            cut = draw(st.integers(1, rank))
            constants[1] = np.array([0] * cut + [-1] if cut < rank else [-1, *dims[1:]], np.int64)
        case "Flatten":
            attributes = {"axis": axis}
        case "Concat":
            attributes = {"axis": axis}
            own = list(dims)
            own[axis] = draw(st.integers(1, 5))
            constants[1] = integers_of(draw, tuple(own), dtype)
            samples[2] = integers_of(draw, (count, *dims), dtype)
        case "Slice":
            dim = dims[axis]
            start, end = sorted(draw(st.tuples(st.integers(0, dim), st.integers(0, dim))))
            end = end + 1 if start == end < dim else end
            start = start - 1 if start == end else start
            bounds = [[start - dim if draw(st.booleans()) else start], [end], [axis], [draw(st.integers(1, 3))]]
            constants = {k + 1: np.array(bound, np.int64) for k, bound in enumerate(bounds)}
        case "Split":
            attributes, constants = {"axis": axis}, {1: np.array([dims[axis]], np.int64)}
        case "Max":
            samples[1] = integers_of(draw, (count, *dims), dtype)
    return NodeCase(op_type, samples, attributes, constants, domain="")


def floats_of(draw: Draw, shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    """Numbers of one of several sizes; now and then what is infinite, undefined or 0."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    found = np.asarray(rng.standard_normal(shape) * draw(st.sampled_from([1e-3, 1.0, 30.0, 1e4]))).astype(dtype)
    if draw(st.integers(0, 3)) == 0:
        special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-40], dtype)
        found[rng.random(shape) < 0.05] = rng.choice(special)
    return found


@st.composite
def softmaxes(draw: Draw) -> NodeCase:
    rank = draw(st.integers(2, 5))
    dims = [1, *(draw(st.integers(1, 9)) for _ in range(rank - 1))]
    dims[draw(st.integers(1, rank - 1))] = draw(st.integers(1, 150))
    attributes = {"axis": draw(st.integers(-rank, rank - 1))} if draw(st.booleans()) else {}
    opset = draw(st.sampled_from([11, 13]))
    return NodeCase("Softmax", {0: floats_of(draw, (draw(st.integers(1, 3)), *dims))}, attributes, {}, "", opset)


@st.composite
def arithmetic(draw: Draw) -> NodeCase:
    """Sums, differences, products and quotients of floats that broadcast, either operand a constant now and then."""
    dtype, rank = draw(st.sampled_from([np.float32, np.float64])), draw(st.integers(1, 5))
    dims = [1, *(draw(st.integers(1, 7)) for _ in range(rank - 1))]
    other = [dim if draw(st.booleans()) else 1 for dim in dims]
    operands = [dims, other[draw(st.integers(0, rank)) :]]
    constant = draw(st.sampled_from([None, 0, 1])) if len(operands[1]) == rank else 1
    count = draw(st.integers(1, 3))
    samples = {k: floats_of(draw, (count, *shape), dtype) for k, shape in enumerate(operands) if k != constant}
    constants = {k: floats_of(draw, tuple(shape), dtype) for k, shape in enumerate(operands) if k == constant}
    return NodeCase(draw(st.sampled_from(["Add", "Sub", "Mul", "Div"])), samples, {}, constants, "")


@st.composite
def rectifiers(draw: Draw) -> NodeCase:
    shape = (draw(st.integers(1, 3)), 1, *(draw(st.integers(1, 30)) for _ in range(draw(st.integers(0, 2)))))
    return NodeCase("Relu", {0: floats_of(draw, shape)}, {}, {}, "")


@st.composite
def float_convolutions(draw: Draw) -> NodeCase:
    """Convolutions over one axis, and some over two, which the machine has no instruction for."""
    axes, groups = draw(st.sampled_from([1, 1, 1, 2])), draw(st.integers(1, 3))
    inside, taps = draw(st.integers(1, 5)), [draw(st.integers(1, 4)) for _ in range(axes)]
    outputs = groups * draw(st.integers(1, 9))
    attributes: dict[str, Any] = {
        "strides": [draw(st.integers(1, 3)) for _ in range(axes)],
        "dilations": [draw(st.integers(1, 3)) for _ in range(axes)],
        "pads": [draw(st.integers(0, 3)) for _ in range(2 * axes)],
        "group": groups,
    }
    size = [draw(st.integers(10, 80)) for _ in range(axes)]
    x = floats_of(draw, (draw(st.integers(1, 2)), 1, groups * inside, *size))
    constants = {1: floats_of(draw, (outputs, inside, *taps))}
    if draw(st.booleans()):
        constants[2] = floats_of(draw, (outputs,))
    return NodeCase("Conv", {0: x}, attributes, constants, "")


@st.composite
def recurrent_cells(draw: Draw) -> NodeCase:
    """LSTM and GRU, in one direction or both, some of more rows than one."""
    op_type = draw(st.sampled_from(sorted(GATES)))
    direction = draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    ways, rows, hidden = 1 + (direction == "bidirectional"), draw(st.integers(1, 3)), draw(st.integers(1, 40))
    inputs, gates = draw(st.integers(1, 20)), GATES[op_type] * hidden
    x = floats_of(draw, (draw(st.integers(1, 2)), draw(st.integers(1, 12)), rows, inputs))
    constants = {1: floats_of(draw, (ways, gates, inputs)), 2: floats_of(draw, (ways, gates, hidden))}
    if draw(st.booleans()):
        constants[3] = floats_of(draw, (ways, 2 * gates))
    attributes = {"direction": direction, "hidden_size": hidden}
    if op_type == "GRU":
        attributes["linear_before_reset"] = draw(st.integers(0, 1))
    return NodeCase(op_type, {0: x}, attributes, constants, "")


@st.composite
def float_resizes(draw: Draw) -> NodeCase:
    """Resizes of floats, those among them that the machine has no instruction for."""
    attributes = {
        "mode": draw(st.sampled_from(["linear", "nearest", "cubic"])),
        "coordinate_transformation_mode": draw(
            st.sampled_from(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
        ),
        "nearest_mode": draw(st.sampled_from(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])),
    }
    height, width = draw(st.integers(1, 9)), draw(st.integers(1, 20))
    x = floats_of(draw, (draw(st.integers(1, 2)), 1, draw(st.integers(1, 4)), height, width))
    sizes = np.array([1, x.shape[2], draw(st.integers(1, 20)), draw(st.integers(1, 40))])
    none = np.zeros(0, np.float32)
    if draw(st.booleans()):
        return NodeCase("Resize", {0: x}, attributes, {1: none, 2: none, 3: sizes}, "", 13)
    factors = (sizes / np.array(x.shape[1:])).astype(np.float32) + np.array([0, 0, 0.01, 0.01], np.float32)
    return NodeCase("Resize", {0: x}, attributes, {1: none, 2: factors}, "", 13)


@st.composite
def float_pools(draw: Draw) -> NodeCase:
    """Pools of floats, some with padding, which the machine has no instruction for."""
    attributes: dict[str, Any] = {
        "kernel_shape": [draw(st.integers(1, 3)) for _ in range(2)],
        "strides": [draw(st.integers(1, 3)) for _ in range(2)],
        "dilations": [draw(st.integers(1, 2)) for _ in range(2)],
        "pads": draw(st.sampled_from([[0] * 4, [0] * 4, [0, 1, 0, 0]])),
    }
    attributes["kernel_shape"][1] += attributes["pads"][1]  # ONNX Runtime wants larger windows than pads
    x = floats_of(draw, (draw(st.integers(1, 2)), 1, *(draw(st.integers(low, 20)) for low in (1, 6, 9))))
    return NodeCase("MaxPool", {0: x}, attributes, {}, "", 12)


@st.composite
def float_blocks(draw: Draw) -> NodeCase:
    """Blocks of pixels of floats that become channels, or channels that become blocks."""
    block, op_type = draw(st.integers(1, 4)), draw(st.sampled_from(["DepthToSpace", "SpaceToDepth"]))
    many = block**2 if op_type == "DepthToSpace" else 1
    side = block if op_type == "SpaceToDepth" else 1
    shape = (many * draw(st.integers(1, 5)), *(side * draw(st.integers(1, 20)) for _ in range(2)))
    attributes: dict[str, Any] = {"blocksize": block}
    if op_type == "DepthToSpace":
        attributes["mode"] = draw(st.sampled_from(["DCR", "CRD"]))
    return NodeCase(op_type, {0: floats_of(draw, (draw(st.integers(1, 2)), 1, *shape))}, attributes, {}, "")


@st.composite
def float_pads(draw: Draw) -> NodeCase:
    """Pads of floats; as many lines as there are cannot be reflected, and ONNX Runtime computes some that could."""
    sizes = [draw(st.integers(1, 9)) for _ in range(draw(st.integers(1, 3)))]
    mode = draw(st.sampled_from(["constant", "edge", "reflect"]))
    widths = [[0, *(draw(st.integers(0, n - 1 if mode == "reflect" else 4)) for n in sizes)] for _ in range(2)]
    x = floats_of(draw, (draw(st.integers(1, 2)), 1, *sizes))
    constants: dict[int, Array] = {1: np.array(widths, np.int64).ravel()}
    if draw(st.booleans()):
        constants[2] = np.array(draw(st.sampled_from([0.0, -0.0, 2.5])), np.float32)
    return NodeCase("Pad", {0: x}, {"mode": mode}, constants, "")


@st.composite
def casts(draw: Draw) -> NodeCase:
    source, result = draw(st.sampled_from(sorted(CASTS)))
    shape = (draw(st.integers(1, 2)), 1, draw(st.sampled_from([1, 7, 5000])), draw(st.integers(1, 4)))
    x = integers_of(draw, shape, np.int8) if source == "int8" else floats_of(draw, shape, np.dtype(source))
    attributes = {"to": int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(result)))}
    return NodeCase("Cast", {0: x}, attributes, {}, "")


def result_of_one_sample(case: NodeCase) -> Array:
    """The reference's result for the first sample."""
    inputs = inputs_of_sample(case, 0)
    model = node_model(case.op_type, inputs, case.attributes, case.constants, domain=case.domain, opset=case.opset)
    given = [case.constants.get(k, x) for k, x in enumerate(inputs)]
    return node_function(model.graph[0], model)(given)[0]


def inputs_of_sample(case: NodeCase, sample: int) -> list[Array | None]:
    """One sample of every activation input, None at the positions of constants."""
    positions = {**case.samples, **case.constants}
    return [case.samples[k][sample] if k in case.samples else None for k in range(max(positions) + 1)]


def quantised_operators() -> dict[str, st.SearchStrategy[NodeCase]]:
    """A strategy per operator of domain ``horizon``."""
    grouped = {
        elementwise: ["HzSElementwiseAdd", "HzSElementwiseSub", "HzSElementwiseMul"],
        pools: ["HzQuantizedMaxPool", "HzQuantizedAveragePool"],
        tables: ["HzLut", "HzLut2Layer", "HzSPRelu", "HzPRelu", "HzLeakyRelu", "HzRequantize"],
        movements: ["HzQuantizedResizeUpsample", "HzDepthToSpace", "HzSpaceToDepth", "HzChannelShuffle"],
        reductions: [
            "HzSQuantizedReduceMean",
            "HzSQuantizedReduceSum",
            "HzQuantizedReduceMax",
            "HzQuantizedArgMax",
            "HzQuantizedGlobalMaxPool",
        ],
        conversions: ["HzQuantize", "HzDequantize"],
    }
    return {
        "HzSQuantizedConv": convolutions(),
        "HzSQuantizedPreprocess": preprocesses(),
        "HzSQuantizedConvTranspose": transposed_convolutions(),
        "HzSQuantizedGlobalAveragePool": global_averages(),
        "HzQuantizedGlobalAveragePool": whole_averages(),
        "HzQuantizedRoiResize": resizes(),
        "HzSQuantizedMatmul": matmuls(),
        "HzPad": border_pads(),
        "HzQuantizedComparison": comparisons(),
        "HzQuantizedTopK": selections(),
        "HzQuantizedSoftmax": table_softmaxes(),
        **{op_type: strategy(op_type) for strategy, kinds in grouped.items() for op_type in kinds},
    }
