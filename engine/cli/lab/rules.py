"""``ptqlab rules``: what the original does, rule by rule, and what recorded conversions say of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli.console import say
from engine.errors import ConfigError

if TYPE_CHECKING:
    from engine.rulebook.rule import Rule

app = typer.Typer(
    name="rules", help="What the original does, rule by rule.", invoke_without_command=True, no_args_is_help=False
)


@app.callback()
def rules(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the tables of docs/rules.md.")] = False,
    docs: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", exists=True, file_okay=False, help="Write rules.md there, and the tables in its pages."
        ),
    ] = None,
) -> None:
    """List the rules by which nodes are placed, tensors calibrated and scales shared."""
    if context.invoked_subcommand is not None:
        return
    from engine.cli.console import open_console, plain_table
    from engine.rulebook.book import RULES, chips_of
    from engine.rulebook.page import rules_page, write_pages

    if as_json:
        say(json.dumps([_fields(rule) for rule in RULES.values()], indent=2))
        return
    if docs is not None:
        for path in write_pages(docs):
            say(str(path))
        return
    if markdown:
        say(rules_page(), nl=False)
        return
    table = plain_table("rule", "chips", words=("what the original does",))
    for rule in RULES.values():
        table.add_row(rule.id, chips_of(rule), rule.says)
    open_console().print(table)
    say("ptqlab rules show ID tells when a rule applies and what shows it; ptqlab explain which decided a node.")


@app.command()
def show(name: Annotated[str, typer.Argument(metavar="ID", help="Rule, as ptqlab rules and explain name it.")]) -> None:
    """Show a rule: its sentence, when it applies, what it decides, and the recorded conversions that show it."""
    from engine.rulebook.book import chips_of, decision_of, find_rule
    from engine.rulebook.evidence import evidence_text

    rule = find_rule(name)
    say(rule.id)
    say(f"  {rule.says}")
    say(f"  chips: {chips_of(rule)}")
    say(f"  when: {rule.when.says}")
    say(f"  then: {decision_of(rule)}")
    if rule.over:
        say(f"  over: {', '.join(rule.over)}")
    if rule.instead:
        say(f"  costs accuracy; with compatibility clean {rule.instead}")
    if rule.advice:
        say(f"  costs accuracy: {rule.advice}")
    say(f"  evidence: {evidence_text(rule)}")


@app.command()
def evidence(
    folders: Annotated[list[Path], typer.Argument(metavar="CASES...", help="Folders of recorded conversions.")],
    output: Annotated[Path, typer.Option("--output", "-o", dir_okay=False, help="JSON file to write.")],
    most_nodes: Annotated[
        int, typer.Option(min=0, help="Nodes of a network for which it is tried what it becomes without each rule.")
    ] = 60,
    holdout: Annotated[
        str | None, typer.Option(metavar="every:N", help="Count every Nth network apart, without its names.")
    ] = None,
) -> None:
    """Replay recorded conversions: which show each rule, contradict it, and need it.

    Agreement gained: by how much the decisions that are the original's outnumber those that are not more with the rule
    than without it, over the cases of few nodes.
    """
    from engine.cli.console import open_console, plain_table
    from engine.cli.lab.conformance import read_holdout
    from engine.conformance.cases import find_cases
    from engine.conformance.rule_evidence import gather, write_evidence
    from engine.conformance.run import held_out

    cases = [case for folder in folders for case in find_cases(folder)]
    silent: list[str] = []

    def note(case: str, why: str) -> None:
        silent.append(case)
        say(f"{case} says nothing: {why.splitlines()[0]}", err=True)

    found = gather(cases, most_nodes, note, held_out(cases, read_holdout(holdout)))
    if len(silent) == len(cases):
        raise ConfigError(
            f"no recorded conversion in {', '.join(map(str, folders))} says anything; "
            "ptqlab conformance record makes such folders"
        )
    write_evidence(found, output)
    table = plain_table("rule", "agreement gained", "cases that need it")
    for rule, each in found.items():
        if each.needed:
            table.add_row(rule, str(each.gained), str(len(each.needed)))
    open_console().print(table)
    shown = sum(bool(each.cases) for each in found.values())
    needed = sum(bool(each.needed) for each in found.values())
    against = sum(bool(each.contradicted) for each in found.values())
    say(
        f"{output}: {len(cases) - len(silent)} of {len(cases)} cases; of {len(found)} rules {shown} are "
        f"shown, {needed} needed by a case, "
        f"{against} contradicted somewhere"
    )


def _fields(rule: Rule[Any, Any]) -> dict[str, Any]:
    from engine.rulebook.book import chips_of, decision_of

    return {
        "id": rule.id,
        "says": rule.says,
        "chips": chips_of(rule),
        "when": rule.when.says,
        "then": decision_of(rule),
        "over": list(rule.over),
    }
