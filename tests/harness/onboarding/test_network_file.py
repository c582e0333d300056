"""What a file says of its input and outputs."""

from __future__ import annotations

from concurrent.futures import CancelledError
from pathlib import Path
from threading import Semaphore
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from engine.errors import ConfigError, ModelError
from engine.terms import Layout
from harness.onboarding.guesses import conventional
from harness.onboarding.network_file import Runner, read_network
from tests.harness.onboarding.networks import colour_classifier, save_network


def pooled(path: Path, shape: list[int | str]) -> Path:
    node = helper.make_node("ReduceMean", ["image"], ["scores"], axes=[2, 3], keepdims=0)
    return save_network(path, [node], {"scores": ["n", "c"]}, shape)  # type: ignore[dict-item]


def test_a_classifier(tmp_path: Path) -> None:
    network = read_network(colour_classifier(tmp_path / "net.onnx"))
    assert (network.input_name, network.layout, network.size, network.channels) == ("image", Layout.NCHW, (16, 16), 3)
    assert [(output.name, output.shape) for output in network.outputs] == [("scores", (1, 3))]
    assert network.shape == (1, 3, 16, 16)
    assert not network.is_dynamic


@pytest.mark.parametrize(
    ("shape", "layout", "size"),
    [
        ([1, 3, 32, 48], Layout.NCHW, (32, 48)),
        ([1, 32, 48, 1], Layout.NHWC, (32, 48)),
        (["batch", 3, "height", "width"], Layout.NCHW, (224, 224)),
        (["batch", 1, 64, "width"], Layout.NCHW, (64, 224)),
    ],
)
def test_layout_and_size(shape: list[int | str], layout: Layout, size: tuple[int, int], tmp_path: Path) -> None:
    network = read_network(pooled(tmp_path / "net.onnx", shape))
    assert (network.layout, network.size) == (layout, size)


def test_the_size_of_dynamic_networks_is_given_or_in_the_metadata(tmp_path: Path) -> None:
    path = pooled(tmp_path / "net.onnx", [1, 3, "h", "w"])
    assert read_network(path, (96, 64)).size == (96, 64)
    model = onnx.load(path)
    model.metadata_props.add(key="imgsz", value="[320, 640]")
    onnx.save(model, path)
    assert read_network(path).size == (320, 640)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ([1, 4, 8, 8], "expected 1 or 3 channels"),
        ([2, 3, 8, 8], "expected one image"),
        ([1, 3, 8], "expected one image"),
    ],
)
def test_what_is_no_image_is_refused(shape: list[int | str], message: str, tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["image"], ["scores"])
    path = save_network(tmp_path / "net.onnx", [node], {"scores": shape}, shape)  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match=message):
        read_network(path)


def test_another_size_than_the_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--size 32x32: the input of .* is 16x16"):
        read_network(colour_classifier(tmp_path / "net.onnx"), (32, 32))


def test_what_the_network_begins_with(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Sub", ["image", "mean"], ["centred"]),
        helper.make_node("Mul", ["centred", "factor"], ["scaled"]),
        helper.make_node("ReduceMean", ["scaled"], ["scores"], axes=[2, 3], keepdims=0),
    ]
    mean = np.reshape([120.0, 115, 110], (1, 3, 1, 1))
    network = read_network(
        save_network(tmp_path / "net.onnx", nodes, {"scores": [1, 3]}, [1, 3, 8, 8], mean=mean, factor=[0.01])
    )
    assert network.begins_with == ("Sub", "Mul")
    assert network.subtracted == pytest.approx(115)
    assert network.scaled == pytest.approx(0.01)


def test_what_is_subtracted_is_in_units_of_the_input(tmp_path: Path) -> None:
    """Keras' EfficientNet and MobileNetV3 take 0..255, and bring them to 0..1 or -1..1 themselves."""
    tail = helper.make_node("ReduceMean", ["centred"], ["scores"], axes=[2, 3], keepdims=0)
    scale = helper.make_node("Mul", ["factor", "image"], ["scaled"])
    for operator, amount in (("Sub", 0.449), ("Add", -0.449)):
        nodes = [scale, helper.make_node(operator, ["scaled", "mean"], ["centred"]), tail]
        path = save_network(
            tmp_path / f"{operator}.onnx", nodes, {"scores": [1, 3]}, [1, 3, 8, 8], mean=[amount], factor=[1 / 255]
        )
        network = read_network(path)
        assert network.subtracted == pytest.approx(114.5, abs=0.1)
        assert network.scaled == pytest.approx(1 / 255)
        assert conventional(network).guesses[0].name == "0..255"


def test_files_that_are_no_models(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"\xff\xff nothing")
    with pytest.raises(ModelError, match="Error parsing message"):
        read_network(tmp_path / "net.onnx")
    node = helper.make_node("NoSuchOperator", ["image"], ["scores"])
    path = save_network(tmp_path / "odd.onnx", [node], {"scores": [1, 3]}, [1, 3, 8, 8])
    with pytest.raises(ModelError, match="ONNX Runtime cannot open it"):
        read_network(path)
    whole = onnx.load(colour_classifier(tmp_path / "net.onnx"))
    onnx.save(whole, tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    (tmp_path / "net.data").unlink()
    with pytest.raises(ModelError, match=f"a file 'net.data', which is missing: copy it into {tmp_path}/"):
        read_network(tmp_path / "net.onnx")


def test_images_run_one_by_one(tmp_path: Path) -> None:
    runner = Runner(colour_classifier(tmp_path / "net.onnx"), "image")
    images = np.random.default_rng(0).random((5, 3, 16, 16), np.float32)
    (found,) = runner(images)
    np.testing.assert_allclose(found, 12 * images.mean(axis=(2, 3)), rtol=1e-5)
    with pytest.raises(ModelError, match="does not run on an image"):
        runner(images[:, :2])


def test_samples_that_nobody_waits_for_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an error, and where no more are wanted: a command that is interrupted need not compute them to end."""
    monkeypatch.setattr("harness.onboarding.network_file.runs_at_once", lambda: 1)
    runner, images = Runner(colour_classifier(tmp_path / "net.onnx"), "image"), np.zeros((9, 3, 16, 16), np.float32)
    begun, may_end = [], Semaphore(1)

    def refused(image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        begun.append(image)
        may_end.acquire(timeout=10)
        raise ModelError("not this one")

    first, second = runner.begin(images, refused), runner.begin(images, refused)
    with pytest.raises(ModelError, match="not this one"):
        first()
    runner.close()
    may_end.release(17)
    with pytest.raises(CancelledError):
        second()
    runner._pool.shutdown(wait=True)
    assert len(begun) <= 2, "the one that failed, and the one that had begun"
