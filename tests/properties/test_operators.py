"""Every quantised operator: the fast simulator gives the reference's bits.

Random legal attributes and shapes, extreme integers, sums beyond int32; for all samples at once and for one, on one
thread and on several.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ops.registry import OPERATORS
from tests.engine.simulate.equality import check
from tests.engine.simulate.strategies import quantised_operators

STRATEGIES = quantised_operators()


@pytest.mark.parametrize("op_type", OPERATORS)
@given(data=st.data())
def test_fast_equals_reference(op_type: str, data: st.DataObject) -> None:
    """Parametrised over the registry: an operator without a strategy fails."""
    check(data.draw(STRATEGIES[op_type]))
