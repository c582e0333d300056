"""Every adapter of user files through the whole of ``ptqlab run``: files, cards, suite, sweep."""

from __future__ import annotations

import csv
import hashlib
import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner

from harness.cli.main import app
from harness.datasets import ADAPTERS
from harness.datasets.torchvision_import import import_torchvision
from harness.files.strict_yaml import parse

SIDE, CLASSES, SAMPLES = 16, 3, 6
SPLITS = {"calibration": "calib", "evaluation": "val"}


def pictures(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images, uint8 (samples, side, side, 3), brighter with their class; and the classes."""
    random = np.random.RandomState(seed)
    labels = np.arange(SAMPLES) % CLASSES
    images = random.randint(0, 60, (SAMPLES, SIDE, SIDE, 3)) + 60 * labels[:, np.newaxis, np.newaxis, np.newaxis]
    return images.astype(np.uint8), labels


def write_labels(folder: Path, files: list[str], labels: np.ndarray) -> None:
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file", "label"), *zip(files, labels.tolist(), strict=True)])


def labelled_folder(root: Path) -> dict[str, Any]:
    for seed, name in enumerate(SPLITS.values()):
        (root / name).mkdir()
        images, labels = pictures(seed)
        for index, image in enumerate(images):
            Image.fromarray(image).save(root / name / f"{index}.png")
        write_labels(root / name, [f"{index}.png" for index in range(SAMPLES)], labels)
    return {"folder": str(root), "folders": SPLITS, "crop": SIDE, "classes": CLASSES}


def image_folder(root: Path, mode: str = "opencv") -> dict[str, Any]:
    for seed, name in enumerate(SPLITS.values()):
        images, labels = pictures(seed)
        for index, (image, label) in enumerate(zip(images, labels, strict=True)):
            folder = root / name / f"class_{label}"
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).resize((30, 24)).save(folder / f"{index}.png")
    steps = [{"ShortSideResize": {"short_size": 20}}, {"CenterCrop": {"crop_size": SIDE}}]
    options = {"folder": str(root), "folders": SPLITS, "height": SIDE, "width": SIDE}
    return {**options, "transformers": steps, "read_mode": mode}


def array_folder(root: Path, suffix: str = ".npy") -> dict[str, Any]:
    for seed, name in enumerate(SPLITS.values()):
        (root / name).mkdir()
        images, labels = pictures(seed)
        files = [f"{index}{suffix}" for index in range(SAMPLES)]
        for file, image in zip(files, np.moveaxis(images, 3, 1), strict=True):
            if suffix == ".npy":
                np.save(root / name / file, image)
            else:
                image.tofile(root / name / file)
        write_labels(root / name, files, labels)
    return {"folder": str(root), "folders": SPLITS, "height": SIDE, "width": SIDE, "classes": CLASSES}


def coco(root: Path) -> dict[str, Any]:
    for seed, name in enumerate(SPLITS.values()):
        (root / name).mkdir()
        images, labels = pictures(seed)
        for index, image in enumerate(images):
            Image.fromarray(image).resize((2 * SIDE, 2 * SIDE)).save(root / name / f"{index}.png")
        square = [4, 4, 20, 4, 20, 20, 4, 20]
        content = {
            "categories": [{"id": 10 + label, "name": f"class {label}"} for label in range(CLASSES - 1)],
            "images": [
                {"id": index, "file_name": f"{index}.png", "height": 2 * SIDE, "width": 2 * SIDE}
                for index in range(SAMPLES)
            ],
            "annotations": [
                {
                    "id": index,
                    "image_id": index,
                    "category_id": 10 + int(label) % (CLASSES - 1),
                    "bbox": [4, 4, 16, 16],
                    "segmentation": [square],
                }
                for index, label in enumerate(labels)
            ],
        }
        (root / f"{name}.json").write_text(json.dumps(content))
    annotations = {split: f"{name}.json" for split, name in SPLITS.items()}
    return {"folder": str(root), "folders": SPLITS, "annotations": annotations, "height": SIDE, "width": SIDE}


def torchvision(root: Path) -> dict[str, Any]:
    """MNIST as torchvision unpacks it, with pictures of our own."""
    try:
        import_torchvision()
    except ImportError as error:
        pytest.skip(f"needs the extra zoo: {error}")
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for seed, part in enumerate(("train", "t10k")):
        labels = (np.arange(20) % CLASSES).astype(np.uint8)
        images = np.random.RandomState(seed).randint(0, 256, (20, 28, 28)).astype(np.uint8)
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            header = struct.pack(f">{1 + array.ndim}i", 0x800 + array.ndim, *array.shape)
            (raw / f"{part}-{kind}-ubyte").write_bytes(header + array.tobytes())
    return {"dataset": "MNIST", "root": str(root), "calibration": SAMPLES, "evaluation": SAMPLES}


def network(channels: int, side: int, *, dense: bool) -> bytes:
    """A convolution, then a class per pixel (``dense``) or one per image."""
    random = np.random.RandomState(0)
    weights = {
        "w0": random.normal(0, 0.2, (8, channels, 3, 3)).astype(np.float32),
        "w1": random.normal(0, 0.5, (CLASSES, 8, 1, 1)).astype(np.float32),
    }
    make = onnx.helper.make_node
    nodes = [
        make("Conv", ["image", "w0"], ["c"], "conv", pads=[1, 1, 1, 1]),
        make("Relu", ["c"], ["r"], "relu"),
        *([] if dense else [make("GlobalAveragePool", ["r"], ["p"], "pool")]),
        make("Conv", ["r" if dense else "p", "w1"], ["scores"], "head"),
    ]
    shape = [1, CLASSES, *([side, side] if dense else [1, 1])]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "tiny",
        [value("image", onnx.TensorProto.FLOAT, [1, channels, side, side])],
        [value("scores", onnx.TensorProto.FLOAT, shape)],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    return model.SerializeToString()


def write_cards(folder: Path, adapter: str, options: Mapping[str, Any]) -> Path:
    """Data set, model, model card and suite as a user would write them; the suite."""
    kind = ADAPTERS[adapter]
    opened = kind(parse(options, kind.Options, adapter))
    image = opened.image_format
    dense = adapter == "coco"
    about = {"description": "made by a test", "licence": "none"}
    dataset = {
        "name": "mine",
        "version": 1,
        "adapter": adapter,
        **about,
        "source": "made by a test",
        "options": options,
        "image": image.model_dump(mode="json"),
        "splits": {name: len(split) for name, split in opened.splits.items()},
        "digest": opened.digest,
    }
    model = network(image.colour.channels, image.height, dense=dense)
    card = {
        "name": "tiny",
        "version": 1,
        "task": "segmentation" if dense else "classification",
        **about,
        "source": {"bundled": "tiny.onnx"},
        "digest": hashlib.sha256(model).hexdigest(),
        "input_parameters": {
            "input_name": "image",
            "input_type_train": image.colour.value,
            "input_layout_train": "NCHW",
            "input_shape": f"1x{image.colour.channels}x{image.height}x{image.width}",
            "norm_type": "data_scale",
            "scale_value": 0.01,
            "input_type_rt": image.colour.value,
            "input_layout_rt": "NCHW",
        },
        "dataset": {
            "name": "mine",
            "calibration": {"split": "calibration", "count": SAMPLES},
            "evaluation": {"split": "evaluation", "count": SAMPLES},
        },
        "metric": {"name": "miou", "options": {"classes": CLASSES}} if dense else {"name": "top1"},
        "float_score": {"value": 0.5, "stderr": 0.1},
        "origin": "made by a test",
    }
    suite = {"name": "mine", "version": 1, "models": "tiny", "march": "bayes-e", "sweep": {"calibration_type": "max"}}
    for path, content in (("datasets/mine", dataset), ("suites/zoo/tiny", card), ("suites/mine", suite)):
        file = folder / f"{path}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(content))
    (folder / "suites/zoo/tiny.onnx").write_bytes(model)
    return folder / "suites/mine.yaml"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("adapter", "make"),
    [
        ("labelled_folder", labelled_folder),
        ("image_folder", image_folder),
        ("image_folder", lambda root: image_folder(root, "skimage")),
        ("array_folder", array_folder),
        ("array_folder", lambda root: array_folder(root, ".bin")),
        ("coco", coco),
        ("torchvision", torchvision),
    ],
    ids=["labels-csv", "class-folders-opencv", "class-folders-skimage", "npy", "raw", "coco", "torchvision"],
)
def test_a_suite_runs_on_files_of_the_user(
    adapter: str, make: Callable[[Path], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if adapter in ("image_folder", "coco"):
        pytest.importorskip("cv2", reason="the extra images is not installed")
        pytest.importorskip("skimage", reason="the extra images is not installed")
    data = tmp_path / "data"
    data.mkdir()
    suite = write_cards(tmp_path, adapter, make(data))
    monkeypatch.setenv("PTQLAB_SUITES", str(tmp_path / "suites"))
    monkeypatch.setenv("PTQLAB_DATASETS", str(tmp_path / "datasets"))
    options = ["--executor", "serial", "--no-mlflow", "--workdir", str(tmp_path / "work")]
    found = CliRunner().invoke(app, ["run", str(suite), *options])
    assert found.exit_code == 0, found.output
    assert "1 trials" in CliRunner().invoke(app, ["validate", str(suite)]).output
    with (tmp_path / "work/sweeps/mine/trials.csv").open() as table:
        (row,) = csv.DictReader(table)
    assert float(row["cosine.output"]) > 0.99
    assert float(row["accuracy.quantized"]) == pytest.approx(float(row["accuracy.float"]), abs=0.35)
