"""How far two dumps are apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.cli.vendor import vec_diff
from engine.cli.vendor.vec_diff import _row, read_dump
from engine.errors import InferenceError
from tests.engine.cli.vendor.board import run


def test_figures(tmp_path: Path) -> None:
    np.array([1, 2, 3], np.float32).tofile(tmp_path / "a.bin")
    (tmp_path / "b.txt").write_text("1.0 2.0\n5.0")
    lines = run(vec_diff.app, str(tmp_path / "a.bin"), str(tmp_path / "b.txt")).splitlines()
    name, cosine, euclidean, mae, mse = lines[1].split(",")
    assert name == "a.bin"
    assert float(cosine) == pytest.approx(20 / np.sqrt(14 * 30))
    assert (float(euclidean), float(mae), float(mse)) == pytest.approx((2, 2 / 3, 4 / 3))


def test_folders_and_csv(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "t.npy", np.arange(3.0))
    target = tmp_path / "out.csv"
    run(vec_diff.app, str(tmp_path / "x"), str(tmp_path / "y"), "-o", str(target))
    assert target.read_text().splitlines()[1] == "t.npy,1,0,0,0"


def test_mistakes(tmp_path: Path) -> None:
    np.zeros(2, np.float32).tofile(tmp_path / "a.bin")
    np.zeros(3, np.float32).tofile(tmp_path / "b.bin")
    (tmp_path / "c.txt").write_text("one two")
    first, second, third = (str(tmp_path / name) for name in ("a.bin", "b.bin", "c.txt"))
    assert "holds 2 values" in run(vec_diff.app, first, second, code=255)
    assert "cannot be read" in run(vec_diff.app, first, third, code=255)
    assert "two files or two folders" in run(vec_diff.app, first, str(tmp_path), code=255)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("first", "second", "figures"),
    [
        ([3.0, 4.0], [3.0, 4.0], "1,0,0,0"),
        ([0.0, 0.0], [0.0, 0.0], "1,0,0,0"),
        ([0.0, 0.0], [3.0, 4.0], "0,5,3.5,12.5"),
        ([1.0, 0.0], [0.0, 1.0], "0,1.41421356,1,1"),
        ([], [], "1,0,0,0"),
        ([np.inf, 1.0], [1.0, 1.0], "nan,inf,inf,inf"),
    ],
)
def test_figures_of_known_vectors(tmp_path: Path, first: list[float], second: list[float], figures: str) -> None:
    for name, values in (("a", first), ("b", second)):
        np.save(tmp_path / f"{name}.npy", np.asarray(values))
    assert _row("x", tmp_path / "a.npy", tmp_path / "b.npy", "float32") == f"x,{figures}"


def test_dumps_are_read_by_their_suffix(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1, 2\n3")
    np.asarray([1, 2, 3], np.int16).tofile(tmp_path / "a.bin")
    for name, dtype in (("a.txt", "int8"), ("a.bin", "int16")):
        assert read_dump(tmp_path / name, dtype).tolist() == [1, 2, 3]
    for name, dtype in (("a.bin", "int32"), ("a.bin", "nothing"), ("b.txt", "int8")):
        with pytest.raises(InferenceError, match=f"cannot be read as a dump of {dtype}"):
            read_dump(tmp_path / name, dtype)


def test_sizes_must_agree(tmp_path: Path) -> None:
    for name, count in (("a", 2), ("b", 3)):
        np.save(tmp_path / f"{name}.npy", np.zeros(count))
    with pytest.raises(InferenceError, match=r"a.npy holds 2 values, .*b.npy holds 3"):
        _row("x", tmp_path / "a.npy", tmp_path / "b.npy", "float32")
