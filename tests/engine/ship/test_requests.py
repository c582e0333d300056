"""``node_info`` of the shipped network."""

from __future__ import annotations

from pathlib import Path

from engine.config import load_config
from engine.ship import ship
from engine.ship.requests import requested
from tests.engine.conformance.models import write_two_inputs
from tests.engine.ship.conftest import Shipped


def test_nothing_is_asked_for_by_default(shipped: Shipped) -> None:
    assert requested(shipped.shipment) == {}


def test_a_node_that_was_sent_to_the_cpu_is_named(tmp_path: Path) -> None:
    shipment = ship(load_config(write_two_inputs(tmp_path)))
    assert requested(shipment) == {"again": {"ON": "CPU"}}
