"""Both simulators give the original's bits on the bundled golden cases."""

from __future__ import annotations

import numpy as np
import pytest

from engine.simulate import Session
from tests.golden_cases import BUNDLED, GoldenCase, conversion_cases, operator_cases

CASES = operator_cases(BUNDLED) + conversion_cases(BUNDLED)


def test_bundled_cases_are_there() -> None:
    assert len(CASES) > 80


@pytest.mark.parametrize("mode", ["reference", "fast"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_are_identical(case: GoldenCase, mode: str) -> None:
    session = Session(case.model, mode=mode)
    for inputs, expected in case.samples:
        actual = session.run(inputs)
        assert actual.keys() == expected.keys()
        for name, array in expected.items():
            assert actual[name].dtype == array.dtype
            np.testing.assert_array_equal(actual[name], array)
