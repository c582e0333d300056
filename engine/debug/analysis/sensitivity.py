"""Quantisation sensitivity: what quantising one node alone does to the outputs of the model."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import numpy as np

from engine.debug.analysis.data import Array, Samples, read_samples
from engine.debug.analysis.metrics import DistanceMeasure, measure, parse_metrics
from engine.debug.analysis.model import DebugModel, ModelOrFile, NodeType
from engine.debug.analysis.variants import Variant, VariantRunner, Watcher, unwatched
from engine.errors import ConfigError, hint

Scores = dict[str, dict[DistanceMeasure, float]]
"""Values by name of the node and metric, the worst node first."""


def get_sensitivity_of_nodes(
    model_or_file: ModelOrFile,
    metrics: str | list[str] = "cosine-similarity",
    calibrated_data: Samples | None = None,
    output_node: str | None = None,
    node_type: str = "node",
    data_num: int | None = None,
    verbose: bool = False,
    interested_nodes: str | list[str] | None = None,
    *,
    most: int | None = None,
    watch: Watcher = unwatched,
) -> dict[str, dict[str, str]]:
    """Quantise one node at a time and measure the output of the model against the float one.

    Args:
        model_or_file: calibrated model.
        metrics: ``cosine-similarity``, ``mse``, ``mre``, ``sqnr``, ``chebyshev``, or a list; the first sorts.
        calibrated_data: folder of samples, or arrays by input name.
        output_node: regular node whose output counts; None for the outputs of the model.
        node_type: ``node`` (regular nodes: all calibrated tensors that the node reads), ``weight`` or ``activation``.
        data_num: number of samples; None for all.
        verbose: print the table.
        interested_nodes: nodes to try, of any kind; ``node_type`` is ignored then.
        most: number of samples at most where ``data_num`` is None.
        watch: told of the share that is done.

    Returns:
        By name of the node, the worst first: text of the value by metric. A value is the mean over samples and outputs.

    Raises:
        ConfigError: a name or value is not allowed.
        CalibrationDataError: there are no such data.
    """
    wanted = parse_metrics(metrics)
    model = DebugModel(model_or_file)
    kind = parse_node_type(node_type)
    names = _names(interested_nodes) or model.of_kind(kind)
    feed = read_samples(model.model, require_data(calibrated_data), data_num, most)
    found = sensitivities(model, feed, names, wanted, output_node, watch)
    if verbose:
        sys.stdout.write(table(found, wanted, "node" if interested_nodes else kind.value))
    return {name: {metric.value: repr(value) for metric, value in row.items()} for name, row in found.items()}


def sensitivities(
    model: DebugModel,
    feed: Mapping[str, Array],
    names: Sequence[str],
    metrics: Sequence[DistanceMeasure],
    output_node: str | None = None,
    watch: Watcher = unwatched,
) -> Scores:
    """As :func:`get_sensitivity_of_nodes`, in numbers.

    Args:
        model: calibrated model.
        feed: samples by input name.
        names: nodes of any kind.
        metrics: the first one sorts.
        output_node: see there.
        watch: told of the share that is done.
    """
    outputs = model.outputs if output_node is None else (model.output_of(output_node),)
    scores = score(model, feed, [model.variant([name]) for name in names], metrics, outputs, watch)
    return ranked(dict(zip(names, scores, strict=True)), metrics[0])


def score(
    model: DebugModel,
    feed: Mapping[str, Array],
    variants: Sequence[Variant],
    metrics: Sequence[DistanceMeasure],
    outputs: Sequence[str],
    watch: Watcher = unwatched,
) -> list[dict[DistanceMeasure, float]]:
    """The metrics of every variant: the mean over samples and ``outputs``, names of tensors."""
    found = []
    for tensors in metrics_by_sample(model, feed, variants, metrics, outputs, watch):
        rows = [row for rows in tensors.values() for row in rows]
        found.append(dict(zip(metrics, np.mean(rows, axis=0).tolist(), strict=True)))
    return found


def metrics_by_sample(
    model: DebugModel,
    feed: Mapping[str, Array],
    variants: Sequence[Variant],
    metrics: Sequence[DistanceMeasure],
    tensors: Sequence[str],
    watch: Watcher = unwatched,
) -> list[dict[str, list[list[float]]]]:
    """For each tensor, and each of its variants, a row of ``metrics`` per sample."""

    def compare(_: str, actual: Array, expected: Array) -> list[float]:
        return [measure(metric, actual, expected) for metric in metrics]

    found: list[dict[str, list[list[float]]]] = [{} for _ in variants]
    for results in VariantRunner(model.model, tensors).run(feed, variants, compare, watch):
        for rows, result in zip(found, results, strict=True):
            for tensor, row in result.items():
                rows.setdefault(tensor, []).append(row)
    return found


def ranked(scores: Mapping[str, dict[DistanceMeasure, float]], metric: DistanceMeasure) -> Scores:
    """``scores`` with the largest error first."""
    sign = 1 if metric.higher_is_better else -1
    return dict(sorted(scores.items(), key=lambda item: sign * item[1][metric]))


def table(scores: Mapping[str, Mapping[DistanceMeasure, float]], metrics: Sequence[DistanceMeasure], title: str) -> str:
    """The printed table: a row per node with all digits of the values."""
    cells = [["Node", *metrics], *([name, *map(repr, row.values())] for name, row in scores.items())]
    widths = [max(len(row[column]) for row in cells) for column in range(len(metrics) + 1)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    width = max(map(len, lines))
    return "\n".join([title.center(width, "="), lines[0], "-" * width, *lines[1:]]) + "\n"


def parse_node_type(name: str) -> NodeType:
    """``node``, ``weight`` or ``activation``.

    Raises:
        ConfigError: anything else.
    """
    if name not in list(NodeType):
        raise ConfigError(f"node_type is {name!r}; allowed are {', '.join(NodeType)}{hint(str(name), NodeType)}")
    return NodeType(name)


def require_data(data: Samples | None) -> Samples:
    """``data``.

    Raises:
        ConfigError: it is None.
    """
    if data is None:
        raise ConfigError("calibrated_data is required: the folder of samples, or arrays by input name")
    return data


def _names(given: str | list[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())
