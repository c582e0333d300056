"""``docs/operators.md`` lists the registry; ``python -m tests.engine.ops.test_operators_page`` rewrites it."""

from __future__ import annotations

import os
from pathlib import Path

from engine.ops.core.base import FloatRule
from engine.ops.core.instructions import Instructions
from engine.ops.registry import OPERATORS, RULES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "operators.md"
BEGIN, END = "<!-- operators: begin -->\n", "<!-- operators: end -->\n"

INSERTED = {
    "HzQuantize": "float tensor that a BPU node reads",
    "HzDequantize": "integer tensor that a CPU node or an output reads",
    "HzRequantize": "tensor that is read in another scale or width",
    "HzQuantizedSoftmax": "in files of the original alone",
}
"""Operators that no float operator becomes."""


def module_of(entry: object) -> str:
    return type(entry).__module__.removeprefix("engine.ops.")


def as_listed(name: str) -> str:
    """Float types of an operator; those of another one, listed before, by its name."""
    types = OPERATORS[name].float_types
    same = next(other for other, entry in OPERATORS.items() if entry.float_types == types)
    return f"as `{same}`" if same != name and len(types) > 5 else ", ".join(types)


def widths(rule: FloatRule) -> str:
    return {(True, True): "in, out", (True, False): "in", (False, True): "out", (False, False): "no"}[
        rule.int16_inputs, rule.int16_outputs
    ]


def table() -> str:
    """Markdown of both tables."""
    lines = ["| operator | module | from float | int16 | fast |", "|---|---|---|---|---|"]
    of_operators = {module_of(entry) for entry in OPERATORS.values()}
    for name, entry in OPERATORS.items():
        rules = [rule for rule in RULES if set(rule.op_types) & set(entry.float_types)]
        sources = INSERTED[name] if not entry.float_types else as_listed(name)
        int16 = " / ".join(sorted({widths(rule) for rule in rules})) or "—"
        fast = "numpy" if entry.instructions is Instructions.NONE else "instructions"
        lines.append(f"| `{name}` | `{module_of(entry)}` | {sources} | {int16} | {fast} |")
    lines += ["", "Float operators that stay ONNX nodes on integers, or become several operators:", ""]
    lines += ["| float operator | module | int16 |", "|---|---|---|"]
    for rule in RULES:
        if module_of(rule) not in of_operators:
            lines.append(f"| {', '.join(rule.op_types)} | `{module_of(rule)}` | {widths(rule)} |")
    return "\n".join(lines) + "\n"


def rewritten(page: str) -> str:
    """``page`` with the tables of the present registry."""
    head, rest = page.split(BEGIN)
    return f"{head}{BEGIN}{table()}{END}{rest.split(END)[1]}"


def test_page_lists_the_registry() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert rewritten(page) == page, "run python -m tests.engine.ops.test_operators_page"


if __name__ == "__main__":
    temporary = PAGE.with_suffix(".tmp")
    temporary.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    os.replace(temporary, PAGE)
