"""One self-contained HTML page per sweep, without network: verdict first, effects of settings, plots, trial table.

The plotting library and the data are in it compressed, and unpacked by the browser: 10,000 trials stay below 5 MB.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from engine.pages import figure_data, figures_data, packed_plotly, rendered
from engine.pages.colours import PALETTE
from engine.rulebook.known import how_to_settle
from harness.gates.baseline import read_baseline
from harness.gates.choice import Choice
from harness.gates.drift import drifts
from harness.gates.nights import read_nights
from harness.gates.verdicts import Verdict
from harness.metrics.resampling import SPLITS
from harness.report.causes import causes_of
from harness.report.columns import columns
from harness.report.compatibility import compatibility_pairs
from harness.report.effects import effects_figures
from harness.report.figures import drift_figure, heat_figure, parallel_figure, pareto_figure
from harness.report.names import ShortNames
from harness.report.night_data import nights_data
from harness.report.node_data import chosen_trials, cosines_by_depth, profiles
from harness.report.results import Sweep, sweep_folder
from harness.report.sample_data import classes_data, worst_pictures
from harness.report.tables import choice_text, cpu_times, has_doubts, known_conversions, warnings_of
from harness.report.templates import template
from harness.report.trial_rows import table_of_trials
from harness.trials.files import TRIAL_PAGE
from harness.trials.fragments import as_yaml
from harness.trials.trial import RESULT_FILE, TrialResult, TrialStore

TEMPLATE = "sweep.html.j2"
SCRIPTS = ("table.js.j2", "nodes.js.j2", "charts.js.j2", "nights.js.j2", "record.js.j2")

NO_CHANGE = 1e-9
"""Figures of a baseline are kept with nine digits: less is no difference."""

MOST_HEAT_ROWS = 60
"""Settings up to which they are shown as a heat map; main effects show more of them."""

MOST_NOTES = 200
"""Trials that are listed with what keeps them from passing."""

MOST_CHANGES = 200
"""Figures that are listed as changed since the baseline."""


def render(sweep: Sweep, workdir: Path) -> str:
    """The page of ``sweep``; its links lead to the trials' folders under ``workdir``."""
    store = TrialStore(workdir / "trials")
    links = {result.spec.key: _link(sweep, result, workdir) for result in sweep.results}
    kept = read_nights(sweep_folder(workdir, sweep.summary.suite.name))
    nights = [night for night in kept if night.version == sweep.summary.suite.version]
    drifting = drifts(nights)
    warned = warnings_of(sweep)
    notes = [verdict for verdict in sweep.verdicts if not verdict.verdict.is_good]
    chosen, names = chosen_trials(sweep), ShortNames.of(sweep.results)
    shown = columns()
    parts = {
        "table": table_of_trials(sweep, links, store, shown),
        "profiles": profiles(chosen, store),
        "depth": cosines_by_depth(sweep, store, names),
        "classes": classes_data(chosen, store),
        "nights": nights_data(sweep, kept),
    }
    figures = {"scatter": pareto_figure(sweep.results, sweep.front, links)}
    if len({result.spec.settings.label for result in sweep.results}) <= MOST_HEAT_ROWS:
        figures["heat"] = heat_figure(sweep.results, names)
    effects = effects_figures(sweep.results, names)
    if effects:
        figures["parallel"] = parallel_figure(sweep.results, names)
    if any(night.anchor for night in nights):
        figures["drift"] = drift_figure(drifting, nights)
    return rendered(
        template(TEMPLATE),
        sweep=sweep,
        summary=sweep.summary,
        counts=_counts(sweep),
        trials=len(sweep.results),
        groups=len(sweep.results) - len(sweep.twins),
        fragments=[(each, as_yaml(each)) for each in sweep.results if each.spec.key in sweep.front | sweep.best],
        changes=_changes(sweep),
        choices=[_choice(choice, sweep) for choice in sweep.summary.choices],
        causes=causes_of(sweep),
        record=sweep.links(workdir),
        compatibility=compatibility_pairs(sweep, store),
        significance=sweep.summary.suite.gates.significance,
        splits=SPLITS,
        parts=parts,
        column_legend="; ".join(column.legend for column in shown if column.legend),
        pictures=worst_pictures(sweep, store),
        notes=notes[:MOST_NOTES],
        more_notes=len(notes) - MOST_NOTES,
        warnings=warned[:MOST_NOTES],
        more_warnings=len(warned) - MOST_NOTES,
        known=known_conversions(sweep),
        how_to_settle=how_to_settle() if has_doubts(sweep) else "",
        cpu_times=cpu_times(sweep),
        drifting=[drift for drift in drifting if drift.is_loss],
        nights=nights,
        figures=figures,
        effects=bool(effects),
        short_names=names.legend,
        plotly=packed_plotly(),
        data=figures_data(figures, effects=[figure_data(figure) for figure in effects], **parts),
        scripts=SCRIPTS,
        palette=PALETTE,
    )


def _choice(choice: Choice, sweep: Sweep) -> tuple[Choice, str, list[str]]:
    """A choice, in words, and the settings that cannot be told apart from the best one."""
    labels = {result.spec.key: result.spec.settings.label for result in sweep.results}
    return choice, choice_text(choice, sweep.results), [labels[key] for key in choice.alike if key in labels]


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
