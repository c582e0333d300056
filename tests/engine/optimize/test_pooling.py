"""Averages as convolutions and global pooling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from engine.ir import MARK_ON, MARK_STEPS
from engine.optimize import optimize
from engine.optimize.pooling import factors, split_window
from engine.place import place
from engine.terms import Compatibility
from tests.engine.optimize.equivalence import build, census, optimized
from tests.engine.optimize.networks import MAP, node


class TestPooling:
    @pytest.mark.parametrize(
        ("attributes", "march", "kernels"),
        [
            ({"kernel_shape": [3, 3]}, "bayes-e", [(3, 3)]),
            ({"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}, "bayes-e", [(3, 3)]),
            ({"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, "bayes-e", None),
            ({"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, "bayes-e", None),
            ({"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}, "bayes-e", [(2, 2)]),
            ({"kernel_shape": [8, 8], "strides": [8, 8]}, "bayes-e", [(4, 4), (2, 2)]),
            ({"kernel_shape": [8, 8]}, "bayes-e", None),
            ({"kernel_shape": [16, 16]}, "bayes-e", None),
            ({"kernel_shape": [16, 16]}, "bernoulli2", [(4, 4), (4, 4)]),
            ({"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}, "bayes-e", None),
            ({"kernel_shape": [2, 2], "auto_pad": "VALID"}, "bayes-e", [(2, 2)]),
        ],
    )
    def test_windows(self, attributes: dict[str, Any], march: str, kernels: list[tuple[int, int]] | None) -> None:
        after = optimized(
            build([node("AveragePool", "x", name="p", **attributes)], {"x": (1, 3, 16, 16)}, ["y"]), march
        )
        if kernels is None:
            assert census(after) == {"AveragePool": 1}
        else:
            assert [item.attributes["kernel_shape"].value for item in after.graph] == kernels
            assert after.graph[-1].name == "p"
            assert after.graph[-1].inputs[1].name == "AVERAGE_WEIGHT_FOR_p"

    @pytest.mark.parametrize(("march", "convolutions"), [("bayes-e", 0), ("bernoulli2", 2)])
    @pytest.mark.parametrize("keepdims", [0, 1])
    def test_mean_over_the_map(self, march: str, convolutions: int, keepdims: int) -> None:
        for opset, mean, constants in (
            (13, node("ReduceMean", "x", "m", axes=[-2, 3], keepdims=keepdims), {}),
            (18, node("ReduceMean", "x axes", "m", keepdims=keepdims), {"axes": np.array([3, 2])}),
        ):
            after = census(
                optimized(build([mean, node("Relu", "m")], {"x": (1, 3, 14, 10)}, ["y"], constants, opset), march)
            )
            assert after.get("Conv", 0) == convolutions
            assert after.get("GlobalAveragePool", 0) == (0 if convolutions else 1)
            assert after.get("Reshape", 0) == 1 - keepdims

    def test_other_means_stay(self) -> None:
        assert census(optimized(build([node("ReduceMean", "x", axes=[1])], MAP, ["y"]))) == {"ReduceMean": 1}

    @pytest.mark.parametrize(
        ("size", "expected"),
        [(7, [7]), (8, [4, 2]), (12, [6, 2]), (16, [4, 4]), (49, [7, 7]), (48, [6, 4, 2]), (32, [4, 4, 2]), (22, None)],
    )
    def test_factors(self, size: int, expected: list[int] | None) -> None:
        assert factors(size, 7) == expected
        if expected is not None:
            assert math.prod(expected) == size

    @pytest.mark.parametrize(
        ("size", "windows", "small"),
        [
            ((16, 16), [(2, 2)] * 4, True),
            ((16, 8), [(2, 2)] * 3 + [(2, 1)], True),
            ((12, 8), [(6, 4), (2, 2)], False),
            ((8, 10), [(4, 5), (2, 2)], False),
        ],
    )
    def test_windows_of_powers_of_two_are_halved_on_bernoulli2(
        self, size: tuple[int, int], windows: list[tuple[int, int]], small: bool
    ) -> None:
        pool = node("AveragePool", "x", name="p", kernel_shape=list(size), strides=list(size))
        after = optimized(build([pool], {"x": (1, 3, *size)}, ["y"]), "bernoulli2")
        assert [item.attributes["kernel_shape"].value for item in after.graph] == windows
        names = [f"p_SPLIT_WITH_{'SMALL_POOL' if small else 'DEPTHWISE_CONV'}_{i}" for i in range(len(windows))]
        assert [item.name for item in after.graph] == (names if small else [*names[:-1], "p"])

    def test_rectangular_windows_split(self) -> None:
        assert split_window((8, 3), 7) == [(4, 3), (2, 1)]
        assert split_window((11, 3), 7) is None


def test_output_of_a_mean_is_renamed() -> None:
    """As in activations_a."""
    before = build([node("ReduceMean", "x", "y", axes=[2, 3], keepdims=0, name="M")], {"x": (1, 3, 4, 4)}, ["y"])
    after = optimize(before, "bayes-e")
    assert [value.name for value in after.graph.outputs] == ["M_flatten_output"]


@pytest.mark.parametrize("march", ["bayes-e", "bernoulli2"])
@pytest.mark.parametrize("compatibility", list(Compatibility))
@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "AveragePool", "ReduceMean"])
def test_averages_of_maps_that_no_windows_divide_are_taken_in_steps(
    op_type: str, compatibility: Compatibility, march: str
) -> None:
    """On bernoulli2 alone, and not where accuracy counts more than what the original does."""
    attributes: dict[str, Any] = {"AveragePool": {"kernel_shape": [17, 17]}, "ReduceMean": {"axes": [2, 3]}}.get(
        op_type, {}
    )
    model = build(
        [node(op_type, "x", "m", name="p", **attributes), node("Relu", "m", "y")], {"x": (1, 3, 17, 17)}, ["y"]
    )
    after = optimize(model, march, compatibility)
    marked = [each for each in after.graph if MARK_STEPS in each.metadata_props]
    takes_steps = (march, compatibility) == ("bernoulli2", Compatibility.ORIGINAL)
    assert [(each.name, each.op_type) for each in marked] == [("p", "GlobalAveragePool")] * takes_steps
    on_cpu = {str(each.name) for each in place(after, march).model.graph if each.metadata_props.get(MARK_ON) == "CPU"}
    assert ("p" in on_cpu) is (march == "bernoulli2" and not takes_steps)


def test_windows_that_do_not_cover_the_map_are_not_taken_in_steps() -> None:
    for attributes in (
        {"kernel_shape": [17, 17], "strides": [17, 17]},
        {"kernel_shape": [34, 34], "pads": [1, 1, 1, 1]},
    ):
        model = build([node("AveragePool", "x", "y", name="p", **attributes)], {"x": (1, 3, 34, 34)}, ["y"])
        assert not any(MARK_STEPS in each.metadata_props for each in optimize(model, "bernoulli2").graph)
