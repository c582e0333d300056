"""One page that links the sensitivity of nodes, their distributions and channels, and the settings that mend them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2.filters import do_urlencode

from engine.debug.analysis import plots
from engine.debug.analysis.accumulation import Curves
from engine.debug.analysis.distribution import Channels, ValueDistribution
from engine.debug.analysis.metrics import DistanceMeasure
from engine.debug.analysis.model import DebugModel, NodeType
from engine.debug.analysis.sensitivity import Scores
from engine.debug.analysis.variants import Watcher, unwatched
from engine.ir import file_names, write_atomically
from engine.page_links import write_page
from engine.pages import figures_data, package_loader, packed_plotly, page_templates, rendered
from engine.terms import Device


@dataclass(frozen=True)
class Ranking:
    """Sensitivity of nodes of one kind.

    Attributes:
        title: what kind.
        metrics: of the columns; the first one sorts.
        scores: the worst first.
    """

    title: str
    metrics: tuple[DistanceMeasure, ...]
    scores: Scores


@dataclass(frozen=True)
class Report:
    """What :func:`engine.debug.runall` finds.

    Attributes:
        title: name of the model.
        identity: of the page (:func:`engine.page_links.identity`).
        samples: how many were used.
        rankings: sensitivities.
        curves: accumulated errors by title.
        distributions: of the most sensitive nodes.
        channels: of their calibration nodes.
        owners: of all nodes that are ranked or drawn, by calibration node: the regular nodes that read it; by regular
            node: itself.
    """

    title: str
    identity: str
    samples: int
    rankings: tuple[Ranking, ...]
    curves: Mapping[str, Curves]
    distributions: tuple[ValueDistribution, ...]
    channels: tuple[Channels, ...]
    owners: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class _Detail:
    """What the page says of one node beside its pictures.

    Attributes:
        places: title of a ranking, name, rank from 1, and values by metric, of the node and of those that read it.
        owners: regular nodes to set.
        node_info: for them, as JSON.
    """

    places: tuple[tuple[str, str, int, Mapping[DistanceMeasure, float]], ...]
    owners: tuple[str, ...]
    node_info: str


def owners_of(model: DebugModel, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The regular nodes whose inputs the nodes ``names`` are: themselves, or those that read a calibration node."""
    return {
        name: (name,)
        if model.kind(name) is NodeType.NODE
        else tuple(owner for owner, members in model.groups.items() if name in members)
        for name in names
    }


def node_info(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """The value of ``node_info`` that computes the regular nodes ``names`` on 16-bit integers."""
    return {name: {"ON": Device.BPU.value, "InputType": "int16", "OutputType": "int16"} for name in names}


def write_report(
    report: Report,
    save_dir: str | os.PathLike[str],
    file: str = "accuracy_debug.html",
    watch: Watcher = unwatched,
) -> Path:
    """Write the page, and every picture as a PNG beside it.

    Returns:
        The page.
    """
    folder = Path(save_dir)
    pictures = _pictures(report)
    names = file_names(pictures)
    for index, (stem, (png, _)) in enumerate(pictures.items()):
        watch(index / len(pictures))
        write_atomically(folder / f"{names[stem]}.png", plots.to_png(png))
    ids = {stem: f"plot-{index}" for index, stem in enumerate(pictures)}
    details = {name: _detail(report, name) for name in _drawn(report)}
    settable = tuple(dict.fromkeys(owner for detail in details.values() for owner in detail.owners))
    html = rendered(
        page_templates(package_loader("engine.debug.analysis")).get_template("accuracy_debug.html.j2"),
        identity=report.identity,
        report=report,
        ids=ids,
        details=details,
        targets=_targets(report),
        settable=settable,
        every_node_info=_in_lines(node_info(settable)),
        plotly=packed_plotly(),
        data=figures_data({ids[stem]: page for stem, (_, page) in pictures.items()}),
        scripts=("jump.js.j2",),
    )
    return write_page(folder / file, html)


def _in_lines(info: Mapping[str, Mapping[str, str]]) -> str:
    """``info`` as the value of a YAML key, one node per line."""
    return "{\n" + ",\n".join(f"    {json.dumps(name)}: {json.dumps(entry)}" for name, entry in info.items()) + "}"


def _drawn(report: Report) -> list[str]:
    """Nodes with pictures of their own."""
    return list(
        dict.fromkeys([*(found.node for found in report.distributions), *(found.node for found in report.channels)])
    )


def _targets(report: Report) -> dict[str, str]:
    """By ranked node: the node whose pictures show it: itself, or the first one that it reads."""
    drawn = _drawn(report)
    targets: dict[str, str] = {}
    for name in drawn:
        for owner in report.owners[name]:
            targets.setdefault(owner, name)
    return {**targets, **{name: name for name in drawn}}


def _detail(report: Report, name: str) -> _Detail:
    places = tuple(
        (ranking.title, ranked, rank, row)
        for ranking in report.rankings
        for rank, (ranked, row) in enumerate(ranking.scores.items(), 1)
        if ranked == name or ranked in report.owners[name]
    )
    return _Detail(places, report.owners[name], json.dumps(node_info(report.owners[name])))


def _pictures(report: Report) -> dict[str, tuple[Any, Any]]:
    """PNG figure and interactive figure by ``KIND:NAME``."""
    found: dict[str, tuple[Any, Any]] = {}
    places = {name: do_urlencode(target) for name, target in _targets(report).items()}
    for ranking in report.rankings:
        values = {name: row[ranking.metrics[0]] for name, row in ranking.scores.items()}
        found[f"ranking:{ranking.title}"] = (
            plots.ranking_png(ranking.title, ranking.metrics[0], values),
            plots.ranking_page(ranking.metrics[0], values, places),
        )
    for title, curves in report.curves.items():
        found[f"curves:{title}"] = plots.curves_png(curves), plots.curves_page(curves)
    for distribution in report.distributions:
        pair = plots.distribution_png(distribution), plots.distribution_page(distribution)
        found[f"distribution:{distribution.node}"] = pair
    for channels in report.channels:
        found[f"channels:{channels.node}"] = plots.channels_png(channels), plots.channels_page(channels)
    return found
