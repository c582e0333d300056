"""``node_info`` of the shipped network: devices that were asked for, and int16."""

from __future__ import annotations

from engine.ir import calibration_of
from engine.ops.core.reasons import Code, reason_of
from engine.place.chains import on_bpu
from engine.place.options import INT16
from engine.ship.shipment import Shipment

_ASKED = (Code.ASKED_FOR, Code.PART_OF_ASKED_FOR)


def requested(shipment: Shipment) -> dict[str, dict[str, str]]:
    """Requests by node: ``ON`` where a device was asked for and granted, ``InputType`` where an input is int16."""
    found: dict[str, dict[str, str]] = {}
    wanted = {name for name, types in shipment.requests.node_info.items() if types.on == "BPU"}
    wanted |= shipment.requests.run_on_bpu
    for node in shipment.calibrated.graph:
        reason = reason_of(node)
        inputs = [calibration_of(value) for value in node.inputs] if on_bpu(node) else []
        wide = [each is not None and each.qtype == INT16 for each in inputs]
        asked: dict[str, str] = {}
        if reason is not None and reason.code in _ASKED:
            asked["ON"] = "CPU"
        elif on_bpu(node) and node.name in wanted:
            asked["ON"] = "BPU"
        asked |= {f"InputType{index}": INT16 for index, is_wide in enumerate(wide) if is_wide}
        if asked:
            found[str(node.name)] = asked
    return found
