"""Files of PyTorch as ONNX files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from engine.errors import MissingError, ModelError
from harness.checkpoints.export import ExportWishes, export_network
from harness.zoo.float_session import float_session
from tests.harness.checkpoints.made import checkpoint, python_with_ultralytics


def shapes_of(path: Path) -> dict[str, list[int]]:
    return {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in onnx.load(path).graph.output
    }


def test_a_checkpoint_becomes_raw_maps(tmp_path: Path) -> None:
    best, python = checkpoint(tmp_path / "best.pt"), python_with_ultralytics(tmp_path / "user")
    found = export_network(best, tmp_path / "made", ExportWishes(python))
    assert found.path.name == "best.onnx"
    assert found.words == "by ultralytics 8.0.0-stand-in, opset 11; raw maps of its head Detect, without decoding"
    assert shapes_of(found.path) == {
        "box8": [1, 64, 8, 12],
        "cls8": [1, 3, 8, 12],
        "box16": [1, 64, 4, 6],
        "cls16": [1, 3, 4, 6],
        "box32": [1, 64, 2, 3],
        "cls32": [1, 3, 2, 3],
    }
    onnx.checker.check_model(str(found.path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.pt", "made", "user"]  # nothing beside it
    again = export_network(best, tmp_path / "made", ExportWishes(tmp_path / "gone"))
    assert (again.path, again.words, again.is_new) == (found.path, found.words, False)


def test_decoding_and_size_are_kept_where_asked(tmp_path: Path) -> None:
    best, python = checkpoint(tmp_path / "best.pt"), python_with_ultralytics(tmp_path / "user")
    found = export_network(best, tmp_path / "made", ExportWishes(python, decoded=True, size=(32, 64)))
    assert shapes_of(found.path) == {"output0": [1, 7, 4, 8]}
    assert found.words.endswith("its head Detect whole, with decoding, as asked")


def test_what_is_missing_or_fails_has_one_message(tmp_path: Path) -> None:
    best = checkpoint(tmp_path / "best.pt")
    with pytest.raises(MissingError, match=r"best\.pt is a checkpoint, which ultralytics opens"):
        export_network(best, tmp_path / "made", ExportWishes(Path(sys.executable)))
    broken = checkpoint(tmp_path / "other.pt", b"fails")
    python = python_with_ultralytics(tmp_path / "user")
    with pytest.raises(ModelError, match=r"other.pt: ultralytics in .*python cannot export it: of ultralytics\. If"):
        export_network(broken, tmp_path / "made", ExportWishes(python))
    assert not (tmp_path / "made").exists()


def test_a_checkpoint_is_not_unpickled_here(tmp_path: Path) -> None:
    """Its code would make a file; only a Python that was asked to open it may run that."""
    code = b"cos\nsystem\n(S'touch " + str(tmp_path / "ran").encode() + b"'\ntR."
    best = checkpoint(tmp_path / "best.pt", code)
    with pytest.raises(MissingError):
        export_network(best, tmp_path / "made", ExportWishes(Path(sys.executable)))
    assert not (tmp_path / "ran").exists()


def made_network(torch: Any) -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 8 * 8, 5)
    ).eval()


def assert_equal_to_torch(torch: Any, network: Any, path: Path) -> None:
    image = np.random.default_rng(2).random((1, 3, 8, 8)).astype(np.float32)
    session = float_session(path)
    (found,) = session.run(None, {session.get_inputs()[0].name: image})
    np.testing.assert_allclose(found, network(torch.from_numpy(image)).detach().numpy(), rtol=1e-4, atol=1e-5)
    assert [entry.version for entry in onnx.load(path).opset_import] == [11]


@pytest.mark.nightly
def test_torchscript(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    network = made_network(torch)
    torch.jit.script(network).save(tmp_path / "net.torchscript")
    wishes = ExportWishes(Path(sys.executable), shapes={"input": (1, 3, 8, 8)})
    found = export_network(tmp_path / "net.torchscript", tmp_path / "made", wishes)
    assert found.words.startswith("TorchScript, by torch ")
    assert_equal_to_torch(torch, network, found.path)
    with pytest.raises(ModelError, match=r"does not say the shape of its input input: give --input-shape input=SHAPE"):
        export_network(tmp_path / "net.torchscript", tmp_path / "made", ExportWishes(Path(sys.executable)))
    of_size = export_network(tmp_path / "net.torchscript", tmp_path / "made", ExportWishes(size=(8, 8)))
    assert_equal_to_torch(torch, network, of_size.path)


@pytest.mark.nightly
def test_torchscript_of_ultralytics_says_its_size_and_classes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    network = made_network(torch)
    more = {"config.txt": '{"imgsz": [8, 8], "names": {"0": "a", "1": "b"}, "task": "classify"}'}
    torch.jit.save(torch.jit.trace(network, torch.zeros(1, 3, 8, 8)), tmp_path / "net.torchscript", _extra_files=more)
    found = export_network(tmp_path / "net.torchscript", tmp_path / "made", ExportWishes(Path(sys.executable)))
    metadata = {entry.key: entry.value for entry in onnx.load(found.path).metadata_props}
    assert metadata == {"imgsz": "[8, 8]", "names": "{'0': 'a', '1': 'b'}", "task": "classify"}
    assert_equal_to_torch(torch, network, found.path)


@pytest.mark.nightly
def test_a_program_of_torch_export(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    network = made_network(torch)
    torch.export.save(torch.export.export(network, (torch.zeros(1, 3, 8, 8),)), tmp_path / "net.pt2")
    found = export_network(tmp_path / "net.pt2", tmp_path / "made", ExportWishes(Path(sys.executable)))
    assert found.words.startswith("torch.export, by torch ")
    assert_equal_to_torch(torch, network, found.path)
