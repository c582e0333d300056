"""Trials, results and stage functions that need no engine: what the harness does around it is tested with these."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from engine.chips import DEFAULT_MARCH, March
from engine.errors import MissingError, UnsupportedError
from engine.ir import write_atomically
from engine.terms import CalibrationType
from harness.execution.coordinator import AtWork
from harness.files.cache import Codec
from harness.suites.settings import Int16Kind, Int16Policy, Settings
from harness.trials.tasks import Bench, Preparation, Prepared
from harness.trials.trial import (
    Accuracy,
    Failure,
    Fidelity,
    Footprint,
    Outcome,
    Symptom,
    TrialNode,
    TrialResult,
    TrialSpec,
)

KL = Settings(calibration_type=CalibrationType.KL)
INT16 = Settings(int16=Int16Policy(kind=Int16Kind.ALL))
SAMPLES = 40

TEXT = Codec(".txt", lambda text, path: write_atomically(path, text.encode()), lambda path: path.read_text())
"""A result that is text, written as :class:`Codec` asks: whoever looks without the lock must never see half of it."""


def spec(
    model: str = "net", settings: Settings | None = None, march: March = DEFAULT_MARCH, **changes: Any
) -> TrialSpec:
    fields: dict[str, Any] = {
        "model": model,
        "march": march,
        "settings": settings or Settings(),
        "calibration_samples": 10,
        "evaluation_samples": SAMPLES,
        "card": "card-of-" + model,
        "file": "file-of-" + model,
        "data": "some-data",
        "engine": "0",
    }
    return TrialSpec(**{**fields, **changes})


def result(
    trial: TrialSpec,
    value: float = 0.9,
    latency: float = 1.0,
    cosine: float = 0.99,
    cpu_nodes: int = 1,
    cpu: float = 0.0,
) -> TrialResult:
    return TrialResult(
        spec=trial,
        accuracy=Accuracy(metric="top1", float_value=0.95, value=value, stderr=0.01, delta_stderr=0.005),
        fidelity=Fidelity(cosine=cosine, cosine_min=cosine - 0.1, sqnr_db=20.0, max_abs=0.5, agreement=0.97),
        footprint=Footprint(latency_ms=latency, cpu_ms=cpu, ddr_mb=2.0, cpu_nodes=cpu_nodes, subgraphs=1),
        seconds={"quantize": 0.25},
        finished_at="2026-01-02T03:04:05+00:00",
    )


def failed(trial: TrialSpec) -> TrialResult:
    failure = Failure(stage="quantize", symptom=Symptom.REFUSED, message="no <b>rule</b> for Foo")
    return TrialResult(spec=trial, failure=failure, finished_at="2026-01-02T03:04:05+00:00")


def hits(correct: int, samples: int = SAMPLES) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Scores of a classifier that is right on the first ``correct`` samples."""
    return (np.arange(samples) < correct).astype(np.float64)


NODES = (
    TrialNode(
        node="conv", on="BPU", subgraph=0, type="HzSQuantizedConv", data_type="int8", threshold=1.5, cosine=0.999
    ),
    TrialNode(node="softmax", on="CPU", reason="no operator", type="Softmax", data_type="float"),
)


def prepare(preparation: Preparation, bench: Bench) -> Prepared:
    """Leaves a mark per call; model ``unprepared`` is refused."""
    note(bench, f"prepare {preparation.specs[0].model}")
    if preparation.specs[0].model == "unprepared":
        return Prepared(failure=Failure(stage="load", symptom=Symptom.REFUSED, message="no such file"))
    return Prepared(statistics="statistics", seconds={"statistics": 0.5})


def run_trial(trial: TrialSpec, statistics: str, bench: Bench) -> TrialResult:
    """Leaves a mark per call; what becomes of the trial depends on its model's name."""
    note(bench, f"run {trial.id}")
    journal = bench.journal(trial.key)
    journal.parent.mkdir(parents=True, exist_ok=True)
    journal.write_text("simulate")
    match trial.model:
        case "slow":
            time.sleep(1.5)
        case "defect":
            raise ZeroDivisionError("a defect")
        case "lacking":
            raise MissingError("torchvision: pip install torchvision")
        case "unreadable":
            Path("/no/such/file").read_bytes()
        case "hungry":
            raise MemoryError
        case "starved":
            resource.setrlimit(resource.RLIMIT_AS, (2**33, resource.RLIM_INFINITY))
            np.ones(2**34)
        case "starved_library":
            raise RuntimeError(
                "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Failed to allocate memory for requested buffer"
            )
        case "killer":
            signal.raise_signal(signal.SIGKILL)
        case "killer_once" if not (bench.workdir / "killed").exists():
            (bench.workdir / "killed").touch()
            signal.raise_signal(signal.SIGKILL)
        case "crasher":
            signal.raise_signal(signal.SIGSEGV)  # in this thread: it must not go on
        case "quitter":
            os._exit(3)
        case "hanging":
            time.sleep(3600)
        case "refused":
            outcome = Outcome(failed(trial))
            bench.store.put(outcome)
            journal.unlink()
            return outcome.result
    outcome = Outcome(result(trial), NODES, {"per_sample": hits(36)})
    bench.store.put(outcome)
    journal.unlink()
    return outcome.result


_LOCK = threading.Lock()


def note(bench: Bench, text: str) -> None:
    bench.workdir.mkdir(parents=True, exist_ok=True)
    with _LOCK, (bench.workdir / "notes").open("a") as file:
        file.write(text + "\n")


def notes(workdir: Path) -> list[str]:
    file = workdir / "notes"
    return file.read_text().splitlines() if file.is_file() else []


def two_threads(workers: int) -> Executor:
    """An executor of somebody else's."""
    del workers
    return ThreadPoolExecutor(2)


def refuse(*_: object) -> None:
    raise UnsupportedError("not today")


@dataclass
class Log:
    """An observer that remembers."""

    specs: list[TrialSpec] = field(default_factory=list)
    preparations: list[Prepared] = field(default_factory=list)
    results: list[tuple[TrialResult, bool]] = field(default_factory=list)
    working: list[AtWork] = field(default_factory=list)

    def planned(self, specs: Any) -> None:
        self.specs = list(specs)

    def prepared(self, preparation: Preparation, prepared: Prepared) -> None:
        self.preparations.append(prepared)

    def at_work(self, trials: Any) -> None:
        self.working += trials

    def finished(self, result: TrialResult, *, reused: bool) -> None:
        self.results.append((result, reused))
