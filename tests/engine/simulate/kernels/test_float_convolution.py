"""The kernel of float convolutions: rests of tiles in both directions, strides, groups, equal to the definition."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.floats.convolution import convolved, window_of
from engine.simulate.kernels.float_convolution import ROWS, WIDTH
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.lowering.floats import FLOAT_LOWERINGS, SMALL_INPUT
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import fed, kinds, run


@pytest.mark.parametrize("positions", [1, WIDTH - 1, WIDTH, 2 * WIDTH + 3])
@pytest.mark.parametrize("outputs", [2, ROWS, 2 * ROWS + 1])
@pytest.mark.parametrize(("groups", "stride"), [(1, 1), (2, 1), (1, 2), (3, 3)])
@pytest.mark.parametrize("biased", [True, False])
def test_rests_of_tiles(positions: int, outputs: int, groups: int, stride: int, biased: bool) -> None:
    rng, program = np.random.default_rng(outputs), Assembler()
    length = (positions - 1) * stride + 1
    x = rng.standard_normal((1, 3 * groups, length)).astype(np.float32)
    weights = rng.standard_normal((groups * outputs, 3, 3)).astype(np.float32)
    bias = rng.standard_normal(groups * outputs).astype(np.float32) if biased else None
    attributes = {"group": groups, "strides": [stride], "pads": [1, 3], "dilations": [2]}
    node = ir.node("Conv", [], attributes, name="n")
    window = window_of(node, [x, weights, bias])
    assert window is not None
    feeds = fed(program, x)
    result = FLOAT_LOWERINGS["Conv"](node, 13, [feeds[0][0], weights, bias], program)
    np.testing.assert_array_equal(run(program, feeds, result), convolved(x, weights, bias, window))


@pytest.mark.parametrize("positions", [5, 2 * WIDTH])
def test_long_sums_are_divided(positions: int) -> None:
    rng, program = np.random.default_rng(positions), Assembler()
    x = rng.standard_normal((1, 150, positions)).astype(np.float32)
    weights, bias = rng.standard_normal((ROWS + 1, 150, 2)).astype(np.float32), np.zeros(ROWS + 1, np.float32)
    node = ir.node("Conv", [], {"pads": [1, 0]}, name="n")
    window = window_of(node, [x, weights, bias])
    assert window is not None
    feeds = fed(program, x)
    result = FLOAT_LOWERINGS["Conv"](node, 13, [feeds[0][0], weights, bias], program)
    np.testing.assert_array_equal(run(program, feeds, result), convolved(x, weights, bias, window))


@pytest.mark.parametrize("positions", [WIDTH, SMALL_INPUT // 8 + 1])
def test_zeros_around_a_small_input_and_a_relu_behind_take_no_instruction(positions: int) -> None:
    rng, program = np.random.default_rng(positions), Assembler()
    x = rng.standard_normal((1, 2, positions)).astype(np.float32)
    weights, bias = rng.standard_normal((ROWS + 1, 2, 3)).astype(np.float32), np.zeros(ROWS + 1, np.float32)
    x[0, :, :6] = [[np.nan, 1, np.inf, -np.inf, 0, 0]] * 2
    conv = ir.node("Conv", [], {"pads": [2, 1]}, name="c")
    relu = ir.node("Relu", [conv.outputs[0]], name="r")
    window = window_of(conv, [x, weights, bias])
    assert window is not None
    feeds = fed(program, x)
    found = FLOAT_LOWERINGS["Conv"](conv, 13, [feeds[0][0], weights, bias], program)
    result = FLOAT_LOWERINGS["Relu"](relu, 13, [found], program)
    is_small = positions == WIDTH
    assert kinds(program) == [*([] if is_small else [InstructionKind.PAD]), InstructionKind.FLOAT_CONVOLUTION]
    expected = convolved(x, weights, bias, window)
    expected[expected < 0] = 0
    np.testing.assert_array_equal(run(program, feeds, result).view(np.int32), expected.view(np.int32))


@pytest.mark.parametrize("beside", ["output", "Neg", "Identity"])
def test_a_relu_beside_others_reads_the_convolution(beside: str) -> None:
    """An Identity gives the convolution's own tensor, which others still read."""
    program = Assembler()
    x, weights = np.ones((1, 2, 4), np.float32), -np.ones((2, 2, 1), np.float32)
    conv = ir.node("Conv", [], name="c")
    (source,) = conv.outputs
    if beside != "output":
        other = ir.node(beside, [source], name="o")
        source = other.outputs[0] if beside == "Identity" else source
    relu = ir.node("Relu", [source], name="r")
    if beside == "output":
        ir.Graph([], [source, relu.outputs[0]], nodes=[conv, relu])
    feeds = fed(program, x)
    found = FLOAT_LOWERINGS["Conv"](conv, 13, [feeds[0][0], weights], program)
    result = FLOAT_LOWERINGS["Relu"](relu, 13, [found], program)
    assert kinds(program) == [InstructionKind.FLOAT_CONVOLUTION, InstructionKind.ARITHMETIC]
    assert not run(program, feeds, result).any()
