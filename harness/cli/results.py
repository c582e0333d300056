"""``ptqlab show`` and ``compare``: results of finished sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli.console import say
from engine.errors import ConfigError, PtqlabError
from harness.cli.options import Json, Workdir
from harness.cli.output import open_console, print_json, show_sweep, show_trial
from harness.files import workdir as workdirs

if TYPE_CHECKING:
    from harness.gates.differences import Cause
    from harness.report.results import Sweep
    from harness.trials.trial import TrialResult


def show(
    what: Annotated[str, typer.Argument(help="A suite that was run, a trial id, or a trial key.")],
    workdir: Workdir = workdirs.DEFAULT,
    as_json: Json = False,
) -> None:
    """Show the last sweep of a suite, or one trial with its nodes."""
    from harness.report.results import SWEEP_FILE, sweep_folder
    from harness.suites.suite import bundled_suites
    from harness.sweeps.written import load_sweep

    if (sweep_folder(workdir, what) / SWEEP_FILE).is_file() or what in bundled_suites():
        sweep = load_sweep(workdir, what)
        if as_json:
            print_json(sweep_content(sweep))
        else:
            show_sweep(sweep, workdir)
    else:
        trial = find_trial(workdir, what)
        if as_json:
            print_json(trial_content(trial, workdir))
        else:
            show_trial(trial, workdir)


def compare(
    first: Annotated[str, typer.Argument(help="Trial id or key.")],
    second: Annotated[str, typer.Argument(help="Trial id or key.")],
    workdir: Workdir = workdirs.DEFAULT,
    as_json: Json = False,
) -> None:
    """Compare two trials figure by figure and sample by sample, with the software and data that computed them."""
    from harness.gates.differences import of_trials
    from harness.gates.made import made_of
    from harness.report.tables import comparison_table
    from harness.trials.origins import kept_environment
    from harness.trials.trial import TrialStore

    store, console = TrialStore(workdir / "trials"), open_console()
    trials = find_trial(workdir, first), find_trial(workdir, second)
    environments = [kept_environment(trial.spec.engine, workdir) for trial in trials]
    engines = [
        f"{trial.spec.settings.engine.value}, {found.version if found else trial.spec.engine}"
        for trial, found in zip(trials, environments, strict=True)
    ]
    before, now = (made_of(trial, store) for trial in trials)
    known = environments[0], environments[1]
    causes = list(of_trials(before, now, known if trials[0].spec.engine != trials[1].spec.engine else (None, None)))
    if as_json:
        print_json(comparison_content(*trials, causes))
        return
    console.print(comparison_table(*trials, store, (engines[0], engines[1])))
    for cause in causes:
        console.print(str(cause), soft_wrap=True, markup=False, highlight=False)


def sweep_content(sweep: Sweep) -> dict[str, Any]:
    """Verdict and trials of a sweep as JSON holds them, the rows those of ``trials.csv``."""
    from harness.report.results import trial_rows
    from harness.sweeps.judging import best_settings

    return {
        "suite": sweep.summary.suite.name,
        "verdict": sweep.verdict.value,
        "baseline": None if sweep.baseline is None else str(sweep.baseline),
        "best": best_settings(sweep),
        "trials": trial_rows(sweep),
    }


def trial_content(trial: TrialResult, workdir: Path) -> dict[str, Any]:
    """A trial with its figures and nodes as JSON holds them."""
    from harness.trials.trial import TrialStore

    nodes = TrialStore(workdir / "trials").nodes(trial.spec.key)
    return {
        "trial": trial.spec.id,
        "key": trial.spec.key,
        **trial.model_dump(mode="json", exclude={"format"}),
        "metrics": trial.metrics(),
        "nodes": [node.model_dump(mode="json") for node in nodes],
    }


def comparison_content(first: TrialResult, second: TrialResult, causes: Sequence[Cause]) -> dict[str, Any]:
    """Figures of two trials side by side, and what differs, as JSON holds them."""
    before, now = first.metrics(), second.metrics()
    figures = {name: [before.get(name), now.get(name)] for name in dict.fromkeys((*before, *now))}
    return {
        "trials": [first.spec.id, second.spec.id],
        "figures": figures,
        "causes": [cause.model_dump(mode="json") for cause in causes],
    }


def find_trial(workdir: Path, name: str) -> TrialResult:
    """The trial with this key, or with this id in the last sweep of a suite: of the one that ran last, which is said.

    Raises:
        ConfigError: there is none.
    """
    from harness.files.strict_yaml import unknown
    from harness.report.results import SWEEP_FILE, sweep_folder
    from harness.sweeps.written import load_sweep
    from harness.trials.trial import TrialStore

    found = TrialStore(workdir / "trials").read(name) if Path(name).name == name else None
    if found is not None:
        return found
    files = sorted(sweep_folder(workdir, "x").parent.glob(f"[!.]*/{SWEEP_FILE}"))
    sweeps = {file.parent.name: load_sweep(workdir, file.parent.name) for file in files}
    having = [suite for suite, sweep in sweeps.items() if any(result.spec.id == name for result in sweep.results)]
    if not having:
        known = {result.spec.id for sweep in sweeps.values() for result in sweep.results}
        if not known:
            raise ConfigError(
                f"{workdir}: no suite has run there, so there is no trial {name!r}; name the working "
                "directory of a sweep with --workdir, or run one: ptqlab run"
            )
        raise unknown(f"suite or trial in {workdir}", name, known)
    latest = max(having, key=lambda suite: datetime.fromisoformat(sweeps[suite].summary.started_at))
    others = [suite for suite in having if suite != latest]
    if others:
        say(f"{name}: of suite {latest}, run last; also in {', '.join(others)}", err=True)
    return next(result for result in sweeps[latest].results if result.spec.id == name)


def find_card(result: TrialResult, workdir: Path) -> None:
    """Let the card that ``result`` was computed with be found, wherever another card has the same name.

    It is looked for where the trial found it, then where the sweeps in ``workdir`` found theirs, then as usual.

    Raises:
        ConfigError: it is in none of these places any more, or has changed.
    """
    from harness.cards.folders import CardFolders
    from harness.files.cache import load_json
    from harness.report.results import SWEEP_FILE, SweepSummary
    from harness.trials.files import CARD_FILE
    from harness.trials.trial import TrialStore, card_key
    from harness.zoo.cards import load_card, model_cards

    spec, places = result.spec, [result.cards]
    for path in sorted(workdir.glob(f"*/*/{SWEEP_FILE}"), key=lambda path: path.stat().st_mtime, reverse=True):
        with suppress(OSError, ValueError):
            places.append(load_json(SweepSummary, path).cards)
    seen: dict[Path, None] = {}
    for folders in dict.fromkeys((*places, CardFolders.here())):
        folders.search_only()
        if spec.model not in model_cards():
            continue
        seen[model_cards()[spec.model].resolve()] = None
        with suppress(PtqlabError):
            if card_key(load_card(spec.model)) == spec.card:
                return
    kept = TrialStore(workdir / "trials").folder(spec.key) / CARD_FILE
    there = f"; cards of this name are {', '.join(map(str, seen))}, but say something else" if seen else ""
    where = ", ".join(map(str, result.cards.suites)) or "the installation"
    raise ConfigError(
        f"trial {spec.id}: the card of model {spec.model} was in {where}, and is not there any more as it was{there}. "
        f"What it said is kept in {kept}: put it back, or run the suite again"
    )
