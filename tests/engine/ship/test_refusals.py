"""What cannot be handed over is refused by name."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir
import pytest

from engine.chips import March
from engine.errors import ShipError
from engine.ir import calibration_nodes, constant_of
from engine.ops.foreign.custom import CUSTOM_DOMAIN
from engine.ship.refusals import refuse, unmeasured
from engine.ship.shipment import Shipment
from tests.engine.ship.conftest import Shipped


def changed(shipment: Shipment, **attributes: object) -> Shipment:
    """``shipment`` whose first activation after the input says ``attributes``."""
    calibrated = shipment.calibrated.clone()
    node = [node for node in calibration_nodes(calibrated) if constant_of(node.inputs[0]) is None][-1]
    for name, value in attributes.items():
        node.attributes.add(type(node.attributes[name])(name, node.attributes[name].type, value))
    return replace(shipment, calibrated=calibrated)


def test_the_ordinary_is_not_refused(shipped: Shipped) -> None:
    refuse(shipped.shipment)
    assert unmeasured(shipped.shipment) == ""


def of_march(shipment: Shipment, march: March) -> Shipment:
    config = shipment.config
    parameters = config.model_parameters.model_copy(update={"march": march})
    return replace(shipment, config=config.model_copy(update={"model_parameters": parameters}))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"qtype": "uint8"}, "asymmetric"),
        ({"qtype": "int16"}, "int16"),
        ({"thresholds": [1.0, 2.0], "scales": [1 / 127, 2 / 127]}, "per_channel"),
    ],
)
def test_later_marches_take_what_a_pair_can_say(shipped: Shipped, attributes: dict[str, object], message: str) -> None:
    shipment = changed(shipped.shipment, **attributes)
    refuse(shipment)
    with pytest.raises(ShipError, match=message) as error:
        refuse(of_march(shipment, March("nash-e")))
    assert error.value.remedy.startswith("convert without")
    assert str(error.value) == f"{error.value.reason}; {error.value.remedy}"


def test_a_network_without_a_tensor_for_a_pair_is_refused(shipped: Shipped) -> None:
    calibrated = shipped.shipment.calibrated.clone()
    for node in calibration_nodes(calibrated):
        node.attributes["qtype"] = ir.AttrString("qtype", "int16")
    with pytest.raises(ShipError, match="let one tensor be int8"):
        refuse(replace(shipped.shipment, calibrated=calibrated))


def test_outputs_of_all_layers_are_refused(shipped: Shipped) -> None:
    config = shipped.shipment.config
    parameters = config.model_parameters.model_copy(update={"layer_out_dump": True})
    with pytest.raises(ShipError, match="convert without layer_out_dump"):
        refuse(replace(shipped.shipment, config=config.model_copy(update={"model_parameters": parameters})))


def test_an_operator_of_ones_own_is_refused(shipped: Shipped) -> None:
    calibrated = shipped.shipment.calibrated.clone()
    node = next(node for node in calibrated.graph if node.name == "second")
    node.domain = CUSTOM_DOMAIN
    with pytest.raises(ShipError, match="operator of your own"):
        refuse(replace(shipped.shipment, calibrated=calibrated))


def test_later_marches_are_told_unmeasured(shipped: Shipped) -> None:
    assert "nothing measured" in unmeasured(of_march(shipped.shipment, March("nash-e")))
