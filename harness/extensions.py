"""What users add to the lab by registration: metrics, data adapters, decoders, page columns, engines, trackers.

CONTRIBUTING.md has an example of each; calibration methods and corrections are in :mod:`engine.extensions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from engine.extensions import CALIBRATION_METHODS, CORRECTIONS, OwnName
from engine.registry import Registry
from harness.files.user_code import digest_of_own, is_own

METRICS: Registry[Any] = Registry(
    "metric", "ptqlab.metrics", "harness.metrics.base:Metric", "harness.metrics:METRICS", functions=True
)
"""Classes derived from :class:`harness.Metric`, or functions as in :class:`harness.metrics.own.OwnMetric`."""

DATASETS: Registry[Any] = Registry(
    "dataset adapter", "ptqlab.datasets", "harness.datasets.base:Dataset", "harness.datasets.registry:ADAPTERS"
)
"""Classes derived from :class:`harness.Dataset`, which ``adapter`` of a data set's card then names."""

DECODERS: Registry[Any] = Registry(
    "decoder", "ptqlab.decoders", "harness.metrics.decoders:Decoder", "harness.metrics.decoders:DECODERS"
)
"""Classes derived from :class:`harness.metrics.decoders.Decoder`, which ``decoder`` of metric ``map50`` then names."""

COLUMNS: Registry[Any] = Registry(
    "page column", "ptqlab.columns", "harness.report.columns:Column", "harness.report.columns:FIGURES"
)
"""Classes derived from :class:`harness.report.columns.Column`: figures of every page and table of trials."""

ENGINES: Registry[Any] = Registry(
    "engine", "ptqlab.engines", "harness.backends.engines:QuantizingEngine", "harness.suites.settings:Engine"
)
"""Classes derived from :class:`harness.backends.engines.QuantizingEngine`, which ``engine`` of a suite then names."""

TRACKERS: Registry[Any] = Registry(
    "tracker", "ptqlab.trackers", "harness.tracking.tracker:Tracker", "harness.tracking.trackers:TRACKERS"
)
"""Classes derived from :class:`harness.tracking.tracker.Tracker`, which ``tracker`` of a suite then names."""

REGISTRIES: tuple[Registry[Any], ...] = (
    CALIBRATION_METHODS,
    CORRECTIONS,
    METRICS,
    DATASETS,
    DECODERS,
    COLUMNS,
    ENGINES,
    TRACKERS,
)
"""All kinds, those of the engine first."""


class OwnEngine(OwnName):
    """A registered engine as ``engine`` of a suite."""

    __slots__ = ()
    registry = ENGINES

    @property
    def value(self) -> str:
        """The name."""
        return str(self)


class OwnDecoder(OwnName):
    """A registered decoder as an option of ``map50``."""

    __slots__ = ()
    registry = DECODERS

    @property
    def value(self) -> str:
        """The name."""
        return str(self)


def digests_of_metric(name: str, options: Mapping[str, Any]) -> list[str]:
    """Digests of the user's code that a card's metric runs: its own, and that of a decoder.

    Raises:
        ConfigError: a module or registration is wrong.
    """
    return [*_digests(METRICS, name), *(found for text in _decoders(options) for found in _digests(DECODERS, text))]


def _digests(registry: Registry[Any], name: str) -> list[str]:
    if is_own(name):
        return [digest_of_own(name)]
    return [registry.entry(name).digest] if name in registry else []


def _decoders(options: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(options.get("decoder"), str):
        yield str(options["decoder"])
