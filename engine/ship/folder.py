"""The ship folder: written whole or not at all, and read again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import ValidationError

from engine.chips import HB_COMPILE_MARCHES
from engine.errors import ConfigError, OutputError
from engine.ir import to_bytes, write_atomically
from engine.sealed import sealed, unsealed
from engine.ship.configuration import configuration_text
from engine.ship.network import network_of, not_carried
from engine.ship.opset import write_as_opset_11
from engine.ship.record import ShipRecord, count_integers, digest_of_integers, thresholds_of
from engine.ship.refusals import refuse, unmeasured
from engine.ship.shipment import Shipment

NETWORK, CONFIGURATION, RECORD, README = "net.onnx", "net.yaml", "ship.json", "README.txt"
EXPECTED = "expected_quantized.onnx"
"""Our quantised model, which the toolchain's is compared with; its float operators as opset 11 writes them."""


def write(shipment: Shipment, directory: Path, *, force: bool = False) -> ShipRecord:
    """Write the ship folder of ``shipment`` to ``directory``, complete or not at all.

    Args:
        shipment: what to ship; its models are not changed.
        directory: the folder; it is made.
        force: whether a ship folder that is there may be replaced.

    Returns:
        What ``ship.json`` says.

    Raises:
        ShipError: something cannot be carried over; nothing is written.
        ConfigError: ``directory`` is there: without ``force``, or as anything but a ship folder.
        OutputError: it cannot be written.
    """
    refuse_to_replace(directory, force)
    refuse(shipment)
    content, record = _content(shipment)
    directory = directory.absolute()
    with working_folder(directory, directory.parent, f".{directory.name}.") as temporary:
        made = temporary / "new"
        made.mkdir()
        for name, data in content.items():
            write_atomically(made / name, data)
        if directory.exists():
            directory.rename(temporary / "old")
        made.rename(directory)
    return record


@contextmanager
def working_folder(directory: Path, place: Path, prefix: str) -> Iterator[Path]:
    """A folder in which something for ``directory`` is made; gone at the end.

    Args:
        directory: that messages name.
        place: folder that it lies in, made if need be.
        prefix: of its name.

    Raises:
        OutputError: the system refuses to make it, or what is done inside.
    """
    try:
        place.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=prefix, dir=place, ignore_cleanup_errors=True) as made:
            yield Path(made)
    except OSError as error:
        raise OutputError(f"{directory}: cannot be written: {error.strerror}") from error


def refuse_to_replace(directory: Path, force: bool) -> None:
    """Refuse to write a ship folder over what is at ``directory``: anything else, or one without ``force``.

    Raises:
        ConfigError: it is there.
    """
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return
    if not (directory / RECORD).is_file():
        raise ConfigError(f"{directory}: is there and no ship folder; choose another name")
    if not force:
        raise ConfigError(f"{directory}: holds a ship folder already; --force replaces it")


def _content(shipment: Shipment) -> tuple[dict[str, bytes], ShipRecord]:
    """The files by name, and the record among them."""
    model = network_of(shipment.calibrated, documented=shipment.config.march in HB_COMPILE_MARCHES)
    network = to_bytes(model)
    expected = shipment.quantized.clone()
    write_as_opset_11(expected)
    digests = {str(node.name): digest_of_integers(node) for node in expected.graph}
    record = ShipRecord(
        prefix=shipment.config.model_parameters.output_model_file_prefix,
        march=shipment.config.march,
        origin=shipment.origin,
        network_sha256=hashlib.sha256(network).hexdigest(),
        thresholds=thresholds_of(shipment.calibrated),
        integers=count_integers(expected),
        nodes={name: digest for name, digest in digests.items() if digest is not None},
        not_carried=not_carried(shipment.calibrated, model),
        unmeasured=unmeasured(shipment),
    )
    return {
        NETWORK: network,
        CONFIGURATION: configuration_text(shipment),
        EXPECTED: to_bytes(expected),
        RECORD: sealed(record.model_dump_json()),
        README: _readme(record).encode(),
    }, record


def read_record(directory: Path) -> ShipRecord:
    """What ``ship.json`` of a ship folder says.

    Raises:
        ConfigError: there is none, or it is damaged or of another version.
    """
    path = directory / RECORD
    try:
        return ShipRecord.model_validate_json(unsealed(path.read_bytes()))
    except OSError as error:
        raise ConfigError(f"{directory}: is no ship folder, its {RECORD} cannot be read: {error.strerror}") from error
    except (ValidationError, ValueError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise ConfigError(f"{path}: {reason}; ship the trial again") from error


def _readme(record: ShipRecord) -> str:
    tool = (
        "hb_compile --config net.yaml"
        if record.march in HB_COMPILE_MARCHES
        else "hb_mapper makertbin --config net.yaml --model-type onnx"
    )
    built = f"model_output/{record.prefix}"
    return f"""\
{record.origin.model} for {record.march.value}, calibrated by ptqlab {record.origin.engine}.
Build the file for the board with the original toolchain, in this folder:
    {tool}
That writes {built}.bin, which runs on the board, and {built}_quantized_model.onnx.
Compare the latter with what was measured:
    ptqlab ship --verify . {built}_quantized_model.onnx
It says EQUAL, or names the first node that differs.
net.onnx is a float network that holds its thresholds: no calibration data are needed.
Leave march, inputs, node_info and calibration_type of net.yaml as they are. The compiler parameters are yours.
{EXPECTED} holds the integers that were measured; ship.json says what they were made from.
"""
