"""Float operators of the CPU: which of them are instructions."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from engine.floats.pool import pooled, windows_of
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.lowering.common import NotLowered
from engine.simulate.lowering.floats import FLOAT_LOWERINGS, lower_cast, lower_pad, lower_softmax
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import fed, kinds, ramp, run


def test_a_softmax_over_the_last_axis_is_one_instruction() -> None:
    program = Assembler()
    x = program.input((2, 3, 8), np.float32)
    y = lower_softmax(ir.node("Softmax", [], {}, name="n"), 13, [x], program)
    assert (y.shape, kinds(program)) == ((2, 3, 8), [InstructionKind.SOFTMAX])


def test_another_axis_is_moved_there_and_back() -> None:
    program = Assembler()
    x = program.input((2, 3, 8), np.float32)
    y = lower_softmax(ir.node("Softmax", [], {"axis": 1}, name="n"), 13, [x], program)
    assert y.shape == (2, 3, 8)
    assert kinds(program) == [InstructionKind.COPY, InstructionKind.SOFTMAX, InstructionKind.COPY]


def test_what_the_machine_does_not_compute() -> None:
    program = Assembler()
    (integers, _), (doubles, _) = fed(program, np.zeros(4, np.int32), np.zeros(4, np.float64))
    cast = ir.node("Cast", [], {"to": ir.DataType.INT32.value}, name="n")
    for lower, given in ((lower_softmax, [doubles]), (FLOAT_LOWERINGS["Add"], [integers, integers])):
        with pytest.raises(NotLowered, match="float32"):
            lower(ir.node("Node", [], {}, name="n"), 13, given, program)
    with pytest.raises(NotLowered, match="int32"):
        lower_cast(cast, 13, [doubles], program)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int16])
def test_pads(mode: Any, dtype: type) -> None:
    program, pads = Assembler(), np.array([0, 1, 2, 3, 0, 0, 3, 1])
    feeds = fed(program, ramp(1, 3, 5, 6, first=1).astype(dtype))
    node = ir.node("Pad", [], {"mode": mode}, name="n")
    y = lower_pad(node, 13, [feeds[0][0], pads], program)
    expected = np.pad(feeds[0][1], list(zip(pads[:4], pads[4:], strict=True)), mode=mode)
    np.testing.assert_array_equal(run(program, feeds, y), expected)


def test_pads_of_old_opsets_are_attributes() -> None:
    program = Assembler()
    feeds = fed(program, ramp(2, 3).astype(np.float32))
    node = ir.node("Pad", [], {"pads": [0, 1, 1, 0]}, name="n")
    found = run(program, feeds, lower_pad(node, 10, [feeds[0][0]], program))
    np.testing.assert_array_equal(found, np.pad(feeds[0][1], ((0, 1), (1, 0))))


@pytest.mark.parametrize(
    ("mode", "pads", "more", "message"),
    [
        ("wrap", [0, 1, 0, 0], [], "mode wrap"),
        ("edge", [0, -1, 0, 0], [], "negative pads"),
        ("constant", [0, 1, 0, 0], [np.float32(-0.0)], "another number than 0"),
        ("edge", [0, 1, 0, 0], [None, np.array([0])], "some axes"),
    ],
)
def test_pads_that_are_left_to_onnx_runtime(mode: str, pads: list[int], more: list[Any], message: str) -> None:
    program = Assembler()
    x = program.input((2, 3), np.float32)
    with pytest.raises(NotLowered, match=message):
        lower_pad(ir.node("Pad", [], {"mode": mode}, name="n"), 13, [x, np.array(pads), *more], program)
    doubles = program.input((2, 3), np.float64)
    with pytest.raises(NotLowered, match="8 bytes"):
        lower_pad(ir.node("Pad", [], {}, name="n"), 13, [doubles, np.array([0, 1, 0, 0])], program)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"kernel_shape": [2, 1], "strides": [2, 1]}, [InstructionKind.ARITHMETIC]),
        ({"kernel_shape": [2, 3], "strides": [1, 2]}, [InstructionKind.ARITHMETIC] * 3),
        ({"kernel_shape": [1, 1], "strides": [1, 3]}, [InstructionKind.COPY]),
    ],
)
def test_a_pool_takes_the_larger_of_two_again_and_again(attributes: Any, expected: list[InstructionKind]) -> None:
    program = Assembler()
    feeds = fed(program, np.random.default_rng(0).standard_normal((2, 3, 8, 9)).astype(np.float32))
    node = ir.node("MaxPool", [], attributes, name="n")
    windows = windows_of(node, feeds[0][1])
    assert windows is not None
    y = FLOAT_LOWERINGS["MaxPool"](node, 12, [feeds[0][0]], program)
    assert kinds(program) == expected
    np.testing.assert_array_equal(run(program, feeds, y), pooled(feeds[0][1], windows))


@pytest.mark.parametrize(
    ("op_type", "attributes"), [("MaxPool", {"kernel_shape": [2, 2], "ceil_mode": 1}), ("Resize", {"mode": "cubic"})]
)
def test_pools_and_resizes_that_are_left_to_onnx_runtime(op_type: str, attributes: Any) -> None:
    program = Assembler()
    given = [program.input((1, 1, 4, 4), np.float32), None, np.array([1, 1, 2, 2], np.float32)]
    with pytest.raises(NotLowered, match="it is no"):
        FLOAT_LOWERINGS[op_type](ir.node(op_type, [], attributes, name="n"), 13, given, program)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_channels_and_blocks_of_pixels_change_places(dtype: type) -> None:
    program, x = Assembler(), ramp(1, 2, 3, 3, 4, 5).astype(dtype)
    (flat, _), (image, _) = feeds = fed(program, x.reshape(1, 18, 4, 5), ramp(1, 2, 6, 9).astype(dtype))
    columns = {mode: ir.node("DepthToSpace", [], {"blocksize": 3, "mode": mode}, name="n") for mode in ("DCR", "CRD")}
    block = ir.node("SpaceToDepth", [], {"blocksize": 3}, name="n")
    found = {mode: FLOAT_LOWERINGS["DepthToSpace"](node, 13, [flat], program) for mode, node in columns.items()}
    deep = FLOAT_LOWERINGS["SpaceToDepth"](block, 13, [image], program)
    assert set(kinds(program)) == {InstructionKind.COPY}
    by_columns = x.reshape(1, 3, 3, 2, 4, 5).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 12, 15)
    by_channels = x.transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 12, 15)
    np.testing.assert_array_equal(run(program, feeds, found["DCR"]), by_columns)
    np.testing.assert_array_equal(run(program, feeds, found["CRD"]), by_channels)
    expected = feeds[1][1].reshape(1, 2, 2, 3, 3, 3).transpose(0, 3, 5, 1, 2, 4).reshape(1, 18, 2, 3)
    np.testing.assert_array_equal(run(program, feeds, deep), expected)


@pytest.mark.parametrize(("op_type", "shape"), [("DepthToSpace", (1, 6, 4, 4)), ("SpaceToDepth", (1, 2, 4, 3))])
def test_channels_or_pixels_that_are_no_blocks(op_type: str, shape: tuple[int, ...]) -> None:
    program = Assembler()
    with pytest.raises(NotLowered, match="no blocks of 2"):
        FLOAT_LOWERINGS[op_type](
            ir.node(op_type, [], {"blocksize": 2}, name="n"), 13, [program.input(shape, np.float32)], program
        )
