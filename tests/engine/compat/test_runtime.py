"""``HB_ONNXRuntime``: offsets of images, casts, order of outputs."""

from __future__ import annotations

import numpy as np
import pytest

from engine.compat.runtime import HB_ONNXRuntime, cast
from engine.errors import InferenceError
from engine.ir import load_model
from engine.simulate import Session
from tests.engine.calibrate.models import residual
from tests.golden_cases import BUNDLED

INT8 = np.dtype(np.int8)


@pytest.mark.parametrize(
    ("array", "offset", "expected"),
    [
        (np.asarray([0, 255], np.uint8), 128, [-128, 127]),
        (np.asarray([0.0, 255.0]), 128, [-128, 127]),
        (np.asarray([128.9, 127.1]), 128, [0, 0]),
        (np.asarray([-1, 1], np.int8), 0, [-1, 1]),
        (np.asarray([], np.uint8), 128, []),
    ],
)
def test_casts_to_integers_truncate_behind_the_offset(array: np.ndarray, offset: int, expected: list[int]) -> None:
    found = cast("x", array, offset, INT8)
    assert (found.dtype, found.tolist()) == (INT8, expected)


@pytest.mark.parametrize(
    ("array", "offset", "message"),
    [
        (np.asarray([0, 255], np.uint8), 0, r"input x: values minus input_offset 0 span 0..255, expected -128..127"),
        (np.asarray([-1], np.int8), 128, r"span -129..-129, .*pass input_offset=0 if the data are already shifted"),
        (np.asarray(["a"]), 0, "input x: got type <U1, expected numbers"),
    ],
)
def test_values_that_do_not_survive(array: np.ndarray, offset: int, message: str) -> None:
    with pytest.raises(InferenceError, match=message):
        cast("x", array, offset, INT8)


def test_floats_are_only_moved() -> None:
    found = cast("x", np.asarray([200.5]), 128, np.dtype(np.float32))
    assert (found.dtype, found.tolist()) == (np.float32, [72.5])
    same = np.zeros(3, np.float32)
    assert cast("x", same, 0, np.dtype(np.float32)) is same


IMAGE = BUNDLED / "conversions" / "p_rgb.quant.onnx"


def test_images_lose_128_and_feature_maps_nothing() -> None:
    runtime = HB_ONNXRuntime(str(IMAGE))
    (info,) = runtime.get_inputs()
    pixels = np.random.default_rng(0).integers(0, 256, info.shape).astype(np.uint8)
    shifted = (pixels.astype(np.int16) - 128).astype(info.dtype)
    expected = Session(load_model(IMAGE)).run({info.name: shifted})
    names = runtime.output_names
    for found in (
        runtime.run(names, {info.name: pixels}),
        runtime.run(None, {info.name: shifted}, input_offset=0),
        runtime.run_feature(names, {info.name: shifted}),
        runtime.run_feature(names, {info.name: pixels}, input_offset=128),
        runtime.hb_session.run(names, {info.name: shifted}),
    ):
        np.testing.assert_array_equal(found[0], expected[names[0]])
    assert runtime.input_names == [info.name]
    assert [each.name for each in runtime.get_outputs()] == names


def test_inputs_that_no_preprocessing_reads_are_no_images() -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 6, 5)).astype(np.float32)
    (plain,) = Session(residual()).run({"x": x}).values()
    np.testing.assert_array_equal(HB_ONNXRuntime(residual()).run(None, {"x": x})[0], plain)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.asarray([1e39]), "beyond the range of float32"),
        (np.asarray([1j]), "got type complex128, expected numbers"),
        (np.asarray(["2026"], "datetime64[D]"), "expected numbers"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_float32_does_not_hold_is_refused(array: np.ndarray, message: str) -> None:
    with pytest.raises(InferenceError, match=message):
        cast("x", array, 0, np.dtype(np.float32))
    assert np.isinf(cast("x", np.asarray([np.inf]), 0, np.dtype(np.float32))).all()
