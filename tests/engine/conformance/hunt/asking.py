"""An original that answers at once: it departs wherever a network has a MaxPool, with per_channel or without."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
import yaml

MEASURES = """
import json, pathlib, sys
for line in sys.stdin:
    folder = pathlib.Path(json.loads(line)["folder"])
    print((folder / "row.json").read_text(), flush=True)
"""


def start_measuring() -> subprocess.Popen[str]:
    """A child that measures what :func:`ask` recorded, without converting."""
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", MEASURES], stdin=pipe, stdout=pipe, text=True)


def ask(config: Path, to: Path) -> Path:
    """Record a case."""
    content = yaml.safe_load(config.read_text(encoding="utf-8"))
    folder = to / config.stem
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(config.read_text(encoding="utf-8"), encoding="utf-8")
    network = (config.parent / "net.onnx").read_bytes()
    for name in ("net", "calibrated", "quantized"):
        (folder / f"{name}.onnx").write_bytes(network)
    (folder / "result.json").write_text('{"rc": 0}', encoding="utf-8")
    march = content["model_parameters"]["march"]
    row = {"case": config.stem, "family": "n", "march": march, "outcome": "converted", "converts": True}
    tensor = next(
        (node.output[0] for node in onnx.load_from_string(network).graph.node if node.op_type == "MaxPool"), ""
    )
    departure = {"stage": "calibration", "node": tensor, "cause": "activation threshold 1.5 | 2"}
    row |= {"outputs": not tensor, "operators": True, "departure": departure if tensor else None}
    (folder / "row.json").write_text(json.dumps(row), encoding="utf-8")
    return folder
