"""Trials: what determines one (its spec and key), what comes out (its result), and the folder that keeps it."""

from __future__ import annotations

import csv
import io
import math
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from engine.terms import March
from harness.cache import content_key, load_arrays, save_arrays, save_json
from harness.strict_yaml import StrictModel
from harness.suites.settings import Settings
from harness.suites.suite import Point, Suite
from harness.version import engine_version
from harness.zoo.cards import ModelCard, load_card

RESULT_FILE = "result.json"
NODES_FILE = "nodes.csv"
PREDICTIONS_FILE = "predictions.npz"

Arrays = Mapping[str, NDArray[Any]]


class TrialSpec(StrictModel):
    """All that determines a trial's figures.

    Attributes:
        model: name of the card.
        march: BPU architecture.
        settings: what the sweep varies.
        calibration_samples, evaluation_samples: first so many samples of the card's splits.
        card: key of what the card determines: model file, input parameters, data set use and metric.
        data: digest of the data set.
        engine: version of engine and evaluation.
    """

    model: str
    march: March
    settings: Settings
    calibration_samples: int
    evaluation_samples: int
    card: str
    data: str
    engine: str

    @property
    def key(self) -> str:
        """Content key: equal for trials that must give equal results."""
        return content_key("trial", self)

    @property
    def point(self) -> Point:
        """The suite's point that this trial is."""
        return Point(model=self.model, march=self.march, settings=self.settings)

    @property
    def id(self) -> str:
        """Readable, unique within a suite."""
        return self.point.id


class Symptom(StrEnum):
    """How a trial failed.

    Attributes:
        REFUSED: the engine or harness refused, with a message for the user.
        DEFECT: an exception that nobody foresaw.
        OUT_OF_MEMORY: Python could not allocate.
        TIMED_OUT: it took longer than the time limit.
        WORKER_DIED: the process that computed it went away.
    """

    REFUSED = "refused"
    DEFECT = "defect"
    OUT_OF_MEMORY = "out of memory"
    TIMED_OUT = "timed out"
    WORKER_DIED = "worker died"


class Failure(StrictModel):
    """Why there are no figures.

    Attributes:
        stage: that was running.
        symptom: what was seen.
        message: one line.
    """

    stage: str
    symptom: Symptom
    message: str


class Accuracy(StrictModel):
    """The card's metric, on the same evaluation images.

    Attributes:
        metric: name.
        float_value: of the float model.
        value: of the quantised model.
        stderr: standard error of ``value``.
        delta_stderr: standard error of the paired difference, from the scores per sample.
        higher_is_better: whether the metric is a score, rather than an error.
    """

    metric: str
    float_value: float
    value: float
    stderr: float
    delta_stderr: float
    higher_is_better: bool = True

    @property
    def delta(self) -> float:
        """Quantised minus float."""
        return self.value - self.float_value

    @property
    def ratio(self) -> float:
        """Quantised as a share of float; 1 where both are 0."""
        return self.value / self.float_value if self.float_value else 1.0

    @property
    def goodness(self) -> float:
        """:attr:`ratio` of a score, its inverse of an error: below 1 the quantised model is worse than the float one.

        Infinite where an error is 0 though the float model's is not.
        """
        if self.higher_is_better:
            return self.ratio
        if self.value:
            return self.float_value / self.value
        return 1.0 if not self.float_value else math.inf


class Fidelity(StrictModel):
    """Outputs of the quantised model against the float model's, without labels.

    Attributes:
        cosine: mean over samples and outputs.
        cosine_min: least over samples and outputs.
        sqnr_db: signal to noise over all values, in decibels; None where there is no noise or no signal.
        max_abs: greatest difference of two values.
        agreement: share of equal decisions (argmax over axis 1); None where the outputs are not scores per class.
    """

    cosine: float
    cosine_min: float
    sqnr_db: float | None
    max_abs: float
    agreement: float | None


class Footprint(StrictModel):
    """What the compiled model costs per frame.

    Attributes:
        latency_ms: estimated time on the BPU.
        ddr_mb: estimated DDR traffic, in 10^6 bytes.
        cpu_nodes: operators on the CPU.
        subgraphs: BPU subgraphs.
    """

    latency_ms: float
    ddr_mb: float
    cpu_nodes: int
    subgraphs: int


class UnmetRequest(StrictModel):
    """A requested setting that the engine could not honour.

    Attributes:
        node: name.
        request: what was asked.
        reason: why it stays as it is.
    """

    node: str
    request: str
    reason: str


class TrialResult(StrictModel):
    """Outcome of a trial: figures, or a failure.

    Attributes:
        format: version of this structure.
        spec: the trial.
        failure: None where it succeeded; then all figures are there.
        accuracy, fidelity, footprint: figures.
        int16_nodes: nodes that the int16 policy asked for.
        unmet: requested settings that could not be honoured.
        seconds: wall time by stage; stages that another trial had computed are missing.
        peak_memory_mb: greatest resident memory while it was computed, in 10^6 bytes; None where it failed.
        finished_at: local time, ISO 8601.
    """

    format: Literal[1] = 1
    spec: TrialSpec
    failure: Failure | None = None
    accuracy: Accuracy | None = None
    fidelity: Fidelity | None = None
    footprint: Footprint | None = None
    int16_nodes: tuple[str, ...] = ()
    unmet: tuple[UnmetRequest, ...] = ()
    seconds: Mapping[str, float] = Field(default_factory=dict)
    peak_memory_mb: float | None = None
    finished_at: str = Field(default_factory=lambda: datetime.now().astimezone().isoformat(timespec="seconds"))

    @property
    def ok(self) -> bool:
        """Whether there are figures."""
        return self.failure is None

    def metrics(self) -> dict[str, float]:
        """All figures that exist, under the names that every table, MLflow and the gates use."""
        found: dict[str, float | None] = {}
        if self.accuracy:
            found |= {
                "accuracy.float": self.accuracy.float_value,
                "accuracy.quantized": self.accuracy.value,
                "accuracy.delta": self.accuracy.delta,
                "accuracy.ratio": self.accuracy.ratio,
                "accuracy.stderr": self.accuracy.stderr,
            }
        if self.fidelity:
            found |= {
                "agreement": self.fidelity.agreement,
                "cosine.output": self.fidelity.cosine,
                "cosine.min": self.fidelity.cosine_min,
                "sqnr": self.fidelity.sqnr_db,
                "max_abs": self.fidelity.max_abs,
            }
        if self.footprint:
            found |= {
                "latency.ms": self.footprint.latency_ms,
                "ddr.mb": self.footprint.ddr_mb,
                "cpu_nodes": self.footprint.cpu_nodes,
                "subgraphs": self.footprint.subgraphs,
            }
        found["peak_memory.mb"] = self.peak_memory_mb
        return {name: float(value) for name, value in found.items() if value is not None}


class NodeRow(StrictModel):
    """One node of the quantised graph.

    Attributes:
        node: name.
        on: ``BPU`` or ``CPU``.
        reason: why it runs on the CPU, where that is known.
        subgraph: number of its BPU subgraph; None on the CPU.
        type: operator.
        data_type: type of its first input: ``int8``, ``int16`` or ``float``.
        threshold: greatest threshold of its first input; None on the CPU.
        cosine: of its output, calibrated against float, on the first calibration sample.
    """

    node: str
    on: str
    reason: str = ""
    subgraph: int | None = None
    type: str
    data_type: str
    threshold: float | None = None
    cosine: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What a trial leaves in its folder.

    Attributes:
        result: figures or failure.
        nodes: the node table.
        predictions: ``per_sample`` (the metric per sample, float64) and ``per_sample_cosine``, shape (samples,);
            ``classes`` (argmax, int64) where the outputs are scores per class of a whole image.
    """

    result: TrialResult
    nodes: Sequence[NodeRow] = ()
    predictions: Arrays | None = None


@dataclass(frozen=True)
class TrialStore:
    """Folders of finished trials by key. A folder appears whole or not at all."""

    root: Path

    def folder(self, key: str) -> Path:
        """Where trial ``key`` is or will be."""
        return self.root / key

    def get(self, spec: TrialSpec) -> TrialResult | None:
        """The finished result of ``spec``; None where there is none, or none that this version can read."""
        return self.read(spec.key)

    def read(self, key: str) -> TrialResult | None:
        """The finished result under ``key``, likewise."""
        try:
            text = (self.folder(key) / RESULT_FILE).read_text(encoding="utf-8")
            return TrialResult.model_validate_json(text)
        except (OSError, ValidationError):
            return None

    def predictions(self, key: str) -> dict[str, NDArray[Any]]:
        """Arrays of a finished trial; empty where it has none."""
        path = self.folder(key) / PREDICTIONS_FILE
        return load_arrays(path) if path.is_file() else {}

    def put(self, outcome: Outcome) -> None:
        """Keep ``outcome``, in the place of an older one."""
        folder = self.folder(outcome.result.spec.key)
        self.root.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=self.root))
        try:
            save_json(outcome.result, fresh / RESULT_FILE)
            if outcome.nodes:
                (fresh / NODES_FILE).write_text(_as_csv(outcome.nodes), encoding="utf-8")
            if outcome.predictions is not None:
                save_arrays(outcome.predictions, fresh / PREDICTIONS_FILE)
            self._replace(folder, fresh)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _replace(self, folder: Path, fresh: Path) -> None:
        """Put ``fresh`` in the place of ``folder``; an older one, which cannot be overwritten, is moved away first."""
        if folder.exists():
            shutil.rmtree(_moved_aside(folder), ignore_errors=True)
        try:
            os.rename(fresh, folder)
        except OSError:
            # Another process finished the same trial in between: the contents are the same.
            if not (folder / RESULT_FILE).is_file():
                raise


def _moved_aside(folder: Path) -> Path:
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
    os.rename(folder, aside / folder.name)
    return aside


def _as_csv(rows: Sequence[NodeRow]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(NodeRow.model_fields), lineterminator="\n")
    writer.writeheader()
    writer.writerows(row.model_dump() for row in rows)
    return text.getvalue()


def read_nodes(path: Path) -> list[NodeRow]:
    """The node table that a trial's folder holds; empty where there is none."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = [{key: value for key, value in row.items() if value != ""} for row in csv.DictReader(file)]
    return [NodeRow.model_validate(row) for row in rows]


def resolve(suite: Suite, points: Iterable[Point]) -> list[TrialSpec]:
    """Specs of the suite's points: with digests of models, cards, data and code.

    Raises:
        PtqlabError: a card, its data set or its splits are wrong or absent.
    """
    identities: dict[str, _Identity] = {}
    specs = []
    for point in points:
        if point.model not in identities:
            identities[point.model] = _identify(load_card(point.model), suite)
        identity = identities[point.model]
        wanted = point.settings.calibration_samples or suite.calibration_samples or identity.calibration_samples
        specs.append(
            TrialSpec(
                model=point.model,
                march=point.march,
                settings=point.settings,
                calibration_samples=min(wanted, identity.calibration_samples),
                evaluation_samples=identity.evaluation_samples,
                card=identity.card,
                data=identity.data,
                engine=engine_version(),
            )
        )
    return specs


@dataclass(frozen=True)
class _Identity:
    card: str
    data: str
    calibration_samples: int
    evaluation_samples: int


def _identify(card: ModelCard, suite: Suite) -> _Identity:
    use = card.dataset
    return _Identity(
        card=card_key(card),
        data=card.open_dataset().digest,
        calibration_samples=use.calibration.count,
        evaluation_samples=min(suite.evaluation_samples or use.evaluation.count, use.evaluation.count),
    )


def card_key(card: ModelCard) -> str:
    """Key of what a card determines: model file, input parameters, splits and metric."""
    return content_key(card.digest, card.input_parameters, card.dataset, card.metric)


def delta_stderr(ours: NDArray[np.float64], floats: NDArray[np.float64]) -> float:
    """Standard error of the mean paired difference of two score vectors, shape (samples,); 0 for one sample."""
    return float(np.std(ours - floats, ddof=1) / np.sqrt(len(ours))) if len(ours) > 1 else 0.0
