"""What the campaigns of faults run: a folder with a small network and a small suite, commands, and what they give.

All of it lies in one folder, temporary files too, so that whatever a command leaves is found. Commands are programs of
their own; each carries the folder's path in its environment, by which what it started is found in ``/proc``.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import yaml

from harness.trials.sums import SUMS_FILE
from tests.configurations import FEATUREMAP
from tests.engine.frontend.networks import network

ROOT = Path(__file__).resolve().parents[2]
MARK = "PTQLAB_FAULTS_FOLDER"
"""Environment variable of everything that a command starts: the folder."""

PTQLAB = (sys.executable, "-c", "from harness.cli.start import ptqlab; ptqlab()")
HB_MAPPER = (sys.executable, "-c", "from engine.cli.start import hb_mapper; hb_mapper()")
HB_PERF = (sys.executable, "-c", "from engine.cli.start import hb_perf; hb_perf()")
UPDATE = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", ".")

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "makertbin": (*HB_MAPPER, "makertbin", "--model-type", "onnx", "--config", "c.yaml"),
    "hb_perf": (*HB_PERF, "out/m.bin"),
    "tune": (*PTQLAB, "tune", "m.onnx", "-c", "c.yaml", "--trials", "4", "-o", "fragment.yaml"),
    "run": (*PTQLAB, "run", "faults.yaml", "--workdir", "work", "--workers", "2"),
    "nightly": (*PTQLAB, "nightly", "faults.yaml", "--workdir", "work", "--workers", "2", "--recheck-nights", "0"),
    "show": (*PTQLAB, "show", "faults", "--workdir", "work"),
    "sync": (*PTQLAB, "sync", "--workdir", "work"),
    "accept": (*UPDATE, "--ptqlab-suite", "faults.yaml", "--ptqlab-workdir", "work", "--ptqlab-update-baseline"),
    "gc": (*PTQLAB, "gc", "--workdir", "work"),
    "gc of a conversion": (*PTQLAB, "gc", "--workdir", "out"),
}
"""Commands by what they are called in tables; paths are relative to the folder."""

SUITE = {
    "name": "faults",
    "version": 1,
    "models": "mnist_lenet",
    "march": "bayes-e",
    "calibration_samples": 8,
    "evaluation_samples": 20,
    "sweep": {"calibration_type": ["max", "kl"]},
}
TRIALS = 2

_TIMES = frozenset({"seconds", "finished_at", "peak_memory_mb", "started_at", "sweep", "id", "run", "group"})
"""Keys of JSON files whose values differ from run to run."""
_OF_THE_FOLDER = frozenset(
    {"reused", "shared", "uri", "tracking_uri", "baseline", "baseline_digest", "sha256", "commit", "asked"}
)
"""Keys whose values tell what was there before, or by which command a sweep was asked for."""
_FREE = frozenset({"report.html", "trial.html", "summary.md", "trials.parquet", "mlflow.db", "running.json", SUMS_FILE})
"""Files that tell times or ids throughout."""
_ONNX_RUNTIMES = (".ses", ".onnxruntime")
"""What ONNX Runtime leaves for itself."""
_OF_ANOTHER = frozenset({"unfinished", "running", "mlartifacts", "temporary", "unsynced", "caches"})
"""Folders whose files come and go with a run."""


def prepare(folder: Path) -> Path:
    """Model, data and configuration of a small conversion, and a suite of two trials; the folder."""
    folder.mkdir(parents=True)
    (folder / "temporary").mkdir()
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=(8, 8, 1, 1)).astype(np.float32) for name in ("w", "v")}
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w"], ["h"], "first"),
        onnx.helper.make_node("Relu", ["h"], ["r"], "r"),
    ]
    nodes.append(onnx.helper.make_node("Conv", ["r", "v"], ["y"], "second"))
    onnx.save(network(nodes, {"x": (1, 8, 16, 16)}, ["y"], weights, opset=11, ir_version=7), folder / "m.onnx")
    (folder / "data").mkdir()
    for index in range(4):
        rng.normal(size=(8, 16, 16)).astype(np.float32).tofile(folder / "data" / f"{index}.bin")
    (folder / "c.yaml").write_text(yaml.safe_dump(FEATUREMAP | {"compiler_parameters": {"optimize_level": "O3"}}))
    (folder / "faults.yaml").write_text(yaml.safe_dump(SUITE))
    return folder


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Of a command in ``folder``: its caches and temporary files lie there."""
    own = {
        MARK: str(folder),
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(folder / "temporary"),
        "XDG_CACHE_HOME": str(folder / "caches"),
        "COLUMNS": "120",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    }
    return {**os.environ, **own, **more}


def start(command: str, folder: Path, more: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
    """``command`` of :data:`COMMANDS` in ``folder``, in a group of processes of its own; both outputs are one."""
    return subprocess.Popen(
        COMMANDS[command],
        cwd=folder,
        env=environment(folder, **(more or {})),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        **options,
    )


def run(
    command: str, folder: Path, more: Mapping[str, str] | None = None, timeout: float = 600, **options: Any
) -> tuple[int, str]:
    """Exit code and output of ``command``, run to its end; a child of it that holds the output counts as part of it."""
    process = start(command, folder, more, **options)
    output, _ = process.communicate(timeout=timeout)
    return process.returncode, output


def left_running(folder: Path, seconds: float = 15.0) -> list[str]:
    """Processes that commands in ``folder`` started and that still run after so long."""
    end = time.monotonic() + seconds
    while (found := _marked(folder)) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def _marked(folder: Path) -> list[str]:
    mark = f"{MARK}={folder}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            alive = process.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "Z"
            if alive and mark in process.joinpath("environ").read_bytes().split(b"\0"):
                found.append(process.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode()[:200])
        except OSError:
            continue
    return found


def results(folder: Path) -> dict[str, object]:
    """What the commands in ``folder`` gave, by path: equal after equal runs, whatever the clock said.

    Hidden files are left out. What cannot be read is an object that equals no other.
    """
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith(".") or part in _OF_ANOTHER for part in parts):
            found["/".join(parts)] = content(path)
    return {name: each for name, each in found.items() if each is not None}


@dataclass(frozen=True)
class Whole:
    """What a command gives if nothing disturbs it: once, and once more in the same folder.

    The second time may give something else: a second night is compared with the first, which it has as its baseline.

    Attributes:
        runs: :func:`results` after each of the two.
        steps: the same after what it does first, which a fault may leave.
    """

    runs: tuple[Mapping[str, object], ...]
    steps: tuple[Mapping[str, object], ...] = ()

    def damaged(self, found: Mapping[str, object]) -> list[str]:
        """Files of ``found`` that neither run gave, nor what comes first in one."""
        given = (*self.runs, *self.steps)
        return [name for name in sorted(found) if all(found[name] != each.get(name) for each in given)]

    def differing(self, found: Mapping[str, object]) -> list[str]:
        """Files that differ from those of a run, of the two that with fewer such files; none if ``found`` is whole."""
        names = [sorted(found.keys() | run.keys()) for run in self.runs]
        differing = [
            [name for name in known if found.get(name) != run.get(name)]
            for known, run in zip(names, self.runs, strict=True)
        ]
        return min(differing, key=len)


def content(path: Path) -> object:
    """What ``path`` holds, without what differs from run to run; None where nothing else is in it."""
    try:
        if path.suffix in (".log", ".db-wal", ".db-shm", ".db-journal"):
            return None
        if path.suffix == ".html" and not path.read_text().rstrip().endswith("</html>"):
            return f"{path.name} is cut off"
        if path.name in _FREE:
            return None
        if path.name.endswith((".jsonl", ".json")) and path.parent.parent.name != "cache":
            lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
            return json.dumps([_plain(json.loads(line)) for line in lines if line][-1:], sort_keys=True)
        if path.name == "trials.csv":
            rows = csv.DictReader(io.StringIO(path.read_text()))
            return json.dumps([{key: row[key] for key in row if key != "peak_memory.mb"} for row in rows])
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None  # it went while the folder was read
    except (ValueError, KeyError) as error:
        return f"{path.name} cannot be read: {error}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        free = _TIMES | _OF_THE_FOLDER
        return {key: _plain(each) for key, each in value.items() if key not in free and not key.startswith("peak_")}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def recorded(folder: Path) -> list[dict[str, Any]]:
    """Sweeps that MLflow has, oldest first: status, and of each trial its status, figures and number of files."""
    database = folder / "work" / "mlflow.db"
    if not database.exists():
        return []
    with (
        tempfile.TemporaryDirectory() as other
    ):  # MLflow keeps a connection to what it has opened, also once that is gone
        copy = Path(other) / "copy.db"
        with closing(sqlite3.connect(database)) as opened, closing(sqlite3.connect(copy)) as copied:
            opened.backup(copied)
            sound = copied.execute("PRAGMA integrity_check").fetchone()[0]
        if sound != "ok":
            return [{"status": f"the database is damaged: {sound}", "trials": {}}]
        return _sweeps(f"sqlite:///{copy}")


def _sweeps(uri: str) -> list[dict[str, Any]]:
    from harness.tracking.mlflow_store import PARENT, connect

    client = connect(uri)
    sweeps: dict[str, dict[str, Any]] = {}
    trials = []
    for experiment in client.search_experiments():
        for found in client.search_runs([experiment.experiment_id], order_by=["attributes.start_time"]):
            if PARENT in found.data.tags:
                trials.append(found)
            else:
                same = found.data.tags.get("lab.same_trials_as")
                sweeps[found.info.run_id] = {"status": found.info.status, "trials": {}, "same": same}
    for each in trials:
        of_sweep = sweeps[each.data.tags[PARENT]]["trials"]
        name = each.data.tags["lab.trial"]
        if name in of_sweep:
            of_sweep[name] = "twice"
            continue
        figures = {
            key: value
            for key, value in each.data.metrics.items()
            if "peak_memory" not in key and not key.startswith("seconds.")
        }
        files = sorted(file.path for file in client.list_artifacts(each.info.run_id))
        of_sweep[name] = {"status": each.info.status, "figures": figures, "files": files}
    for each in sweeps.values():
        same = each.pop("same")
        if same in sweeps and not each["trials"]:
            each["trials"] = sweeps[same]["trials"]
    return list(sweeps.values())


def hidden(folder: Path) -> list[str]:
    """Temporary files and folders below ``folder``."""
    found = {*folder.rglob(".*"), *(folder / "temporary").iterdir()}
    return sorted(path.relative_to(folder).as_posix() for path in found if path.name not in _ONNX_RUNTIMES)
