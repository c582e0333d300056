"""``node_info`` of the shipped network: devices that were asked for."""

from __future__ import annotations

from engine.facts.devices import on_bpu
from engine.ops.core.reasons import Code, reason_of
from engine.ship.shipment import Shipment
from engine.terms import Device


def requested(shipment: Shipment) -> dict[str, dict[str, str]]:
    """Requests by node: ``ON`` where a device was asked for and granted."""
    found: dict[str, dict[str, str]] = {}
    wanted = {name for name, types in shipment.requests.node_info.items() if types.on == Device.BPU}
    wanted |= shipment.requests.run_on_bpu
    for node in shipment.calibrated.graph:
        reason, asked = reason_of(node), {}
        if reason is not None and reason.code is Code.ASKED_FOR:
            asked["ON"] = Device.CPU.value
        elif on_bpu(node) and node.name in wanted:
            asked["ON"] = Device.BPU.value
        if asked:
            found[str(node.name)] = asked
    return found
