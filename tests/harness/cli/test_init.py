"""``ptqlab init``."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from onnxruntime.quantization import quantize_dynamic
from typer import BadParameter

from engine.errors import ConfigError, UnsupportedError
from harness.cli.init import AskedTask, Wishes, init, parse_size, suite_of_network
from harness.cli.sweeps import run
from harness.files.paths import find_beside
from harness.onboarding.own_cards import check_free, copy_network
from harness.zoo.cards import TaskKind, load_card
from harness.zoo.float_baseline import float_outputs
from tests.harness.onboarding.networks import (
    array_files,
    colour_classifier,
    colour_images,
    line_images,
    line_reader,
    sound_classifier,
    stateful,
)


@pytest.fixture(autouse=True)
def no_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a suite brings with it is forgotten after the test."""
    for variable in ("PTQLAB_SUITES", "PTQLAB_DATASETS"):
        monkeypatch.setenv(variable, "")


def test_it_says_what_it_read_and_what_is_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, images = colour_classifier(tmp_path / "my net.onnx"), colour_images(tmp_path / "images")
    init(model, images, output=tmp_path / "own", quick=True)
    out, err = capsys.readouterr()
    assert "input       image: 1x3x16x16 NCHW (the shape of the input)" in out
    assert "head        class scores, sure: one output of 3 values per image; metric top1" in out
    assert "images      24, 3 folders of images, taken for classes; scored with labels" in out
    assert "float       top1 1.0000 on 18 images" in out
    assert (
        f"suite my_net version 1 is valid: 4 trials, 1 models\nnext        ptqlab run {tmp_path}/own/my_net.yaml" in out
    )
    assert err == ""
    with pytest.raises(ConfigError, match="is not empty; give another folder with --output"):
        init(model, images, output=tmp_path / "own")


def test_arrays_are_taken_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = sound_classifier(tmp_path / "net.onnx", [1, 4, 10, 8])
    arrays = array_files(tmp_path / "arrays", (1, 4, 10, 8), 12)
    init(model, arrays, task=AskedTask.NONE, output=tmp_path / "own", quick=True)
    out, err = capsys.readouterr()
    assert "input       x: 1x4x10x8, arrays as they are (no mean, no scale)\n" in out
    assert "head        not guessed: --task none; outputs are compared with those of the float model; metric cos" in out
    assert "arrays      12; scored with the float model's answers (agreement)" in out
    assert "picture" not in out
    assert "suite net version 1 is valid: 4 trials, 1 models" in out
    assert err == ""
    first = suite_of_network(model, arrays, Wishes(), tmp_path / "work").path
    assert suite_of_network(model, arrays, Wishes(), tmp_path / "work").path == first
    (arrays / "0.npy").unlink()
    assert suite_of_network(model, arrays, Wishes(), tmp_path / "work").path != first
    table = tmp_path / "labels.csv"
    table.write_text("".join(f"{index}.npy,{index % 3}\n" for index in range(2, 12)))
    init(model, arrays, labels=table, output=tmp_path / "labelled", quick=True)
    out, err = capsys.readouterr()
    assert "arrays      10, labels.csv is a table; scored with labels\nfloat       top1 0." in out
    assert "1 image(s) without labels are left out" in err
    with pytest.raises(ConfigError, match="--size 10x8: arrays have the size that they are fed with"):
        init(model, arrays, size="10x8", output=tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("moment", ["while the images are looked at", "while the cards are written"])
def test_cards_that_another_process_wrote_meanwhile_are_taken(
    moment: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = sound_classifier(tmp_path / "net.onnx", [1, 4, 10, 8])
    arrays = array_files(tmp_path / "arrays", (1, 4, 10, 8), 12)
    theirs = suite_of_network(model, arrays, Wishes(), tmp_path / "theirs").path.parent
    ours = tmp_path / "ours" / theirs.relative_to(tmp_path / "theirs")
    step = check_free if moment == "while the images are looked at" else copy_network

    def meanwhile(*given: Path) -> None:
        if not ours.exists():
            shutil.copytree(theirs, ours)
        step(*given)

    monkeypatch.setattr(f"harness.onboarding.own_cards.{step.__name__}", meanwhile)
    own = suite_of_network(model, arrays, Wishes(), tmp_path / "ours")
    assert own.path == ours / "net.yaml"
    assert f"cards       {ours}, written meanwhile by another process\n" in capsys.readouterr().out
    assert [path.name for path in ours.parent.iterdir()] == [ours.name], "nothing else is left"


def _networks(folder: Path) -> list[tuple[Path, Path]]:
    return [
        (colour_classifier(folder / "colours.onnx", (2, 1, 0)), colour_images(folder / "colours")),
        (line_reader(folder / "reader.onnx", steps_first=True), line_images(folder / "lines")),
        (sound_classifier(folder / "sounds.onnx", [1, 4, 10, 8]), array_files(folder / "sounds", (1, 4, 10, 8), 12)),
    ]


@pytest.mark.parametrize("index", range(3))
def test_the_float_model_that_cards_were_made_with_need_not_run_again(index: int, tmp_path: Path) -> None:
    """Colours in another order, outputs whose first dimension are steps, and arrays: the same numbers to the bit."""
    model, samples = _networks(tmp_path)[index]
    own = suite_of_network(model, samples, Wishes(), tmp_path / "work")
    found = own.float_run()
    assert own.float_run() is None, "handed out once"
    assert suite_of_network(model, samples, Wishes(), tmp_path / "work").float_run() is None, "cards made earlier"
    assert found is not None
    assert found.seconds > 0
    find_beside(own.path)
    wanted = float_outputs(load_card(own.path.stem))
    assert [array.tobytes() for array in found.outputs] == [array.tobytes() for array in wanted]
    assert [array.shape for array in found.outputs] == [array.shape for array in wanted]


def test_a_sweep_takes_over_what_the_float_model_gave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, images = colour_classifier(tmp_path / "net.onnx"), colour_images(tmp_path / "images")
    with monkeypatch.context() as patch:
        patch.setattr("harness.backends.stages.floats.float_outputs", lambda *words: pytest.fail("it runs again"))
        run(str(model), images, workdir=tmp_path / "work", executor="serial", record=False, limit=1)
    (cached,) = (tmp_path / "work" / "cache" / "float").glob("*.npz")
    wanted = float_outputs(load_card("net"))
    assert len(wanted[0]) == 18
    with np.load(cached) as found:
        assert found["0"].tobytes() == wanted[0].tobytes()


def test_sizes() -> None:
    assert parse_size(None) is None
    assert parse_size("640") == (640, 640)
    assert parse_size("320x640") == (320, 640)
    for text in ("0x3", "a", "1x2x3", "99999"):
        with pytest.raises(BadParameter, match="expected height x width in pixels"):
            parse_size(text)


def test_every_task_has_a_kind() -> None:
    assert AskedTask.NONE.kind is TaskKind.OTHER
    assert {task.kind for task in AskedTask} <= set(TaskKind)


def test_a_network_is_a_suite_made_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, images = colour_classifier(tmp_path / "net.onnx"), colour_images(tmp_path / "images")

    def suite(task: AskedTask | None = None) -> Path:
        return suite_of_network(model, images, Wishes(task=task), tmp_path / "work").path

    first = suite()
    assert first.is_file()
    assert first.is_relative_to(tmp_path / "work" / "own")
    capsys.readouterr()
    assert suite() == first
    assert capsys.readouterr().out == f"cards       {first.parent}, written earlier\n"
    assert suite(AskedTask.NONE) != first
    (images / "0" / "0.png").unlink()
    assert suite() != first
    with pytest.raises(ConfigError, match=r"net.onnx: give the images to sweep the network on: --images DIR"):
        suite_of_network(model, None, Wishes(), tmp_path)
    with pytest.raises(ConfigError, match="no such file"):
        suite_of_network(tmp_path / "gone.onnx", images, Wishes(), tmp_path)


def test_options_of_a_network_belong_to_one(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match="smoke: --images, --data, --labels, --label-column, --task, --size, --dictionary, --fix",
    ):
        run("smoke", images=tmp_path)
    with pytest.raises(ConfigError, match="belong to a network"):
        run("smoke", fix=["state=0"])


def test_inputs_are_fixed_and_a_column_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = stateful(tmp_path / "net.onnx", [2, 1, 4])
    images = colour_images(tmp_path / "images", each=4)
    rows = [f"{path.relative_to(images)},{path.parent.name},7\n" for path in images.rglob("*.png")]
    (images / "labels.csv").write_text("file,kind,label\n" + "".join(rows))
    init(model, images, fix=["state=0", "rate=1"], label_column="kind", output=tmp_path / "own", quick=True)
    out, _ = capsys.readouterr()
    assert "input       x: 1x3x8x8 NCHW" in out
    assert "origin: ptqlab init --fix state=0 --fix rate=1\n" in (tmp_path / "own/zoo/net.yaml").read_text()
    assert "label_column: kind\n" in (tmp_path / "own/datasets/net_images.yaml").read_text()
    with pytest.raises(ConfigError, match="has 3 inputs"):
        init(model, images, output=tmp_path / "other", quick=True)


def test_a_quantised_network_is_refused_first(tmp_path: Path) -> None:
    quantize_dynamic(colour_classifier(tmp_path / "net.onnx"), tmp_path / "dynamic.onnx")
    for call in (
        lambda: init(tmp_path / "dynamic.onnx", tmp_path, output=tmp_path / "own"),
        lambda: suite_of_network(tmp_path / "dynamic.onnx", tmp_path, Wishes(), tmp_path / "work"),
    ):
        with pytest.raises(UnsupportedError, match="is dynamically quantised already"):
            call()
    assert not (tmp_path / "work").exists()
