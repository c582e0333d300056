"""The ship folder: written whole or not at all, never over another, and read again."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import ConfigError, OutputError, ShipError
from engine.ship.folder import read_record, write
from engine.terms import Compatibility
from tests.engine.ship.conftest import Shipped


def test_the_folder_has_all_files_and_its_record(shipped: Shipped) -> None:
    names = {"README.txt", "expected_quantized.onnx", "net.onnx", "net.yaml", "ship.json"}
    assert {path.name for path in shipped.folder.iterdir()} == names
    assert read_record(shipped.folder) == shipped.record
    network = (shipped.folder / "net.onnx").read_bytes()
    assert shipped.record.network_sha256 == hashlib.sha256(network).hexdigest()
    readme = (shipped.folder / "README.txt").read_text()
    assert len(readme.splitlines()) == 10
    assert "hb_mapper makertbin" in readme


def test_an_existing_ship_folder_needs_force(shipped: Shipped, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "ship"
    write(shipped.shipment, folder)
    with pytest.raises(ConfigError, match="--force"):
        write(shipped.shipment, folder)
    (folder / "net.onnx").write_bytes(b"")
    write(shipped.shipment, folder, force=True)
    assert (folder / "net.onnx").stat().st_size
    assert [path.name for path in folder.parent.iterdir()] == ["ship"]


def test_another_folder_is_never_replaced(shipped: Shipped, tmp_path: Path) -> None:
    (tmp_path / "holiday.txt").write_text("mine")
    with pytest.raises(ConfigError, match="no ship folder"):
        write(shipped.shipment, tmp_path, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.txt"]


def test_nothing_is_written_of_what_is_refused(shipped: Shipped, tmp_path: Path) -> None:
    config = shipped.shipment.config
    parameters = config.model_parameters.model_copy(update={"compatibility": Compatibility.CLEAN})
    clean = config.model_copy(update={"model_parameters": parameters})
    with pytest.raises(ShipError, match="compatibility clean"):
        write(replace(shipped.shipment, config=clean), tmp_path / "ship")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_told(shipped: Shipped, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        write(shipped.shipment, tmp_path / "file" / "ship")


def test_a_changed_record_is_refused(shipped: Shipped, tmp_path: Path) -> None:
    write(shipped.shipment, tmp_path / "ship")
    path = tmp_path / "ship" / "ship.json"
    path.write_text(path.read_text().replace("small", "large"))
    with pytest.raises(ConfigError, match="damaged"):
        read_record(tmp_path / "ship")
    with pytest.raises(ConfigError, match="no ship folder"):
        read_record(tmp_path)
