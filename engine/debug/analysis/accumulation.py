"""Accumulated error: how far every node's result is off when some nodes are quantised, or all but some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.debug.analysis.data import Array
from engine.debug.analysis.metrics import DistanceMeasure
from engine.debug.analysis.model import DebugModel, NodeType
from engine.debug.analysis.sensitivity import metrics_by_sample
from engine.debug.analysis.variants import Variant, Watcher, unwatched
from engine.errors import ConfigError

NodeLists = str | Sequence[str] | Sequence[Sequence[str]]
"""One name; names, each tried alone; or lists of names, each tried together."""


@dataclass(frozen=True)
class Curve:
    """The error of every regular node's result in one variant.

    Attributes:
        label: what is quantised, or is not.
        values: the metric by node, in graph order.
    """

    label: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Curves:
    """Curves over the same nodes.

    Attributes:
        nodes: names of the regular nodes, in graph order.
        metric: what the curves show.
        curves: one per variant.
    """

    nodes: tuple[str, ...]
    metric: DistanceMeasure
    curves: tuple[Curve, ...]


def requested_variants(
    model: DebugModel, quantize_node: NodeLists | None, non_quantize_node: NodeLists | None
) -> dict[str, Variant]:
    """The variants that ``quantize_node`` or ``non_quantize_node`` ask for, by label.

    Weights and activations, each alone, are compared with both, as the original draws them
    (reference/commands.md).

    Raises:
        ConfigError: neither or both are given, or a name is not in the model.
    """
    if (quantize_node is None) == (non_quantize_node is None):
        raise ConfigError("give either quantize_node or non_quantize_node")
    lists, nested = _as_lists(quantize_node if non_quantize_node is None else non_quantize_node)
    found = {}
    if (
        quantize_node is not None
        and not nested
        and all([kind] in lists for kind in (NodeType.WEIGHT, NodeType.ACTIVATION))
    ):
        found["weight + activation"] = model.all
    for index, names in enumerate(lists):
        variant = model.variant(names)
        text = f"partial_qmodel_{index}: {_shortened(names)}" if nested else names[0]
        if non_quantize_node is None:
            found[text] = variant
        else:
            found[text if nested else f"all but {text}"] = model.all - variant
    return found


def accumulated_error(
    model: DebugModel,
    feed: Mapping[str, Array],
    variants: Mapping[str, Variant],
    metric: DistanceMeasure,
    watch: Watcher = unwatched,
) -> Curves:
    """The error of every regular node's first output in each variant: the mean over the samples."""
    tensors = {name: str(node.outputs[0].name) for name, node in model.nodes.items() if _is_computed(model, node)}
    found = metrics_by_sample(model, feed, tuple(variants.values()), (metric,), tuple(tensors.values()), watch)
    curves = tuple(
        Curve(label, tuple(np.mean(rows[tensor], axis=0).tolist()[0] for tensor in tensors.values()))
        for label, rows in zip(variants, found, strict=True)
    )
    return Curves(tuple(tensors), metric, curves)


def averaged(curves: Curves) -> Curves:
    """Every value replaced by the mean of the finite values up to it; it stays where there are none yet.

    An ``sqnr`` is infinite where there is no error; if counted, the nodes before the first error would hide all others.
    """
    means = (Curve(curve.label, tuple(_running_mean(np.asarray(curve.values)).tolist())) for curve in curves.curves)
    return Curves(curves.nodes, curves.metric, tuple(means))


def _running_mean(values: Array) -> Array:
    finite = np.isfinite(values)
    counts = np.cumsum(finite)
    sums = np.cumsum(np.where(finite, values, 0.0))
    return np.where(counts > 0, sums / np.maximum(counts, 1), values)


def _is_computed(model: DebugModel, node: ir.Node) -> bool:
    """Whether the result of ``node`` is made of floats that depend on the inputs."""
    result = node.outputs[0]
    return result.dtype in (None, ir.DataType.FLOAT) and result in model.dynamic


def _as_lists(given: NodeLists | None) -> tuple[list[list[str]], bool]:
    """Lists of names to take together, and whether they were given as such."""
    items = [given] if isinstance(given, str) else list(given or ())
    if not items:
        raise ConfigError("the list of nodes is empty")
    if not all(isinstance(item, (str, list, tuple)) for item in items):
        raise ConfigError(f"nodes are {items}; give names, or lists of names")
    nested = any(not isinstance(item, str) for item in items)
    return [[item] if isinstance(item, str) else [str(name) for name in item] for item in items], nested


def _shortened(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"
