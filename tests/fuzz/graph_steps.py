"""What a random graph grows by: each step appends a few nodes that go on from one of its maps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto, helper

from tests.fuzz.graph_maker import Maker, MisfitError

Step = Callable[[Maker, str], object]

PRIMES = (1, 2, 3, 5, 7, 11, 13, 17)


def conv(m: Maker, x: str) -> str:
    """Any kernel, strides, dilations, groups, uneven pads or ``auto_pad``; bias present, missing or an empty name."""
    r, (_, channels, *sizes) = m.rng, m.shape(x)
    group = r.choice([g for g in range(1, channels + 1) if channels % g == 0]) if r.random() < 0.4 else 1
    filters = group * r.choice(PRIMES[: 4 if group > 1 else None])
    kernel = [r.choice((1, 1, 2, 3, 3, 4, 5)) for _ in sizes]
    dilations = [r.choice((1, 1, 1, 2, 3)) for _ in sizes]
    given = [x, m.weight(filters, channels // group, *kernel)]
    if r.random() < 0.6:
        given.append(r.choice(("", m.weight(filters, fan_in=4), m.weight(filters, fan_in=4))))
    pads, automatic = [r.randint(0, 2) for _ in range(4)], None
    if max(dilations) == 1 and r.random() < 0.2:
        pads, automatic = None, r.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    for axis, size in enumerate(sizes):  # shape inference rounds a negative number of windows up
        room = size + (pads[axis] + pads[axis + 2] if pads else 0)
        if room < (kernel[axis] - 1) * dilations[axis] + 1:
            raise MisfitError("a window larger than the map")
    return m.op(
        "Conv",
        *given,
        strides=[r.choice((1, 1, 2, 3)) for _ in sizes] if r.random() < 0.5 else None,
        dilations=dilations if max(dilations) > 1 or r.random() < 0.5 else None,
        pads=pads,
        auto_pad=automatic,
        group=group if group > 1 or r.random() < 0.5 else None,
        kernel_shape=kernel if r.random() < 0.7 else None,
    )


def shared_weights(m: Maker, x: str) -> str:
    """The same weight and bias for two maps, and their sum."""
    channels = m.shape(x)[1]
    weight, bias = m.weight(channels, channels, 3, 3), m.weight(channels, fan_in=4)
    first = m.op("Conv", x, weight, bias, pads=[1] * 4)
    second = m.op("Conv", m.op("Relu", first), weight, m.rng.choice((bias, "")), pads=[1] * 4)
    return m.op("Add", first, second)


def conv_transpose(m: Maker, x: str) -> str:
    """Strides, uneven pads, ``output_padding``, groups."""
    r, channels = m.rng, m.shape(x)[1]
    group = r.choice((1, 1, channels))
    kernel, strides = [r.choice((1, 2, 3, 4)) for _ in range(2)], [r.choice((1, 2, 2, 3)) for _ in range(2)]
    weight = m.weight(channels, r.choice((1, 2, 3)), *kernel)
    return m.op(
        "ConvTranspose",
        x,
        weight,
        strides=strides,
        pads=[r.randint(0, 1) for _ in range(4)],
        output_padding=[r.randrange(stride) for stride in strides] if r.random() < 0.4 else None,
        group=group,
    )


def pool(m: Maker, x: str) -> str:
    """Max and average, windows of one, uneven pads, rounding up, second outputs that nobody reads."""
    r, (_, _, height, width) = m.rng, m.shape(x)
    kind = r.choice(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"))
    if kind.startswith("Global"):
        return m.op(kind, x)
    kernel = [r.randint(1, min(4, size)) for size in (height, width)]
    outputs = 2 if kind == "MaxPool" and r.random() < 0.3 else 1
    strides = [r.choice((1, 2, 3)) for _ in range(2)] if r.random() < 0.7 else None
    pads = [r.randint(0, (size - 1) // 2) for size in (*kernel, *kernel)] if r.random() < 0.6 else None
    ceil_mode = r.choice((None, None, 1)) if m.opset >= 10 else None
    for axis, size in enumerate((height, width)):  # shape inference keeps such a window, ONNX Runtime drops it
        stride, (before, after) = strides[axis] if strides else 1, pads[axis::2] if pads else (0, 0)
        last = -(-(size + before + after - kernel[axis]) // stride) * stride
        if ceil_mode and last >= size + before:
            raise MisfitError("a window that begins behind the map")
    return m.op(
        kind,
        x,
        outputs=outputs,
        kernel_shape=kernel,
        strides=strides,
        pads=pads,
        ceil_mode=ceil_mode,
        count_include_pad=r.choice((None, 0, 1)) if kind == "AveragePool" else None,
    )


def batch_norm(m: Maker, x: str) -> str:
    """Behind a convolution or not, its parameters shared."""
    r = m.rng
    x = conv(m, x) if r.random() < 0.6 else x
    channels = m.shape(x)[1]
    shift, spread = m.weight(channels, fan_in=4), m.constant(m.data.uniform(0.5, 2, channels))
    return m.op(
        "BatchNormalization", x, r.choice((spread, shift)), shift, r.choice((shift, m.weight(channels))), spread
    )


def activation(m: Maker, x: str) -> str:
    """All of one input, with optional inputs left out."""
    r = m.rng
    kind = r.choice(_ACTIVATIONS)
    match kind:
        case "Clip":
            low, high = m.constant(r.choice((-1.0, 0.0))), m.constant(r.choice((1.0, 6.0)))
            ways = ((x, low, high), (x, "", high), (x, low), (x, low, ""), (x,), (x, "", ""))
            return m.op("Clip", *r.choice(ways)) if m.opset >= 11 else m.op("Clip", x, min=0.0, max=6.0)
        case "PRelu":
            return m.op("PRelu", x, m.constant(m.data.uniform(0, 0.5, r.choice(((m.shape(x)[1], 1, 1), (1, 1, 1))))))
        case "Swish":
            return m.op("Mul", *r.sample([x, m.op("Sigmoid", x)], 2))
        case "LeakyRelu":
            return m.op("LeakyRelu", x, alpha=r.choice((0.01, 0.1, 0.5)))
        case "Sqrt" | "Log":
            return m.op(kind, m.op("Add", m.op("Abs", x), m.constant(0.5)))
        case "Exp":
            return m.op("Exp", m.op("Tanh", x))
    return m.op(kind, x)


_ACTIVATIONS = (
    *("Relu", "Clip", "Sigmoid", "Tanh", "LeakyRelu", "PRelu", "Swish", "Elu", "Selu", "HardSigmoid", "HardSwish"),
    *(
        "Softplus",
        "Softsign",
        "Exp",
        "Log",
        "Sqrt",
        "Abs",
        "Neg",
        "Erf",
        "Sin",
        "Cos",
        "Mish",
        "Celu",
        "ThresholdedRelu",
    ),
)


def binary(m: Maker, x: str) -> str:
    """With itself, another map of its shape, or a constant on either side."""
    r, shape = m.rng, m.shape(x)
    kind = r.choice(("Add", "Add", "Sub", "Mul", "Min", "Max", "Div", "Sum", "Mean"))
    others = [name for name in m.maps if m.shape(name) == shape]
    shapes = ((), (1,), (shape[1], 1, 1), (1, shape[1], 1, 1), shape, (shape[3],), (1, 1, shape[2], 1))
    constant = m.constant(m.data.uniform(0.5, 2, r.choice(shapes)))
    if kind == "Div":
        return m.op("Div", x, constant)
    if kind in ("Sum", "Mean", "Min", "Max") and r.random() < 0.3:
        return m.op(kind, *r.choices([x, *others], k=r.randint(1, 4)))
    other = r.choice((x, constant, r.choice(others)))
    return m.op(kind, *r.choice(((x, other), (other, x))))


def concat(m: Maker, x: str) -> str:
    """Maps of one size, some of them twice."""
    same = [name for name in m.maps if m.shape(name)[2:] == m.shape(x)[2:]]
    return m.op("Concat", x, *m.rng.choices([x, *same], k=m.rng.randint(0, 3)), axis=m.rng.choice((1, -3)))


def split(m: Maker, x: str) -> str:
    """Parts that nobody may read."""
    axis = m.rng.choice((1, 1, 2, -1))
    size = m.shape(x)[axis]
    if size < 2:
        return x
    first = m.rng.randint(1, size - 1)
    if m.opset >= 13:
        return m.op("Split", x, m.ints(first, size - first), outputs=2, axis=axis)
    return m.op("Split", x, outputs=2, axis=axis, split=[first, size - first])


def cut(m: Maker, x: str) -> str:
    """Slice with steps and ends beyond the map, or Gather."""
    r, shape = m.rng, m.shape(x)
    axis = r.choice((1, 2, 3))
    if r.random() < 0.3:
        return m.op("Gather", x, m.ints(*(r.randrange(-shape[axis], shape[axis]) for _ in range(3))), axis=axis)
    start, step = r.randrange(shape[axis]), r.choice((1, 1, 2, -1))
    end = r.choice((1 << 62, shape[axis], -1)) if step > 0 else -(1 << 62)
    given = [m.ints(start), m.ints(end), m.ints(r.choice((axis, axis - 4)))]
    return m.op("Slice", x, *given, *([m.ints(step)] if step != 1 or r.random() < 0.5 else []))


def pad(m: Maker, x: str) -> str:
    """Uneven, in three modes."""
    mode = m.rng.choice(("constant", "constant", "reflect", "edge"))
    amounts = [0, 0, *(m.rng.randint(0, 2) for _ in range(2)), 0, 0, *(m.rng.randint(0, 2) for _ in range(2))]
    if mode == "reflect" and min(m.shape(x)[2:]) < 3:
        mode = "edge"
    if m.opset < 11:
        return m.op("Pad", x, mode=mode, pads=amounts)
    value = [m.constant(m.rng.choice((0.0, 1.0)))] if mode == "constant" and m.rng.random() < 0.5 else []
    return m.op("Pad", x, m.ints(*amounts), *value, mode=mode)


def movement(m: Maker, x: str) -> str:
    """Transposes and reshapes, there and back or not."""
    r, shape = m.rng, m.shape(x)
    match r.randrange(7):
        case 0:
            perm = r.choice(([0, 2, 3, 1], [0, 1, 3, 2], [0, 3, 1, 2]))
            return m.op("Transpose", m.op("Transpose", x, perm=perm), perm=[perm.index(axis) for axis in range(4)])
        case 1:
            return m.op("Transpose", x, perm=r.choice(([0, 2, 3, 1], [0, 1, 3, 2], [0, 3, 2, 1])))
        case 2:
            flat = m.op("Reshape", x, m.ints(0, -1))
            return m.op("Reshape", flat, m.ints(*r.choice((shape, (1, -1, shape[2], shape[3])))))
        case 3:
            return m.op("Reshape", m.op("Reshape", x, m.ints(1, shape[1], -1)), m.ints(*shape))
        case 4:
            return m.op("Flatten", x, axis=r.choice((1, 2, 0, 4)))
        case 5 if m.opset >= 13:
            return m.op("Squeeze", m.op("Unsqueeze", x, m.ints(2)), m.ints(2))
        case _:
            sizes = m.op("Slice", m.op("Shape", x), m.ints(0), m.ints(2), m.ints(0)) if m.opset >= 10 else ""
            joined = m.op("Concat", sizes, m.ints(shape[3], shape[2]), axis=0)
            m.types[joined].tensor_type.shape.dim[0].dim_value = 4
            return _reshape_as(m, x, joined, (shape[0], shape[1], shape[3], shape[2]))


def _reshape_as(m: Maker, x: str, sizes: str, shape: tuple[int, ...]) -> str:
    """A Reshape whose shape is computed in the graph, which shape inference of single nodes does not see."""
    output = f"t{len(m.nodes)}"
    m.nodes.append(helper.make_node("Reshape", [x, sizes], [output], name=f"Reshape_{len(m.nodes)}"))
    m.types[output] = helper.make_tensor_type_proto(TensorProto.FLOAT, shape)
    m.maps.append(output)
    return output


def passing(m: Maker, x: str) -> str:
    """Chains of what changes nothing: Identity, Cast, Dropout."""
    for _ in range(m.rng.randint(1, 4)):
        match m.rng.randrange(4):
            case 0:
                x = m.op("Cast", x, to=1)
            case 1:
                x = m.op("Cast", m.op("Cast", x, to=11), to=1)
            case 2:
                x = m.op("Dropout", x, outputs=m.rng.choice((1, 2)))
            case _:
                x = m.op("Identity", x)
    return x


def reduce(m: Maker, x: str) -> str:
    """Means, sums and maxima over one or two axes."""
    kind = m.rng.choice(("ReduceMean", "ReduceSum", "ReduceMax"))
    axes, keep = m.rng.choice(([2, 3], [1], [-1], [3, 2])), m.rng.choice((1, 1, 0))
    if m.opset >= 18 or (kind == "ReduceSum" and m.opset >= 13):
        return m.op(kind, x, m.ints(*axes), keepdims=keep)
    return m.op(kind, x, axes=axes, keepdims=keep)


def resize(m: Maker, x: str) -> str:
    """Nearest and linear, by scales or sizes, with empty names before them."""
    r, shape = m.rng, m.shape(x)
    mode = r.choice(("nearest", "linear"))
    factors = r.choice(((2, 2), (3, 1), (1, 2), (2, 3)))
    if m.opset < 11:
        return m.op("Resize", x, m.constant([1, 1, *factors]), mode=mode)
    roi = "" if m.opset >= 13 else m.constant(np.zeros(0))
    how = r.choice(("asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"))
    nearest = r.choice(("floor", "round_prefer_floor")) if mode == "nearest" else None
    given = [m.constant([1, 1, *factors])]
    if m.opset >= 13 and r.random() < 0.3:
        given = ["", m.ints(1, shape[1], *(size * factor for size, factor in zip(shape[2:], factors, strict=True)))]
    return m.op("Resize", x, roi, *given, mode=mode, coordinate_transformation_mode=how, nearest_mode=nearest)


def rearrange(m: Maker, x: str) -> str:
    """Space to depth, and back or not."""
    if any(size % 2 for size in m.shape(x)[2:]):
        return x
    down = m.op("SpaceToDepth", x, blocksize=2)
    return m.op("DepthToSpace", down, blocksize=2, mode=m.rng.choice(("DCR", "CRD"))) if m.rng.random() < 0.5 else down


def product(m: Maker, x: str) -> str:
    """Products of two computed matrices, with weights, and behind a Flatten."""
    r, shape = m.rng, m.shape(x)
    match r.randrange(4):
        case 0:
            return m.op("MatMul", x, m.op("Transpose", x, perm=[0, 1, 3, 2]))
        case 1:
            return m.op("MatMul", x, m.weight(shape[3], r.choice(PRIMES), fan_in=shape[3]))
        case 2:
            attention = m.op("Softmax", m.op("MatMul", x, m.op("Transpose", x, perm=[0, 1, 3, 2])), axis=-1)
            return m.op("MatMul", attention, x)
        case _:
            flat = m.op("Flatten", x)
            count = m.shape(flat)[1]
            weight, bias = m.weight(7, count), m.weight(7, fan_in=4)
            dense = m.op("Gemm", flat, weight, *r.choice(((bias,), ("",), ())), transB=1)
            return m.op("Add", dense, m.op("Gemm", flat, weight, bias, transB=1))


def normalization(m: Maker, x: str) -> str:
    """Over a channel, a map, or the last axis."""
    r, shape = m.rng, m.shape(x)
    match r.randrange(4):
        case 0:
            return m.op(r.choice(("Softmax", "LogSoftmax")), x, axis=r.choice((1, -1)))
        case 1:
            return m.op("InstanceNormalization", x, m.constant(np.ones(shape[1])), m.weight(shape[1], fan_in=4))
        case 2:
            return m.op("LRN", x, size=3)
        case _:
            scale = m.constant(m.data.uniform(0.5, 2, shape[3]))
            return m.op("LayerNormalization", x, scale, *r.choice(((m.weight(shape[3]),), ("",), ())), axis=-1)


def choice(m: Maker, x: str) -> str:
    """What depends on a comparison."""
    if m.rng.random() < 0.5:
        return m.op("ArgMax", x, axis=1, keepdims=m.rng.choice((0, 1)))
    return m.op("Where", m.op("Greater", x, m.constant(0.123)), x, m.rng.choice((x, m.constant(0.5))))


def residual(m: Maker, x: str) -> str:
    """A branch added to what it began from."""
    channels = m.shape(x)[1]
    branch = m.op("Conv", x, m.weight(channels, channels, 3, 3), pads=[1] * 4)
    branch = activation(m, branch) if m.rng.random() < 0.5 else branch
    return m.op("Add", *m.rng.sample([x, branch], 2))


STEPS: tuple[Step, ...] = (
    *(conv,) * 5,
    *(binary, activation) * 3,
    *(concat, pool, movement, passing, residual, shared_weights) * 2,
    *(conv_transpose, batch_norm, split, cut, pad, reduce, resize, rearrange, product, normalization, choice),
)
