"""What networks end with: classes, boxes raw and decoded, maps, points, embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from engine.conformance.hunt.grammar.drawing import Drawing

MapHead = Callable[[Drawing, str], list[str]]
"""Takes a map and gives the network's outputs."""
Detector = Callable[[Drawing, Sequence[str]], list[str]]
"""Takes maps of falling size and gives the network's outputs."""


# -- one map ---------------------------------------------------------------------------------------------------------


def classes(net: Drawing, x: str) -> list[str]:
    """A mean and a dense layer, flattened in one of four ways, with a Softmax or none."""
    match net.pick("flatten", "reshape", "mean", "convolution"):
        case "flatten":
            flat = net.op("Flatten", net.mean_map(x), axis=1)
        case "reshape":
            flat = net.reshape(net.mean_map(x), 1, -1)
        case "mean":
            flat = net.op("ReduceMean", x, axes=[2, 3], keepdims=0)
        case _:
            y = net.convolve(net.mean_map(x), 10, bias=True)
            return [net.op("Flatten", y, axis=1) if net.chance(0.6) else y]
    if net.chance(0.25):
        flat = net.activate(net.dense(flat, 16), net.pick("relu", "hard_swish", "tanh"))
    scores = net.dense(flat, 10)
    return [net.softmax(scores, 1) if net.chance(0.3) else scores]


def flat_classes(net: Drawing, x: str) -> list[str]:
    """The whole map into dense layers, as in LeNet and VGG."""
    while min(net.size(x)) > 8:
        x = net.pool(x, 2, 2)
    flat = net.op("Flatten", net.convolve(x, 4), axis=1)
    return [net.dense(net.op("Relu", net.dense(flat, 16)), 5)]


def embedding(net: Drawing, x: str) -> list[str]:
    """A vector of length 1, as for faces and persons."""
    y = net.dense(net.op("Flatten", net.mean_map(x), axis=1), 16)
    if net.chance(0.6):
        length = net.op("ReduceL2", y, axes=[1], keepdims=1)
    else:
        length = net.op("Sqrt", net.op("ReduceSum", net.op("Mul", y, y), axes=[1], keepdims=1))
    return [net.op("Div", y, length)]


def pixel_classes(net: Drawing, x: str) -> list[str]:
    """A class per pixel: scores, probabilities or the index, enlarged or not, channels first or last."""
    y = net.convolve(x, net.pick(2, 5, 7), bias=True)
    if net.chance(0.4):
        height, width = net.size(y)
        y = net.resize(y, 2 * height, 2 * width, net.pick("linear", "nearest"))
    match net.pick("scores", "argmax", "softmax", "sigmoid", "last"):
        case "argmax":
            return [net.op("ArgMax", y, axis=1, keepdims=net.pick(0, 1))]
        case "softmax":
            return [net.softmax(y, 1)]
        case "sigmoid":
            return [net.op("Sigmoid", y)]
        case "last":
            return [net.transpose(y, 0, 2, 3, 1)]
        case _:
            return [y]


def picture(net: Drawing, x: str) -> list[str]:
    """A picture: Tanh, Clip, Sigmoid, or numbers."""
    y = net.convolve(x, 3, 3, bias=True)
    match net.pick("plain", "tanh", "clip", "scaled"):
        case "tanh":
            return [net.op("Tanh", y)]
        case "clip":
            return [net.clip(y, 0.0, 1.0)]
        case "scaled":
            return [net.op("Mul", net.op("Sigmoid", y), net.scalar(255.0))]
        case _:
            return [y]


def points(net: Drawing, x: str) -> list[str]:
    """Keypoints: heat maps, or columns and rows classified, or the mean place of a Softmax."""
    heat = net.convolve(x, 6, bias=True)
    _, joints, height, width = net.dims(heat)
    match net.pick("heat", "sim", "expected"):
        case "heat":
            return [net.op("Sigmoid", heat) if net.chance(0.5) else heat]
        case "sim":
            flat = net.reshape(heat, 1, joints, height * width)
            return [net.dense(flat, 2 * width), net.dense(flat, 2 * height)]
        case _:
            weights = net.softmax(net.reshape(heat, 1, joints, height * width), 2)
            places = net.normal(height * width, 2)
            return [net.op("MatMul", weights, places)]


def centres(net: Drawing, x: str) -> list[str]:
    """CenterNet's: heat with its maxima, sizes and offsets."""
    heat = net.op("Sigmoid", net.convolve(net.layer(x, 8), 3, bias=True))
    size = net.convolve(net.layer(x, 8), 2, bias=True)
    if net.chance(0.5):
        return [heat, size]
    top = net.pool(heat, 3, 1, pad=1)
    return [net.op("Mul", heat, net.op("Cast", net.op("Equal", top, heat), to=1)) if net.opset > 10 else top, size]


def several(net: Drawing, x: str) -> list[str]:
    """Scores and a map."""
    return [*classes(net, x), net.convolve(x, 2, 3, bias=True)]


MAP_HEADS: tuple[MapHead, ...] = (*(classes,) * 5, flat_classes, embedding, several)
PIXEL_HEADS: tuple[MapHead, ...] = (*(pixel_classes,) * 4, picture, points, centres)


# -- boxes -----------------------------------------------------------------------------------------------------------


def raw_boxes(net: Drawing, levels: Sequence[str]) -> list[str]:
    """The convolutions' maps, channels first, last, or apart in five dimensions."""
    way = net.pick("first", "last", "last", "anchors", "flat")
    found = []
    for level in levels:
        y = net.convolve(level, 3 * 7, bias=True)
        height, width = net.size(y)
        if way == "last":
            y = net.transpose(y, 0, 2, 3, 1)
        if way == "anchors":
            y = net.transpose(net.reshape(y, 1, 3, 7, height, width), 0, 1, 3, 4, 2)
        if way == "flat":
            y = net.reshape(net.transpose(y, 0, 2, 3, 1), 1, -1, 7)
        found.append(y)
    return [net.concat(*found, axis=1)] if way == "flat" and len(found) > 1 else found


def decoupled(net: Drawing, levels: Sequence[str]) -> list[str]:
    """Branches for boxes and classes, raw, as deployed from YOLOv8 and YOLO11."""
    found = []
    depthwise = net.chance(0.4)
    for level in levels:
        box = net.convolve(net.layer(level, 8), 16, bias=True)
        inner = net.activate(net.depthwise(level)) if depthwise else net.layer(level, 8)
        scores = net.convolve(net.layer(inner, 8, 1), 5, bias=True)
        found += [box, net.op("Sigmoid", scores) if net.chance(0.2) else scores]
    return [net.transpose(each, 0, 2, 3, 1) for each in found] if net.chance(0.4) else found


def anchor_boxes(net: Drawing, levels: Sequence[str]) -> list[str]:
    """YOLOv5's and YOLOv7's, decoded: Sigmoid, split or sliced, times the stride, all levels joined."""
    found = []
    squared, sliced = net.pick("mul", "pow"), net.chance(0.5)
    for index, level in enumerate(levels):
        head = net.convolve(level, 3 * 7, bias=True)
        height, width = net.size(head)
        cells = net.transpose(net.reshape(head, 1, 3, 7, height, width), 0, 1, 3, 4, 2)
        y = net.op("Sigmoid", cells)
        if sliced:
            xy, wh, rest = net.cut(y, 0, 2, 4), net.cut(y, 2, 4, 4), net.cut(y, 4, 7, 4)
        else:
            xy, wh, rest = net.ops("Split", 3, y, axis=4, split=[2, 2, 3])
        stride = net.scalar(8.0 * 2**index)
        grid = net.constant(np.indices((width, height)).T.reshape(1, 1, height, width, 2) - 0.5)
        xy = net.op("Mul", net.op("Add", net.op("Mul", xy, net.scalar(2.0)), grid), stride)
        wh = net.op("Mul", wh, net.scalar(2.0))
        wh = net.op("Mul", wh, wh) if squared == "mul" else net.op("Pow", wh, net.scalar(2.0))
        wh = net.op("Mul", wh, net.positive(1, 3, height, width, 2))
        found.append(net.reshape(net.concat(xy, wh, rest, axis=4), 1, -1, 7))
    return [net.concat(*found, axis=1) if len(found) > 1 else found[0]]


def distance_boxes(net: Drawing, levels: Sequence[str]) -> list[str]:
    """YOLOv8's to YOLO26's, decoded: distances by a Softmax over bins (or without), boxes from points, joined."""
    bins, count = net.pick(1, 4, 4), 5
    rows = []
    for level in levels:
        both = net.concat(net.convolve(net.layer(level, 8), 4 * bins, bias=True), net.convolve(level, count, bias=True))
        rows.append(net.reshape(both, 1, 4 * bins + count, -1))
    joined = net.concat(*rows, axis=2) if len(rows) > 1 else rows[0]
    box, scores = net.divide(joined, 4 * bins, count)
    total = net.dims(joined)[2]
    if bins > 1:
        box = _expected_bins(net, box, bins, total)
    low, high = net.divide(box, 2, 2)
    places = net.constant(np.random.default_rng(total).uniform(0, 8, (1, 2, total)))
    low, high = net.op("Sub", places, low), net.op("Add", places, high)
    if net.chance(0.6):
        centre = net.op("Div", net.op("Add", low, high), net.scalar(2.0))
        low, high = centre, net.op("Sub", high, low)
    strides = net.constant(np.full((1, total), 8.0))
    boxes = net.op("Mul", net.concat(low, high), strides)
    scores = net.op("Sigmoid", scores)
    if net.chance(0.3):
        return [boxes, scores]
    return [net.concat(boxes, scores)]


def _expected_bins(net: Drawing, box: str, bins: int, total: int) -> str:
    """The mean of the bins by a convolution, as DFL is exported."""
    apart = net.transpose(net.reshape(box, 1, 4, bins, total), 0, *net.pick((2, 1, 3), (3, 1, 2)))
    if net.dims(apart)[1] == bins:
        weights = net.softmax(apart, 1)
    else:
        weights = net.transpose(net.op("Softmax", apart, axis=3), 0, 3, 2, 1)
    steps = net.constant(np.arange(bins).reshape(1, bins, 1, 1))
    return net.reshape(net.op("Conv", weights, steps, kernel_shape=[1, 1]), 1, 4, total)


def ranked_boxes(net: Drawing, levels: Sequence[str]) -> list[str]:
    """YOLOv10's and YOLO26's end: the best by TopK."""
    rows = [net.reshape(net.convolve(level, 9, bias=True), 1, 9, -1) for level in levels]
    joined = net.concat(*rows, axis=2) if len(rows) > 1 else rows[0]
    scores = net.op("ReduceMax", net.transpose(net.cut(joined, 4, 9, 1), 0, 2, 1), axes=[2], keepdims=0)
    best, _ = (
        net.ops("TopK", 2, scores, net.ints(8), axis=1, largest=1, sorted=1)
        if net.opset > 10
        else net.ops("TopK", 2, scores, net.ints(8), axis=1)
    )
    return [best, joined]


def single_shot(net: Drawing, levels: Sequence[str]) -> list[str]:
    """SSD's: boxes and classes of all levels, channels last, flattened and joined, a Softmax or none."""
    boxes, scores = [], []
    for level in levels:
        boxes.append(net.reshape(net.transpose(net.convolve(level, 8, 3, bias=True), 0, 2, 3, 1), 1, -1, 4))
        scores.append(net.reshape(net.transpose(net.convolve(level, 6, 3, bias=True), 0, 2, 3, 1), 1, -1, 3))
    box = net.concat(*boxes, axis=1) if len(boxes) > 1 else boxes[0]
    score = net.concat(*scores, axis=1) if len(scores) > 1 else scores[0]
    return [box, net.softmax(score, 2) if net.chance(0.5) else score]


def masks(net: Drawing, levels: Sequence[str]) -> list[str]:
    """Segmentation of instances: coefficients beside boxes, prototypes of the largest map."""
    prototypes = net.convolve(
        net.layer(net.resize(levels[0], 2 * net.size(levels[0])[0], 2 * net.size(levels[0])[1]), 8), 4
    )
    coefficients = [net.reshape(net.convolve(net.layer(level, 8), 4, bias=True), 1, 4, -1) for level in levels]
    joined = net.concat(*coefficients, axis=2) if len(coefficients) > 1 else coefficients[0]
    return [*decoupled(net, levels), joined, prototypes]


def joints(net: Drawing, levels: Sequence[str]) -> list[str]:
    """Poses: places by slices with steps over channels, visibilities by Sigmoid."""
    rows = [net.reshape(net.convolve(level, 12, bias=True), 1, 12, -1) for level in levels]
    y = net.concat(*rows, axis=2) if len(rows) > 1 else rows[0]
    total = net.dims(y)[2]
    parts = net.reshape(y, 1, 4, 3, total)
    place = net.op(
        "Mul",
        net.op(
            "Add",
            net.op("Mul", net.cut(parts, 0, 2, 2), net.scalar(2.0)),
            net.constant(np.random.default_rng(total).uniform(0, 8, (2, total))),
        ),
        net.constant(np.full((1, total), 8.0)),
    )
    seen = net.op("Sigmoid", net.cut(parts, 2, 3, 2))
    return [net.reshape(net.concat(place, seen, axis=2), 1, 12, total), *raw_boxes(net, levels[:1])]


DETECTORS: tuple[Detector, ...] = (
    *(raw_boxes, decoupled, distance_boxes) * 3,
    *(anchor_boxes, single_shot) * 2,
    ranked_boxes,
    masks,
    joints,
)
