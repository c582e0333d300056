"""Averaging: over the whole map as ``GlobalAveragePool``, over a window as depthwise convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.chips import GraphRules
from engine.ir import MARK_STEPS, attribute, mark, static_shape
from engine.optimize.base import (
    Array,
    NodePass,
    add_initializer,
    axes_of,
    graph_of,
    ints,
    is_standard,
    make_node,
    substitute,
)
from engine.terms import Compatibility

Window = tuple[int, int]


class ReduceMeanToGlobalPool(NodePass):
    """``ReduceMean`` over H and W becomes ``GlobalAveragePool``, with a ``Reshape`` where the axes are dropped.

    So does one that drops both of a map with its channels last, behind the Transpose that put them there (4 of 4 asked;
    MambaOut). The result is called ``<node>_output``, the Reshape ``<node>_flatten`` and its result
    ``<node>_flatten_output``, even where that is an output of the network (three conversions of activations_a, 16
    branches asked on three marches).
    """

    op_types = frozenset({"ReduceMean"})

    def rewrite(self, node: ir.Node) -> bool:
        source, result = _pooled_map(node), node.outputs[0]
        shape = static_shape(source)
        if source is None or shape is None:
            return False
        pooled_shape = (*shape[:2], 1, 1)
        keeps = bool(attribute(node, "keepdims", 1))
        pool = make_node(
            "GlobalAveragePool",
            [source],
            name=str(node.name),
            output=f"{node.name}_output",
            like=result,
            shape=pooled_shape,
        )
        graph = graph_of(node)
        if keeps:
            graph.insert_after(node, pool)
            ir.convenience.replace_all_uses_with(result, pool.outputs[0], replace_graph_outputs=True)
            graph.remove(node, safe=True)
            return True
        target = add_initializer(graph, f"{node.name}_flatten_{node.name}_output_shape", _int64(-1, shape[1]))
        reshape = make_node(
            "Reshape",
            [pool.outputs[0], target],
            name=f"{node.name}_flatten",
            output=f"{node.name}_flatten_output",
            like=result,
        )
        graph.insert_after(node, [pool, reshape])
        ir.convenience.replace_all_uses_with(result, reshape.outputs[0], replace_graph_outputs=True)
        graph.remove(node, safe=True)
        return True

    def remains(self, node: ir.Node) -> bool:
        """One of a map over both its sides."""
        return _pooled_map(node) is not None


def _pooled_map(node: ir.Node) -> ir.Value | None:
    """The map, channels first, of which ``node`` is the mean over rows and columns; None where it is another mean."""
    source = node.inputs[0]
    if source is None or len(static_shape(source) or ()) != _MAP_RANK:
        return None
    if _is_over_rows_and_columns(node):
        return source
    transpose = source.producer()
    if not is_standard(transpose, "Transpose") or transpose is None or attribute(node, "keepdims", 1):
        return None
    is_last = tuple(attribute(transpose, "perm", ())) == _CHANNELS_LAST and axes_of(node, _MAP_RANK) == (1, 2)
    return transpose.inputs[0] if is_last else None


_MAP_RANK, _CHANNELS_LAST = 4, (0, 2, 3, 1)


def _is_over_rows_and_columns(node: ir.Node) -> bool:
    """Whether a mean is over axes 2 and 3 of a map, said in this order.

    One over 3 and 2, or -1 and -2, stays as it is (5 of 5 in five networks; ``tests/parity/recorded/means``).
    """
    return axes_of(node, 4) == (2, 3) and [axis % 4 for axis in attribute(node, "axes", (2, 3))] == [2, 3]


class Pool1d(NodePass):
    """Pooling over one dimension becomes one over a map of width 1, between two ``Reshape``; of whole lines too."""

    op_types = frozenset({"AveragePool", "MaxPool", "GlobalAveragePool", "GlobalMaxPool"})

    def rewrite(self, node: ir.Node) -> bool:
        if not self.remains(node):
            return False
        source, shape = node.inputs[0], static_shape(node.inputs[0])
        result, pooled = node.outputs[0], static_shape(node.outputs[0])
        if source is None or shape is None or pooled is None:
            return False
        graph = graph_of(node)
        widened = make_node(
            "Reshape",
            [source, add_initializer(graph, f"{node.name}_reshape_input_shape", _int64(*shape, 1))],
            name=f"{node.name}_reshape_input",
            output=f"{node.name}_{source.name}_reshape_in",
            like=source,
            shape=(*shape, 1),
        )
        attributes = {name: attr.value for name, attr in node.attributes.items()}
        for name in ("kernel_shape", "strides", "dilations"):
            if name in attributes:
                attributes[name] = [*attributes[name], 1]
        if "pads" in attributes:
            first, last = attributes["pads"]
            attributes["pads"] = [first, 0, last, 0]
        pool = make_node(
            node.op_type,
            [widened.outputs[0]],
            name=str(node.name),
            output=f"replaced_{result.name}",
            like=result,
            shape=(*pooled, 1),
            attributes=attributes,
        )
        narrowed = make_node(
            "Reshape",
            [pool.outputs[0], add_initializer(graph, f"{node.name}_reshape_output_shape", _int64(*pooled))],
            name=f"{node.name}_reshape_output",
            output=f"{node.name}_reshaped",
            like=result,
        )
        substitute(node, [widened, pool, narrowed])
        return True

    def remains(self, node: ir.Node) -> bool:
        """One over one dimension, whose places are not asked for."""
        is_line = len(static_shape(node.inputs[0]) or ()) == 3 and static_shape(node.outputs[0]) is not None
        return is_line and not any(value.uses() or value.is_graph_output() for value in node.outputs[1:])


def _int64(*dims: int) -> Array:
    return np.asarray(dims, np.int64)


def average_in_steps(pool: ir.Node) -> None:
    """Let ``pool``, a GlobalAveragePool, be one that the BPU takes in steps."""
    mark(pool, MARK_STEPS, "halves")


class AveragePoolToConv(NodePass):
    """An averaging window becomes a depthwise convolution with weight 1/n, a large one a chain of them.

    Node and output keep their names; weights are called ``AVERAGE_WEIGHT_FOR_<node>``, all but the last node of a chain
    ``<node>_SPLIT_WITH_DEPTHWISE_CONV_<i>``. Windows whose padding does not count, and those that do not split into
    windows up to the march's limit, stay as they are (reference/arithmetic.md 2.6). On bernoulli2 large windows
    whose sides are powers of two are halved as often as they can be, and every node is a
    ``<node>_SPLIT_WITH_SMALL_POOL_<i>`` (16 x 16 of bisenet and of one drawn, 16 x 8, and 8 x 8 of which four tile a
    map); others are split as a GlobalAveragePool is (12 x 8 twice, 8 x 10 and 18 x 12, which cover the map; 12 x 12 of
    which four tile one is 3 * 4 there, 6 * 2 here). An average of a whole map that does not split there is a
    GlobalAveragePool that is taken in steps (``gap_17x3``; 59 of 59 sizes asked), which makes it too small: with
    ``compatibility: clean`` the CPU averages it.
    """

    op_types = frozenset({"AveragePool", "GlobalAveragePool"})

    def __init__(self, rules: GraphRules, compatibility: Compatibility = Compatibility.ORIGINAL) -> None:
        self.rules = rules
        self._takes_steps = rules.global_pooling_as_conv and compatibility is Compatibility.ORIGINAL

    def rewrite(self, node: ir.Node) -> bool:
        source, shape = node.inputs[0], static_shape(node.inputs[0])
        if source is None or shape is None or len(shape) != 4 or node.name is None:
            return False
        chain = self._chain(node, shape)
        if chain is None:
            return self._mark_steps(node, shape)
        pads = chain.pads
        channels, size = shape[1], shape[2:]
        new_nodes: list[ir.Node] = []
        for index, (window, stride) in enumerate(zip(chain.windows, chain.strides, strict=True)):
            last = index == len(chain.windows) - 1
            name = node.name if last and not chain.small else f"{node.name}_SPLIT_WITH_{chain.kind}_{index}"
            size = (
                (size[0] + pads[0] + pads[2] - window[0]) // stride[0] + 1,
                (size[1] + pads[1] + pads[3] - window[1]) // stride[1] + 1,
            )
            weight = np.full((channels, 1, *window), np.float32(1.0 / (window[0] * window[1])), np.float32)
            conv = make_node(
                "Conv",
                [source, add_initializer(graph_of(node), f"AVERAGE_WEIGHT_FOR_{name}", weight)],
                name=name,
                output=f"{name}_pooled" if last else name,
                like=node.outputs[0],
                shape=(shape[0], channels, *size),
                attributes={
                    "dilations": [1, 1],
                    "group": channels,
                    "kernel_shape": list(window),
                    "pads": list(pads),
                    "strides": list(stride),
                },
            )
            new_nodes.append(conv)
            source, pads = conv.outputs[0], (0, 0, 0, 0)
        substitute(node, new_nodes)
        return True

    def _mark_steps(self, node: ir.Node, shape: Sequence[int]) -> bool:
        """Let the average of a whole map that stays be a marked GlobalAveragePool; whether it was not yet one."""
        if not self._is_taken_in_steps(node, shape):
            return False
        pool = node
        if node.op_type != "GlobalAveragePool":
            name, result = f"{node.name}_pooled", node.outputs[0]
            pooled = (*shape[:2], 1, 1)
            pool = make_node(
                "GlobalAveragePool", [node.inputs[0]], name=str(node.name), output=name, like=result, shape=pooled
            )
            substitute(node, [pool])
        average_in_steps(pool)
        return True

    def _is_taken_in_steps(self, node: ir.Node, shape: Sequence[int]) -> bool:
        """Whether ``node`` averages the whole map of ``shape``, and is not marked yet, where convolutions would."""
        if not self._takes_steps or MARK_STEPS in node.metadata_props:
            return False
        if node.op_type == "GlobalAveragePool":
            return True
        kept = ("NOTSET", "VALID")
        is_whole = ints(node, "kernel_shape", ()) == tuple(shape[2:]) and max(shape[2:]) > self.rules.pooling_window
        is_plain = attribute(node, "auto_pad", "NOTSET") in kept and max(ints(node, "dilations", (1, 1))) == 1
        return is_whole and is_plain and not any(ints(node, "pads", (0, 0, 0, 0)))

    def remains(self, node: ir.Node) -> bool:
        """One that convolutions can compute, or that is to be marked."""
        shape = static_shape(node.inputs[0])
        if shape is None or len(shape) != 4 or node.name is None:
            return False
        return self._chain(node, shape) is not None or self._is_taken_in_steps(node, shape)

    def _chain(self, node: ir.Node, shape: Sequence[int]) -> _Chain | None:
        """What computes the pool of a map of ``shape``; ``None`` where it stays."""
        limit = self.rules.pooling_window
        height, width = shape[2], shape[3]
        no_pads = (0, 0, 0, 0)
        if node.op_type == "GlobalAveragePool":
            windows = split_window((height, width), limit) if self.rules.global_pooling_as_conv else None
            return None if windows is None else _Chain(windows, windows)
        window = ints(node, "kernel_shape", ())
        stride = ints(node, "strides", (1, 1))
        pads = ints(node, "pads", no_pads)
        auto_pad = attribute(node, "auto_pad", "NOTSET")
        if auto_pad not in ("NOTSET", "VALID") or _overhangs(node, (height, width), window, stride, pads):
            return None
        if any(item != 1 for item in ints(node, "dilations", (1, 1))):
            return None
        if any(pads) and not attribute(node, "count_include_pad", 0):
            return None
        if max(window) <= limit:
            return _Chain([(window[0], window[1])], [(stride[0], stride[1])], pads)
        covers = window == (height, width) and self.rules.global_pooling_as_conv
        if any(pads) or not (stride == window or covers):
            return None
        halves = all(side.bit_count() == 1 for side in window)
        small = stride == window and halves and self.rules.global_pooling_as_conv
        windows = split_window((window[0], window[1]), limit, smallest=small)
        return None if windows is None else _Chain(windows, windows, small=small)


@dataclass(frozen=True)
class _Chain:
    """Depthwise convolutions that average, one after the other.

    Attributes:
        windows, strides: of each.
        pads: of the first.
        small: whether all are named as parts of the pool; else the last one has its name.
    """

    windows: list[Window]
    strides: list[Window]
    pads: tuple[int, ...] = (0, 0, 0, 0)
    small: bool = False

    @property
    def kind(self) -> str:
        return "SMALL_POOL" if self.small else "DEPTHWISE_CONV"


def split_window(window: Window, limit: int, *, smallest: bool = False) -> list[Window] | None:
    """Windows that, applied one after the other with their own size as stride, average ``window``.

    Args:
        window: height and width.
        limit: largest side of a window.
        smallest: take the smallest factors that there are, else the largest.

    Returns:
        ``None`` where a side has a prime factor above ``limit``.
    """
    rows, columns = (factors(size, limit, smallest=smallest) for size in window)
    if rows is None or columns is None:
        return None
    length = max(len(rows), len(columns))
    rows, columns = rows + [1] * (length - len(rows)), columns + [1] * (length - len(columns))
    return list(zip(rows, columns, strict=True))


def factors(size: int, limit: int, *, smallest: bool = False) -> list[int] | None:
    """Factors of ``size`` up to ``limit``, each the largest (or ``smallest``) that divides what is left.

    8 = 4 * 2, 16 = 4 * 4, 24 = 6 * 4, 32 = 4 * 4 * 2, 15 = 5 * 3, 12 = 6 * 2, 48 = 6 * 4 * 2: every
    size that the recorded networks hold.

    Returns:
        ``None`` where a prime factor is above ``limit``.
    """
    if size <= limit and not smallest:
        return [size]
    found: list[int] = []
    while size > 1:
        divisors = [factor for factor in range(2, limit + 1) if size % factor == 0]
        if not divisors:
            return None
        found.append(divisors[0] if smallest else divisors[-1])
        size //= found[-1]
    return found or [1]


def _overhangs(node: ir.Node, size: Window, window: Sequence[int], stride: Sequence[int], pads: Sequence[int]) -> bool:
    """Whether ``ceil_mode`` lets the last window reach beyond the padded map."""
    if not attribute(node, "ceil_mode", 0):
        return False
    return any((size[i] + pads[i] + pads[i + 2] - window[i]) % stride[i] != 0 for i in range(2))
