"""Networks of PyTorch and data YAMLs, from the commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from engine.errors import ConfigError, MissingError
from harness.checkpoints.export import ExportWishes
from harness.cli.checkpoints import (
    described_images,
    exported,
    is_own_network,
    refuse_no_samples,
    refuse_other_names,
)
from harness.cli.init import Wishes, init, suite_of_network
from harness.cli.sweeps import run
from harness.onboarding.head_guess import HeadGuess
from harness.zoo.cards import TaskKind
from tests.harness.checkpoints.made import checkpoint, python_with_ultralytics
from tests.harness.onboarding.networks import colour_images


@pytest.fixture(autouse=True)
def no_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a suite brings with it is forgotten after the test."""
    for variable in ("PTQLAB_SUITES", "PTQLAB_DATASETS"):
        monkeypatch.setenv(variable, "")


def described(folder: Path, names: str = "[cat, dog, cow]") -> Path:
    """Images with boxes, and the YAML that names them."""
    made = colour_images(folder / "made", each=4)
    (folder / "images").mkdir()
    (folder / "labels").mkdir()
    for index, path in enumerate(sorted(made.rglob("*.png"))):
        shutil.copy(path, folder / "images" / f"{index}.png")
        (folder / "labels" / f"{index}.txt").write_text(f"{index % 3} 0.5 0.5 0.4 0.4\n")
    (folder / "coco8.yaml").write_text(f"path: {folder}\nval: images\nnames: {names}\n")
    return folder / "coco8.yaml"


def test_cards_of_a_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, best = described(tmp_path / "data"), checkpoint(tmp_path / "best.pt")
    python = python_with_ultralytics(tmp_path / "user")
    init(best, data=data, python=python, output=tmp_path / "own", quick=True)
    out, _ = capsys.readouterr()
    assert f"data        val of {data}: {tmp_path}/data/images; 3 class names\n" in out
    assert "exported    by ultralytics 8.0.0-stand-in, opset 11; raw maps of its head Detect, without decoding\n" in out
    assert "six maps of 64 and 3 channels at strides 8, 16, 32; the metadata of the file say task detect and 3" in out
    assert "images      12, labels holds a text file per image (YOLO); scored with labels" in out
    assert "input is    rgb 0..1" in out
    card = yaml.safe_load((tmp_path / "own" / "zoo" / "best.yaml").read_text())
    assert card["metric"]["options"]["decoder"] == "yolov8_split"
    assert card["origin"].startswith("ptqlab init, exported from best.pt by ultralytics 8.0.0-stand-in")
    assert yaml.safe_load((tmp_path / "own" / "datasets" / "best_images.yaml").read_text())["classes"] == [
        "cat",
        "dog",
        "cow",
    ]


def test_a_sweep_exports_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, best = described(tmp_path / "data"), checkpoint(tmp_path / "best.pt")
    wishes = Wishes(data=data, python=python_with_ultralytics(tmp_path / "user"))
    suite = suite_of_network(best, None, wishes, tmp_path / "work").path
    assert suite.name == "best.yaml"
    capsys.readouterr()
    assert suite_of_network(best, None, wishes, tmp_path / "work").path == suite
    out, _ = capsys.readouterr()
    assert "without decoding; earlier\n" in out
    assert f"cards       {suite.parent}, written earlier\n" in out


def test_names_of_another_network_are_refused(tmp_path: Path) -> None:
    data, best = described(tmp_path / "data", "[a, b, c, d]"), checkpoint(tmp_path / "best.pt")
    with pytest.raises(ConfigError, match=r"--data: names 4 classes \(a, b, c, …\), the network has 3: give the YAML"):
        init(best, data=data, python=python_with_ultralytics(tmp_path / "user"), output=tmp_path / "own", quick=True)
    assert not (tmp_path / "own").exists()
    head = HeadGuess("SSD", TaskKind.DETECTION, "map50", "", classes=0)
    refuse_other_names(("a",), head)  # whose classes are not known


def test_without_ultralytics_one_message_has_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    data, best = described(tmp_path / "data"), checkpoint(tmp_path / "best.pt")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match=r"ultralytics is not in .*--python VENV/bin/python .*yolo export"):
        run(str(best), data=data, workdir=tmp_path / "work")
    assert not (tmp_path / "work").exists()


def test_options_belong_together(tmp_path: Path) -> None:
    data, model = described(tmp_path / "data"), tmp_path / "net.onnx"
    with pytest.raises(ConfigError, match="--data and --images: give one of them"):
        described_images(model, tmp_path, data, tmp_path)
    with pytest.raises(ConfigError, match=r"net.onnx: give the images .*: --images DIR, or --data data\.yaml"):
        described_images(model, None, None, tmp_path)
    for wishes, option in ((ExportWishes(Path("python")), "--python"), (ExportWishes(decoded=True), "--decoded")):
        with pytest.raises(ConfigError, match=rf"net.onnx: {option} belongs to a file of PyTorch"):
            exported(model, tmp_path, wishes)
    assert exported(model, tmp_path, ExportWishes()) is None
    assert [is_own_network(name) for name in ("a.onnx", "a.ONNX", "best.pt", "smoke", "a.yaml")] == [1, 1, 1, 0, 0]


def refused(tmp_path: Path, images: Path | None = None, data: Path | None = None) -> str:
    with pytest.raises(ConfigError) as found:
        described_images(tmp_path / "net.onnx", images, data, tmp_path / "links")
    return str(found.value)


def test_what_is_no_data_yaml_has_one_message_with_the_way_out(tmp_path: Path) -> None:
    data = described(tmp_path / "data")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no such file; give the data YAML that the network was trained with" in refused(tmp_path, data=empty / "no")
    assert (
        refused(tmp_path, data=data.parent)
        == f"--data {data.parent}: is a folder; give the data YAML in it: --data {data}"
    )
    pictures = data.parent / "images"
    assert refused(tmp_path, data=pictures).endswith(f"is a folder of images or arrays; give it as --images {pictures}")
    assert "is a folder without a YAML file and without images; give the data YAML" in refused(tmp_path, data=empty)
    data.write_text("a picture")
    assert "expected the keys path, train, val and names" in refused(tmp_path, data=data)


def test_what_is_no_folder_of_images_has_one_message_with_the_way_out(tmp_path: Path) -> None:
    data = described(tmp_path / "data")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert refused(tmp_path, data).endswith(f"is a file; a data YAML is given as --data {data}")
    assert "no such folder; give the folder that holds the images" in refused(tmp_path, empty / "no")
    with pytest.raises(ConfigError, match="at any depth: it is empty; give the folder of some tens of images"):
        refuse_no_samples(empty)
    with pytest.raises(ConfigError, match=r"it holds other files \(12 \.txt\); give"):
        refuse_no_samples(data.parent / "labels")
