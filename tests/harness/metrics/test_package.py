"""Metrics by name."""

from __future__ import annotations

import pytest

from engine.errors import ConfigError
from harness.metrics import METRICS, open_metric


def test_registry_keys_are_the_names() -> None:
    assert {name: metric.name for name, metric in METRICS.items()} == {name: name for name in METRICS}
    assert all(metric.higher_is_better for metric in METRICS.values())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mAP50", {}, "did you mean 'map50'"),
        ("miou", {"clases": 3}, "did you mean 'classes'"),
        ("map50", {"classes": 2, "heads": [{"stride": 8, "anchor": [[1, 1]]}]}, "did you mean 'anchors'"),
        ("top1", {"k": 2}, "unknown key 'k'"),
    ],
)
def test_unknown_names_and_options(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_metric(name, options)
