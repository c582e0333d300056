"""Results that convolutions store where they are read are those of programs that move them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.native.registers import LANES, REGISTERS
from engine.simulate import destinations
from engine.simulate.destinations import reach_outside, store_where_read
from engine.simulate.kernels.instructions import InstructionKind as Kind
from engine.simulate.kernels.machine import link
from engine.simulate.kernels.machine import run as run_machine
from engine.simulate.lowering import convolution
from engine.simulate.lowering.convolution import lower_convolution
from engine.simulate.lowering.elementwise import lower_dequantize, lower_quantize
from engine.simulate.lowering.movement import bordered, concat, lower_upsample, transpose
from engine.simulate.lowering.pooling import lower_max_pool
from engine.simulate.lowering.transposed import lower_transposed_convolution
from engine.simulate.program import Assembler, PythonStep, Tensor, aligned_zeros
from tests.cpu import needs_cpu
from tests.engine.simulate.machine import arena_of, call, kinds

Array = NDArray[Any]
Build = Callable[[Assembler, Tensor], Sequence[Tensor]]


@pytest.fixture(autouse=True)
def reach_small_ones_too() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(destinations, "REACHED_FROM", 0)
        yield


needs_quads = needs_cpu(REGISTERS.quads, "whole tiles leave registers as bytes with AVX512-VNNI")
STAGE: dict[str, Any] = {"right_shift": [2], "scale": [20000], "out_shift": [17]}


def noise(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(-128, 128, shape, np.int8, endpoint=False)


def conv(program: Assembler, x: Tensor, channels: int, size: int = 3, e: Tensor | None = None, **more: Any) -> Tensor:
    """A convolution to so many channels, its window padded."""
    constants = [noise(channels, size, size, x.shape[3]), np.arange(channels, dtype=np.int32) * 90 - 700]
    attributes = {**STAGE, "kernel_shape": [size, size], "pads": [size // 2] * 4, **more}
    if e is not None:
        attributes |= {"use_sumin": 1, "e_scale": [40], "e_shift": [1]}
    inputs = [x, *constants, np.zeros(channels, np.int8), *([] if e is None else [e])]
    return lower_convolution(call("HzSQuantizedConv", *inputs, **attributes), program)


def doubled(program: Assembler, x: Tensor, channels: int) -> Tensor:
    """A transposed convolution to four pixels from each."""
    constants = [noise(x.shape[3], 2, 2, channels), np.arange(channels, dtype=np.int32) * 70]
    stage = {"accu_right_shift": [2], "y_quant_scale": [20000], "y_right_shift": [17]}
    node = call("HzSQuantizedConvTranspose", x, *constants, kernel_shape=[2, 2], strides=[2, 2], use_bias=1, **stage)
    return lower_transposed_convolution(node, program)


def pooled(program: Assembler, x: Tensor) -> Tensor:
    return lower_max_pool(call("HzQuantizedMaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), program)


def integers(program: Assembler, x: Tensor, scales: Sequence[float] = (0.02,), bits: int = 8) -> Tensor:
    return lower_quantize(call("HzQuantize", x, np.float32(scales), axis=1, bits=bits), program)


def floats(program: Assembler, x: Tensor, axis: int, scales: Array) -> Tensor:
    return lower_dequantize(call("HzDequantize", x, scales, axis=axis), program)


def computed(
    build: Build, shape: tuple[int, ...], is_moved: bool, given: Array | None = None
) -> tuple[list[Array], list[Kind]]:
    """Results of a program on ``given``, else on noise of int8, and its kinds of instructions."""
    values = noise(*shape) if given is None else given
    program = Assembler()
    x = program.input(shape, values.dtype)
    results = build(program, x)
    for tensor in results:
        program.keep(tensor)
    addresses: dict[str, Tensor] = {}
    if is_moved:
        store_where_read(program)
        addresses = reach_outside(program, {"x": x}, {str(k): tensor for k, tensor in enumerate(results)})
    finished = program.finish()
    arena, scratch = arena_of(finished), aligned_zeros(finished.scratch_bytes)
    arena[...] = 99  # what a program reads, something writes first
    for tensor, array in finished.initial:
        tensor.view(arena)[...] = array
    found = {str(k): np.zeros(tensor.shape, tensor.dtype) for k, tensor in enumerate(results)}
    for name, address in addresses.items():
        address.view(arena)[...] = (values if name == "x" else found[name]).ctypes.data
    if "x" not in addresses:
        x.view(arena)[...] = values
    for part in finished.parts:
        assert not isinstance(part, PythonStep)
        run_machine(link(part), arena.ctypes.data, scratch.ctypes.data)
    for name, tensor in zip(found, results, strict=True):
        if name not in addresses:
            found[name][...] = tensor.view(arena)
    return list(found.values()), kinds(program)


def check(build: Build, shape: tuple[int, ...], given: Array | None = None) -> tuple[list[Kind], list[Kind]]:
    """Kinds of instructions before and after, which must give the same."""
    (expected, before), (found, after) = (computed(build, shape, is_moved, given) for is_moved in (False, True))
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a, b)
    return before, after


@st.composite
def builds(draw: st.DrawFn) -> Build:
    """Networks of a few convolutions, sums, joins, pools and transposed convolutions; some results are kept."""
    makers = st.sampled_from(["conv", "conv", "conv", "sum", "join", "pool", "double", "turn", "repeat", "edge"])
    steps = draw(st.lists(st.tuples(makers, st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=7))
    channels = draw(st.lists(st.sampled_from([1, 3, LANES, 20, 3 * LANES, 70]), min_size=8, max_size=8))
    sizes = draw(st.lists(st.sampled_from([1, 3, 3]), min_size=8, max_size=8))
    kept = draw(st.sets(st.integers(0, 7), max_size=2))

    def build(program: Assembler, x: Tensor) -> list[Tensor]:
        images = [x]
        for index, (kind, first, second) in enumerate(steps):
            a, b = images[-1 - first % len(images)], images[-1 - second % len(images)]
            if kind == "double" and a.shape[1] < 40:
                images.append(doubled(program, a, channels[index]))
            elif kind == "pool" and min(a.shape[1:3]) > 1:
                images.append(pooled(program, a))
            elif kind == "join" and a.shape[:3] == b.shape[:3]:
                images.append(concat([a, b], 3, program))
            elif kind == "turn":
                images.append(transpose(a, (0, 2, 1, 3), program))
            elif kind == "repeat" and a.shape[1] < 40:
                images.append(lower_upsample(call("HzQuantizedResizeUpsample", a, scale=[2, 1]), program))
            elif kind == "edge":
                images.append(bordered(a, (0, 1, 0, 0), (0, 0, 2, 0), "edge", program))
            elif kind == "sum":
                images.append(conv(program, a, a.shape[3], sizes[index], e=a))
            else:
                images.append(conv(program, a, channels[index], sizes[index]))
        return [images[-1], *(image for index, image in enumerate(images[1:-1]) if index in kept)]

    return build


@given(build=builds(), height=st.integers(1, 9), width=st.integers(1, 33), channels=st.sampled_from([1, 4, LANES, 24]))
def test_any_network_gives_the_same(build: Build, height: int, width: int, channels: int) -> None:
    check(build, (1, height, width, channels))


@needs_quads
def test_a_padded_image_gets_its_border_alone() -> None:
    before, after = check(lambda p, x: [conv(p, conv(p, x, 40), 24)], (1, 9, 70, 16))
    assert before == after == [Kind.PAD, Kind.CONVOLUTION] * 2


@needs_quads
def test_joins_of_transposed_convolutions_need_no_copies() -> None:
    def build(program: Assembler, x: Tensor) -> list[Tensor]:
        skip = conv(program, x, 2 * LANES)
        up = doubled(program, pooled(program, skip), 2 * LANES)
        return [conv(program, concat([up, skip], 3, program), 24)]

    before, after = check(build, (1, 12, 34, 16))
    assert before.count(Kind.COPY) == 2
    assert after == [Kind.PAD, Kind.CONVOLUTION, Kind.MAX_POOL, Kind.CONVOLUTION, Kind.PAD, Kind.CONVOLUTION]


@needs_quads
def test_who_else_reads_a_result_finds_it() -> None:
    def build(program: Assembler, x: Tensor) -> list[Tensor]:
        first = conv(program, x, 24)
        return [conv(program, conv(program, first, 24), 24, e=first), concat([first, first], 3, program)]

    before, after = check(build, (1, 8, 40, 16))
    assert before.count(Kind.COPY) == after.count(Kind.COPY) == 2


@needs_quads
def test_what_others_write_is_still_padded() -> None:
    def build(program: Assembler, x: Tensor) -> list[Tensor]:
        return [conv(program, concat([conv(program, x, 4 * LANES), x], 3, program), 24)]

    before, after = check(build, (1, 8, 40, 16))
    assert (before.count(Kind.COPY), after.count(Kind.COPY)) == (2, 1)
    assert before.count(Kind.PAD) == after.count(Kind.PAD)


@pytest.mark.parametrize("size", [1, 3])
def test_rows_that_become_columns_are_copied(size: int) -> None:
    """A square map turned has the size that it had."""

    def build(program: Assembler, x: Tensor) -> list[Tensor]:
        return [transpose(conv(program, x, 4 * LANES, size), (0, 2, 1, 3), program)]

    before, after = check(build, (1, 12, 12, 16))
    assert before == after


def test_single_elements_are_joined() -> None:
    def build(program: Assembler, x: Tensor) -> list[Tensor]:
        return [concat([conv(program, x, 1, 1), conv(program, x, 1, 1)], 3, program)]

    check(build, (1, 1, 1, 4))


def test_pixels_between_zeros_are_not_overwritten() -> None:
    """A transposed convolution whose windows overlap fills an image with zeros before pixels enter it."""

    def build(program: Assembler, x: Tensor) -> list[Tensor]:
        inside = conv(program, x, LANES)
        constants = [noise(LANES, 3, 3, 24), np.zeros(24, np.int32)]
        stage = {"accu_right_shift": [2], "y_quant_scale": [20000], "y_right_shift": [17]}
        window: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4, "use_bias": 1}
        node = call("HzSQuantizedConvTranspose", inside, *constants, **window, **stage)
        return [lower_transposed_convolution(node, program)]

    check(build, (1, 5, 9, 4))


@pytest.mark.parametrize("channels", [1, 5, LANES, 3 * LANES + 7])
@pytest.mark.parametrize("width", [1, 7, 90])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("is_one_scale", [False, True])
@pytest.mark.parametrize("order", ["turned", "turned after", "as they are"])
def test_int32_becomes_floats_at_once(channels: int, width: int, size: int, is_one_scale: bool, order: str) -> None:
    scales = np.float32([0.37]) if is_one_scale else (np.arange(channels) + 1).astype(np.float32) / np.float32(7e5)

    def build(program: Assembler, x: Tensor) -> list[Tensor]:
        y = conv(program, x, channels, size, high_precision_output=1)
        if order == "as they are":
            return [floats(program, y, 3, scales)]
        if order == "turned":
            return [floats(program, transpose(y, (0, 3, 1, 2), program), 1, scales)]
        return [transpose(floats(program, y, 3, scales), (0, 3, 1, 2), program)]

    before, after = check(build, (1, 6, width, 8))
    assert Kind.DEQUANTIZE in before
    # Of windows that share vectors the channels are those of several pixels.
    shares_vectors = (channels, width, size) == (5, 90, 3)
    assert shares_vectors or not {Kind.DEQUANTIZE, Kind.COPY} & set(after)


@pytest.mark.parametrize("other", ["kept", "read twice", "other scales"])
def test_int32_that_is_wanted_otherwise_stays(other: str) -> None:
    scales = np.arange(1, 9, dtype=np.float32)

    def build(program: Assembler, x: Tensor) -> list[Tensor]:
        y = conv(program, x, 8, high_precision_output=1)
        turned = transpose(y, (0, 3, 1, 2), program)
        if other == "kept":
            return [floats(program, turned, 1, scales), y]
        if other == "read twice":
            return [floats(program, turned, 1, scales), floats(program, y, 3, scales)]
        return [floats(program, turned, 3, np.arange(1, 10, dtype=np.float32))]

    before, after = check(build, (1, 6, 9, 8))
    assert before == after


def test_nothing_is_moved_without_tiles_that_leave_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution, "REGISTERS", replace(REGISTERS, quads=False))
    before, after = check(lambda p, x: [conv(p, concat([conv(p, x, 24), conv(p, x, 20)], 3, p), 24)], (1, 8, 40, 16))
    assert before == after


def image(channels: int, height: int, width: int) -> Array:
    """Floats with channels first; some of them are too large, or no numbers."""
    values = np.random.default_rng(channels * width).standard_normal((1, channels, height, width), np.float32)
    values[..., -1] = [np.inf, np.nan, -9e9, 1e5][channels % 4]
    return values


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 7, 20])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (5, 3), (9, 70)])
@pytest.mark.parametrize("size", [1, 3])
def test_an_image_of_floats_is_quantised_to_where_it_is_read(channels: int, height: int, width: int, size: int) -> None:
    def build(program: Assembler, x: Tensor) -> list[Tensor]:
        return [conv(program, transpose(integers(program, x), (0, 2, 3, 1), program), 24, size)]

    before, after = check(build, (1, channels, height, width), image(channels, height, width))
    is_turned = channels > 1 and height * width > 1
    assert before.count(Kind.COPY) == is_turned
    assert not after.count(Kind.COPY)
    assert before.count(Kind.PAD) == after.count(Kind.PAD)


@pytest.mark.parametrize("other", ["quantised is kept", "turned is kept", "two read it", "by channel", "int16", "rows"])
def test_an_image_that_is_wanted_otherwise_too_stays(other: str) -> None:
    def build(program: Assembler, x: Tensor) -> list[Tensor]:
        scales = (0.02, 0.03, 0.04) if other == "by channel" else (0.02,)
        quantized = integers(program, x, scales, 16 if other == "int16" else 8)
        turned = transpose(quantized, (0, 3, 2, 1) if other == "rows" else (0, 2, 3, 1), program)
        if other == "int16":
            return [turned]
        kept = {"quantised is kept": [quantized], "turned is kept": [turned]}.get(other, [])
        more = [conv(program, turned, 8)] if other == "two read it" else []
        return [conv(program, turned, 24), *kept, *more]

    before, after = check(build, (1, 3, 6, 9), image(3, 6, 9))
    assert Kind.QUANTIZE in after
    stays = other not in ("turned is kept", "two read it")
    assert (before == after) is stays


def test_inputs_that_others_read_too_are_copied() -> None:
    program = Assembler()
    x, y = (program.input((1, 3, 4, 4), np.float32) for _ in range(2))
    results = [integers(program, x), integers(program, y), transpose(y, (0, 2, 3, 1), program)]
    for tensor in results:
        program.keep(tensor)
    assert list(reach_outside(program, {"x": x, "y": y}, {})) == ["x"]


def test_outputs_are_stored_elsewhere_if_nothing_reads_them_and_one_step_gives_them() -> None:
    program = Assembler()
    x = program.input((1, 5, 9, 8), np.int8)
    read, given = conv(program, x, 24), conv(program, x, 8, high_precision_output=1)
    ends = [read, conv(program, read, 16), floats(program, given, 3, np.float32([0.5])), concat([x, x], 3, program), x]
    twice = conv(program, x, 4)
    outputs = dict(zip("abcde", ends, strict=True)) | {"f": twice, "g": twice.shaped(1, 1, 45, 4)}
    for tensor in outputs.values():
        program.keep(tensor)
    assert list(reach_outside(program, {"x": x}, outputs)) == ["b", "c"]


def test_what_is_small_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Assembler()
    x, y = program.input((1, 3, 8, 8), np.float32), program.input((1, 3, 8, 9), np.float32)
    for tensor in (integers(program, x), integers(program, y)):
        program.keep(tensor)
    monkeypatch.setattr(destinations, "REACHED_FROM", 3 * 8 * 9 * 4)
    assert list(reach_outside(program, {"x": x, "y": y}, {})) == ["y"]
