"""A finished sweep: what it holds, where it lies, its tables, and the trials that stand out in it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from harness.cards.folders import CardFolders
from harness.files.strict_yaml import StrictModel
from harness.gates.choice import Choice
from harness.gates.explanation import Explanation
from harness.gates.judgement import Judgement
from harness.gates.verdicts import TrialVerdict, Verdict
from harness.report.columns import own_columns
from harness.shipping.record import ShippedTrial
from harness.suites.suite import Suite
from harness.tracking.sync import SharedSeconds
from harness.tracking.tracker import Links, Recorded
from harness.tracking.trackers import open_tracker
from harness.trials.fragments import as_yaml
from harness.trials.origins import SweepOrigin
from harness.trials.trial import TrialResult, TrialSpec, TrialStore
from harness.trials.twins import twins

SWEEP_FILE = "sweep.json"
REPORT_FILE = "report.html"
TABLE_FILE = "trials.csv"
PARQUET_FILE = "trials.parquet"
PARETO_FILE = "pareto.yaml"


class SweepSummary(StrictModel):
    """What is kept of a sweep beside its trials.

    Attributes:
        format: version of this structure.
        id: of the sweep, unique for ever.
        suite: as it was run.
        trials: specs, in order.
        started_at: local time, ISO 8601.
        seconds: wall time.
        reused: trials whose result an earlier sweep had left.
        rechecked: of these, computed anew and compared.
        left: trials that the budget left for the next run.
        shared: stages that several trials share.
        engine: version.
        commit: of the checkout.
        record: where the sweep is recorded; None without a record.
        asked: name or file of the suite that the command was given; empty where there was none.
        cards: where its cards were found.
        origin: what it was made of.
        judgement: what the gate said of it.
        choices: what it would choose, for every model and march.
        explanation: why it differs from the baseline; None without one.
        ships: what the user's toolchain built of its trials, where the suite asks for it.
    """

    format: Literal[3] = 3
    id: str = ""
    suite: Suite
    trials: tuple[TrialSpec, ...]
    started_at: str
    seconds: float
    reused: int
    rechecked: int = 0
    left: int = 0
    shared: tuple[SharedSeconds, ...] = ()
    engine: str
    commit: str | None = None
    record: Recorded | None = None
    asked: str = ""
    cards: CardFolders = CardFolders()
    origin: SweepOrigin = SweepOrigin()
    judgement: Judgement
    choices: tuple[Choice, ...] = ()
    explanation: Explanation | None = None
    ships: tuple[ShippedTrial, ...] = ()


@dataclass(frozen=True)
class Sweep:
    """A finished sweep.

    Attributes:
        summary: what it was, and what the gate said of it.
        results: of all trials, in order.
        record_problem: why the record is not complete; None if it is.
        earlier: where the report is that this sweep's took the place of; None where there was none, or the same.
    """

    summary: SweepSummary
    results: tuple[TrialResult, ...]
    record_problem: str | None = None
    earlier: Path | None = None

    @property
    def verdicts(self) -> tuple[TrialVerdict, ...]:
        """What the gate says of each trial."""
        return self.summary.judgement.verdicts

    @property
    def baseline(self) -> Path | None:
        """The baseline that the verdicts refer to; None without one."""
        return self.summary.judgement.baseline

    @property
    def failed(self) -> list[TrialResult]:
        """Trials without figures."""
        return [result for result in self.results if not result.ok]

    @property
    def verdict(self) -> Verdict:
        """The worst of all trials."""
        return self.summary.judgement.verdict

    @property
    def best(self) -> frozenset[str]:
        """Keys of the recommended trials."""
        return frozenset(choice.best for choice in self.summary.choices if choice.best is not None)

    @property
    def front(self) -> frozenset[str]:
        """Keys of the Pareto points."""
        return frozenset(key for choice in self.summary.choices for key in choice.front)

    @property
    def alike(self) -> frozenset[str]:
        """Keys of the trials that cannot be told apart from the best of their model and march."""
        return frozenset(key for choice in self.summary.choices if len(choice.alike) > 1 for key in choice.alike)

    @cached_property
    def twins(self) -> Mapping[str, str]:
        """Id of the first trial with the same quantised model, by key of the later ones."""
        return twins(self.results)

    def links(self, workdir: Path) -> Links | None:
        """How people look at the record; None without one."""
        place = self.summary.record
        if place is None:
            return None
        models = list(dict.fromkeys(spec.model for spec in self.summary.trials))
        return open_tracker(place.tracker, place.uri, workdir).links(
            place, ["", *models] if len(models) > 1 else models
        )

    def marks(self, key: str) -> str:
        """★ of a Pareto point, ≈ within noise of the best, = the quantised model of an earlier trial."""
        return "★" * (key in self.front) + "≈" * (key in self.alike) + "=" * (key in self.twins)

    def verdict_of(self, trial: str) -> Verdict:
        """The gate's verdict on the trial with id ``trial``."""
        return self.summary.judgement.of(trial).verdict


def sweep_folder(workdir: Path, suite: str) -> Path:
    """Where the summary, table and report of the last sweep of ``suite`` are."""
    return workdir / "sweeps" / suite


def trials_csv(sweep: Sweep, store: TrialStore | None = None) -> str:
    """All trials with all figures, one line each; ``store``: as of :func:`trial_rows`."""
    rows = trial_rows(sweep, store)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def trials_parquet(sweep: Sweep, store: TrialStore | None = None) -> bytes:
    """The table of :func:`trials_csv` as a Parquet file."""
    import pyarrow as pa  # slow to import
    from pyarrow import parquet

    sink = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(trial_rows(sweep, store)), sink)
    return sink.getvalue()


def trial_rows(sweep: Sweep, store: TrialStore | None = None) -> list[dict[str, Any]]:
    """A row per trial, all with the same columns: identity, settings, verdict, figures, failure; None where unknown.

    Args:
        sweep: a finished one.
        store: of its trials, from which columns that users registered are computed; None to leave them out.
    """
    names = list(dict.fromkeys(name for result in sweep.results for name in result.metrics()))
    rows = [_trial_row(sweep, result, names) for result in sweep.results]
    for name, column in own_columns().items() if store is not None and rows else ():
        for row, result in zip(rows, sweep.results, strict=True):
            row[name] = column.value(result, store) if store is not None and result.ok else None
    return rows


def _trial_row(sweep: Sweep, result: TrialResult, names: Sequence[str]) -> dict[str, Any]:
    spec, failure, figures = result.spec, result.failure, result.metrics()
    settings = spec.settings.model_dump(mode="json", exclude={"int16", "calibration_samples"})
    return {
        "trial": spec.id,
        "key": spec.key,
        "model": spec.model,
        "march": spec.march.value,
        "settings": spec.settings.label,
        **settings,
        "int16": spec.settings.int16.label.removeprefix("int16.") or "none",
        "calibration_samples": spec.calibration_samples,
        "evaluation_samples": spec.evaluation_samples,
        "verdict": sweep.verdict_of(spec.id).value,
        "same_as": sweep.twins.get(spec.key),
        **{name: figures.get(name) for name in names},
        "failed_stage": failure.stage if failure else None,
        "symptom": failure.symptom.value if failure else None,
        "message": failure.text if failure else None,
    }


def pareto_yaml(sweep: Sweep) -> str:
    """What to paste into a converter's YAML file for the recommended setting and each Pareto point, one YAML document
    each; comments alone where no setting passes the gates."""
    named = {result.spec.key: result.spec.id for result in sweep.results}
    none = [
        f"# {choice.model} on {choice.march.value}: no setting passes the gates; nearest: {named[choice.nearest]} "
        f"({choice.lacks})\n"
        for choice in sweep.summary.choices
        if choice.best is None
    ]
    points = [
        ("# recommended\n" if result.spec.key in sweep.best else "") + as_yaml(result)
        for result in sweep.results
        if result.spec.key in sweep.front | sweep.best
    ]
    return "".join(none) + "---\n".join(points)
