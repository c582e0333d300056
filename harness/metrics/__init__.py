"""Metrics by name: ``open_metric("top1").score(outputs, targets)``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from harness.extensions import METRICS as OWN_METRICS
from harness.files.strict_yaml import parse, unknown
from harness.files.user_code import is_own, load_own
from harness.metrics.base import Metric, Score, read_only
from harness.metrics.classification import Top1, Top5
from harness.metrics.closeness import OutputCosine
from harness.metrics.detection import Map50
from harness.metrics.own import OwnMetric
from harness.metrics.recognition import EditSimilarity, WordAccuracy
from harness.metrics.segmentation import Miou
from harness.metrics.text_detection import Hmean

__all__ = ["METRICS", "Metric", "Score", "open_metric", "read_only"]

METRICS: Mapping[str, type[Metric]] = MappingProxyType(
    {metric.name: metric for metric in (Top1, Top5, Map50, Miou, EditSimilarity, WordAccuracy, Hmean, OutputCosine)}
)
"""Metric by the name that cards use."""


def open_metric(name: str, options: Mapping[str, Any] | None = None) -> Metric:
    """The metric called ``name``, ready to score; ``module:function`` or a registered name for one of the user's own.

    Raises:
        ConfigError: the name or an option is unknown or wrong.
    """
    if is_own(name):
        return OwnMetric(name, load_own(name, "metric"), options or {})
    if name not in METRICS and name not in OWN_METRICS:
        raise unknown("metric", name, [*OWN_METRICS.allowed(), "module:function"])
    found = METRICS[name] if name in METRICS else OWN_METRICS[name]
    if not (isinstance(found, type) and issubclass(found, Metric)):
        return OwnMetric(name, found, options or {})
    return found(parse(dict(options or {}), found.Options, f"options of metric {name}"))
