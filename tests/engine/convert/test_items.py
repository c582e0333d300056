"""Items of a conversion: one name each, each given by one stage of a pipeline."""

from __future__ import annotations

from engine.convert import items
from engine.convert.pipeline import CONVERSION, DEFAULTS, WITHOUT_DATA
from engine.convert.runner import Item

ITEMS = [value for value in vars(items).values() if isinstance(value, Item)]


def test_names_are_unique() -> None:
    names = [item.name for item in ITEMS]
    assert len(set(names)) == len(names) > 15


def test_every_item_is_made_or_given() -> None:
    made = [item for stage in CONVERSION for item in stage.gives]
    assert len(made) == len(set(made))
    assert set(ITEMS) == {*made, *DEFAULTS}
    assert {item for stage in WITHOUT_DATA for item in stage.gives} <= set(made)


def test_models_that_users_see_have_the_originals_names() -> None:
    named = {item.name for item in (items.ORIGINAL, items.OPTIMIZED, items.CALIBRATED, items.QUANTIZED)}
    assert named == {"original_float", "optimized_float", "calibrated", "quantized"}
