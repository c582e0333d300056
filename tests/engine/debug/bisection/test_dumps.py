"""Files that a board dumped, read as tensors of the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.debug.bisection.dumps import read_dumps
from engine.errors import InferenceError
from tests.engine.calibrate.models import graph


def model() -> ir.Model:
    """``a/b`` and ``y`` of (1, 3), the first of int8."""
    nodes = [helper.make_node("Abs", ["x"], ["a/b"], name="abs"), helper.make_node("Neg", ["a/b"], ["y"], name="neg")]
    made = graph(nodes, {"x": (1, 3)}, ["y"])
    made.graph[0].outputs[0].type = ir.TensorType(ir.DataType.INT8)
    return made


def write(folder: Path, name: str, values: list[float], kind: str = "float32") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    np.asarray(values, kind).tofile(folder / name)


def test_names_are_those_of_tensors_where_a_file_cannot_have_them(tmp_path: Path) -> None:
    write(tmp_path, "a_b.bin", [1, 2, 3], "int8")
    write(tmp_path, "model_infer_output_0_y.bin", [0.5, 1.5, 2.5])
    write(tmp_path, "another.bin", [9])
    (tmp_path / "a_b.log").write_text("no dump")
    found = read_dumps(tmp_path, model())
    assert {name: array.tolist() for name, array in found.items()} == {"a/b": [[1, 2, 3]], "y": [[0.5, 1.5, 2.5]]}
    assert found["a/b"].dtype == np.int8


def test_text_is_read_in_the_type_of_the_tensor(tmp_path: Path) -> None:
    (tmp_path / "a_b.txt").write_text("1 2,\n3")
    assert read_dumps(tmp_path, model())["a/b"].tolist() == [[1, 2, 3]]


def test_samples_lie_in_numbered_folders(tmp_path: Path) -> None:
    for index in range(11):
        write(tmp_path / str(index), "y.bin", [index, 0, 0])
    assert read_dumps(tmp_path, model())["y"][:, 0].tolist() == list(range(11))
    write(tmp_path / "3", "a_b.bin", [1, 2, 3], "int8")
    with pytest.raises(InferenceError, match=r"3: holds dumps of other tensors than .*0: \['a/b'\]"):
        read_dumps(tmp_path, model())


@pytest.mark.parametrize("names", [("0", "2"), ("1",)])
def test_folders_have_no_gap(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        write(tmp_path / name, "y.bin", [0, 0, 0])
    with pytest.raises(InferenceError, match=r"expected the folders 0, 1, ... without a gap"):
        read_dumps(tmp_path, model())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("z.bin", b"", "no dump of a tensor of the model, as NAME.bin"),
        ("y.bin", b"1234", r"4 bytes, 1 values; y has the shape \(1, 3\) and type float32"),
        ("y.bin", b"1" * 13, "13 bytes, 3 values"),
        ("y.txt", b"1 2", "3 bytes, 2 values"),
        ("y.txt", b"one two three", "not a dump"),
    ],
)
def test_files_that_do_not_fit(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InferenceError, match=message):
        read_dumps(tmp_path, model())
