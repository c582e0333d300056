"""One small network, converted once and shipped once, for all tests that only look."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.config import load_config
from engine.ship import Shipment, ShipRecord, ship, write
from tests.engine.conformance.models import write_network


@dataclass(frozen=True)
class Shipped:
    """A shipment, the folder that was written of it, and its record."""

    shipment: Shipment
    folder: Path
    record: ShipRecord


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Shipped:
    folder = tmp_path_factory.mktemp("shipped")
    shipment = ship(load_config(write_network(folder)))
    return Shipped(shipment, folder / "ship", write(shipment, folder / "ship"))
