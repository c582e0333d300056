"""Converts a small network for one march; run where the engine has it. Prints what it found.

``python -m tests.engine.chips.made_up.conversion MARCH FOLDER``.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx_ir as ir

from engine.chips import HB_COMPILE_MARCHES, March, load_chip
from engine.cli.configuration import template
from engine.config import load_config
from engine.convert import convert
from engine.convert.original import original_tool
from engine.errors import ConfigError, ShipError
from engine.ir import calibration_nodes, constant_of, without_notice
from engine.ship.configuration import configuration_text
from engine.ship.refusals import refuse, unmeasured
from engine.ship.shipment import Shipment, ship
from tests.engine.config.s100 import make_folder, written
from tests.engine.conformance.models import write_network


def found(march: str, folder: Path) -> dict[str, Any]:
    """What is said of a march and made for it: ``facts``, and ``figures``, which a measurement changes."""
    newer = march in HB_COMPILE_MARCHES
    path = written(make_folder(folder), model_parameters={"march": march}) if newer else write_network(folder, march)
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("engine").addHandler(handler)
    config = load_config(path)
    result = convert(config)
    head, _, body = template(March(march)).partition("\n")
    shipment = ship(config)
    files = {kind: path.read_bytes() for kind, path in result.files.items()}
    return {
        "facts": {
            "command": original_tool(march).name,
            "dialect of hb_mapper": _refused(lambda: load_config(path, newer_dialect=False)),
            "template": body,
            "files": sorted(path.name for path in result.files.values()),
            "integers": hashlib.sha256(without_notice(files["quantized"])).hexdigest(),
            "nodes": [[row.node, row.on, row.type] for row in result.nodes],
            "shipped": configuration_text(shipment).decode(),
            "int16 shipped": _refused(lambda: refuse(_in_int16(shipment))),
        },
        "figures": {
            "title": load_chip(march).title,
            "template": head,
            "warned": [line for line in lines if line.startswith("march ")],
            "first line": files["bin"].partition(b"\n")[0].decode(errors="replace")[:200] if newer else "",
            "never compared": unmeasured(shipment),
            "latency_us": result.performance.latency_us,
        },
    }


def _refused(call: Any) -> str:
    try:
        call()
    except (ConfigError, ShipError) as error:
        return str(error).rpartition("/")[2]
    return ""


def _in_int16(shipment: Shipment) -> Shipment:
    calibrated = shipment.calibrated.clone()
    node = [node for node in calibration_nodes(calibrated) if constant_of(node.inputs[0]) is None][-1]
    node.attributes["qtype"] = ir.AttrString("qtype", "int16")
    return replace(shipment, calibrated=calibrated)


if __name__ == "__main__":
    json.dump(found(sys.argv[1], Path(sys.argv[2])), sys.stdout)
