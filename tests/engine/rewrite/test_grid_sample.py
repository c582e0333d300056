"""GridSample behind 1x1 convolutions."""

from __future__ import annotations

import pytest

from engine.rewrite.grid_sample import GridSampleBehindConvolutions
from tests.engine.rewrite.networks import HEAD, operators, rewritten, source, stays

GRID = "g = Tanh(Transpose(Conv(c, W(2, 8, 1, 1)), perm=[0, 2, 3, 1])); "


@pytest.mark.parametrize("mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("bias", ["", ", W(4)"])
def test_the_convolution_is_before_it(mode: str, bias: str) -> None:
    text = f'{HEAD}{GRID}s = GridSample(c, g, padding_mode="{mode}"); z = Conv(s, W(4, 8, 1, 1){bias})'
    found = operators(rewritten(GridSampleBehindConvolutions(), source(text, 16)))
    assert found[-1] == ("Add" if bias and mode == "zeros" else "GridSample")


def test_several_convolutions_pass_it() -> None:
    text = f'{HEAD}{GRID}z = Conv(Conv(GridSample(c, g, padding_mode="border"), W(4, 8, 1, 1), W(4)), W(3, 4, 1, 1))'
    change = GridSampleBehindConvolutions()
    assert operators(rewritten(change, source(text, 16)))[-1] == "GridSample"
    assert len(change.places) == 4


@pytest.mark.parametrize(
    "conv", ["Conv(s, W(4, 8, 3, 3))", "Conv(s, W(8, 1, 1, 1), group=8)", "Conv(Relu(s), W(4, 8, 1, 1))"]
)
def test_what_cannot_be_moved_is_named(conv: str) -> None:
    change = GridSampleBehindConvolutions()
    assert stays(change, source(f"{HEAD}{GRID}s = GridSample(c, g); z = {conv}", 16))
    assert "1 layers of the BPU follow" in change.remarks[0]


def test_one_at_the_end_is_nothing_to_say() -> None:
    change = GridSampleBehindConvolutions()
    assert stays(change, source(f"{HEAD}{GRID}z = GridSample(c, g)", 16))
    assert not change.remarks
