"""Trackers by name: ptqlab's own and those that users registered."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from engine.errors import MissingError
from harness.extensions import TRACKERS as OWN_TRACKERS
from harness.files.strict_yaml import unknown
from harness.tracking.tracker import Tracker

MLFLOW, JSON_LINES = "mlflow", "jsonl"

TRACKERS: Mapping[str, str] = MappingProxyType(
    {
        MLFLOW: "harness.tracking.mlflow_store:MlflowTracker",
        JSON_LINES: "harness.tracking.jsonl_store:JsonLinesTracker",
    }
)
"""Module and class of ptqlab's own."""


def chosen_tracker(name: str | None) -> str:
    """``name``, or the default: MLflow, and JSON lines where that is not installed.

    Raises:
        ConfigError: there is no such tracker, or a package lacks that it needs.
    """
    if name is None:
        return MLFLOW if _has_mlflow() else JSON_LINES
    if name == MLFLOW and not _has_mlflow():
        raise MissingError(
            f"tracker {MLFLOW}: the package mlflow is not installed: pip install mlflow, or choose tracker {JSON_LINES}"
        )
    tracker_class(name)
    return name


def tracker_class(name: str) -> type[Tracker]:
    """The tracker called ``name``.

    Raises:
        ConfigError: there is none.
    """
    if name in TRACKERS:
        module, _, kind = TRACKERS[name].partition(":")
        found: type[Tracker] = getattr(importlib.import_module(module), kind)
        return found
    if name not in OWN_TRACKERS:
        raise unknown("tracker", name, OWN_TRACKERS.allowed())
    own: type[Tracker] = OWN_TRACKERS[name]
    return own


def open_tracker(name: str, uri: str | None, workdir: Path) -> Tracker:
    """The tracker called ``name`` for the store at ``uri``; None for that of the working directory.

    Raises:
        ConfigError: there is none.
    """
    kind = tracker_class(name)
    return kind(uri or kind.default_uri(workdir), workdir)


def _has_mlflow() -> bool:
    return find_spec("mlflow") is not None
