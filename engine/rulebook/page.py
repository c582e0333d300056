"""The page of all rules, docs/rules.md: sentences, patterns, decisions and evidence; and tables in other pages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from engine.ir import write_atomically
from engine.rulebook.book import RULES, chips_of, decision_of
from engine.rulebook.evidence import evidence_for, evidence_text
from engine.rulebook.name import Form
from engine.rulebook.rule import Rule

_TITLES = {
    "rewrite": "What becomes of the float graph",
    "device": "BPU or CPU",
    "width": "What is int16",
    "calibrated": "What is calibrated",
    "scale": "What has one scale",
    "name": "What nodes and tensors are called",
    "arithmetic": "What integers compute otherwise than the float network",
    "method": "How thresholds and biases are chosen",
}

PAGE = "rules.md"
"""The page of all rules, in the folder of the documents."""
_PLACE = re.compile(r"(<!-- rules: ([a-z ]+) -->\n).*?(<!-- end of rules -->\n)", re.DOTALL)
"""Where a page has a table of rules: the names of their tables are in the first line."""

_HEAD = """# Rules of the original

What the original toolchain does when it places nodes, quantises tensors and shares scales, rule by rule. `ptqlab rules`
lists them, `ptqlab rules show ID` shows one, and `ptqlab explain` names the rules that decided each node of a network.
This page is written by `ptqlab rules --docs docs`. Where two rules fit, the one decides that is *over* the other.

Evidence comes from replayed conversions of the original
(`ptqlab rules evidence CASES... -o engine/rulebook/evidence.json`): a rule that one network alone shows is
*provisional*. A case *needs* a rule if its network is placed or named otherwise without it; a pass, if its float graph
is another one. A pass that makes no nodes is shown by the cases whose graph is further from the original's without it.
Rules about integers and thresholds were measured apart. A rule that costs accuracy says what `compatibility: clean`
does instead.
"""


def _remedy(rule: Rule[Any, Any]) -> str:
    """What to do about a rule that costs accuracy."""
    return (f" With `compatibility: clean` {rule.instead}." if rule.instead else "") + (
        f" {rule.advice}." if rule.advice else ""
    )


def rules_page() -> str:
    """The page as Markdown."""
    lines = [_HEAD]
    for table, title in _TITLES.items():
        lines += [f"## {title}", "", "| rule | chips | when a node or tensor | then it | over | evidence |"]
        lines.append("|---|---|---|---|---|---|")
        for rule in RULES.values():
            if rule.id.partition(".")[0] != table:
                continue
            over = ", ".join(f"`{each}`" for each in rule.over)
            cells = (
                f"`{rule.id}`: {rule.says}{_remedy(rule)}",
                chips_of(rule),
                rule.when.says,
                decision_of(rule),
                over,
            )
            row = f"| {' | '.join(cells)} | {evidence_text(rule)} |"
            lines.append(row.replace("<", "&lt;"))
        lines.append("")
    return "\n".join(lines)


def page_with_rules(text: str) -> str:
    """``text`` with the rules between its lines ``<!-- rules: TABLE... -->`` and ``<!-- end of rules -->``."""
    return _PLACE.sub(lambda found: found[1] + _short_table(found[2].split()) + found[3], text)


def _short_table(tables: Iterable[str]) -> str:
    """The rules of ``tables``: what each says, for which chips, and how many networks show it."""
    lines = ["| rule | what the original does | chips | networks that show it |", "|---|---|---|---|"]
    for table in tables:
        for rule in RULES.values():
            if rule.id.partition(".")[0] == table:
                networks = evidence_for(rule.id).networks if rule.measured is None else rule.measured.networks
                says = f"{rule.says}{_remedy(rule)}".replace("<", "&lt;")
                says = f"{says[:-1]}: `{rule.then.form}`" if isinstance(rule.then, Form) else says
                lines.append(f"| `{rule.id}` | {says} | {chips_of(rule)} | {networks} |")
    return "\n".join(lines) + "\n"


def write_pages(folder: Path) -> list[Path]:
    """Write the page of all rules, and the tables in the other pages of ``folder`` that have any; what was written."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md")) if path.name != PAGE}
    texts = {folder / PAGE: rules_page()}
    texts |= {path: page_with_rules(text) for path, text in pages.items() if _PLACE.search(text)}
    return [write_atomically(path, text.encode()) for path, text in texts.items()]
