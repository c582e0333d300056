"""What cannot be handed to the original toolchain, refused by name before anything is written."""

from __future__ import annotations

from collections.abc import Iterator

from engine.chips import HB_COMPILE_MARCHES, load_chip
from engine.errors import ShipError
from engine.frontend.prepared import INT8
from engine.ir import UNSIGNED
from engine.ops.foreign.custom import CUSTOM_DOMAIN
from engine.ship.network import carries_pair
from engine.ship.record import thresholds_of
from engine.ship.shipment import Shipment
from engine.terms import Compatibility


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
    remark = load_chip(march).extrapolation
    return f"march {march.value}: {remark}" if remark else ""


def _refusals(shipment: Shipment) -> Iterator[ShipError]:
    if shipment.config.model_parameters.compatibility is Compatibility.CLEAN:
        yield ShipError(
            "compatibility clean: it computes what the original toolchain computes otherwise",
            "convert with compatibility original",
        )
    if shipment.config.model_parameters.layer_out_dump:
        yield ShipError(
            "layer_out_dump: the toolchain cannot make an output of its own preprocessing",
            "convert without layer_out_dump; ptqlab's files of the stages hold every tensor",
        )
    if shipment.config.march in HB_COMPILE_MARCHES:
        yield from _beyond_documents(shipment)
    elif not carries_pair(shipment.calibrated):
        yield ShipError(
            "no activation is int8 with one threshold, and the toolchain reads thresholds only from networks with one",
            "let one tensor be int8: ship a trial that is not int16 everywhere, or ask for int16 of all nodes but one",
        )
    for node in shipment.calibrated.graph:
        if node.domain == CUSTOM_DOMAIN:
            yield ShipError(
                f"node {node.name} ({node.op_type}) is an operator of your own, which net.onnx cannot hold",
                "cut the network off in front of it (output_nodes) and compute it in the application",
            )


def _beyond_documents(shipment: Shipment) -> Iterator[ShipError]:
    """What pairs cannot say, which is all that the documents of hb_compile describe."""
    for name, threshold in thresholds_of(shipment.calibrated).items():
        if threshold.type != INT8:
            option = "asymmetric" if threshold.type == UNSIGNED else "int16"
            yield ShipError(f"tensor {name} is {threshold.type}, and a pair says int8", f"convert without {option}")
        elif len(threshold.values) > 1:
            yield ShipError(f"tensor {name} has a threshold per channel, and a pair one", "convert without per_channel")
