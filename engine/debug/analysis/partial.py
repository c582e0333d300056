"""Partial quantisation: how much accuracy is regained if sensitive nodes stay in float."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.debug.analysis.data import Array
from engine.debug.analysis.metrics import DistanceMeasure
from engine.debug.analysis.model import DebugModel, NodeType
from engine.debug.analysis.sensitivity import Scores, score, sensitivities
from engine.debug.analysis.variants import Variant, Watcher, unwatched, watchers


@dataclass(frozen=True)
class PartialQuantisation:
    """How much accuracy is regained if sensitive nodes are not quantised.

    Attributes:
        metric: what is measured at the outputs.
        scores: metric of every node quantised alone, the worst first.
        sensitive: the nodes below the threshold, the worst first.
        causes: by sensitive node: ``weight`` or ``activation``, whichever alone does more harm.
        baseline: everything quantised.
        single: everything but the n-th sensitive node quantised.
        cumulative: everything but the first n sensitive nodes quantised.
    """

    metric: DistanceMeasure
    scores: Scores
    sensitive: tuple[str, ...]
    causes: Mapping[str, str]
    baseline: float
    single: tuple[float, ...]
    cumulative: tuple[float, ...]


def partial_quantisation(
    model: DebugModel, feed: Mapping[str, Array], pick_threshold: float, watch: Watcher = unwatched
) -> PartialQuantisation:
    """Rank the nodes, and try leaving those whose cosine is below ``pick_threshold`` unquantised."""
    metric = DistanceMeasure.COSINE
    ranking, trying = watchers(watch, (1, 1))
    scores = sensitivities(model, feed, model.of_kind(NodeType.NODE), (metric,), watch=ranking)
    sensitive = tuple(name for name, row in scores.items() if row[metric] < pick_threshold)
    groups = [model.groups[name] for name in sensitive]
    without = [model.all - group for group in groups]
    running = [model.all - frozenset[str]().union(*groups[: count + 1]) for count in range(len(groups))]
    weights = [frozenset(name for name in group if model.kind(name) is NodeType.WEIGHT) for group in groups]
    others = [group - weight for group, weight in zip(groups, weights, strict=True)]
    variants: list[Variant] = [model.all, *without, *running, *weights, *others]
    values = [row[metric] for row in score(model, feed, variants, (metric,), model.outputs, trying)]
    count = len(sensitive)
    baseline, single, cumulative, by_weight, by_activation = (
        values[0],
        *(tuple(values[1 + part * count : 1 + (part + 1) * count]) for part in range(4)),
    )
    causes = {
        name: NodeType.WEIGHT.value if weight < activation else NodeType.ACTIVATION.value
        for name, weight, activation in zip(sensitive, by_weight, by_activation, strict=True)
    }
    return PartialQuantisation(metric, scores, sensitive, causes, baseline, single, cumulative)
