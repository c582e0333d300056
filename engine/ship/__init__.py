"""A calibrated model as a folder that the original toolchain builds into the same integers; whether it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.exports import lazily

if TYPE_CHECKING:
    from engine.ship.folder import read_record, write
    from engine.ship.record import NotCarried, Origin, ShipRecord
    from engine.ship.shipment import Shipment, ship
    from engine.ship.verification import Count, FirstDifference, Verification, verify

__all__ = [
    "Count",
    "FirstDifference",
    "NotCarried",
    "Origin",
    "ShipRecord",
    "Shipment",
    "Verification",
    "read_record",
    "ship",
    "verify",
    "write",
]

__getattr__ = lazily(
    __name__,
    {
        "Count": "engine.ship.verification",
        "FirstDifference": "engine.ship.verification",
        "NotCarried": "engine.ship.record",
        "Origin": "engine.ship.record",
        "ShipRecord": "engine.ship.record",
        "Shipment": "engine.ship.shipment",
        "Verification": "engine.ship.verification",
        "read_record": "engine.ship.folder",
        "ship": "engine.ship.shipment",
        "verify": "engine.ship.verification",
        "write": "engine.ship.folder",
    },
)
