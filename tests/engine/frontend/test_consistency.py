"""Models that ONNX's checker accepts and that nothing can compute: refused where they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from engine.errors import ModelError
from engine.frontend.onnx import load_onnx
from tests.engine.frontend.networks import network, saved

Case = tuple[str, tuple[int, ...], dict[str, Any], dict[str, Any], str]
"""Operator, shape of its first input, its constants (in the order of inputs), its attributes, the message."""


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


CASES: list[Case] = [
    ("Conv", (1, 4, 8, 8), {"w": ones(4, 3, 3, 3)}, {}, "and group 1 do not fit each other"),
    ("Conv", (1, 6, 8, 8), {"w": ones(3, 3, 3, 3)}, {"group": 2}, "and group 2 do not fit each other"),
    ("Conv", (1, 3, 8, 8), {"w": ones(4, 3, 3, 3)}, {"group": 0}, "and group 0 do not fit each other"),
    ("Conv", (1, 3, 8, 8), {"w": ones(4, 3, 3, 3), "b": ones(5)}, {}, "4 channels need a bias of as many values"),
    ("Conv", (1, 3, 8, 8), {"w": ones(4, 3, 3, 3)}, {"kernel_shape": [5, 5]}, r"kernel_shape \(5, 5\) and a weight of"),
    ("Conv", (1, 3, 2, 2), {"w": ones(4, 3, 3, 3)}, {}, "the window is larger than the padded input"),
    ("ConvTranspose", (1, 4, 8, 8), {"w": ones(3, 3, 3, 3)}, {}, "and group 1 do not fit each other"),
    ("ConvTranspose", (1, 2, 8, 8), {"w": ones(2, 3, 2, 2), "b": ones(4)}, {}, "3 channels need a bias"),
    ("MaxPool", (1, 3, 8, 8), {}, {"kernel_shape": [9, 9]}, "the window is larger than the padded input"),
    ("BatchNormalization", (1, 3, 8, 8), dict.fromkeys("abcd", ones(5)), {}, "3 channels need operands of as many"),
    ("InstanceNormalization", (1, 3, 8, 8), dict.fromkeys("ab", ones(2)), {}, "3 channels need operands of as many"),
    ("PRelu", (1, 3, 8, 8), {"a": ones(5, 1, 1)}, {}, r"a slope of shape \(5, 1, 1\) does not spread over"),
    ("Reshape", (1, 3, 8, 8), {"s": np.array([1, 7])}, {}, "they differ in the number of elements"),
    ("Reshape", (1, 3, 8, 8), {"s": np.array([[1, 192]])}, {}, "its second input must be a list"),
    ("Gather", (1, 3, 8, 8), {"i": np.array([3])}, {"axis": 1}, "indices 3 to 3 do not lie within 3 elements"),
    ("DepthToSpace", (1, 4, 8, 8), {}, {"blocksize": 3}, "cannot become blocks of 3x3"),
    ("SpaceToDepth", (1, 4, 8, 8), {}, {"blocksize": 3}, "no multiples of blocksize 3"),
    ("Resize", (1, 3, 8, 8), {"r": ones(8), "s": np.float32([1, 1, 0, 1])}, {}, "scales .* must be positive"),
    ("LRN", (1, 3, 8, 8), {}, {"size": 2}, "size 2 must be odd"),
    ("Clip", (1, 3, 8, 8), {"low": ones(0)}, {}, r"limits must be single numbers, one is of shape \(0,\)"),
    ("Slice", (1, 3, 8, 8), {"a": np.array([[0]]), "b": np.array([[2]])}, {}, "must be lists of the same length"),
    ("LSTM", (3, 1, 4), {"w": ones(1, 8, 5), "r": ones(1, 8, 2)}, {"hidden_size": 2}, "do not fit each other"),
    ("GRU", (3, 1, 4), {"w": ones(1, 6, 4), "r": ones(1, 6, 2)}, {"hidden_size": 3}, "do not fit each other"),
]


@pytest.mark.parametrize(("op_type", "shape", "constants", "attributes", "message"), CASES)
def test_operands_that_do_not_fit_are_refused(
    tmp_path: Path, op_type: str, shape: tuple[int, ...], constants: Any, attributes: Any, message: str
) -> None:
    node = helper.make_node(op_type, ["x", *constants], ["y"], "bad", **attributes)
    with pytest.raises(ModelError, match=message) as caught:
        load_onnx(saved(network([node], {"x": shape}, ["y"], constants), tmp_path))
    assert f"node 'bad' ({op_type})" in str(caught.value)
