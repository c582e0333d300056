"""``ptqlab bench``: what it reports and refuses; no speeds are asserted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from engine.errors import ConfigError, ModelError
from engine.ir import save_model
from engine.simulate.bench import BenchOptions, BenchRow
from engine.simulate.profile import OperatorCost, Profile
from harness.bench import measure
from harness.bench.measure import (
    BenchReport,
    ConversionTimes,
    MemoryRow,
    Pair,
    _calibration_samples,
    _images,
    as_json,
    geometric_mean,
    memory_rows,
    ratios,
)
from harness.bench.peak_memory import Contender, peak_memory
from harness.cli.main import app
from harness.zoo.cards import load_card
from tests.engine.simulate.test_session import IMAGE_MODEL, float_model


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A quantised model and a float network as files."""
    folder = tmp_path_factory.mktemp("pair")
    save_model(float_model(), folder / "float.onnx")
    return str(IMAGE_MODEL), str(folder / "float.onnx")


@pytest.mark.nightly
def test_json_of_a_pair(pair: tuple[str, str]) -> None:
    arguments = ["bench", "--model", pair[0], "--float-model", pair[1], "--rounds", "1", "--batch", "1,2", "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert set(report) == {"simulator", "memory", "conversion", "profile"}
    assert [row["batch"] for row in report["simulator"]] == [1, 2]
    for row in report["simulator"]:
        assert row["model"] == IMAGE_MODEL.stem
        assert row["ratio_to_float"] == pytest.approx(row["images_per_s"] / row["float_images_per_s"])
        assert row["ratio_to_reference"] == pytest.approx(row["images_per_s"] / row["reference_images_per_s"])
    for row in report["memory"]:
        assert row["ratio_to_float"] == pytest.approx(row["simulator_bytes"] / row["float_bytes"])
    assert report["conversion"] == []


@pytest.mark.nightly
def test_a_model_of_the_zoo_is_converted_stage_by_stage() -> None:
    arguments = ["bench", "mnist_mobilenet", "--rounds", "1", "--batch", "2", "--no-reference", "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    (conversion,) = json.loads(result.stdout)["conversion"]
    assert (conversion["model"], conversion["images"]) == ("mnist_mobilenet", 50)
    assert {"optimize", "calibrate", "quantize", "compile"} <= set(conversion["seconds"])
    for stage, seconds in conversion["seconds"].items():
        assert conversion["ratio_to_float_pass"][stage] == pytest.approx(seconds / conversion["float_pass_seconds"])


def test_table_of_a_quantised_model_alone(pair: tuple[str, str]) -> None:
    result = CliRunner().invoke(app, ["bench", "--model", pair[0], "--rounds", "1", "--batch", "1", "--no-reference"])
    assert result.exit_code == 0, result.output
    assert "images per second" in result.stdout
    assert IMAGE_MODEL.stem in result.stdout


def test_memory_of_a_large_batch_is_that_of_its_own_process(pair: tuple[str, str]) -> None:
    small, large = (peak_memory(Contender.FLOAT, Path(pair[1]), batch, 1) for batch in (1, 1))
    assert small == pytest.approx(large, rel=0.2)
    assert 10e6 < small < 1e9


def test_wrong_use_is_refused(pair: tuple[str, str], tmp_path: Path) -> None:
    runner = CliRunner()
    assert "names of models" in runner.invoke(app, ["bench", "mnist_lenet", "--model", pair[0]]).output
    assert "needs --model" in runner.invoke(app, ["bench", "--float-model", pair[1]]).output
    assert isinstance(runner.invoke(app, ["bench", "--model", pair[0], "--batch", "1,x"]).exception, ConfigError)
    assert isinstance(runner.invoke(app, ["bench", "--model", pair[1]]).exception, ModelError)
    assert "did you mean 'mnist_lenet'" in str(runner.invoke(app, ["bench", "mnist_lenett"]).exception)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(ModelError, match="measuring memory failed"):
        peak_memory(Contender.FLOAT, broken, 1, 1)


def row(batch: int, ratio: float | None) -> BenchRow:
    return BenchRow(batch, 1, 100.0, None if ratio is None else 100.0 / ratio, None)


def test_the_mean_of_ratios_is_geometric_and_of_one_batch_size() -> None:
    reports = [BenchReport("a", (row(1, 2.0), row(8, 5.0)), ()), BenchReport("b", (row(1, 8.0), row(1, None)), ())]
    assert ratios(reports, 1) == [2.0, 8.0]
    assert ratios(reports, 8) == [5.0]
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([]) is None
    peer = BenchReport("c", (BenchRow(1, 1, 6.0, None, None, {"x": 4.0}),), ())
    assert ratios([*reports, peer], 1, "x") == [1.5]


def test_rows_without_a_float_model_have_no_ratio() -> None:
    assert MemoryRow(2, 300, None).as_dict() == {
        "batch": 2,
        "simulator_bytes": 300,
        "float_bytes": None,
        "ratio_to_float": None,
    }
    assert MemoryRow(2, 300, 200).as_dict()["ratio_to_float"] == 1.5


def test_json_gives_every_row_its_model() -> None:
    conversion = ConversionTimes(images=3, seconds={"optimize": 1.0}, float_pass_seconds=0.5)
    profile = Profile((OperatorCost("Conv", "gemm", 2, 0.5, 100),), 1.0)
    found = as_json(
        [BenchReport("a", (row(1, 2.0),), (MemoryRow(1, 2, 1),), conversion, profile), BenchReport("b", (), ())]
    )
    assert [[entry["model"] for entry in part] for part in found.values()] == [["a"]] * 4
    assert found["conversion"][0]["ratio_to_float_pass"] == {"optimize": 2.0}
    assert found["profile"][0] == {
        "model": "a",
        "op_type": "Conv",
        "instruction": "gemm",
        "calls": 2,
        "seconds": 0.5,
        "bytes": 100,
    }


def test_a_conversion_uses_fifty_images_at_most() -> None:
    card = load_card("mnist_lenet")
    assert _images(card) == 50
    few = card.dataset.calibration.model_copy(update={"count": 7})
    short = card.model_copy(update={"dataset": card.dataset.model_copy(update={"calibration": few})})
    assert _images(short) == 7
    np.testing.assert_array_equal(
        _calibration_samples(short)["image"], card.open_dataset().split(card.dataset.calibration.split).images(0, 7)
    )


def test_memory_of_floats_is_of_the_file_that_takes_the_batch(
    pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str, int, int]] = []

    def peak(contender: Contender, model: Path, batch: int, threads: int) -> int:
        asked.append((contender.value, model.name, batch, threads))
        return 100

    monkeypatch.setattr(measure, "peak_memory", peak)
    rows = memory_rows(Pair("a", Path(pair[0]), Path(pair[1])), BenchOptions((1, 8), 3, 1), (1, 8))
    name = Path(pair[0]).name
    assert asked == [
        ("fast", name, 1, 3),
        ("float", "one.onnx", 1, 3),
        ("fast", name, 8, 3),
        ("float", "many.onnx", 8, 3),
    ]
    assert [memory.float_bytes for memory in rows] == [100, 100]
    assert memory_rows(Pair("a", Path(pair[0]), None), BenchOptions((1,), 3, 1), (1,))[0].float_bytes is None
