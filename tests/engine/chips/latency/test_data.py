"""Parts of a performance file are closed."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from engine.chips.latency import load_latency
from engine.chips.latency.data import Data
from engine.chips.latency.layout import WeightBlock


def test_unknown_keys_are_errors_and_values_stay() -> None:
    assert issubclass(WeightBlock, Data)
    with pytest.raises(ValidationError, match="Extra inputs"):
        WeightBlock.model_validate({"out_channels": 1, "in_channels": 1, "rows": 2})
    with pytest.raises(ValidationError, match="frozen"):
        load_latency("bayes").alignment.weight_block = None
