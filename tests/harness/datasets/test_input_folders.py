"""Samples of several parts, and models with several inputs or with feature maps, through the commands."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from engine.errors import CalibrationDataError, ConfigError
from engine.terms import InputType
from harness.backends.foreign import write_inputs
from harness.cli.main import app
from harness.datasets.input_folders import InputFolders, InputFoldersOptions
from harness.files.strict_yaml import parse
from harness.suites.settings import Settings
from harness.trials.configuration import content
from harness.trials.fragments import as_yaml
from harness.zoo.cards import load_card
from tests.harness import fakes

SPLITS = {"calibration": "calib", "evaluation": "val"}
SAMPLES, SIDE, STATE, STEPS, CLASSES = 24, 16, 8, 12, 4
IMAGE = {"height": SIDE, "width": SIDE, "colour": "gray"}


def write_data(root: Path, *, labels: bool = True) -> dict[str, Any]:
    """Gray images, a vector and a sequence per sample; options of the adapter."""
    for seed, folder in enumerate(SPLITS.values()):
        random = np.random.RandomState(seed)
        for part in ("camera", "state", "steps"):
            (root / folder / part).mkdir(parents=True)
        for index in range(SAMPLES):
            image = random.randint(0, 256, (SIDE, SIDE, 1)).astype(np.uint8)
            image.tofile(root / folder / "camera" / f"{index:02d}.bin")
            np.save(root / folder / "state" / f"{index:02d}.npy", random.normal(0, 1, STATE).astype(np.float32))
            np.save(root / folder / "steps" / f"{index:02d}.npy", random.normal(0, 1, (1, STATE, STEPS)))
        if labels:
            rows = [("file", "label"), *((f"{index:02d}", index % CLASSES) for index in range(SAMPLES))]
            with (root / folder / "labels.csv").open("w", newline="") as table:
                csv.writer(table).writerows(rows)
    parts = {"camera": IMAGE, "state": {"shape": [STATE]}, "steps": {"shape": [STATE, STEPS]}}
    return {"folder": str(root), "folders": SPLITS, "parts": parts, "classes": CLASSES if labels else None}


def opened(options: dict[str, Any]) -> InputFolders:
    return InputFolders(parse(options, InputFoldersOptions, "data"))


class TestAdapter:
    def test_parts_of_a_sample_go_together(self, tmp_path: Path) -> None:
        data = opened(write_data(tmp_path))
        found = data.split("calibration").take(2, 5)
        assert {part: (array.shape, array.dtype.str) for part, array in found.items()} == {
            "camera": ((3, SIDE, SIDE, 1), "|u1"),
            "state": ((3, STATE), "<f4"),
            "steps": ((3, STATE, STEPS), "<f4"),
        }
        np.testing.assert_array_equal(found["state"][1], np.load(tmp_path / "calib/state/03.npy"))
        np.testing.assert_array_equal(data.split("calibration").images(2, 5), found["camera"])
        np.testing.assert_array_equal(data.split("evaluation").targets(3, 6), [3, 0, 1])
        assert data.split("evaluation").take(0, 0)["state"].shape == (0, STATE)

    def test_the_digest_is_that_of_all_files_and_labels(self, tmp_path: Path) -> None:
        options = write_data(tmp_path / "a")
        before = opened(options).digest
        assert opened(write_data(tmp_path / "other" / "a")).digest == before
        np.save(tmp_path / "a/val/state/07.npy", np.ones(STATE, np.float32))
        assert opened(options).digest != before

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda root: (root / "calib/state/03.npy").unlink(), "camera has 24, state 23, and 03 not in both"),
            (
                lambda root: np.save(root / "calib/state/03.npy", np.ones(7)),
                r"float64 of shape \(7,\), expected float32",
            ),
            (lambda root: np.save(root / "calib/state/03.npy", np.ones(STATE, np.int64)), "holds int64"),
            (lambda root: (root / "calib/state/03.npy").write_bytes(b"x"), "cannot be read as an array"),
            (lambda root: (root / "calib/camera/03.bin").write_bytes(b"x"), "holds uint8"),
            (
                lambda root: (root / "calib/labels.csv").write_text("file,label\n00,9\n"),
                "sample 00: label '9', expected",
            ),
            (
                lambda root: (root / "calib/steps").rename(root / "calib/stepz"),
                "no folder .*steps: expected one per part",
            ),
        ],
    )
    def test_what_does_not_fit_is_named(self, change: Any, message: str, tmp_path: Path) -> None:
        options = write_data(tmp_path)
        change(tmp_path)
        with pytest.raises(CalibrationDataError, match=message):
            opened(options).split("calibration").take()

    def test_without_labels_or_images(self, tmp_path: Path) -> None:
        options = write_data(tmp_path, labels=False)
        with pytest.raises(CalibrationDataError, match="labels: float"):
            opened(options).split("calibration").targets(0, 1)
        del options["parts"]["camera"]
        with pytest.raises(CalibrationDataError, match="samples hold no image; their parts are state, steps"):
            opened(options).split("calibration").images(0, 1)


def two_inputs() -> onnx.ModelProto:
    """A convolution on the image, a dense layer on the vector, their sum through a dense layer."""
    random = np.random.RandomState(0)
    weights = {
        "w0": random.normal(0, 0.3, (8, 1, 3, 3)),
        "w1": random.normal(0, 0.3, (STATE, 8)),
        "w2": random.normal(0, 0.5, (8, CLASSES)),
    }
    nodes = [
        helper.make_node("Conv", ["picture", "w0"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["state", "w1"], ["g"], "dense"),
        helper.make_node("Add", ["f", "g"], ["s"], "sum"),
        helper.make_node("Gemm", ["s", "w2"], ["scores"], "head"),
    ]
    return made(nodes, {"picture": (1, 1, SIDE, SIDE), "state": (1, STATE)}, {"scores": (1, CLASSES)}, weights)


def sequence() -> onnx.ModelProto:
    """A feature map of rank 3: a convolution over the steps, and a dense layer per step."""
    random = np.random.RandomState(1)
    weights = {"w0": random.normal(0, 0.3, (8, STATE, 3)), "w1": random.normal(0, 0.4, (8, 6))}
    nodes = [
        helper.make_node("Conv", ["steps", "w0"], ["c"], "conv", pads=[1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Transpose", ["r"], ["t"], "transpose", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["t", "w1"], ["rows"], "dense"),
    ]
    return made(nodes, {"steps": (1, STATE, STEPS)}, {"rows": (1, STEPS, 6)}, weights)


def made(nodes: Any, inputs: Any, outputs: Any, weights: Any) -> onnx.ModelProto:
    def values(shapes: Any) -> list[Any]:
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]

    initialisers = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "net", values(inputs), values(outputs), initialisers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7)


TWO_INPUTS = {
    "input_name": "picture;state",
    "input_type_train": "gray;featuremap",
    "input_layout_train": "NCHW;NCHW",
    "input_shape": f"1x1x{SIDE}x{SIDE};1x{STATE}",
    "norm_type": "data_scale;no_preprocess",
    "scale_value": "0.0078125;None",
    "input_type_rt": "gray;featuremap",
    "input_layout_rt": "NCHW;NCHW",
}
SEQUENCE = {
    "input_name": "steps",
    "input_type_train": "featuremap",
    "input_layout_train": "NCHW",
    "input_shape": f"1x{STATE}x{STEPS}",
    "input_type_rt": "featuremap",
}


def write_card(folder: Path, name: str, model: onnx.ModelProto, parameters: Any, metric: Any, **inputs: str) -> None:
    file = model.SerializeToString()
    use = {split: {"split": split, "count": SAMPLES} for split in SPLITS}
    card = {
        "name": name,
        "version": 1,
        "task": "other",
        "description": "made by a test",
        "source": {"bundled": f"{name}.onnx"},
        "digest": hashlib.sha256(file).hexdigest(),
        "input_parameters": parameters,
        "dataset": {"name": "parts", "inputs": inputs, **use},
        "metric": metric,
        "float_score": {"value": 1.0, "stderr": 0.0},
        "licence": "none",
        "origin": "made by a test",
    }
    (folder / "suites/zoo").mkdir(parents=True, exist_ok=True)
    (folder / "suites/zoo" / f"{name}.yaml").write_text(yaml.safe_dump(card))
    (folder / "suites/zoo" / f"{name}.onnx").write_bytes(file)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Data set, two cards and a suite, as a user would write them."""
    options = write_data(tmp_path / "data", labels=False)
    data = {
        "name": "parts",
        "version": 1,
        "adapter": "input_folders",
        "description": "made by a test",
        "source": "made by a test",
        "licence": "none",
        "options": options,
        "parts": options["parts"],
        "splits": dict.fromkeys(SPLITS, SAMPLES),
        "digest": opened(options).digest,
    }
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets/parts.yaml").write_text(yaml.safe_dump(data))
    write_card(tmp_path, "pair", two_inputs(), TWO_INPUTS, {"name": "top1", "labels": "float"}, picture="camera")
    write_card(tmp_path, "sequence", sequence(), SEQUENCE, {"name": "cosine", "labels": "float"})
    trials = [{"models": "pair", "engine": "onnxruntime", "calibration_type": "max"}]
    suite = {
        "name": "parts",
        "version": 1,
        "models": ["pair", "sequence"],
        "march": "bayes-e",
        "sweep": {"calibration_type": "max"},
        "trials": trials,
    }
    (tmp_path / "suites/parts.yaml").write_text(yaml.safe_dump(suite))
    monkeypatch.setenv("PTQLAB_SUITES", str(tmp_path / "suites"))
    monkeypatch.setenv("PTQLAB_DATASETS", str(tmp_path / "datasets"))
    return tmp_path


def call(*arguments: str, code: int = 0) -> str:
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == code, found.output
    return found.output


@pytest.mark.nightly
def test_a_suite_of_such_models(project: Path) -> None:
    work = project / "work"
    call("run", str(project / "suites/parts.yaml"), "--executor", "serial", "--no-mlflow", "--workdir", str(work))
    with (work / "sweeps/parts/trials.csv").open() as table:
        rows = list(csv.DictReader(table))
    assert len(rows) == 3
    for row in rows:
        assert float(row["cosine.output"]) > 0.97
        assert float(row["accuracy.quantized"]) > 0.7
    pictures = {
        json.loads((path.parent / "result.json").read_text())["spec"]["model"]
        for path in work.glob("trials/*/worst.png")
    }
    assert pictures == {"pair", "sequence"}  # the first part that is an image stands for the sample


def test_each_input_takes_the_part_that_it_names(project: Path) -> None:
    card = load_card("pair")
    sample = card.open_dataset().split("evaluation").take(0, 2)
    floats = card.float_inputs(sample)
    assert {name: array.shape for name, array in floats.items()} == {"picture": (2, 1, SIDE, SIDE), "state": (2, STATE)}
    np.testing.assert_array_equal(floats["picture"][:, 0], sample["camera"][..., 0] * np.float32(0.0078125))
    np.testing.assert_array_equal(floats["state"], sample["state"])
    wrong = card.model_copy(update={"dataset": card.dataset.model_copy(update={"inputs": {}})})
    with pytest.raises(ConfigError, match=r"input 'picture': .* has no part 'picture'; it has camera, state, steps"):
        wrong.open_dataset()
    state = card.model_copy(update={"dataset": card.dataset.model_copy(update={"inputs": {"picture": "state"}})})
    with pytest.raises(ConfigError, match=r"gray, its data set parts has float32 arrays of \(8,\)"):
        state.open_dataset()


def test_what_is_pasted_has_an_entry_per_input(project: Path) -> None:
    spec = fakes.spec("pair", Settings(input_type_rt=InputType.NV12))
    pasted = yaml.safe_load(as_yaml(fakes.result(spec)))
    assert pasted["input_parameters"] == {"input_type_rt": "nv12;featuremap"}
    card = load_card("pair")
    written = content(card, spec, (), card.model_path(), [project / "a", project / "b"])["input_parameters"]
    assert (written["input_type_rt"], written["input_layout_rt"]) == ("nv12;featuremap", "None;NCHW")


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["pair", "sequence"])
def test_other_commands_take_such_models(name: str, project: Path) -> None:
    model = project / f"suites/zoo/{name}.onnx"
    card = load_card(name)
    inputs = card.training_inputs(card.open_dataset().split("calibration").take(0, 8))
    write_inputs(card, fakes.spec(name), (), inputs, project / "case")
    config = project / "case/config.yaml"
    call("bisect", str(model), "--config", str(config))
    assert "all int16" in call("tune", str(model), "--config", str(config), "--trials", "3", "--samples", "4")
    assert "BPU" in call("explain", str(model))
    report = json.loads(call("bench", name, "--batch", "1", "--rounds", "1", "--no-reference", "--json"))
    assert [row["model"] for row in report["simulator"]] == [name]
