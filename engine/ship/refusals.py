"""What cannot be handed to the original toolchain, refused by name before anything is written."""

from __future__ import annotations

from collections.abc import Iterator

from engine.errors import ShipError
from engine.ir import UNSIGNED, calibration_nodes, constant_of, read_calibration
from engine.ops.foreign.custom import CUSTOM_DOMAIN
from engine.ship.shipment import Shipment
from engine.terms import EXTRAPOLATED, Compatibility, extrapolation


def refuse(shipment: Shipment) -> None:
    """Refuse what cannot be carried over.

    Raises:
        ShipError: names the first such thing, why, and what to use instead.
    """
    found = next(_refusals(shipment), None)
    if found is not None:
        raise found


def unmeasured(shipment: Shipment) -> str:
    """What of a shipment for this march was never compared with a toolchain; empty where it was."""
    march = shipment.config.march
    return f"march {march.value}: {extrapolation(march)}" if march in EXTRAPOLATED else ""


def _refusals(shipment: Shipment) -> Iterator[ShipError]:
    if shipment.config.model_parameters.compatibility is Compatibility.CLEAN:
        yield ShipError(
            "compatibility clean: it computes what the original toolchain computes otherwise",
            "convert with compatibility original",
        )
    for node in shipment.calibrated.graph:
        if node.domain == CUSTOM_DOMAIN:
            yield ShipError(
                f"node {node.name} ({node.op_type}) is an operator of your own, which net.onnx cannot hold",
                "cut the network off in front of it (output_nodes) and compute it in the application",
            )
    for node in calibration_nodes(shipment.calibrated):
        calibration = read_calibration(node)
        value = node.inputs[0]
        if value is None or constant_of(value) is not None:
            continue
        if calibration.thresholds.size > 1:
            yield ShipError(
                f"tensor {value.name} has a threshold per channel, and the toolchain takes one per tensor",
                "convert without per_channel",
            )
        if calibration.qtype == UNSIGNED:
            yield ShipError(
                f"tensor {value.name} is unsigned (asymmetric), and the toolchain takes int8 with zero point 0",
                "convert without asymmetric",
            )
