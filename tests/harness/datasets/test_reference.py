"""Every option of every adapter is documented, from the classes that check them."""

from __future__ import annotations

from pathlib import Path

from engine.cli.configuration import parameters
from harness.datasets import ADAPTERS
from harness.datasets.reference import reference_page


def test_every_option_has_a_description() -> None:
    for name, adapter in ADAPTERS.items():
        for parameter in parameters(adapter.Options):
            assert len(parameter.description) > 5, (name, parameter.name)


def test_the_page_is_up_to_date() -> None:
    page = Path(__file__).parents[3] / "docs" / "datasets.md"
    assert page.read_text(encoding="utf-8") == reference_page(), (
        "run: python -m harness.datasets.reference > docs/datasets.md"
    )
