"""What calibration nodes compute, by hand and as standard nodes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from engine.calibrate import FloatSession, Kernels, lower_calibration
from engine.errors import ModelError
from engine.floats.fake_quantization import fake_quantize, integer_range, spread
from engine.ir import Calibration, constant_of, to_bytes
from tests.engine.calibrate.models import add_calibration, graph, identity, quantized_by_hand, residual, samples


@pytest.mark.parametrize("opset", [10, 11, 13, 19])
@pytest.mark.parametrize("qtype", ["int8", "int16", "uint8"])
def test_calibration_becomes_fake_quantisation(opset: int, qtype: str) -> None:
    scale = np.float32(0.5)
    model = identity((1, 2, 5, 4), opset)
    add_calibration(model, "t", qtype=qtype, thresholds=[float(scale)], scales=[float(scale)])
    x = np.linspace(-3, 200, 40, dtype=np.float32).reshape(1, 2, 5, 4)
    x[0, 0, 0] = [0.25, 0.75, 1.25, 40000.0]
    (y,) = FloatSession(model).run({"x": x}).values()
    np.testing.assert_array_equal(-y, quantized_by_hand(np.abs(x), scale, qtype))
    assert {node.domain for node in lower_calibration(model).graph} == {""}


@pytest.mark.parametrize("opset", [10, 13])
def test_activations_can_have_a_scale_per_channel(opset: int) -> None:
    scales = [0.1, 0.7]
    model = identity((1, 2, 5, 4), opset)
    add_calibration(model, "t", axis=1, thresholds=scales, scales=scales)
    x = samples(1, (2, 5, 4)) * 40
    (y,) = FloatSession(model).run({"x": x}).values()
    expected = quantized_by_hand(np.abs(x), np.asarray(scales, np.float32).reshape(1, 2, 1, 1), "int8")
    np.testing.assert_array_equal(-y, expected)


def test_a_convolution_takes_scales_per_channel_into_its_weight() -> None:
    scales = np.asarray([0.01, 0.04], np.float32)
    weight = np.asarray([[1.0, -0.5]], np.float32).reshape(1, 2, 1, 1)
    model = graph([helper.make_node("Conv", ["x", "w"], ["y"])], {"x": (1, 2, 3, 3)}, ["y"], {"w": weight})
    add_calibration(model, "x", axis=1, thresholds=(127 * scales).tolist(), scales=scales.tolist())
    add_calibration(model, "w", thresholds=[1.0], scales=[1 / 127])
    x = samples(1, (2, 3, 3))
    integers = np.clip(np.rint(x / scales[:, None, None]), -128, 127)
    # Folded, the channels weigh 0.25 and -0.5: a step of 0.5 / 127 that holds 64 and -127 of them.
    expected = np.tensordot(
        integers * scales.max(), np.float32(0.5 / 127) * np.asarray([64, -127], np.float32), ([1], [0])
    )
    (y,) = FloatSession(model).run({"x": x}).values()
    np.testing.assert_allclose(y[:, 0], expected, rtol=1e-5, atol=1e-6)


def test_constant_weights_are_quantised_at_once() -> None:
    model = residual()
    scales = [0.01, 0.02, 0.03, 0.04]
    add_calibration(model, "w0", thresholds=scales, scales=scales)
    standard = lower_calibration(model)
    (conv,) = (node for node in standard.graph if node.name == "conv0")
    weight = constant_of(residual().graph.initializers["w0"])
    expected = quantized_by_hand(weight, np.asarray(scales, np.float32).reshape(4, 1, 1, 1), "int8")
    np.testing.assert_array_equal(constant_of(conv.inputs[1]), expected)


@pytest.mark.parametrize("opset", [11, 13, 17])
def test_switched_off_model_is_the_optimised_one_bit_for_bit(opset: int) -> None:
    model = residual(opset)
    x = samples(3)
    expected = FloatSession(model).run({"x": x})["y"]
    for name in ("w0", "w1", "c0", "r0", "a", "g"):
        add_calibration(model, name, switch="OFF")
    np.testing.assert_array_equal(FloatSession(model).run({"x": x})["y"], expected)


def test_switched_off_calibration_of_an_output_keeps_its_name() -> None:
    model = identity((1, 4))
    node = add_calibration(model, "y", switch="OFF")
    model.graph.outputs[:] = node.outputs
    assert list(FloatSession(model).run({"x": samples(1, (4,))})) == ["y_calibrated"]


def test_uncalibrated_model_is_refused() -> None:
    model = identity((1, 4))
    add_calibration(model, "t")
    with pytest.raises(ModelError, match="no thresholds"):
        lower_calibration(model)


def test_the_model_is_not_changed() -> None:
    model = residual()
    add_calibration(model, "c0", thresholds=[1.0], scales=[0.1])
    before = to_bytes(model)
    FloatSession(model, ["a"])
    assert to_bytes(model) == before


def test_spread_of_a_grouped_transposed_convolution() -> None:
    """Weights (I, O / group, kh, kw): output channel o of group g stands in the rows of that group."""
    calibration = Calibration(np.empty(0, np.float32), np.empty(0, np.float32), axis=1, group=2)
    values = np.arange(1, 7, dtype=np.float32)
    result = spread(values, (4, 3, 2, 2), calibration)
    assert result.shape == (4, 3, 1, 1)
    assert result[:, :, 0, 0].tolist() == [[1, 2, 3], [1, 2, 3], [4, 5, 6], [4, 5, 6]]


def test_fake_quantisation_rounds_half_to_even() -> None:
    one = np.ones(1, np.float32)
    x = np.asarray([0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5, 400, -128.5, -400], np.float32)
    expected = [0, 2, 2, 0, -2, 126, 127, 127, -128, -128]
    assert fake_quantize(x, Calibration(one, one)).tolist() == expected


@pytest.mark.parametrize("scale", [1.1754944e-38 / 127, 1e-3, 0.37, 3.4028235e38 / 127])
@pytest.mark.parametrize("qtype", ["int8", "uint8"])
@pytest.mark.parametrize("kernels", list(Kernels))
def test_quantize_linear_is_the_quantisation_in_steps(scale: float, qtype: str, kernels: Kernels) -> None:
    model = identity((1, 2, 5, 4), 11)
    add_calibration(model, "t", qtype=qtype, thresholds=[scale], scales=[scale])
    x = np.random.default_rng(0).standard_normal((1, 2, 5, 4)).astype(np.float32) * np.float32(min(100 * scale, 1e30))
    x[0, 0, 0] = [0.0, np.inf, 3.4028235e38, 0.5 * scale]
    (y,) = FloatSession(model, kernels=kernels).run({"x": x}).values()
    values = np.asarray([scale], np.float32)
    wanted = Calibration(thresholds=values, scales=values, qtype=qtype, switch="ON")
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(-y, fake_quantize(np.abs(x), wanted))
    assert not {"QuantizeLinear", "DequantizeLinear"} & {node.op_type for node in lower_calibration(model).graph}


def test_the_whole_range_of_a_type_is_used() -> None:
    assert {kind: integer_range(kind) for kind in ("int8", "int16", "uint8")} == {
        "int8": (-128.0, 127.0),
        "int16": (-32768.0, 32767.0),
        "uint8": (0.0, 255.0),
    }


@pytest.mark.parametrize(
    ("axis", "shape", "expected"),
    [(0, (3, 2, 1, 1), (3, 1, 1, 1)), (1, (1, 3, 4, 4), (1, 3, 1, 1)), (1, (5, 3), (1, 3))],
)
def test_values_are_spread_along_their_axis(axis: int, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    values = np.arange(3, dtype=np.float32)
    result = spread(values, shape, Calibration(values, values, axis=axis))
    assert result.shape == expected
    np.testing.assert_array_equal(result.ravel(), values)
    assert spread(values[:1], shape, Calibration(values, values, axis=axis)).shape == ()


def kinds(opset: int, **options: object) -> list[str]:
    model = identity((1, 2, 3, 3), opset)
    scales = options.pop("scales", [0.5])
    add_calibration(model, "t", thresholds=scales, scales=scales, axis=1, **options)
    return [node.op_type for node in lower_calibration(model, quantize_linear=True).graph if node.op_type != "Constant"]


@pytest.mark.parametrize(
    ("opset", "options", "middle"),
    [
        (13, {}, ["QuantizeLinear", "DequantizeLinear"]),
        (10, {"qtype": "uint8"}, ["QuantizeLinear", "DequantizeLinear"]),
        (9, {}, ["Div", "Clip", "Add", "Sub", "Mul"]),
        (10, {"qtype": "int16"}, ["Div", "Clip", "Add", "Sub", "Mul"]),
        (11, {"qtype": "int16"}, ["Div", "Clip", "Round", "Mul"]),
        (13, {"scales": [0.5, 0.25]}, ["Div", "Clip", "Round", "Mul"]),
        (13, {"switch": "OFF"}, []),
    ],
)
def test_which_standard_nodes_stand_for_it(opset: int, options: dict[str, object], middle: list[str]) -> None:
    assert kinds(opset, **options) == ["Abs", *middle, "Neg"]


def test_a_scale_per_channel_is_folded_into_the_weight_only_where_scales_differ() -> None:
    def weight_of(scales: list[float], **attributes: object) -> list[float]:
        group = attributes.get("group", 1)
        weight = np.ones((2, 2 // group, 1, 1), np.float32)
        model = graph(
            [helper.make_node("Conv", ["x", "w"], ["y"], **attributes)], {"x": (1, 2, 3, 3)}, ["y"], {"w": weight}
        )
        add_calibration(model, "x", axis=1, thresholds=scales, scales=scales)
        add_calibration(model, "w", thresholds=[1.0], scales=[1.0])
        (conv,) = (node for node in lower_calibration(model).graph if node.op_type == "Conv")
        return constant_of(conv.inputs[1]).ravel().tolist()

    step = np.float32(1) / np.float32(127)
    # The smaller scale weighs half: rint(0.5 / step) = rint(63.5) = 64 steps, the other all 127.
    folded = [float(64 * step), float(127 * step)] * 2
    assert weight_of([1.0, 2.0]) == folded
    assert weight_of([2.0, 2.0]) == [1.0] * 4
    assert weight_of([1.0, 2.0], group=2) == [1.0] * 2


def test_a_calibration_without_input_is_refused() -> None:
    model = identity((1, 4))
    node = add_calibration(model, "t", thresholds=[1.0], scales=[1.0])
    node.replace_input_with(0, None)
    with pytest.raises(ModelError, match="HzCalibration has no input"):
        lower_calibration(model)
