"""Conversions killed at random moments: ``python -m tests.faults.kills --kills 20 --seed 1``.

``hb_mapper makertbin`` is started, killed with SIGKILL after a random time, and run again to its end. Exit code 1: a
rerun's files differ from an undisturbed run's, or what a kill left is a file of its name that is not whole.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import yaml

from tests.configurations import FEATUREMAP
from tests.engine.frontend.networks import network

COMMAND = [sys.executable, "-c", "from engine.cli.start import hb_mapper; hb_mapper()", "makertbin", "--model-type"]
RESULTS = (".bin", ".onnx", ".html", ".json")
"""Suffixes of what a conversion gives; logs hold times."""


def prepare(folder: Path) -> None:
    """Model, data and configuration of a small conversion."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(8, 8, 1, 1)).astype(np.float32)
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], "conv")
    onnx.save(network([node], {"x": (1, 8, 16, 16)}, ["y"], {"w": weight}, opset=11, ir_version=7), folder / "m.onnx")
    (folder / "data").mkdir()
    rng.normal(size=(8, 16, 16)).astype(np.float32).tofile(folder / "data" / "0.bin")
    (folder / "c.yaml").write_text(yaml.safe_dump(FEATUREMAP))


def start(folder: Path) -> subprocess.Popen[bytes]:
    """The conversion, in a group of processes of its own."""
    return subprocess.Popen(
        [*COMMAND, "onnx", "--config", "c.yaml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def results(folder: Path) -> dict[str, str]:
    """Digest of every file that a conversion gives, hidden ones left out, by its path."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in RESULTS and not path.name.startswith(".")
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill and run again; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    rng, faults, landed = random.Random(chosen.seed), [], 0
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "conversion"  # the same for all: a .bin tells the paths of its configuration
        prepare(folder)
        begin = time.monotonic()
        if start(folder).wait():
            raise SystemExit("the undisturbed conversion fails")
        length, whole = time.monotonic() - begin, results(folder)
        shutil.rmtree(folder)
        prepare(folder)
        for kill in range(chosen.kills):
            process = start(folder)
            time.sleep(rng.uniform(0.5, 1.05) * length)
            landed += process.poll() is None
            os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None
            process.wait()
            left = results(folder)
            faults += [f"kill {kill}: {name} is not whole" for name in left if left[name] != whole.get(name)]
        if start(folder).wait() or results(folder) != whole:
            faults.append("the rerun's files differ from an undisturbed run's")
    sys.stdout.write("".join(f"{fault}\n" for fault in faults))
    sys.stdout.write(
        f"{chosen.kills} kills, {landed} of them in time, {len(whole)} files compared, {len(faults)} faults\n"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
