"""Standard form of calibrated models, sessions on any number of samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper

from engine.errors import InferenceError
from engine.floats.batching import with_symbolic_batch
from engine.floats.float_model import FloatSession, Kernels
from tests.engine.calibrate.models import add_calibration, graph, quantized_by_hand, residual, samples


@pytest.mark.parametrize("kernels", list(Kernels))
@pytest.mark.parametrize("count", [1, 2, 8, 11])
def test_batches_give_the_bits_of_single_samples(count: int, kernels: Kernels) -> None:
    model, x = residual(), samples(count)
    together = FloatSession(model, kernels=kernels, threads=1)
    alone = FloatSession(model, kernels=kernels, threads=1, max_batch=1)
    assert (together.batch, alone.batch) == (8, 1)
    np.testing.assert_array_equal(together.run({"x": x})["y"], alone.run({"x": x})["y"])


@pytest.mark.parametrize("kernels", list(Kernels))
@pytest.mark.parametrize("batch", [1, 8])
def test_threads_change_no_bit(batch: int, kernels: Kernels) -> None:
    """ONNX Runtime splits the sums of one sample by the threads that share it."""
    weights = {
        "w": np.random.default_rng(0).normal(size=(24, 32, 3, 3)).astype(np.float32),
        "v": np.random.default_rng(1).normal(size=(24 * 81, 10)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1] * 4),
        helper.make_node("Flatten", ["c"], ["f"], name="flat"),
        helper.make_node("MatMul", ["f", "v"], ["y"], name="product"),
    ]
    model, x = graph(nodes, {"x": (1, 32, 9, 9)}, ["y"], weights), samples(5, (32, 9, 9))
    found, seen = {}, {}
    for threads in (1, 2, 4):
        session = FloatSession(model, ["c", "y"], kernels=kernels, max_batch=batch, threads=threads)
        found[threads] = session.run({"x": x})
        parts: list[bytes] = []
        session.visit({"x": x}, lambda _i, _n, values, parts=parts: parts.extend(row.tobytes() for row in values))
        seen[threads] = sorted(parts)
    for name in ("c", "y"):
        assert found[1][name].tobytes() == found[2][name].tobytes() == found[4][name].tobytes()
    assert seen[1] == seen[2] == seen[4]


@pytest.mark.parametrize("operator", ["Softplus", "Elu", "Log"])
def test_the_number_of_samples_in_a_run_changes_no_bit(operator: str) -> None:
    """Threads share the samples, and so decide how many are computed in a run."""
    model = graph([helper.make_node(operator, ["x"], ["y"], name="n")], {"x": (1, 2, 1, 3)}, ["y"])
    x = np.abs(samples(400, (2, 1, 3)))
    alone = FloatSession(model, max_batch=1).run({"x": x})["y"]
    for threads in (1, 2, 4):
        assert FloatSession(model, threads=threads).run({"x": x})["y"].tobytes() == alone.tobytes()


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


@given(count=st.integers(1, 9), batch=st.integers(1, 8))
def test_visitors_see_every_sample_once(count: int, batch: int) -> None:
    model, x = residual(), samples(count)
    session = FloatSession(model, ["c0", "g"], max_batch=batch)
    seen: dict[str, list[bytes]] = {"c0": [], "g": []}
    session.visit({"x": x}, lambda _, name, array: seen[name].extend(row.tobytes() for row in array))
    for name, array in session.run({"x": x}).items():
        assert sorted(seen[name]) == sorted(row.tobytes() for row in array)


def test_inputs_and_outputs_that_are_single_numbers() -> None:
    model = graph(
        [helper.make_node("Mul", ["x", "s"], ["m"]), helper.make_node("ReduceSum", ["m"], ["y"], keepdims=0)],
        {"x": (1, 3), "s": ()},
        ["m", "y"],
    )
    found = FloatSession(model).run({"x": np.ones((1, 3), np.float32), "s": np.float32(2)})
    assert {name: array.tolist() for name, array in found.items()} == {"m": [[2, 2, 2]], "y": 6}
    with pytest.raises(InferenceError, match="the array has shape"):
        FloatSession(model).run({"x": np.float32(1), "s": np.float32(2)})


@pytest.mark.parametrize("kernels", list(Kernels))
@pytest.mark.parametrize("reshaped", [False, True])
def test_what_is_quantised_behind_a_transpose_does_not_change_what_stands_before(
    reshaped: bool, kernels: Kernels
) -> None:
    """ONNX Runtime 1.32 gives the quantised numbers for both."""
    moved = [helper.make_node("Transpose", ["a"], ["t"], perm=[0, 2, 3, 1])]
    moved += [helper.make_node("Reshape", ["t", "shape"], ["r"])] if reshaped else []
    last = "r" if reshaped else "t"
    nodes = [helper.make_node("Abs", ["x"], ["a"]), *moved, helper.make_node("Neg", [last], ["y"])]
    model = graph(nodes, {"x": (1, 3, 6, 5)}, ["y"], {"shape": np.asarray([1, 6, 15], np.int64)})
    add_calibration(model, last, thresholds=[1.27], scales=[0.01])
    x = samples(1)
    found = FloatSession(model, ["a", f"{last}_calibrated", "y"], kernels=kernels).run({"x": x})
    np.testing.assert_array_equal(found["a"], np.abs(x))
    expected = quantized_by_hand(np.abs(x).transpose(0, 2, 3, 1), np.float32(0.01), "int8")
    np.testing.assert_array_equal(found[f"{last}_calibrated"], expected.reshape(found["y"].shape))
    np.testing.assert_array_equal(found["y"], -found[f"{last}_calibrated"])
