"""One slope for negative integers."""

from __future__ import annotations

from engine.ops.leaky_relu import LeakyRelu
from tests.engine.ops.operators import bound, evaluate, float_node, int8, tensor


def test_negative_products_are_rounded_half_up() -> None:
    x = int8(-3, -2, -1, 0, 5)
    assert evaluate("HzLeakyRelu", [x], alpha_scale=64, alpha_shift=7).ravel().tolist() == [-1, -1, 0, 0, 5]
    assert evaluate("HzLeakyRelu", [int8(-128, 127)], alpha_scale=200, alpha_shift=7).ravel().tolist() == [-128, 127]


def test_the_bound_is_the_largest_error_of_all_integers() -> None:
    """Slope 0.1 as 13 / 128 at scale 1: -128 becomes -13, which should be -12.8; half a unit elsewhere."""
    head = float_node("LeakyRelu", [tensor("x", 1, 4, 2, 2)], (1, 4, 2, 2), alpha=0.1)
    found = float(bound(LeakyRelu.op_type, head, [1.0], 1.0, alpha_scale=13, alpha_shift=7))
    exact = max(abs((-x * 13 + 64) // 128 + x * 0.1) for x in range(129))
    assert exact < 0.69
    assert abs(found - exact) < 64 * 128 * 2.0**-24 + 1e-6
