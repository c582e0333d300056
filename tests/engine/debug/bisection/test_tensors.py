"""Which tensors of a stage are compared: those that depend on what the inputs hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import yaml
from onnx import helper

from engine.debug.bisection.tensors import (
    _filled,
    _in_layout,
    _without_fill,
    as_integers,
    fed,
    float_tensors,
    integer_tensors,
    with_rearranged,
)
from engine.errors import InferenceError
from engine.frontend.onnx import load_onnx
from engine.quantize import quantize
from harness.cli.main import app
from tests.engine.calibrate.models import DATA, calibrated_residual, graph, identity
from tests.engine.debug.bisection.unfolded import SIZE, save


def test_a_grid_computed_of_shapes_is_no_result_to_compare(tmp_path: Path) -> None:
    feed = {"image": np.random.RandomState(0).standard_normal((3, 3, SIZE, SIZE)).astype(np.float32)}
    found = float_tensors(load_onnx(save(tmp_path / "model.onnx")), feed)
    assert set(found) == {"c", "r", "d", "moved", "out"}
    assert {len(array) for array in found.values()} == {3}


@pytest.mark.parametrize("type_rt", ["rgb", "nv12"])
def test_an_unfolded_detector_is_bisected_from_the_command_line(tmp_path: Path, type_rt: str) -> None:
    """The usual case of an RDK board: an exported detector, NV12 at run time, the right preprocessing."""
    from typer.testing import CliRunner

    save(tmp_path / "model.onnx")
    random = np.random.RandomState(0)
    for index in range(4):
        image = random.randint(0, 256, (1, 3, SIZE, SIZE)).astype(np.uint8)
        (tmp_path / "data").mkdir(exist_ok=True)
        image.tofile(tmp_path / "data" / f"{index}.bin")
        (tmp_path / "source" / "image").mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / "source" / "image" / f"{index}.npy", (image.astype(np.float32) - 128) * np.float32(0.01))
    inputs = {
        "input_name": "image",
        "input_type_train": "rgb",
        "input_layout_train": "NCHW",
        "input_shape": f"1x3x{SIZE}x{SIZE}",
        "norm_type": "data_mean_and_scale",
        "mean_value": 128,
        "scale_value": 0.01,
        "input_type_rt": type_rt,
        **({} if type_rt == "nv12" else {"input_layout_rt": "NHWC"}),
    }
    model = {"onnx_model": "model.onnx", "march": "bayes-e", "working_dir": "out", "output_model_file_prefix": "m"}
    content = {
        "model_parameters": {**model, "onnx_model": str(tmp_path / "model.onnx")},
        "input_parameters": inputs,
        "calibration_parameters": {
            "cal_data_dir": str(tmp_path / "data"),
            "cal_data_type": "uint8",
            "calibration_type": "max",
        },
        "compiler_parameters": {"compile_mode": "latency", "optimize_level": "O2"},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(content))
    arguments = ["--config", str(tmp_path / "config.yaml"), "--source-data", str(tmp_path / "source")]
    finished = CliRunner().invoke(app, ["bisect", str(tmp_path / "model.onnx"), *arguments])
    assert finished.exit_code == 0, finished.output
    assert "every stage is within its bound" in finished.stdout


def rearranging(kind: str, target: tuple[int, ...], **attributes: object) -> ir.Model:
    """``x`` of (1, 2, 3), made positive as ``a``, then rearranged as ``y``."""
    constants = {} if kind == "Transpose" else {"s": np.asarray(target)}
    inputs = ["a"] if kind == "Transpose" else ["a", "s"]
    nodes = [
        helper.make_node("Abs", ["x"], ["a"], name="abs"),
        helper.make_node(kind, inputs, ["y"], name="move", **attributes),
    ]
    return graph(nodes, {"x": (1, 2, 3)}, ["y"], constants)


VALUES = np.arange(12, dtype=np.float32).reshape(2, 2, 3)


@pytest.mark.parametrize(
    ("model", "result"),
    [
        (rearranging("Transpose", (), perm=[0, 2, 1]), VALUES.transpose(0, 2, 1)),
        (rearranging("Reshape", (1, 6)), VALUES.reshape(2, 6)),
    ],
)
def test_what_is_rearranged_behind_is_known_in_front(model: ir.Model, result: np.ndarray) -> None:
    found = with_rearranged(model, {"y": result}, {"y": result + 1, "a": VALUES})
    np.testing.assert_array_equal(found["a"], VALUES)


def test_values_that_are_right_but_for_their_order_are_the_fault_of_what_rearranges() -> None:
    model = rearranging("Transpose", (), perm=[0, 2, 1])
    result = VALUES.transpose(0, 2, 1)
    assert "a" not in with_rearranged(model, {"y": result}, {"y": result[:, ::-1], "a": VALUES})
    assert "a" not in with_rearranged(model, {"y": result}, {"a": VALUES}), "nothing says what it computes"


@pytest.mark.parametrize(
    ("name", "shape", "found"),
    [
        ("replaced_y", (2, 1, 6), True),
        ("transposed_replaced_y", (2, 6, 1, 1), True),
        ("4dim_y", (2, 1, 6), True),
        ("y_reshape_reshape", (1, 2, 6), True),
        ("replaced_y", (2, 3, 2), False),
        ("other_y", (2, 1, 6), False),
        ("replaced_z", (2, 1, 6), False),
    ],
)
def test_tensors_in_another_shape_are_found_by_their_names(name: str, shape: tuple[int, ...], found: bool) -> None:
    expected = {"y": VALUES.reshape(2, 6)}
    made = with_rearranged(identity((1, 6)), expected, {name: np.zeros(shape)})
    assert (name in made) == found
    if found:
        np.testing.assert_array_equal(made[name], VALUES.reshape(shape))


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([0.5, 1.5, 2.5, -0.5, -1.5], np.int8, [0, 2, 2, 0, -2]),
        ([127.4, 128.0, -128.6, -500.0], np.int8, [127, 127, -128, -128]),
        ([-1.0, 255.6], np.uint8, [0, 255]),
        ([np.nan, np.inf, -np.inf], np.int8, [0, 127, -128]),
    ],
)
def test_integers_are_rounded_half_to_even_and_clipped(values: list[float], kind: type, expected: list[int]) -> None:
    found = as_integers(np.asarray(values), np.dtype(kind))
    assert (found.dtype, found.tolist()) == (kind, expected)


@pytest.mark.parametrize(
    ("shape", "wanted", "expected"),
    [
        ((2, 3, 4, 5), (1, 4, 5, 3), (2, 4, 5, 3)),
        ((2, 4, 5, 3), (1, 3, 4, 5), (2, 3, 4, 5)),
        ((2, 3, 4, 5), (1, 3, 4, 5), (2, 3, 4, 5)),
        ((2, 3, 4, 5), (1, 5, 4, 3), (2, 3, 4, 5)),
        ((2, 3, 4), (1, 4, 3), (2, 3, 4)),
    ],
)
def test_channels_move_where_the_model_has_them_elsewhere(
    shape: tuple[int, ...], wanted: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert _in_layout(np.zeros(shape), wanted).shape == expected


def test_an_input_without_data_is_named() -> None:
    with pytest.raises(InferenceError, match=r"no data for the input 'x'; there are \['z'\]"):
        fed(identity((1, 3)), {"z": np.zeros((1, 3))})
    assert fed(identity((1, 3)), {"x": np.zeros((1, 3)), "z": 0})["x"].dtype == np.float32


def test_the_last_sample_fills_up_a_batch() -> None:
    rows = np.asarray([[1], [2], [3]])
    filled = _filled(rows, 4)
    assert filled.tolist() == [[1], [2], [3], [3]]
    assert _filled(rows, 3) is rows
    assert _without_fill(np.concatenate([filled] * 2, axis=1), 3, 4).tolist() == [[1, 1], [2, 2], [3, 3]]
    assert len(_without_fill(np.zeros((8, 1)), 3, 4)) == 6


def test_every_integer_tensor_of_single_samples_and_of_all() -> None:
    model = quantize(calibrated_residual(), "bayes-e")
    whole = integer_tensors(model, DATA)
    computed = {value.name for node in model.graph for value in node.outputs if value.shape is not None}
    assert set(whole) <= computed
    assert {len(array) for array in whole.values()} == {10}
    last = integer_tensors(model, {"x": DATA["x"][-1:]})
    for name, array in last.items():
        np.testing.assert_array_equal(whole[name][-1:], array)
