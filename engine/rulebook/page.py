"""The page of all rules, docs/rules.md: sentences, patterns, decisions and evidence."""

from __future__ import annotations

from typing import Any

from engine.rulebook.book import RULES, chips_of, decision_of
from engine.rulebook.evidence import evidence_text
from engine.rulebook.rule import Rule

_TITLES = {
    "rewrite": "What becomes of the float graph",
    "device": "BPU or CPU",
    "calibrated": "What is calibrated",
    "scale": "What has one scale",
    "arithmetic": "What integers compute otherwise than the float network",
    "method": "How thresholds and biases are chosen",
}

_HEAD = """# Rules of the original

What the original toolchain does when it places nodes, quantises tensors and shares scales, rule by rule. `ptqlab rules`
lists them, `ptqlab rules show ID` shows one, and `ptqlab explain` names the rules that decided each node of a network.
This page is written by `ptqlab rules --markdown`. Where two rules fit, the one decides that is *over* the other.

Evidence comes from replayed conversions of the original
(`ptqlab rules evidence CASES... -o engine/rulebook/evidence.json`): a rule that one network alone shows is
*provisional*. A case *needs* a rule if its network is placed otherwise without it. Passes that change nodes in place
leave none that carries them, so recorded conversions do not show them. Rules about integers and thresholds were
measured apart. A rule that costs accuracy says what `compatibility: clean` does instead.
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
