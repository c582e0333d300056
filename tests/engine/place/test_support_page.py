"""``docs/support.md`` is what the rules say; ``python -m tests.engine.place.test_support_page`` rewrites it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from engine.chips import MEASURED_MARCHES, ChipFamily, Limits, load_chip
from engine.convert.refusals import NOT_IN_RUNTIME
from engine.frontend.caffe import CONVERTERS
from engine.ops.core.base import FloatRule
from engine.ops.registry import RULE_BY_TYPE
from engine.rulebook.device import LACKING, LATE

PAGE = Path(__file__).resolve().parents[3] / "docs" / "support.md"
HEAD = """# Operators and limits per march

Generated from the rules by `python -m tests.engine.place.test_support_page`; a test fails if it is out of date.
nash-e, nash-m and nash-p use the rules of bayes-e: extrapolated from bayes-e; nothing measured.
`ptqlab check MODEL --march M` shows for each node of a network where it runs, why, and what to change;
`docs/operators.md` describes the arithmetic.

## ONNX operators

"BPU": on the BPU within the limits below; `ptqlab check` gives the reason if a rank or constant prevents it. "on
request": only with `run_on_bpu` or `node_info`. "CPU": computed in float. "passive": on the BPU only if a BPU operator
reads the result. int16: the sides that may be int16 (not on bernoulli2).
"""


def places(name: str, rule: FloatRule) -> Iterator[str]:
    for march in map(load_chip, MEASURED_MARCHES):
        if march.family is ChipFamily.BERNOULLI and name in (*LACKING, *LATE):
            yield "CPU"
        else:
            yield "on request" if rule.on_request else "BPU, passive" if rule.passive else "BPU"


def int16(rule: FloatRule) -> str:
    sides = [side for side, wide in (("in", rule.int16_inputs), ("out", rule.int16_outputs)) if wide]
    return ", ".join(sides) or "no"


def meanings() -> dict[str, str]:
    """What each limit is, from the docstring of the class that holds them."""
    body = (Limits.__doc__ or "").partition("Attributes:")[2]
    found = (re.split(r":\s", entry, maxsplit=1) for entry in re.split(r"\n {8}(?=\S)", body)[1:])
    return {name: " ".join(text.replace("``None``", "none").split()).rstrip(".") for name, text in found}


def shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return "none" if value is None else str(value)


def page() -> str:
    columns = " | ".join(MEASURED_MARCHES)
    lines = [HEAD, f"| operator | {columns} | int16 |", f"|---|{'---|' * len(MEASURED_MARCHES)}---|"]
    for name, rule in sorted(RULE_BY_TYPE.items()):
        lines.append(f"| {name} | {' | '.join(places(name, rule))} | {int16(rule)} |")
    lines += [
        "",
        "Every other operator that ONNX Runtime computes runs on the CPU, except for those that the board's runtime "
        "does not have, which are refused:",
        ", ".join(sorted(NOT_IN_RUNTIME)) + ".",
        "",
        "## Limits",
        "",
        "A node beyond a limit runs on the CPU, and its reason says so.",
        "",
        f"| limit | {columns} |",
        f"|---|{'---|' * len(MEASURED_MARCHES)}",
    ]
    marches = [load_chip(name) for name in MEASURED_MARCHES]
    for name, meaning in meanings().items():
        values = " | ".join(shown(getattr(march.limits, name)) for march in marches)
        lines.append(f"| {meaning} | {values} |")
    layers = f"Input, Data, {', '.join(CONVERTERS)}. A layer of another type is refused by name."
    lines += ["", "## Caffe layers", "", layers, ""]
    return "\n".join(lines)


def test_the_page_is_what_the_rules_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.engine.place.test_support_page"


def test_every_limit_is_described() -> None:
    assert set(meanings()) == {field.name for field in fields(Limits)}


if __name__ == "__main__":
    temporary = PAGE.with_suffix(".tmp")
    temporary.write_text(page(), encoding="utf-8")
    os.replace(temporary, PAGE)
