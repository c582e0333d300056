"""Models, metrics and data of the user's own, without labels and without a line in our registries: a whole sweep."""

from __future__ import annotations

import csv
import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from engine.errors import CalibrationDataError, ConfigError
from harness.cli.main import app
from harness.datasets import open_dataset
from harness.files.user_code import digest_of_own
from harness.trials.trial import card_key
from harness.zoo.cards import load_card
from tests.harness.datasets.test_sweeps import CLASSES, SAMPLES, SIDE, network

CODE = '''
"""What a user has beside the cards."""
import numpy as np
from harness.datasets.base import ArraySplit, Colour, Dataset, ImageFormat
from harness.files.strict_yaml import StrictModel


class Options(StrictModel):
    """Attributes:
    seed: of the pictures.
    """

    seed: int = 0


class Noise(Dataset):
    """Pictures without labels."""

    Options = Options
    version = 1

    def __init__(self, options):
        random = np.random.RandomState(options.seed)
        self.image_format = ImageFormat(height=16, width=16, colour=Colour.RGB)
        self._splits = {
            name: ArraySplit(name, random.randint(0, 256, (6, 16, 16, 3)).astype(np.uint8), np.zeros(6, np.int64))
            for name in ("calibration", "evaluation")
        }
        self.digest = self._digest(options, {})

    @property
    def splits(self):
        return self._splits


def closeness(outputs, targets):
    """Share of classes on the same side of the median."""
    above = outputs[0].reshape(len(outputs[0]), -1) > np.median(outputs[0])
    return (above == targets).mean(axis=1)


def labels(outputs):
    return outputs[0].reshape(len(outputs[0]), -1) > np.median(outputs[0])


closeness.labels = labels
'''


def own_folder(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """``folder`` with everything that a user would write, where ptqlab looks for it."""
    patch.setattr(sys, "path", list(sys.path))
    patch.delitem(sys.modules, "own_pictures", raising=False)
    patch.setenv("PTQLAB_SUITES", str(folder / "suites"))
    patch.setenv("PTQLAB_DATASETS", str(folder / "datasets"))
    (folder / "suites/zoo").mkdir(parents=True)
    (folder / "suites/zoo/own_pictures.py").write_text(CODE)
    return folder


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return own_folder(tmp_path, monkeypatch)


def write(folder: Path, dataset: dict[str, Any], metric: dict[str, Any]) -> Path:
    """Cards and a suite; the suite. Digests are for ``ptqlab digest --write`` to find."""
    about = {"version": 1, "description": "made by a test", "licence": "none"}
    model = network(3, SIDE, dense=False)
    data = {
        **about,
        "name": "mine",
        "source": "made by a test",
        "image": {"height": SIDE, "width": SIDE, "colour": "rgb"},
        "splits": {"calibration": SAMPLES, "evaluation": SAMPLES},
        "digest": "0" * 64,
        **dataset,
    }
    card = {
        **about,
        "name": "tiny",
        "task": "other",
        "source": {"bundled": "tiny.onnx"},
        "digest": "0" * 64,
        "input_parameters": {
            "input_name": "image",
            "input_type_train": "rgb",
            "input_layout_train": "NCHW",
            "input_shape": f"1x3x{SIDE}x{SIDE}",
            "norm_type": "data_scale",
            "scale_value": 0.01,
            "input_type_rt": "rgb",
            "input_layout_rt": "NCHW",
        },
        "dataset": {
            "name": "mine",
            "calibration": {"split": "calibration", "count": SAMPLES},
            "evaluation": {"split": "evaluation", "count": SAMPLES},
        },
        "metric": metric,
        "float_score": {"value": 1.0, "stderr": 0.0},
        "origin": "made by a test",
    }
    suite = {"name": "mine", "version": 1, "models": "tiny", "march": "bayes-e", "sweep": {"calibration_type": "max"}}
    for path, content in (("datasets/mine", data), ("suites/zoo/tiny", card), ("suites/mine", suite)):
        file = folder / f"{path}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("# written by hand\n" + yaml.safe_dump(content))
    (folder / "suites/zoo/tiny.onnx").write_bytes(model)
    return folder / "suites/mine.yaml"


def run(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.output


def sweep(folder: Path, suite: Path) -> dict[str, str]:
    """The row of the only trial."""
    run("digest", "mine", "--write")
    run("digest", "tiny", "--write", "--score")
    run("run", str(suite), "--executor", "serial", "--no-mlflow", "--workdir", str(folder / "work"))
    with (folder / "work/sweeps/mine/trials.csv").open() as table:
        (row,) = csv.DictReader(table)
    return row


def test_metric_and_adapter_of_a_module_beside_the_card(own: Path) -> None:
    suite = write(own, {"adapter": "own_pictures:Noise"}, {"name": "own_pictures:closeness", "labels": "float"})
    row = sweep(own, suite)
    assert float(row["accuracy.float"]) == 1.0
    assert float(row["accuracy.quantized"]) > 0.8
    assert float(row["agreement"]) == float(row["accuracy.quantized"])
    key, data = card_key(load_card("tiny")), open_dataset("mine").digest
    module = own / "suites/zoo/own_pictures.py"
    module.write_text(CODE.replace("np.median", "np.mean"))
    assert card_key(load_card("tiny")) != key, "a changed metric is another trial"
    assert digest_of_own("own_pictures:Noise") == hashlib.sha256(module.read_bytes()).hexdigest()
    with pytest.raises(
        CalibrationDataError, match=r"changed since: source \(\w+ -> \w+\).*ptqlab digest .*mine.yaml --write"
    ):
        open_dataset("mine")
    assert data


@pytest.mark.nightly
def test_images_without_labels_need_no_folder_per_class(own: Path) -> None:
    pytest.importorskip("cv2", reason="the extra images is not installed")
    from PIL import Image

    random = np.random.RandomState(0)
    for split in ("calib", "val"):
        (own / "data" / split).mkdir(parents=True)
        for index in range(SAMPLES):
            pixels = random.randint(0, 256, (SIDE, SIDE, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(own / "data" / split / f"{index}.png")
    options = {
        "folder": str(own / "data"),
        "folders": {"calibration": "calib", "evaluation": "val"},
        "height": SIDE,
        "width": SIDE,
    }
    dataset = {"adapter": "image_folder", "options": options}
    row = sweep(own, write(own, dataset, {"name": "top1", "labels": "float"}))
    assert float(row["accuracy.float"]) == 1.0
    assert row["agreement"] == row["accuracy.quantized"]
    with pytest.raises(CalibrationDataError, match="has no label; give labels"):
        open_dataset("mine").split("evaluation").targets(0, 1)


def test_a_metric_that_says_nothing_of_outputs_has_no_labels(own: Path) -> None:
    (own / "suites/zoo/own_pictures.py").write_text(CODE.replace("closeness.labels = labels", ""))
    write(own, {"adapter": "own_pictures:Noise"}, {"name": "own_pictures:closeness", "labels": "float"})
    run("digest", "mine", "--write", "--no-score")
    run("digest", "tiny", "--write", "--no-score")
    card = load_card("tiny")
    with pytest.raises(ConfigError, match="needs a metric that says what outputs mean"):
        card.targets(card.open_dataset().split("evaluation"), 2, [np.zeros((2, CLASSES))])
