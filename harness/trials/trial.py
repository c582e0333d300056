"""Trials: what determines one (its spec and key), what comes out (its result), and the folder that keeps it."""

from __future__ import annotations

import csv
import io
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray
from pydantic import Field, ValidationError, field_validator

from engine.board import BoardTimes, cpu_statement
from engine.chips import March
from engine.errors import MissingError
from engine.ir import write_atomically
from engine.rulebook.known import Known
from harness.cards.folders import CardFolders
from harness.extensions import digests_of_metric
from harness.files.cache import content_key, load_arrays, save_arrays
from harness.files.strict_yaml import StrictModel
from harness.suites.settings import Settings
from harness.suites.suite import Point
from harness.trials.artefacts import Artefact
from harness.trials.figures import Accuracy, BrokenOutputs, Fidelity, Footprint, TrialNode
from harness.trials.sums import DamagedError, check_all, read_checked, write_sums
from harness.zoo.cards import ModelCard

if TYPE_CHECKING:
    from harness.files.exchange import Exchange

logger = logging.getLogger(__name__)

RESULT_FILE = "result.json"
NODES_FILE = "nodes.csv"
PREDICTIONS_FILE = "predictions.npz"

_OBJECTS = "trials"
"""Folder of the trials in an exchange."""

PART = "cosine.of."
"""What names of cosines of single outputs and parts of outputs begin with."""

Arrays = Mapping[str, NDArray[Any]]


class TrialSpec(StrictModel):
    """All that determines a trial's figures.

    Attributes:
        model: name of the card.
        march: BPU architecture.
        settings: what the sweep varies.
        calibration_samples, evaluation_samples: number of samples from the start of the card's splits.
        card: key of what the card determines: model file, input parameters, data set use and metric.
        file: SHA-256 of the model file as it was found; ``absent`` where it was not.
        data: digest of the data set.
        engine: digest of sources and tools of all stages that the trial runs.
        board: what was measured of CPU nodes on a board with the march's chip; None where nothing was.
    """

    model: str
    march: March
    settings: Settings
    calibration_samples: int
    evaluation_samples: int
    card: str
    file: str
    data: str
    engine: str
    board: BoardTimes | None = None

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
        ENVIRONMENT: this machine lacks a package, a file or a command; the message says how to get it.
        DEFECT: an unexpected exception.
        OUT_OF_MEMORY: Python could not allocate.
        TIMED_OUT: it took longer than the time limit.
        WORKER_DIED: the process that computed it went away.
    """

    REFUSED = "refused"
    ENVIRONMENT = "environment"
    DEFECT = "defect"
    OUT_OF_MEMORY = "out of memory"
    TIMED_OUT = "timed out"
    WORKER_DIED = "worker died"

    @property
    def is_final(self) -> bool:
        """Whether the same trial fails again wherever it runs; failures of the environment are never reused."""
        return self in (Symptom.REFUSED, Symptom.DEFECT)


def is_environmental(error: BaseException | None) -> bool:
    """Whether ``error`` means that this machine lacks something: a package, a file, a command, space on a disk."""
    if error is None:
        return False
    return isinstance(error, MissingError | OSError | ImportError) or is_environmental(error.__cause__)


class Failure(StrictModel):
    """Why there are no figures.

    Attributes:
        stage: that was running.
        symptom: what was seen.
        message: one line.
        worker: that met it; empty where that is the machine of the sweep.
    """

    stage: str
    symptom: Symptom
    message: str
    worker: str = ""

    @property
    def text(self) -> str:
        """The message, and which worker it is from."""
        return f"{self.message} (worker {self.worker})" if self.worker else self.message


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
        doubts: what is doubtful about the calibration samples, a sentence each.
        broken: outputs that no longer say what the float model's do.
        known: how far it is known that the original converts the network so; None for other engines, and in results of
            versions that kept it as a sentence.
        artefacts: digests of what its stages gave, by :class:`Artefact`.
        seconds: wall time by stage; stages that another trial had computed are missing.
        peak_memory_mb: greatest resident memory while it was computed, in 10^6 bytes; None where it failed.
        finished_at: local time, ISO 8601.
        cards: where the sweep that computed it found its cards.
    """

    format: Literal[1] = 1
    spec: TrialSpec
    failure: Failure | None = None
    accuracy: Accuracy | None = None
    fidelity: Fidelity | None = None
    footprint: Footprint | None = None
    int16_nodes: tuple[str, ...] = ()
    unmet: tuple[UnmetRequest, ...] = ()
    doubts: tuple[str, ...] = ()
    broken: BrokenOutputs = BrokenOutputs()
    known: Known | None = None
    artefacts: Mapping[Artefact, str] = Field(default_factory=dict)
    seconds: Mapping[str, float] = Field(default_factory=dict)
    peak_memory_mb: float | None = None
    finished_at: str = Field(default_factory=lambda: datetime.now().astimezone().isoformat(timespec="seconds"))
    cards: CardFolders = CardFolders()

    @field_validator("known", mode="before")
    @classmethod
    def _not_a_sentence(cls, known: Any) -> Any:
        return None if isinstance(known, str) else known

    @property
    def ok(self) -> bool:
        """Whether there are figures."""
        return self.failure is None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Doubts about the calibration samples, and what is wrong with outputs."""
        return (*(f"calibration data: {doubt}" for doubt in self.doubts), *filter(None, [self.broken.text]))

    @property
    def cpu_times(self) -> str:
        """What the time on the CPU rests on, in a sentence; empty where nothing runs there."""
        if self.footprint is None:
            return ""
        cpu, measured = self.footprint.cpu_ms, self.footprint.cpu_measured_ms
        return cpu_statement(1e3 * cpu, 1e3 * measured, "" if self.spec.board is None else self.spec.board.origin)

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
                "accuracy.delta_stderr": self.accuracy.delta_stderr,
            }
            found["accuracy.informative"] = self.accuracy.informative
        if self.fidelity:
            found |= {
                "agreement": self.fidelity.agreement,
                "cosine.output": self.fidelity.cosine,
                "cosine.min": self.fidelity.cosine_min,
                "sqnr": self.fidelity.sqnr_db,
                "max_abs": self.fidelity.max_abs,
                **{f"{PART}{name}": value for name, value in self.fidelity.parts.items()},
            }
        if self.footprint:
            found |= {
                "latency.ms": self.footprint.latency_ms,
                "latency.cpu_ms": self.footprint.cpu_ms,
                "latency.total_ms": self.footprint.total_ms,
                "ddr.mb": self.footprint.ddr_mb,
                "cpu_nodes": self.footprint.cpu_nodes,
                "subgraphs": self.footprint.subgraphs,
            }
        found["peak_memory.mb"] = self.peak_memory_mb
        return {name: float(value) for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class Outcome:
    """What a trial leaves in its folder.

    Attributes:
        result: figures or failure.
        nodes: the node table.
        predictions: ``per_sample`` (the metric per sample, float64) and ``per_sample_cosine``, shape (samples,);
            ``float_per_sample`` of the float model; ``resampled`` and ``float_resampled``, float32, shape (rows,), if
            the metric is no mean of scores per sample, and ``informative`` (bool, shape (samples,)) where not all need
            hold something to find, see :class:`harness.metrics.Score`; of a classifier also ``classes``,
            ``float_classes`` and ``targets`` (int64), what both models say and what is right; where classes mean
            something ``by_class`` and ``float_by_class``, the metric of each class alone; of boxes, masks and texts
            those of the worst samples, see :func:`harness.trials.worst.decisions_of_worst`.
        files: further files by name, for people.
    """

    result: TrialResult
    nodes: Sequence[TrialNode] = ()
    predictions: Arrays | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class TrialStore:
    """Folders of finished trials by key. A folder appears whole or not at all.

    Attributes:
        root: holds them.
        exchange: where workers leave each trial as one object, a zip file of its folder, if they do not see ``root``.
    """

    root: Path
    exchange: Exchange | None = None

    def folder(self, key: str) -> Path:
        """Where trial ``key`` is or will be."""
        return self.root / key

    def get(self, spec: TrialSpec) -> TrialResult | None:
        """The finished result of ``spec``; None where there is none, or none that this version can read."""
        return self.read(spec.key)

    def read(self, key: str) -> TrialResult | None:
        """The finished result under ``key``, likewise."""
        try:
            return TrialResult.model_validate_json(read_checked(self.folder(key) / RESULT_FILE))
        except (OSError, ValidationError):
            return None
        except DamagedError as error:
            logger.warning("%s", error)
            return None

    def is_whole(self, key: str) -> bool:
        """Whether all files of trial ``key`` are as they were written; one that is not is reported."""
        try:
            check_all(self.folder(key))
        except (OSError, DamagedError) as error:
            logger.warning("%s", error)
            return False
        return True

    def predictions(self, key: str) -> dict[str, NDArray[Any]]:
        """Arrays of a finished trial; empty where it has none.

        Raises:
            DamagedError: they are not what was written.
        """
        try:
            return load_arrays(io.BytesIO(read_checked(self.folder(key) / PREDICTIONS_FILE)))
        except FileNotFoundError:
            return {}

    def nodes(self, key: str) -> list[TrialNode]:
        """The node table of a finished trial, likewise."""
        try:
            text = read_checked(self.folder(key) / NODES_FILE).decode()
        except FileNotFoundError:
            return []
        rows = csv.DictReader(io.StringIO(text))
        return [TrialNode.model_validate({name: value for name, value in row.items() if value != ""}) for row in rows]

    def put(self, outcome: Outcome) -> None:
        """Keep ``outcome``, in the place of an older one, and leave it for other machines.

        Raises:
            MissingError: the exchange cannot be reached.
        """
        self.keep(outcome)
        if self.exchange is None:
            return
        key = outcome.result.spec.key
        with tempfile.TemporaryDirectory(prefix=f".{key}.", dir=self.root) as scratch:
            packed = shutil.make_archive(str(Path(scratch) / key), "zip", self.folder(key))
            self.exchange.push(Path(packed), _object_of(key))

    def bring(self, key: str) -> bool:
        """Keep here what another machine left as trial ``key``, in the place of an older one; False where it did not.

        Raises:
            MissingError: the exchange cannot be reached, or what is there is no trial.
        """
        if self.exchange is None:
            return False
        self.root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{key}.", dir=self.root) as scratch:
            packed, fresh = Path(scratch) / "packed.zip", Path(scratch) / key
            if not self.exchange.pull(_object_of(key), packed):
                return False
            try:
                shutil.unpack_archive(packed, fresh)
                check_all(fresh)
                TrialResult.model_validate_json((fresh / RESULT_FILE).read_bytes())
            except (shutil.ReadError, OSError, ValidationError, DamagedError) as error:
                where = f"{self.exchange.url}/{_object_of(key)}"
                raise MissingError(f"{where}: is not a trial that this version can read; remove it") from error
            self._replace(self.folder(key), fresh)
        return True

    def elsewhere(self) -> set[str]:
        """Keys of the trials that machines left in the exchange.

        Raises:
            MissingError: the exchange cannot be reached.
        """
        names = self.exchange.names(_OBJECTS) if self.exchange is not None else set()
        return {name.removesuffix(".zip") for name in names}

    def keep(self, outcome: Outcome) -> None:
        """Keep ``outcome`` here, in the place of an older one."""
        folder = self.folder(outcome.result.spec.key)
        self.root.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=self.root))
        try:
            (fresh / RESULT_FILE).write_text(outcome.result.model_dump_json(indent=1), encoding="utf-8")
            if outcome.nodes:
                (fresh / NODES_FILE).write_text(_as_csv(outcome.nodes), encoding="utf-8")
            if outcome.predictions is not None:
                save_arrays(outcome.predictions, fresh / PREDICTIONS_FILE)
            for name, content in outcome.files.items():
                (fresh / name).write_bytes(content)
            write_sums(fresh)
            self._replace(folder, fresh)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def amend(self, key: str, files: Mapping[str, bytes]) -> None:
        """Write files of a finished trial anew, and their digests with them."""
        folder = self.folder(key)
        for name, content in files.items():
            write_atomically(folder / name, content)
        write_sums(folder)

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


def _object_of(key: str) -> str:
    return f"{_OBJECTS}/{key}.zip"


def _moved_aside(folder: Path) -> Path:
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
    os.rename(folder, aside / folder.name)
    return aside


def _as_csv(rows: Sequence[TrialNode]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(TrialNode.model_fields), lineterminator="\n")
    writer.writeheader()
    writer.writerows(row.model_dump() for row in rows)
    return text.getvalue()


def card_key(card: ModelCard) -> str:
    """Key of what a card determines: model file, input parameters, splits and metric, with the source of its own."""
    own = digests_of_metric(card.metric.name, card.metric.options)
    return content_key(card.digest, card.input_parameters, card.dataset, card.metric, *own)
