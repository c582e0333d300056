"""Nodes by what their quantisation alone does to the outputs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.calibrate import ArrayData
from engine.convert.items import DATA, THREADS, THRESHOLDS
from harness.backends.items import RANKING
from harness.backends.stages import rank
from harness.backends.stages.rank import RANK
from tests.harness.backends.stages import work


@pytest.mark.parametrize(("samples", "used"), [(3, 3), (8, 8), (20, 8)])
def test_the_node_with_the_least_cosine_comes_first(samples: int, used: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (spec,) = work.config().input_specs([work.CARD.input_specs[0].name])
    images = np.arange(samples, dtype=np.uint8).reshape(-1, 1, 1, 1) * np.ones((1, 1, 28, 28), np.uint8)

    def sensitivities(model: object, feed: dict[str, np.ndarray], threads: int) -> dict[str, float]:
        assert (model, threads) == ("thresholds", 2)
        ((_, fed),) = feed.items()
        assert np.asarray(fed)[:, 0, 0, 0].tolist() == list(range(-128, used - 128))
        return {"b": 0.9, "d": 0.5, "a": 0.99, "c": 0.9}

    monkeypatch.setattr(rank, "sensitivities", sensitivities)
    given: dict[Any, Any] = {THRESHOLDS: "thresholds", DATA: ArrayData({spec.name: images}, [spec]), THREADS: 2}
    assert work.given_by(RANK, given)[RANKING] == ("d", "b", "c", "a")  # of equal nodes the earlier one


def test_nodes_are_not_ranked_without_data() -> None:
    with pytest.raises(LookupError, match="ranked on data"):
        work.given_by(RANK, {DATA: None, THRESHOLDS: SimpleNamespace(), THREADS: 1})
