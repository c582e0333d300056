"""Samples for the debugger: arrays, folders, their order and number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.calibrate import ArrayData
from engine.config import InputSpec
from engine.debug.analysis.data import CalibrationDataSet, dump_samples, read_samples, sample_names
from engine.errors import CalibrationDataError
from engine.frontend import preprocess
from tests.engine.calibrate.models import graph, identity, residual

X = np.arange(12, dtype=np.float32).reshape(4, 3)
MODEL = identity((1, 3))


def two_inputs() -> object:
    nodes = [helper.make_node("Add", ["a/b", "c"], ["y"], name="add")]
    return graph(nodes, {"a/b": (1, 3), "c": (1, 3)}, ["y"])


@pytest.mark.parametrize("count", [1, 4, None])
def test_arrays_and_data_give_the_first_samples(count: int | None) -> None:
    for data in ({"x": X}, ArrayData({"x": X})):
        np.testing.assert_array_equal(read_samples(MODEL, data, count)["x"], X[:count])
    assert len(read_samples(identity((2, 3)), {"x": X}, 1)["x"]) == 2


@pytest.mark.parametrize("count", [0, 5, -1, 1.5, "2"])
def test_counts_that_are_not_there(count: object) -> None:
    with pytest.raises(CalibrationDataError, match=r"data_num is .*; allowed is 1 to 4"):
        read_samples(MODEL, {"x": X}, count)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([X], "a list; give a folder, or arrays in a dictionary"),
        ({"y": X}, r"no data for the inputs \['x'\]; given are \['y'\]"),
        ({"x": X[:0]}, "holds no samples"),
        ({"x": X * np.nan}, "values that are not finite numbers"),
        ({"x": X.astype(str)}, "values that are not finite numbers"),
    ],
)
def test_data_of_another_kind(data: object, message: str) -> None:
    with pytest.raises(CalibrationDataError, match=message):
        read_samples(MODEL, data)


def test_files_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    for name, value in (("10", 2), ("9", 1), ("b", 4), ("a", 3)):
        np.save(folder / f"{name}.npy", np.full(3, value, np.float32))
    assert read_samples(MODEL, tmp_path)["x"][:, 0].tolist() == [1, 2, 3, 4]
    assert sample_names(MODEL, tmp_path, 3) == ["9", "10", "a"]
    assert sample_names(MODEL, {"x": X}, 2) == ["0", "1"]


def test_with_one_input_files_may_lie_in_the_folder_itself(tmp_path: Path) -> None:
    np.save(tmp_path / "0.npy", X[:1])
    np.testing.assert_array_equal(read_samples(MODEL, tmp_path)["x"], X[:1])
    with pytest.raises(CalibrationDataError, match=r"no .npy files for the input 'a/b'; expected .*a_b/0.npy"):
        read_samples(two_inputs(), tmp_path)


def test_a_dump_is_read_again(tmp_path: Path) -> None:
    data = ArrayData({"a/b": X, "c": -X})
    assert dump_samples(data, tmp_path / "dump") == tmp_path / "dump"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dump"]
    assert sorted(path.name for path in (tmp_path / "dump").iterdir()) == ["a_b", "c"]
    found = read_samples(two_inputs(), tmp_path / "dump")
    np.testing.assert_array_equal(found["a/b"], X)
    np.testing.assert_array_equal(found["c"], -X)
    (tmp_path / "dump" / "c" / "3.npy").unlink()
    with pytest.raises(CalibrationDataError, match="every input needs the same number of samples"):
        read_samples(two_inputs(), tmp_path / "dump")


def test_a_sample_fits_its_input(tmp_path: Path) -> None:
    np.save(tmp_path / "0.npy", np.zeros(90, np.float32))
    assert read_samples(residual(), tmp_path)["x"].shape == (1, 3, 6, 5)
    for shape in ((91,), (1, 6, 5, 3), (2, 3, 6, 5)):
        np.save(tmp_path / "0.npy", np.zeros(shape, np.float32))
        with pytest.raises(CalibrationDataError, match=r"0\.npy: cannot reshape .* into shape \(1, 3, 6, 5\)"):
            read_samples(residual(), tmp_path)
    with pytest.raises(CalibrationDataError, match=r"arrays of shape \(2, 6, 5, 3\); the input takes \(1, 3, 6, 5\)"):
        read_samples(residual(), {"x": np.zeros((2, 6, 5, 3), np.float32)})


def test_integers_are_no_samples_of_an_input_of_floats(tmp_path: Path) -> None:
    np.save(tmp_path / "0.npy", np.arange(3, dtype=np.uint8))
    message = r"0\.npy: holds uint8; the input 'x' takes float32\. Give the folder calibration_data"
    with pytest.raises(CalibrationDataError, match=message):
        read_samples(MODEL, tmp_path)


def test_integers_beyond_their_type_are_refused_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    numbers = graph([helper.make_node("Relu", ["x"], ["y"], name="r")], {"x": (1, 3)}, ["y"])
    numbers.graph.inputs[0].dtype = ir.DataType.INT32
    with pytest.raises(CalibrationDataError, match="values that the input 'x', int32, cannot hold"):
        read_samples(numbers, {"x": np.full((1, 3), 1e20, np.float32)})
    assert not list(recwarn)


def test_scalar_inputs_have_no_samples(tmp_path: Path) -> None:
    model = graph([helper.make_node("Add", ["x", "s"], ["y"], name="add")], {"x": (1, 3), "s": ()}, ["y"])
    for name, array in (("x", X[:1]), ("s", np.float32(2))):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "0.npy", array)
    for data in ({"x": X[:1], "s": np.float32(2)}, tmp_path):
        with pytest.raises(
            CalibrationDataError, match=r"inputs \['s'\] are scalars: samples are joined along the first"
        ):
            read_samples(model, data)


def image_model() -> object:
    """:func:`residual` behind the preprocessing of an RGB input."""
    return preprocess.insert(residual(), [InputSpec(name="x", type_train="rgb", type_rt="rgb", layout_train="NCHW")])


@pytest.mark.parametrize(("low", "high"), [(0, 255), (-2.2, 2.7), (0, 1), (-500, 500), (3, 3)])
def test_images_are_pixels_minus_128(tmp_path: Path, low: float, high: float) -> None:
    pixels = np.linspace(low, high, 90).astype(np.float32).reshape(1, 3, 6, 5)
    np.save(tmp_path / "0.npy", pixels)
    for data in (tmp_path, {"x": pixels}):
        with pytest.raises(
            CalibrationDataError, match=r"pixels minus 128 .*neither raw \(0\.\.255\) nor normalised or without"
        ):
            read_samples(image_model(), data)
    assert read_samples(residual(), tmp_path)["x"].max() == np.float32(high)


def test_a_dump_of_images_is_read_whatever_they_show(tmp_path: Path) -> None:
    spec = InputSpec(name="x", type_train="rgb", type_rt="nv12", layout_train="NCHW")
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 6, 4)).astype(np.uint8)
    for images in (pixels, pixels // 8, 255 - pixels // 8):
        found = ArrayData({"x": images}, [spec]).read(0, 2)["x"]
        model = graph([helper.make_node("Relu", ["x"], ["y"], name="r")], {"x": (1, 3, 6, 4)}, ["y"])
        np.testing.assert_array_equal(read_samples(preprocess.insert(model, [spec]), {"x": found})["x"], found)


def test_raw_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "0.rgb").write_bytes(bytes(90))
    with pytest.raises(CalibrationDataError, match=r"no \.npy .* 1 other files, such as 0\.rgb, are not read"):
        read_samples(residual(), tmp_path)


def test_a_calibration_data_set_stands_for_its_folder_or_arrays(tmp_path: Path) -> None:
    folder = dump_samples(ArrayData({"x": X}), tmp_path / "calibration_data")
    for data in (CalibrationDataSet(folder), CalibrationDataSet(str(folder)), CalibrationDataSet({"x": X})):
        np.testing.assert_array_equal(read_samples(MODEL, data, 3)["x"], X[:3])
        assert sample_names(MODEL, data, 2) == ["0", "1"]
    with pytest.raises(CalibrationDataError, match="no folder"):
        CalibrationDataSet(tmp_path / "absent")
    with pytest.raises(CalibrationDataError, match="a int; give a folder, or arrays"):
        CalibrationDataSet(3)  # type: ignore[arg-type]
