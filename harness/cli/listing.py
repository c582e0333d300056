"""``ptqlab ls`` and ``validate``: what there is to run."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.console import say
from engine.errors import ConfigError
from engine.registry import PLUGINS
from harness.cli.options import Json
from harness.cli.output import open_console, print_json, show_skipped

if TYPE_CHECKING:
    from harness.suites.expansion import Expansion

Listing = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Headings and rows of a table."""


class Listed(StrEnum):
    """What ``ptqlab ls`` can list."""

    MODELS = "models"
    SUITES = "suites"
    DATASETS = "datasets"
    EXTENSIONS = "extensions"


def list_things(
    kind: Annotated[Listed, typer.Argument(help="What to list.")] = Listed.SUITES, as_json: Json = False
) -> None:
    """List bundled suites, model cards, data sets, or what was registered beside ptqlab's own (CONTRIBUTING.md)."""
    from rich.table import Table

    headings, rows = _LISTINGS[kind]()
    if as_json:
        print_json([dict(zip(headings, row, strict=True)) for row in rows])
        return
    if not rows:
        say(f"no {kind.value}; {PLUGINS} names files and modules that register some, and so may installed packages")
        return
    table = Table(*headings, pad_edge=False, box=None, header_style="bold")
    for row in rows:
        table.add_row(*row)
    open_console().print(table)


def validate(
    suite: Annotated[str, typer.Argument(help="A YAML file, or the name of a bundled suite.")],
    verbose: Annotated[bool, typer.Option("--trials", help="List the trials.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only open cards, data, metrics and model files; run no image.")
    ] = False,
    executor: Annotated[str, typer.Option(help="As for ptqlab run.")] = "processes",
) -> None:
    """Check a suite: open everything it names, run one image through all stages, and summarise its contents."""
    found = check_suite(suite, quick=quick, executor=executor)
    show_skipped(found)
    if verbose:
        for point in found.points:
            say(point.id)


def check_suite(suite: str, *, quick: bool = False, executor: str = "processes") -> Expansion:
    """Look for all that keeps ``suite``, a file or a name, from running; say that there is nothing.

    Args:
        suite: a YAML file, or the name of a bundled suite.
        quick: whether no image is run.
        executor: as of ``ptqlab run``.

    Raises:
        ConfigError: something does; each is printed.
    """
    from engine.simulate.fast import available_cpus
    from harness.execution.coordinator import executor_factory
    from harness.files.paths import find_beside
    from harness.suites.suite import open_suite, suite_path
    from harness.sweeps.checking import doubts, mistakes, refusals
    from harness.sweeps.planning import expansion_of

    find_beside(suite)
    definition = open_suite(suite)
    found = expansion_of(definition, str(suite_path(suite)))
    points = found.points
    models = {point.model for point in points}
    problems = mistakes(points)
    if not quick:
        wrong = {problem.where for problem in problems}
        sound = [point for point in points if f"model {point.model}" not in wrong]
        problems += refusals(definition, sound, executor_factory(executor), available_cpus()) if sound else []
    if problems:
        for problem in problems:
            say(f"ERROR: {problem}", err=True)
        raise ConfigError(f"{suite_path(suite)}: suite {definition.name} cannot run: {len(problems)} problems")
    doubtful = [] if quick else doubts(definition, points)
    say(
        f"{suite_path(suite)}: suite {definition.name} version {definition.version} is valid: {len(points)} trials, "
        f"{len(models)} models"
    )
    if not quick:
        _show_hints(sorted(models))
    for text in doubtful:
        say(f"WARNING: {text}", err=True)
    return found


def _show_hints(models: Sequence[str]) -> None:
    """Say of every model whose float score is poor what may be wrong with its preprocessing."""
    from harness.onboarding.hints import preprocessing_hint
    from harness.zoo.cards import load_card

    for name in models:
        hint = preprocessing_hint(load_card(name))
        if hint is not None:
            say(f"WARNING: model {name}: {hint}", err=True)


def _models() -> Listing:
    from harness.sweeps.planning import tags_of
    from harness.zoo.cards import list_cards

    rows = [
        (card.name, card.metric.name, f"{card.float_score.value:.4f}", ", ".join(tags_of(card)))
        for card in list_cards()
    ]
    return ("model", "metric", "float", "tags"), rows


def _suites() -> Listing:
    from harness.suites.suite import bundled_suites, open_suite
    from harness.sweeps.planning import expansion_of

    rows = []
    for name in bundled_suites():
        suite = open_suite(name)
        rows.append((name, str(suite.version), str(len(expansion_of(suite).points)), suite.description))
    return ("suite", "version", "trials", "description"), rows


def _datasets() -> Listing:
    from harness.datasets import list_dataset_cards

    return ("data set", "adapter", "licence"), [
        (card.name, card.adapter, card.licence) for card in list_dataset_cards()
    ]


def _extensions() -> Listing:
    from harness.extensions import REGISTRIES

    return ("kind", "name", "from", "digest"), [
        (registry.kind, entry.name, entry.where, entry.digest[:12])
        for registry in REGISTRIES
        for entry in registry.entries()
    ]


_LISTINGS = {
    Listed.MODELS: _models,
    Listed.SUITES: _suites,
    Listed.DATASETS: _datasets,
    Listed.EXTENSIONS: _extensions,
}
