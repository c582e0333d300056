"""Resize of floats: the coordinates, weights and order of sums, which ONNX Runtime has too, and what is left to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from engine.floats.resize import plan_of, resized

NONE = np.zeros(0, np.float32)


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def resize(**attributes: Any) -> ir.Node:
    return ir.node("Resize", [], attributes, name="n")


def of_the_runtime(x: np.ndarray, factors: np.ndarray, sizes: np.ndarray | None, **attributes: Any) -> np.ndarray:
    constants = {"roi": NONE, "factors": factors, **({} if sizes is None else {"sizes": sizes})}
    node = onnx.helper.make_node("Resize", ["x", *constants], ["y"], **attributes)
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None] * 4) for name in ("x", "y")]
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:], weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 11)], ir_version=8)
    return np.asarray(ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0])


@pytest.mark.parametrize(
    ("factors", "sizes"),
    [
        ([1, 1, 2, 2], None),
        ([1, 1, 1.7, 0.4], None),
        ([1, 1, 1, 3], None),
        ([], [2, 3, 13, 1]),
        ([], [2, 3, 24, 5]),
    ],
)
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
def test_the_runtime_has_the_same_bits(factors: list[float], sizes: list[int] | None, coordinates: str) -> None:
    x, scales = noise(2, 3, 7, 9), np.array(factors, np.float32)
    target = None if sizes is None else np.array(sizes)
    roundings = [{"nearest_mode": mode} for mode in ("round_prefer_floor", "floor", "ceil")]
    for more in ({"mode": "linear"}, *({"mode": "nearest", **rounding} for rounding in roundings)):
        attributes = {"coordinate_transformation_mode": coordinates, **more}
        plan = plan_of(resize(**attributes), [x, NONE, scales, target], 11)
        assert plan is not None
        np.testing.assert_array_equal(resized(x, plan), of_the_runtime(x, scales, target, **attributes))


@pytest.mark.parametrize(
    ("x", "factors", "opset", "more"),
    [
        (noise(1, 1, 4, 4), [1, 1, 2, 2], 10, {}),
        (noise(1, 4, 4), [1, 2, 2], 13, {}),
        (noise(1, 1, 4, 4).astype(np.float64), [1, 1, 2, 2], 13, {}),
        (noise(1, 1, 4, 4), [1, 2, 2, 2], 13, {}),
        (noise(1, 1, 4, 4), [1, 1, 1, 1], 13, {}),
        (noise(1, 1, 4, 4), [1, 1, 0.1, 1], 13, {}),
        (noise(1, 1, 4, 4), [], 13, {}),
        (noise(1, 1, 4, 4), [1, 1, 2, 2], 13, {"mode": "cubic"}),
        (noise(1, 1, 4, 4), [1, 1, 2, 2], 13, {"nearest_mode": "round_prefer_ceil"}),
        (noise(1, 1, 4, 4), [1, 1, 2, 2], 13, {"coordinate_transformation_mode": "tf_crop_and_resize"}),
        (noise(1, 1, 4, 4), [1, 1, 2, 2], 18, {"mode": "linear", "antialias": 1}),
        (noise(1, 1, 4, 4), [2, 2], 18, {"axes": [2, 3]}),
    ],
)
def test_what_is_left_to_the_runtime(x: np.ndarray, factors: list[float], opset: int, more: dict[str, Any]) -> None:
    assert plan_of(resize(**more), [x, None, np.array(factors, np.float32)], opset) is None


def test_another_operator_is_none() -> None:
    assert plan_of(ir.node("Upsample", [], {}, name="n"), [noise(1, 1, 4, 4), np.ones(4, np.float32)], 11) is None
