"""Kinds of files of PyTorch."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from engine.errors import ModelError
from harness.checkpoints.formats import TorchFormat, is_torch_file, last_line, said_of, torch_format
from tests.harness.checkpoints.made import checkpoint


def archive(path: Path, *names: str, content: str = "{}") -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for name in names:
            made.writestr(name, content)
    return path


def test_names_in_the_archive_tell_the_kind(tmp_path: Path) -> None:
    assert torch_format(checkpoint(tmp_path / "best.pt")) is TorchFormat.CHECKPOINT
    script = archive(tmp_path / "net.pt", "net/data.pkl", "net/code/__torch__.py")
    assert torch_format(script) is TorchFormat.SCRIPT
    for name in ("net/models/model.json", "serialized_exported_program.json"):
        assert torch_format(archive(tmp_path / "net.pt2", name)) is TorchFormat.PROGRAM
    (tmp_path / "old.pth").write_bytes(b"\x80\x02\x8a\nl\xfc")
    assert torch_format(tmp_path / "old.pth") is TorchFormat.CHECKPOINT
    assert [kind.package for kind in TorchFormat] == ["ultralytics", "torch", "torch"]


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(b"hello")
    with pytest.raises(ModelError, match=r"a.pt: is no file of PyTorch: neither an archive nor a pickle"):
        torch_format(tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(ModelError, match=r"b.pt: cannot be read as a file of PyTorch"):
        torch_format(tmp_path / "b.pt")
    with pytest.raises(ModelError, match="its archive holds neither a pickle nor code"):
        torch_format(archive(tmp_path / "c.pt", "readme.txt"))
    with pytest.raises(ModelError, match="cannot be read"):
        torch_format(tmp_path / "gone.pt")


def test_suffixes() -> None:
    assert all(is_torch_file(Path(name)) for name in ("best.pt", "a.torchscript", "a.PT2", "a.pth"))
    assert not any(is_torch_file(Path(name)) for name in ("smoke", "a.onnx", "a.yaml"))


def test_what_ultralytics_wrote_is_read(tmp_path: Path) -> None:
    name = "net/extra/config.txt"
    text = '{"imgsz": [64, 96], "names": {"0": "cat"}, "task": "detect"}'
    assert said_of(archive(tmp_path / "a.torchscript", name, content=text)) == {
        "imgsz": "[64, 96]",
        "names": "{'0': 'cat'}",
        "task": "detect",
    }
    for content in ("[1]", "{", "x" * (1 << 21)):
        assert said_of(archive(tmp_path / "a.torchscript", name, content=content)) == {}
    assert said_of(archive(tmp_path / "a.torchscript", "net/data.pkl")) == {}
    assert said_of(tmp_path / "gone") == {}


def test_the_last_line_says_why() -> None:
    assert last_line("a\n\rValueError: b\n \n") == "ValueError: b"
    assert last_line(" \n") == "it printed nothing"
    assert "\x1b" not in last_line("\x1b[31mred")
