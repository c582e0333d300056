"""What cannot be handed over is refused by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.errors import ShipError
from engine.ir import calibration_nodes, constant_of
from engine.ship.refusals import refuse, unmeasured
from engine.ship.shipment import Shipment
from engine.terms import March
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


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"qtype": "uint8"}, "asymmetric"),
        ({"thresholds": [1.0, 2.0], "scales": [1 / 127, 2 / 127]}, "per_channel"),
    ],
)
def test_refusals_name_tensor_and_remedy(shipped: Shipped, attributes: dict[str, object], message: str) -> None:
    with pytest.raises(ShipError, match=message) as error:
        refuse(changed(shipped.shipment, **attributes))
    assert error.value.remedy.startswith("convert without")
    assert str(error.value) == f"{error.value.reason}; {error.value.remedy}"


def test_later_marches_are_told_unmeasured(shipped: Shipped) -> None:
    config = shipped.shipment.config
    parameters = config.model_parameters.model_copy(update={"march": March.NASH_E})
    other = replace(shipped.shipment, config=config.model_copy(update={"model_parameters": parameters}))
    assert "nothing measured" in unmeasured(other)
