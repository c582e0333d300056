"""What is added in front of a convolution becomes its bias, by the original's sums."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from engine.conformance.cases import RecordedCase, find_cases
from engine.conformance.conversion import convert_case
from engine.ir import constant_of, load_model

RECORDED = Path(__file__).parent / "recorded"
CASES = [case for topic in ("moved_sums", "classes") for case in find_cases(RECORDED / topic)]


def biases(model: ir.Model) -> dict[str, NDArray[np.float32]]:
    found = {
        node.name: constant_of(node.inputs[2]) for node in model.graph if node.op_type == "Conv" and node.inputs[2:]
    }
    return {str(name): np.asarray(array, np.float32) for name, array in found.items() if array is not None}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_biases_have_the_bits_of_the_original(case: RecordedCase, tmp_path: Path) -> None:
    converted = convert_case(case, tmp_path).calibrated
    assert case.calibrated is not None
    assert converted is not None
    expected, found = biases(load_model(case.calibrated)), biases(converted)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
