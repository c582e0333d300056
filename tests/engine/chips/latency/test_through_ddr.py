"""What passes through DDR."""

from __future__ import annotations

import pytest

from engine.chips.latency import load_latency
from engine.chips.latency.through_ddr import SmallTables


@pytest.mark.parametrize(
    ("shape", "elements"),
    [((1, 1, 1, 1), 16 * 4), ((1, 2, 17, 5), 2 * 32 * 8), ((2, 3, 16, 4), 2 * 3 * 16 * 4)],
)
def test_a_map_in_rows_has_whole_blocks_of_pixels_and_channels(shape: tuple[int, ...], elements: int) -> None:
    rest = dict.fromkeys(SmallTables.model_fields, 0)
    tables = SmallTables.model_validate({**rest, "width": 16, "channels": 4})
    assert tables.by_rows(shape) == elements


@pytest.mark.parametrize("march", ["bayes-e", "bayes", "bernoulli2"])
def test_a_march_has_one_way_for_small_tables_where_tables_go_through_ddr(march: str) -> None:
    found = load_latency(march)
    assert found.small_tables is None or found.tables_through_ddr
