"""The debugger's functions that draw, and those that run several others."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.debug.analysis.accumulation import Curves, NodeLists, accumulated_error, averaged, requested_variants
from engine.debug.analysis.data import Array, Samples, read_samples
from engine.debug.analysis.distribution import Channels, ValueDistribution, channels, distributions
from engine.debug.analysis.metrics import DistanceMeasure, parse_metric, parse_metrics
from engine.debug.analysis.model import DebugModel, ModelOrFile, NodeType
from engine.debug.analysis.partial import PartialQuantisation, partial_quantisation
from engine.debug.analysis.sensitivity import parse_node_type, require_data, sensitivities, table
from engine.debug.analysis.variants import Watcher, unwatched, watchers
from engine.errors import ConfigError
from engine.page_links import PageKind, identity

SaveDir = str | os.PathLike[str] | None
"""Where pictures go; None for the working directory."""
TOP = 5
"""Nodes of each kind that :func:`runall` draws."""
_CURVES, _VALUES, _DRAWING = 8.0, 3.0, 200.0
"""What parts of :func:`runall` take, in runs of the float model on a sample: curves and values of each sample, and
drawing. A variant takes half a run.
"""


def plot_acc_error(
    save_dir: SaveDir = ".",
    calibrated_data: Samples | None = None,
    model_or_file: ModelOrFile | None = None,
    quantize_node: NodeLists | None = None,
    non_quantize_node: NodeLists | None = None,
    metric: str = "cosine-similarity",
    average_mode: bool = False,
    *,
    watch: Watcher = unwatched,
) -> Curves:
    """Draw the accumulated error of partly quantised models over their nodes: a PNG and an interactive page.

    Args:
        save_dir: folder of ``accumulated_error.png`` and ``.html``.
        calibrated_data: folder of samples, or arrays by input name.
        model_or_file: calibrated model.
        quantize_node: what to quantise: names, each alone, or nested lists, each together. ``weight`` and
            ``activation`` stand for all calibration nodes of that kind; given both, each alone, a third curve
            shows both together.
        non_quantize_node: what not to quantise, everything else being quantised; in the same forms.
        metric: see :class:`~engine.debug.analysis.metrics.DistanceMeasure`.
        average_mode: the n-th value is the mean over the first n nodes.
        watch: told of the share that is done.

    Returns:
        What was drawn.

    Raises:
        ConfigError: neither or both node lists are given, or a name is not allowed.
        CalibrationDataError: there are no such data.
    """
    from engine.debug.analysis.plots import draw_curves  # matplotlib and plotly are slow to import

    folder = _folder(save_dir)
    model, feed = _opened(model_or_file, calibrated_data)
    chosen = parse_metric(metric)
    found = accumulated_error(model, feed, requested_variants(model, quantize_node, non_quantize_node), chosen, watch)
    found = averaged(found) if average_mode else found
    draw_curves(found, folder)
    return found


def plot_distribution(
    save_dir: SaveDir = ".",
    model_or_file: ModelOrFile | None = None,
    calibrated_data: Samples | None = None,
    nodes_list: str | list[str] | None = None,
    *,
    watch: Watcher = unwatched,
) -> list[ValueDistribution]:
    """Draw what the values of nodes look like before and after quantisation: a PNG and a page per node.

    Args:
        save_dir: folder of the pictures.
        model_or_file: calibrated model.
        calibrated_data: folder of samples, or arrays by input name.
        nodes_list: regular nodes (their results in the float and in the calibrated model), weight and activation
            calibration nodes (what they read and what they make of it), in any mixture.
        watch: told of the share that is done.

    Returns:
        What was drawn.

    Raises:
        ConfigError: a name is missing or not in the model.
        CalibrationDataError: there are no such data.
    """
    from engine.debug.analysis.plots import draw_distributions

    folder, names = _folder(save_dir), _required(nodes_list)
    found = distributions(*_opened(model_or_file, calibrated_data), names, watch)
    draw_distributions(found, folder)
    return found


def get_channelwise_data_distribution(
    save_dir: SaveDir = ".",
    model_or_file: ModelOrFile | None = None,
    calibrated_data: Samples | None = None,
    nodes_list: str | list[str] | None = None,
    axis: int | None = None,
    *,
    watch: Watcher = unwatched,
) -> list[Channels]:
    """Draw a box per channel of what calibration nodes read: a PNG and a page per node.

    Args:
        save_dir: folder of the pictures.
        model_or_file: calibrated model.
        calibrated_data: folder of samples, or arrays by input name.
        nodes_list: weight and activation calibration nodes.
        axis: of the channels; None: 1 for activations, what its node says for a weight.
        watch: told of the share that is done.

    Returns:
        What was drawn.

    Raises:
        ConfigError: a name is missing or no calibration node, or there is no such axis.
        CalibrationDataError: there are no such data.
    """
    from engine.debug.analysis.plots import draw_channels

    folder, names = _folder(save_dir), _required(nodes_list)
    found = channels(*_opened(model_or_file, calibrated_data), names, axis, watch)
    draw_channels(found, folder)
    return found


def sensitivity_analysis(
    model_or_file: ModelOrFile,
    calibrated_data: Samples,
    pick_threshold: float = 0.999,
    data_num: int | None = 1,
    verbose: bool = False,
    save_dir: SaveDir = ".",
    *,
    watch: Watcher = unwatched,
) -> PartialQuantisation:
    """Find the sensitive nodes, what makes them so, and what leaving them unquantised brings back.

    Args:
        model_or_file: calibrated model.
        calibrated_data: folder of samples, or arrays by input name.
        pick_threshold: nodes whose cosine similarity is below it are sensitive.
        data_num: number of samples; None for all.
        verbose: print the tables.
        save_dir: folder of ``partial_quantization.png`` and ``.html``.
        watch: told of the share that is done.

    Raises:
        ConfigError: the threshold is not between 0 and 1.
        CalibrationDataError: there are no such data.
    """
    from engine.debug.analysis.plots import draw_partial_quantisation

    if not isinstance(pick_threshold, (int, float)) or not 0 <= pick_threshold <= 1:
        raise ConfigError(f"pick_threshold is {pick_threshold!r}; allowed is 0 to 1")
    folder = _folder(save_dir)
    model = DebugModel(model_or_file)
    feed = read_samples(model.model, calibrated_data, data_num)
    found = partial_quantisation(model, feed, pick_threshold, watch)
    draw_partial_quantisation(found, folder)
    if verbose:
        sys.stdout.write(table(found.scores, (DistanceMeasure.COSINE,), NodeType.NODE.value))
        for name, cause in found.causes.items():
            sys.stdout.write(f"{name}: sensitive to the quantisation of its {cause}\n")
    return found


def _folder(save_dir: SaveDir) -> Path:
    """The folder of the pictures, which need not exist yet; checked before anything is computed."""
    if not isinstance(save_dir, (str, os.PathLike, type(None))) or (save_dir and Path(save_dir).is_file()):
        raise ConfigError(f"save_dir is {save_dir!r}; a folder is needed")
    return Path(save_dir or ".")


def _opened(model_or_file: ModelOrFile | None, data: Samples | None) -> tuple[DebugModel, dict[str, Array]]:
    if model_or_file is None:
        raise ConfigError("model_or_file is required: a calibrated model")
    model = DebugModel(model_or_file)
    return model, read_samples(model.model, require_data(data))


def _required(nodes: str | list[str] | None) -> list[str]:
    names = _as_list(nodes)
    if not names:
        raise ConfigError("nodes_list is required: names of nodes of the calibrated model")
    return names


def _as_list(names: str | Sequence[str] | None) -> list[str]:
    return [names] if isinstance(names, str) else list(names or ())


def runall(
    model_or_file: ModelOrFile,
    calibrated_data: Samples,
    save_dir: SaveDir = ".",
    ns_metrics: str | list[str] = "cosine-similarity",
    output_node: str | None = None,
    node_type: str | None = None,
    data_num: int | None = None,
    verbose: bool = False,
    interested_nodes: str | list[str] | None = None,
    dis_nodes_list: str | list[str] | None = None,
    cw_nodes_list: str | list[str] | None = None,
    axis: int | None = None,
    quantize_node: NodeLists | None = None,
    non_quantize_node: NodeLists | None = None,
    ae_metric: str = "cosine-similarity",
    average_mode: bool = False,
    *,
    most: int | None = None,
    watch: Watcher = unwatched,
) -> Path:
    """Run the whole debugger and write one page of it, ``accuracy_debug.html``, with a PNG per picture.

    Without further arguments: sensitivity of weight and of activation calibration nodes, distributions and channel
    boxes of the five worst of each, accumulated error with weights and with activations alone quantised.

    Args:
        model_or_file: calibrated model.
        calibrated_data: folder of samples, or arrays by input name.
        save_dir: folder of the page.
        ns_metrics: of the sensitivity; the first one sorts.
        output_node: see :func:`~engine.debug.analysis.sensitivity.get_sensitivity_of_nodes`.
        node_type: kind of nodes to rank; None for weights and activations. With ``node``, the distributions and boxes
            are those of the calibration nodes that the five worst nodes read.
        data_num: number of samples; None for all.
        verbose: print the tables.
        interested_nodes: nodes to rank, whatever their kind.
        dis_nodes_list: nodes to draw in place of the worst.
        cw_nodes_list: calibration nodes to draw boxes of in place of the worst.
        axis: of the channels.
        quantize_node: see :func:`~engine.debug.analysis.accumulation.plot_acc_error`; None with
            ``non_quantize_node`` None too
            for ``['weight', 'activation']``.
        non_quantize_node: likewise.
        ae_metric: of the accumulated error.
        average_mode: likewise.
        most: number of samples at most where ``data_num`` is None.
        watch: told of the share that is done.

    Returns:
        The page.

    Raises:
        ConfigError: a name or value is not allowed.
        CalibrationDataError: there are no such data.
    """
    from engine.debug.analysis.report import Ranking, Report, owners_of, write_report

    folder = _folder(save_dir)
    model = DebugModel(model_or_file)
    feed = read_samples(model.model, calibrated_data, data_num, most)
    metrics, ae = parse_metrics(ns_metrics), parse_metric(ae_metric)
    to_rank = _to_rank(model, node_type, _as_list(interested_nodes))
    every = list(dict.fromkeys(name for names in to_rank.values() for name in names))
    samples = len(next(iter(feed.values())))
    sizes = (samples * len(every) / 2, samples * _CURVES, samples * _VALUES, samples * _VALUES, _DRAWING)
    ranking_part, curves_part, values_part, channels_part, drawing_part = watchers(watch, sizes)
    scores = sensitivities(model, feed, every, metrics, output_node, ranking_part)
    rankings = [
        Ranking(title, metrics, {name: scores[name] for name in scores if name in members})
        for title, members in ((title, frozenset(names)) for title, names in to_rank.items())
    ]
    if verbose:
        for ranking in rankings:
            sys.stdout.write(table(ranking.scores, metrics, ranking.title))
    worst = list(
        dict.fromkeys(name for ranking in rankings for name in _calibrations(model, list(ranking.scores)[:TOP]))
    )
    shown, boxed = _as_list(dis_nodes_list) or worst, _as_list(cw_nodes_list) or worst
    if quantize_node is None and non_quantize_node is None:
        quantize_node = [NodeType.WEIGHT.value, NodeType.ACTIVATION.value]
    curves = accumulated_error(
        model, feed, requested_variants(model, quantize_node, non_quantize_node), ae, curves_part
    )
    report = Report(
        title=model.name,
        identity=identity(PageKind.ACCURACY, model.model),
        samples=samples,
        rankings=tuple(rankings),
        curves={"Accumulated error": averaged(curves) if average_mode else curves},
        distributions=tuple(distributions(model, feed, shown, values_part)),
        channels=tuple(channels(model, feed, boxed, axis, channels_part)),
        owners=owners_of(model, [*shown, *boxed, *(name for ranking in rankings for name in ranking.scores)]),
    )
    return write_report(report, folder, watch=drawing_part)


def _to_rank(model: DebugModel, node_type: str | None, interested: Sequence[str]) -> dict[str, Sequence[str]]:
    """Names to rank by title."""
    if interested:
        return {"nodes of interest": interested}
    kinds = (NodeType.WEIGHT, NodeType.ACTIVATION) if node_type is None else (parse_node_type(node_type),)
    return {kind.value: model.of_kind(kind) for kind in kinds if model.of_kind(kind)}


def _calibrations(model: DebugModel, names: Sequence[str]) -> list[str]:
    """The calibration nodes ``names``; in place of a regular node, those that it reads."""
    return [
        member
        for name in names
        for member in (model.groups.get(name, ()) if model.kind(name) is NodeType.NODE else (name,))
    ]
