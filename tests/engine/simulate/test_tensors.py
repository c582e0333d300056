"""Inputs and outputs as users see them: what may be fed, and how samples are split and joined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.errors import InferenceError
from engine.simulate.tensors import (
    TensorInfo,
    check_feed,
    check_outputs,
    join_samples,
    random_feed,
    split_samples,
)

X = TensorInfo("x", (2, 3), np.dtype(np.int8))
Y = TensorInfo("y", (1, 4), np.dtype(np.float32))
SCALAR = TensorInfo("s", (), np.dtype(np.float32))


def zeros(info: TensorInfo, rows: int | None = None) -> np.ndarray:
    return np.zeros(info.shape if rows is None else (rows, *info.shape[1:]), info.dtype)


def test_types_are_those_of_onnx_runtime() -> None:
    assert (X.type, Y.type) == ("tensor(int8)", "tensor(float)")
    assert str(X) == "x (int8, shape [2, 3])"


def test_samples_are_multiples_of_the_first_dimension() -> None:
    assert check_feed({"x": zeros(X)}, [X]) == 1
    assert check_feed({"x": zeros(X, 6), "y": zeros(Y, 3)}, [X, Y]) == 3
    assert check_feed({"s": zeros(SCALAR)}, [SCALAR]) == 1
    assert check_feed({}, []) == 1


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        ({"x": zeros(X)}, "input y is missing; the model's inputs: x .*, y "),
        ({"x": zeros(X), "y": zeros(Y), "z": zeros(Y)}, "unknown input z; the model's inputs"),
        ({"x": zeros(X, 3), "y": zeros(Y)}, r"input x: got shape \[3, 3\], expected \[2, 3\]"),
        ({"x": zeros(X, 0), "y": zeros(Y)}, r"got shape \[0, 3\]"),
        ({"x": np.zeros((2, 4), np.int8), "y": zeros(Y)}, r"got shape \[2, 4\]"),
        ({"x": np.zeros(6, np.int8), "y": zeros(Y)}, r"got shape \[6\]"),
        ({"x": zeros(X).astype(np.int16), "y": zeros(Y)}, "input x: got type int16, expected int8"),
        ({"x": zeros(X, 4), "y": zeros(Y)}, r"inputs hold different numbers of samples: \{'x': 2, 'y': 1\}"),
    ],
)
def test_what_does_not_fit_is_named(feed: dict[str, Any], message: str) -> None:
    with pytest.raises(InferenceError, match=message):
        check_feed(feed, [X, Y])


def test_a_scalar_takes_no_samples() -> None:
    with pytest.raises(InferenceError, match=r"input s: got shape \[1\], expected a scalar"):
        check_feed({"s": np.zeros(1, np.float32)}, [SCALAR])


def test_outputs_in_the_order_of_their_names() -> None:
    assert check_outputs(None, [X, Y]) == check_outputs([], [X, Y]) == ("x", "y")
    assert check_outputs(["y", "x"], [X, Y]) == ("y", "x")
    with pytest.raises(InferenceError, match="unknown output z; the model's outputs: x, y"):
        check_outputs(["z"], [X, Y])


def test_samples_are_split_and_joined_along_the_first_dimension() -> None:
    feed = {"x": np.arange(12, dtype=np.int8).reshape(4, 3), "s": np.float32(1)}
    parts = [split_samples(feed, [X, SCALAR], index) for index in (0, 1)]
    assert [part["x"][0, 0] for part in parts] == [0, 6]
    assert all(part["s"] == 1 for part in parts)
    joined = join_samples([{"x": part["x"], "s": np.float32(k)} for k, part in enumerate(parts)], ["s", "x"])
    assert list(joined) == ["s", "x"]
    np.testing.assert_array_equal(joined["x"], feed["x"])
    assert joined["s"].tolist() == [0, 1]
    assert join_samples([{"s": np.float32(3)}], ["s"])["s"].shape == ()


def test_noise_covers_integers_and_is_the_same_each_time() -> None:
    feed = random_feed([TensorInfo("x", (1, 2000), np.dtype(np.int8)), Y], 2)
    assert (feed["x"].shape, feed["x"].min(), feed["x"].max()) == ((2, 2000), -128, 127)
    assert (feed["y"].shape, feed["y"].dtype) == ((2, 4), np.float32)
    np.testing.assert_array_equal(feed["y"], random_feed([TensorInfo("x", (1, 2000), np.dtype(np.int8)), Y], 2)["y"])
