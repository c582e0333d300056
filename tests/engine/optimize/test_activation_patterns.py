"""The rules that stand for the forms of activations."""

from __future__ import annotations

import pytest

from engine.optimize.activation_patterns import rules


@pytest.mark.parametrize(("result", "forms"), [("HzSwish", 1), ("HzMish", 1), ("HzHardSwish", 4), ("HzGelu", 6)])
def test_rules_are_those_of_the_results_that_are_asked_for(result: str, forms: int) -> None:
    alone, more = rules(frozenset({result})), rules(frozenset({result, "HzSwish"}))
    assert len(alone.rules) >= forms  # operands in any order are rules of their own
    assert len(more.rules) == len(alone.rules) + (
        0 if result == "HzSwish" else len(rules(frozenset({"HzSwish"})).rules)
    )
