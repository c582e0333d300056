"""One self-contained HTML page per sweep, without network: verdict first, effects of settings, plots, trial table.

The plotting library and the data are in it compressed, and unpacked by the browser: 10,000 trials stay below 5 MB.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

from engine.pages import rendered
from harness.gates.baseline import read_baseline
from harness.gates.drift import drifts
from harness.gates.nights import read_nights
from harness.gates.verdicts import Verdict
from harness.report.causes import causes_of
from harness.report.compatibility import compatibility_pairs
from harness.report.figures import drift_figure, effects_figure, heat_figure, parallel_figure, pareto_figure, varied
from harness.report.results import Sweep, sweep_folder
from harness.report.tables import choice_text
from harness.report.templates import template
from harness.report.trial_rows import table_of_trials
from harness.tracking.views import compare_link, how_to_open, table_link
from harness.trials.files import TRIAL_PAGE
from harness.trials.fragments import as_yaml
from harness.trials.trial import RESULT_FILE, TrialResult, TrialStore

TEMPLATE = "sweep.html.j2"

NO_CHANGE = 1e-9
"""Figures of a baseline are kept with nine digits: less is no difference."""

MOST_HEAT_ROWS = 60
"""Settings up to which they are shown as a heat map; main effects show more of them."""

MOST_PROFILES = 40
"""Trials whose nodes are in the page: the chosen ones, then the first of the others."""

MOST_NOTES = 200
"""Trials that are listed with what keeps them from passing."""

MOST_CHANGES = 200
"""Figures that are listed as changed since the baseline."""


def render(sweep: Sweep, workdir: Path) -> str:
    """The page of ``sweep``; its links lead to the trials' folders under ``workdir``."""
    best = sweep.front
    links = {result.spec.key: _link(sweep, result, workdir) for result in sweep.results}
    profiles = _profiles(sorted(sweep.results, key=lambda result: result.spec.key not in best), workdir)
    nights = [
        night
        for night in read_nights(sweep_folder(workdir, sweep.summary.suite.name))
        if night.version == sweep.summary.suite.version
    ]
    drifting = drifts(nights)
    notes = [verdict for verdict in sweep.verdicts if not verdict.verdict.is_good]
    settings = {result.spec.settings.label for result in sweep.results}
    data = {
        "scatter": _figure(pareto_figure(sweep.results, best, links)),
        "table": table_of_trials(sweep, links),
        "profiles": profiles,
    }
    if len(settings) <= MOST_HEAT_ROWS:
        data["heat"] = _figure(heat_figure(sweep.results))
    if varied([result for result in sweep.results if result.ok]):
        data["effects"] = _figure(effects_figure(sweep.results))
        data["parallel"] = _figure(parallel_figure(sweep.results))
    if any(night.anchor for night in nights):
        data["drift"] = _figure(drift_figure(drifting, nights))
    return rendered(
        template(TEMPLATE),
        sweep=sweep,
        summary=sweep.summary,
        counts=_counts(sweep),
        trials=len(sweep.results),
        fragments=[(result, as_yaml(result)) for result in sweep.results if result.spec.key in best],
        changes=_changes(sweep),
        choices=[(choice, choice_text(choice, sweep.results)) for choice in sweep.summary.choices],
        causes=causes_of(sweep),
        views=_views(sweep),
        record=how_to_open(sweep.summary.tracking_uri) if sweep.summary.tracking_uri else "",
        compatibility=compatibility_pairs(sweep, TrialStore(workdir / "trials")),
        significance=sweep.summary.suite.gates.significance,
        profiled=[(index, profile["trial"]) for index, profile in enumerate(profiles)],
        notes=notes[:MOST_NOTES],
        more_notes=len(notes) - MOST_NOTES,
        plotly=packed(get_plotlyjs()),
        drifting=[drift for drift in drifting if drift.is_loss],
        nights=nights,
        drift=any(night.anchor for night in nights),
        heat=len(settings) <= MOST_HEAT_ROWS,
        effects=bool(varied([result for result in sweep.results if result.ok])),
        data=packed(json.dumps(data)),
    )


def packed(text: str) -> str:
    """``text`` compressed (gzip), as base64; the same text gives the same result."""
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()


def _figure(figure: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(figure.to_json())
    found["layout"].pop("template", None)  # as long as everything else, and the library has it by name
    return found


def _views(sweep: Sweep) -> list[tuple[str, str, str]]:
    """Per model: its name, and links to its trials in MLflow as parallel coordinates and as a table."""
    summary = sweep.summary
    if not summary.experiment:
        return []
    models = list(dict.fromkeys(spec.model for spec in summary.trials))
    return [
        (
            model or "all models",
            compare_link(summary.tracking_uri, summary.experiment, model),
            table_link(summary.tracking_uri, summary.experiment, model),
        )
        for model in (["", *models] if len(models) > 1 else models)
    ]


def _profiles(results: Sequence[TrialResult], workdir: Path) -> list[dict[str, Any]]:
    """Per trial: its nodes in the order of the graph, with types and cosines."""
    store = TrialStore(workdir / "trials")
    found: list[dict[str, Any]] = []
    for result in results:
        if len(found) == MOST_PROFILES:
            break
        nodes = [row for row in store.nodes(result.spec.key) if row.cosine is not None]
        if nodes:
            found.append(
                {
                    "trial": result.spec.id,
                    "nodes": [row.node for row in nodes],
                    "cosines": [row.cosine for row in nodes],
                    "types": [f"{row.type}, {row.on}, {row.data_type}" for row in nodes],
                }
            )
    return found


def _changes(sweep: Sweep) -> list[dict[str, Any]]:
    """Figures that differ from the baseline, within tolerance or not, the greatest share of tolerance first."""
    if sweep.baseline is None:
        return []
    accepted = read_baseline(sweep.baseline).trials
    found: list[dict[str, Any]] = []
    for result in sweep.results:
        for name, value in result.metrics().items():
            reference = accepted[result.spec.id].figures.get(name) if result.spec.id in accepted else None
            if reference is not None and abs(value - reference.value) > NO_CHANGE:
                found.append(
                    {
                        "trial": result.spec.id,
                        "figure": name,
                        "before": reference.value,
                        "now": value,
                        "change": value - reference.value,
                        "tolerance": reference.allowed(sweep.summary.suite.gates),
                    }
                )
    found.sort(key=lambda row: -abs(row["change"]) / (row["tolerance"] or NO_CHANGE))
    return found[:MOST_CHANGES]


def _counts(sweep: Sweep) -> dict[str, int]:
    """Trials by verdict, the worst first."""
    found = [verdict.verdict for verdict in sweep.verdicts]
    return {verdict.value: found.count(verdict) for verdict in reversed(Verdict) if verdict in found}


def _link(sweep: Sweep, result: TrialResult, workdir: Path) -> str:
    folder = TrialStore(workdir / "trials").folder(result.spec.key)
    page = folder / TRIAL_PAGE
    target = page if page.is_file() else folder / RESULT_FILE
    return os.path.relpath(target, sweep_folder(workdir, sweep.summary.suite.name))
