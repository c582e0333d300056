"""What is shipped comes from one conversion and says what that was made from."""

from __future__ import annotations

from pathlib import Path

from engine.config import load_config
from engine.convert import conversion
from engine.ir import to_bytes
from engine.ship.record import Origin
from engine.ship.shipment import Shipment, origin_of
from engine.version import installed_version
from tests.engine.conformance.models import write_network
from tests.engine.ship.conftest import Shipped


def test_models_are_those_of_the_conversion(shipped: Shipped) -> None:
    run = conversion(shipped.shipment.config)
    origin = Origin(model="n", model_sha256="m", data_sha256=None, engine="e", trial={"trial": "max"})
    again = Shipment.of(run, origin)
    assert to_bytes(again.quantized) == to_bytes(shipped.shipment.quantized)
    assert to_bytes(again.calibrated) == to_bytes(shipped.shipment.calibrated)
    assert again.origin is origin


def test_the_origin_follows_model_and_data(tmp_path: Path) -> None:
    config = load_config(write_network(tmp_path))
    first = origin_of(config)
    assert (first.model, first.engine) == ("net.onnx", installed_version())
    assert origin_of(config) == first
    sample = tmp_path / "data" / "0.bin"
    sample.write_bytes(sample.read_bytes()[::-1])
    second = origin_of(config)
    assert second.model_sha256 == first.model_sha256
    assert second.data_sha256 != first.data_sha256
