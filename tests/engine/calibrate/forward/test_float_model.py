"""Standard form of calibrated models, sessions on any number of samples."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper

from engine.calibrate import FloatSession, Kernels, lower_calibration
from engine.calibrate.forward.batching import with_symbolic_batch
from engine.calibrate.forward.fake_quantization import fake_quantize, spread
from engine.errors import InferenceError, ModelError
from engine.ir import Calibration, constant_of, to_bytes
from tests.engine.calibrate.models import add_calibration, graph, identity, residual

RANGES = {"int8": (-128, 127), "int16": (-32768, 32767), "uint8": (0, 255)}


def samples(count: int, shape: tuple[int, ...] = (3, 6, 5), seed: int = 1) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((count, *shape), np.float32)


def quantized_by_hand(x: NDArray[np.float32], scale: NDArray[np.float32], qtype: str) -> NDArray[np.float32]:
    """round half to even, one value at a time, in exact arithmetic of Python."""
    low, high = RANGES[qtype]
    ratio = (x / scale).astype(np.float32)
    integers = np.asarray([min(max(round(float(value)), low), high) for value in ratio.ravel()], np.float32)
    return (integers.reshape(x.shape) * scale).astype(np.float32)


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


@pytest.mark.parametrize("kernels", list(Kernels))
@pytest.mark.parametrize("count", [1, 2, 8, 11])
def test_batches_give_the_bits_of_single_samples(count: int, kernels: Kernels) -> None:
    model, x = residual(), samples(count)
    together, alone = FloatSession(model, kernels=kernels), FloatSession(model, kernels=kernels, max_batch=1)
    assert (together.batch, alone.batch) == (8, 1)
    np.testing.assert_array_equal(together.run({"x": x})["y"], alone.run({"x": x})["y"])


def test_models_that_fix_the_batch_run_one_sample_at_a_time() -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "s"], ["t"], name="r0"),
        helper.make_node("Softmax", ["t"], ["u"], name="softmax", axis=0),
        helper.make_node("Reshape", ["u", "back"], ["y"], name="r1"),
    ]
    constants = {"s": np.asarray([4, 3], np.int64), "back": np.asarray([1, 3, 4], np.int64)}
    model = graph(nodes, {"x": (1, 3, 4)}, ["y"], constants)
    assert with_symbolic_batch(model) is None
    session = FloatSession(model)
    assert session.batch == 1
    assert session.run({"x": samples(3, (3, 4))})["y"].shape == (3, 3, 4)


def test_results_that_depend_on_the_batch_are_noticed() -> None:
    """A graph that normalises over the batch runs with a symbolic one; only trying it shows that results differ."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["m"], axes=[0], name="mean"),
        helper.make_node("Sub", ["x", "m"], ["y"], name="sub"),
    ]
    model = graph(nodes, {"x": (1, 5)}, ["y"])
    assert with_symbolic_batch(model) is not None
    assert FloatSession(model).batch == 1


@given(count=st.integers(1, 9), batch=st.integers(1, 8))
def test_results_written_into_buffers_are_the_same(count: int, batch: int) -> None:
    model, x = residual(), samples(count)
    session = FloatSession(model, ["c0", "r0", "g"], max_batch=batch)
    buffers = {name: np.empty((count, *shape[1:]), np.float32) for name, shape in session.outputs.items()}
    session.run_into({"x": x}, buffers)
    for name, array in session.run({"x": x}).items():
        np.testing.assert_array_equal(buffers[name], array)


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        ({"z": samples(1)}, "inputs given"),
        ({"x": samples(1, (3, 5, 5))}, "has shape"),
        ({"x": np.empty((0, 3, 6, 5), np.float32)}, "has shape"),
    ],
)
def test_wrong_feeds_are_refused(feed: dict[str, NDArray[np.float32]], message: str) -> None:
    with pytest.raises(InferenceError, match=message):
        FloatSession(residual()).run(feed)


def test_unknown_tensors_are_refused() -> None:
    with pytest.raises(InferenceError, match="nothing"):
        FloatSession(residual(), ["c0", "nothing"])


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


def test_model_of_two_inputs() -> None:
    nodes = [helper.make_node("Sub", ["a", "b"], ["y"], name="sub")]
    model = graph(nodes, {"a": (1, 2), "b": (1, 2)}, ["y"])
    a, b = samples(5, (2,), 1), samples(5, (2,), 2)
    np.testing.assert_array_equal(FloatSession(model).run({"a": a, "b": b})["y"], a - b)
    with pytest.raises(InferenceError, match="different numbers"):
        FloatSession(model).run({"a": a, "b": b[:3]})


def test_a_model_of_a_fixed_batch_takes_multiples_of_it() -> None:
    model = graph([helper.make_node("Neg", ["x"], ["y"], name="neg")], {"x": (2, 3)}, ["y"])
    x = samples(6, (3,))
    np.testing.assert_array_equal(FloatSession(model).run({"x": x})["y"], -x)
    with pytest.raises(InferenceError, match="multiple"):
        FloatSession(model).run({"x": x[:3]})


def test_symbolic_batch_keeps_static_shapes_elsewhere() -> None:
    symbolic = with_symbolic_batch(residual())
    assert symbolic is not None
    assert [str(dim) for dim in symbolic.graph.inputs[0].shape or ()] == ["batch", "3", "6", "5"]
    assert isinstance(residual().graph.inputs[0].shape, ir.Shape)


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


def test_pairs_of_quantize_linear_stay_float_kernels() -> None:
    model = residual()
    for name in ("x", "w0", "c0", "r0", "a"):
        scales = [0.01, 0.02, 0.03, 0.04] if name == "w0" else [0.02]
        add_calibration(model, name, thresholds=scales, scales=scales)
    x = samples(3)
    steps, linear = FloatSession(lower_calibration(model)), FloatSession(model)
    np.testing.assert_array_equal(linear.run({"x": x})["y"], steps.run({"x": x})["y"])


@given(count=st.integers(1, 9), batch=st.integers(1, 8))
def test_visitors_see_every_sample_once(count: int, batch: int) -> None:
    model, x = residual(), samples(count)
    session = FloatSession(model, ["c0", "g"], max_batch=batch)
    seen: dict[str, list[bytes]] = {"c0": [], "g": []}
    session.visit({"x": x}, lambda name, array: seen[name].extend(row.tobytes() for row in array))
    for name, array in session.run({"x": x}).items():
        assert sorted(seen[name]) == sorted(row.tobytes() for row in array)


def test_operands_that_fit_no_operator_are_a_model_error() -> None:
    """Indices that are computed: whether they lie in the tensor shows only when the model runs."""
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=7),
        helper.make_node("Gather", ["x", "i"], ["y"], axis=0),
    ]
    session = FloatSession(graph(nodes, {"x": (4,)}, ["y"]))
    with pytest.raises(ModelError, match=r"ONNX Runtime cannot run the model: .* out of data bounds"):
        session.run({"x": np.full(4, 9, np.float32)})
    with pytest.raises(ModelError, match="ONNX Runtime cannot run the model"):
        session.run_into({"x": np.full(4, 9, np.float32)}, {"y": np.zeros(4, np.float32)})
