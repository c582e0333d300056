"""Products of two activations."""

from __future__ import annotations

import numpy as np
import pytest

from engine.ops.core.reasons import Code
from engine.ops.matmul import MatmulRule
from tests.engine.ops.operators import bound, evaluate, float_node, int8, lowered, refused, scaled, tensor

OP = "HzSQuantizedMatmul"


def test_the_accumulator_is_floored_saturated_and_rounded() -> None:
    a, b = int8(1, 2, shape=(1, 2)), int8(3, 10, shape=(2, 1))
    assert evaluate(OP, [a, b], 2).item() == 23
    assert evaluate(OP, [a, b], 2, right_shift=[1], scale=[3], out_shift=[1], rounding_method="ROUND").item() == 17
    assert evaluate(OP, [a, b], 2, right_shift=[1], scale=[3], out_shift=[1]).item() == 16
    wide = np.full((1, 300), 127, np.int8)
    assert (
        evaluate(OP, [wide, wide.T], 2, right_shift=[6], scale=[1], out_shift=[9], rounding_method="ROUND").item() == 64
    )
    assert evaluate(OP, [wide, wide.T], 2, output_bit=32).item() == 300 * 127 * 127
    assert evaluate(OP, [wide, wide.T], 2, high_precision_output=1).dtype == np.int32


def test_the_accumulator_has_32_bits() -> None:
    wide = np.full((1, 3), -32768, np.int16)
    assert evaluate(OP, [wide, wide.T], 2, output_bit=32).item() == 3 * 2**30 - 2**32


@pytest.mark.parametrize(
    ("shape", "code"), [((3, 3), None), ((1, 2, 3, 3), None), ((1, 1, 2, 3, 3), None), ((3,), Code.RANK_OF_MATRICES)]
)
def test_ranks_of_matrices(shape: tuple[int, ...], code: Code | None) -> None:
    node = float_node("MatMul", [tensor("a", *shape), tensor("b", *shape)], shape)
    assert refused(MatmulRule(), node) is code
    assert MatmulRule().activations(node) == (0, 1)


def test_the_ratio_is_of_both_scales_in_the_layout_of_onnx() -> None:
    node = float_node("MatMul", [tensor("a", 1, 2, 3, 4), tensor("b", 1, 2, 4, 5)], (1, 2, 3, 5))
    made = lowered(MatmulRule(), node, a=scaled(0.5), b=scaled(0.25), y=scaled(0.125))
    assert (made.inputs, made.layout) == (["a NCHW", "b NCHW"], "NCHW")
    assert [made.attributes[name] for name in ("right_shift", "scale", "out_shift")] == [[0], [1 << 14], [14]]
    tail = lowered(MatmulRule(), node, a=scaled(0.5), b=scaled(0.25))
    assert (tail.bits, tail.scale, tail.attributes) == (32, [0.125], {"output_bit": 32})


def test_a_sum_that_could_overflow_has_no_bound() -> None:
    """128 x 128 x 2**17 exceeds 2**31 - 1; one term less does not."""
    node = float_node("MatMul", [tensor("a", 1, 1), tensor("b", 1, 1)], (1, 1))
    found = [
        float(bound(OP, node, [0.5, 0.5], 0.25, shapes=((1, terms), (1, 1)), output_bit=32)[0])
        for terms in (2**17 - 1, 2**17)
    ]
    largest = 0.25 * 2.0**14 * (2**17 - 1)
    assert found == [pytest.approx(largest * 2.0**-24 * (1 + 2**17 + 1), rel=1e-12), np.inf]
