"""What ONNX's shape inference leaves unchecked: operands that contradict each other, windows larger than the map."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path

import numpy as np
import onnx_ir as ir

from engine.errors import ModelError
from engine.ir import attribute, constant_of, static_shape

Shape = tuple[int, ...]


def check_consistency(model: ir.Model, path: Path) -> None:
    """Refuse nodes whose operands contradict each other, as far as shapes and constants tell.

    Raises:
        ModelError: names the node and what does not fit.
    """
    for node in model.graph:
        if node.domain not in ("", "ai.onnx"):
            continue
        problem = _too_small(node) or _RULES.get(node.op_type, _nothing)(node)
        if problem is not None:
            raise ModelError(f"{path}: node {node.name!r} ({node.op_type}): {problem}")


def _nothing(node: ir.Node) -> str | None:
    return None


def _too_small(node: ir.Node) -> str | None:
    """A window that is larger than what it moves over, or what crops more than there is."""
    shapes = [shape for value in node.outputs if (shape := static_shape(value)) is not None]
    least = 1 if node.op_type in _WINDOWS else 0
    wrong = next((shape for shape in shapes if min(shape, default=least) < least), None)
    reason = "the window is larger than the padded input" if least else "it takes away more than there is"
    return None if wrong is None else f"its result has the shape {wrong}: {reason}"


def _conv(node: ir.Node) -> str | None:
    shapes = _shapes(node, 2)
    if shapes is None:
        return None
    (x, weight), group = shapes, attribute(node, "group", 1)
    if len(x) != len(weight) or len(x) < 3 or group < 1 or weight[0] % group or x[1] != weight[1] * group:
        return f"an input of shape {x}, a weight of shape {weight} and group {group} do not fit each other"
    return _kernel(node, weight) or _bias(node, weight[0])


def _conv_transpose(node: ir.Node) -> str | None:
    shapes = _shapes(node, 2)
    if shapes is None:
        return None
    (x, weight), group = shapes, attribute(node, "group", 1)
    if len(x) != len(weight) or len(x) < 3 or group < 1 or weight[0] % group or x[1] != weight[0]:
        return f"an input of shape {x}, a weight of shape {weight} and group {group} do not fit each other"
    return _kernel(node, weight) or _bias(node, weight[1] * group)


def _kernel(node: ir.Node, weight: Shape) -> str | None:
    kernel = tuple(attribute(node, "kernel_shape", weight[2:]))
    return None if kernel == weight[2:] else f"kernel_shape {kernel} and a weight of shape {weight} differ"


def _bias(node: ir.Node, channels: int) -> str | None:
    bias = static_shape(node.inputs[2]) if len(node.inputs) > 2 else None
    return None if bias in (None, (channels,)) else f"{channels} channels need a bias of as many values, not {bias}"


def _per_channel(node: ir.Node) -> str | None:
    """Every operand behind the first has one value per channel."""
    x, others = static_shape(node.inputs[0]), [static_shape(value) for value in node.inputs[1:]]
    if x is None or len(x) < 2:
        return None
    wrong = next((shape for shape in others if shape not in (None, (x[1],))), None)
    return None if wrong is None else f"{x[1]} channels need operands of as many values, not of shape {wrong}"


def _prelu(node: ir.Node) -> str | None:
    shapes = _shapes(node, 2)
    if shapes is None:
        return None
    x, slope = shapes
    fits = len(slope) <= len(x) and all(a in (1, b) for a, b in zip(slope[::-1], x[::-1], strict=False))
    return None if fits else f"a slope of shape {slope} does not spread over {x}"


def _list(node: ir.Node) -> str | None:
    """The second operand is a list of numbers."""
    given = static_shape(node.inputs[1]) if len(node.inputs) > 1 else None
    return None if given is None or len(given) == 1 else f"its second input must be a list, it has the shape {given}"


def _reshape(node: ir.Node) -> str | None:
    if (problem := _list(node)) is not None:
        return problem
    before, after = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    if before is None or after is None or prod(before) == prod(after):
        return None
    return f"shape {before} cannot become {after}: they differ in the number of elements"


def _transpose(node: ir.Node) -> str | None:
    x, order = static_shape(node.inputs[0]), attribute(node, "perm")
    fits = x is None or order is None or sorted(order) == list(range(len(x)))
    return None if fits else f"perm {list(order)} is no order of the {len(x or ())} axes of {x}"


def _depth_to_space(node: ir.Node) -> str | None:
    x, block = static_shape(node.inputs[0]), attribute(node, "blocksize", 1)
    fits = x is None or (len(x) == 4 and block > 0 and x[1] % block**2 == 0)
    return None if fits else f"the channels of {x} cannot become blocks of {block}x{block}"


def _space_to_depth(node: ir.Node) -> str | None:
    x, block = static_shape(node.inputs[0]), attribute(node, "blocksize", 1)
    fits = x is None or (len(x) == 4 and block > 0 and x[2] % block == 0 and x[3] % block == 0)
    return None if fits else f"height and width of {x} are no multiples of blocksize {block}"


def _gather(node: ir.Node) -> str | None:
    x, indices = static_shape(node.inputs[0]), constant_of(node.inputs[1])
    if x is None or indices is None or not indices.size:
        return None
    size = x[attribute(node, "axis", 0)]
    fits = -size <= indices.min() and indices.max() < size
    return None if fits else f"indices {indices.min()} to {indices.max()} do not lie within {size} elements"


def _slice(node: ir.Node) -> str | None:
    """Starts, ends, axes and steps are lists of one length; older opsets have them as attributes."""
    bounds = [static_shape(value) for value in node.inputs[1:] if value is not None]
    known = [shape for shape in bounds if shape is not None]
    if any(len(shape) != 1 or shape != known[0] for shape in known):
        return f"starts, ends, axes and steps must be lists of the same length, they are {known}"
    steps = constant_of(node.inputs[4]) if len(node.inputs) > 4 else None
    return "a step is 0" if steps is not None and not steps.all() else None


def _recurrent(node: ir.Node) -> str | None:
    shapes = _shapes(node, 3)
    if shapes is None:
        return None
    x, weight, recurrence = shapes
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[node.op_type]
    count = 2 if attribute(node, "direction", "forward") == "bidirectional" else 1
    hidden = recurrence[-1] if recurrence else 0
    expected = [(count, gates * hidden, x[-1] if x else 0), (count, gates * hidden, hidden)]
    bias = static_shape(node.inputs[3]) if len(node.inputs) > 3 else None
    fits = [weight, recurrence] == expected and bias in (None, (count, 2 * gates * hidden))
    if len(x) == 3 and fits and attribute(node, "hidden_size", hidden) == hidden:
        return None
    return (
        f"an input of shape {x}, weights of shape {weight} and {recurrence}, a bias of shape {bias}, hidden_size and "
        "direction do not fit each other"
    )


def _resize(node: ir.Node) -> str | None:
    scales = constant_of(node.inputs[2 if len(node.inputs) > 2 else -1])
    wrong = scales is not None and scales.dtype == np.float32 and bool(np.any(~(scales > 0)))
    return f"its scales {scales.tolist()} must be positive" if wrong and scales is not None else None


def _clip(node: ir.Node) -> str | None:
    shapes = [shape for value in node.inputs[1:] if (shape := static_shape(value)) is not None and prod(shape) != 1]
    return f"its limits must be single numbers, one is of shape {shapes[0]}" if shapes else None


def _lrn(node: ir.Node) -> str | None:
    size = attribute(node, "size", 1)
    return None if size % 2 else f"size {size} must be odd"


def _shapes(node: ir.Node, count: int) -> list[Shape] | None:
    found = [shape for value in node.inputs[:count] if (shape := static_shape(value)) is not None]
    return found if len(found) == count else None


_WINDOWS = frozenset({"Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"})

_RULES: Mapping[str, Callable[[ir.Node], str | None]] = {
    "BatchNormalization": _per_channel,
    "Clip": _clip,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "DepthToSpace": _depth_to_space,
    "Expand": _list,
    "GRU": _recurrent,
    "Gather": _gather,
    "InstanceNormalization": _per_channel,
    "LRN": _lrn,
    "LSTM": _recurrent,
    "PRelu": _prelu,
    "Pad": _list,
    "RNN": _recurrent,
    "Reshape": _reshape,
    "Resize": _resize,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Tile": _list,
    "Transpose": _transpose,
    "Upsample": _resize,
}
"""What does not fit in a node, by its type; ``None`` where all does."""
