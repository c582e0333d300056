"""The files of a sweep: summary, tables, report and the baseline that it would be."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from engine.errors import ConfigError
from engine.ir import write_atomically
from harness.files.cache import load_json, save_json
from harness.files.paths import find_beside
from harness.gates.baseline import Baseline, save_baseline, updated_baseline
from harness.report.badge import JSON_FILE, SVG_FILE, badge_json, badge_svg
from harness.report.results import (
    PARETO_FILE,
    PARQUET_FILE,
    REPORT_FILE,
    SWEEP_FILE,
    TABLE_FILE,
    Sweep,
    SweepSummary,
    pareto_yaml,
    sweep_folder,
    trials_csv,
    trials_parquet,
)
from harness.report.summary import SUMMARY_FILE, markdown
from harness.tracking.tracker import BASELINE_FILE
from harness.trials.trial import TrialStore


def load_sweep(workdir: Path, suite: str) -> Sweep:
    """The last sweep of ``suite``, with the judgement that was made of it then.

    Cards are found from here on where the sweep found them.

    Raises:
        ConfigError: there is none, or it cannot be read.
    """
    path = sweep_folder(workdir, suite) / SWEEP_FILE
    try:
        summary = load_json(SweepSummary, path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; run the suite first: ptqlab run {suite}") from error
    except ValidationError as error:
        raise ConfigError(f"{path}: written by another version of ptqlab; run the suite again") from error
    except ValueError as error:
        raise ConfigError(f"{path}: {error}; run the suite again") from error
    find_beside(summary.asked)
    summary.cards.search_first()
    store = TrialStore(workdir / "trials")
    results = [result for spec in summary.trials if (result := store.get(spec)) is not None]
    if len(results) < len(summary.trials) - summary.left:
        raise ConfigError(
            f"{store.root}: {len(summary.trials) - len(results)} results of the sweep have been removed; "
            "run the suite again"
        )
    return Sweep(summary, tuple(results))


def write_sweep(sweep: Sweep, workdir: Path) -> list[Path]:
    """Write summary, tables and report of ``sweep``; the files, readable for people first."""
    from harness.report.page import render  # plotly is slow to import

    folder, store = sweep_folder(workdir, sweep.summary.suite.name), TrialStore(workdir / "trials")
    save_json(sweep.summary, folder / SWEEP_FILE)
    write_atomically(folder / TABLE_FILE, trials_csv(sweep, store).encode())
    write_atomically(folder / PARQUET_FILE, trials_parquet(sweep, store))
    write_atomically(folder / PARETO_FILE, pareto_yaml(sweep).encode())
    write_atomically(folder / REPORT_FILE, render(sweep, workdir).encode())
    write_atomically(folder / SUMMARY_FILE, markdown(sweep).encode())
    write_atomically(folder / SVG_FILE, badge_svg(sweep).encode())
    write_atomically(folder / JSON_FILE, badge_json(sweep).encode())
    return [folder / name for name in (REPORT_FILE, TABLE_FILE, PARQUET_FILE, PARETO_FILE, SWEEP_FILE)]


def write_baseline(sweep: Sweep, old: Baseline | None, store: TrialStore, workdir: Path) -> list[Path]:
    """Write what this sweep would be as a baseline; no file where a trial failed or is left."""
    path = sweep_folder(workdir, sweep.summary.suite.name) / BASELINE_FILE
    path.unlink(missing_ok=True)
    if sweep.summary.left:
        return []
    try:
        new = updated_baseline(old, sweep.summary.suite, sweep.results, store, sweep.summary.origin)
    except ConfigError:  # a trial failed that must not: no baseline for anybody
        return []
    save_baseline(new, path)
    return [path]
