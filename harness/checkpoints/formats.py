"""What kind of file PyTorch wrote, told by its suffix and the names in its archive; nothing in it is unpickled."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from engine.errors import ModelError
from engine.visible import visible

SUFFIXES = (".pt", ".pth", ".torchscript", ".pt2")
"""Suffixes of files that are exported before they are read."""
_MOST_BYTES = 1 << 20
"""Size up to which the description of a network in an archive is read."""


class TorchFormat(StrEnum):
    """Files of PyTorch.

    Attributes:
        CHECKPOINT: a pickle, as training writes it (``torch.save``).
        SCRIPT: ``torch.jit.save``.
        PROGRAM: ``torch.export.save``.
    """

    CHECKPOINT = "checkpoint"
    SCRIPT = "TorchScript"
    PROGRAM = "torch.export"

    @property
    def package(self) -> str:
        """What opens it."""
        return "ultralytics" if self is TorchFormat.CHECKPOINT else "torch"


def is_torch_file(path: Path) -> bool:
    """Whether the name is that of a file of PyTorch."""
    return path.suffix.lower() in SUFFIXES


def torch_format(path: Path) -> TorchFormat:
    """What ``path`` is.

    Raises:
        ModelError: it cannot be read, or is neither an archive nor a pickle of PyTorch.
    """
    try:
        with path.open("rb") as file:
            start = file.read(4)
        if start[:2] == _PICKLE and path.suffix.lower() in (".pt", ".pth"):
            return TorchFormat.CHECKPOINT  # as versions before 1.6 wrote it
        if start != _ZIP:
            raise ModelError(f"{path}: is no file of PyTorch: neither an archive nor a pickle")
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile) as error:
        raise ModelError(f"{path}: cannot be read as a file of PyTorch: {error}") from error
    if any("/code/" in name for name in names):
        return TorchFormat.SCRIPT
    if any(name.endswith(_OF_PROGRAMS) for name in names):
        return TorchFormat.PROGRAM
    if any(name.endswith("data.pkl") for name in names):
        return TorchFormat.CHECKPOINT
    raise ModelError(f"{path}: is no file of PyTorch: its archive holds neither a pickle nor code")


_PICKLE, _ZIP = b"\x80\x02", b"PK\x03\x04"
_OF_PROGRAMS = ("models/model.json", "serialized_exported_program.json")
"""Endings of names in an archive of ``torch.export``, of versions from 2.8 on and before."""


def said_of(path: Path) -> Mapping[str, str]:
    """What ultralytics wrote into a TorchScript archive about its network, as ONNX metadata have it; else empty."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = next((entry for entry in archive.infolist() if entry.filename.endswith("extra/config.txt")), None)
            if found is None or found.file_size > _MOST_BYTES:
                return {}
            content = json.loads(archive.read(found))
    except (OSError, ValueError, RecursionError, zipfile.BadZipFile):
        return {}
    return {str(key): str(value) for key, value in content.items()} if isinstance(content, dict) else {}


def last_line(text: str) -> str:
    """The last line of ``text`` that says something, for a message."""
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    return visible(lines[-1])[:400] if lines else "it printed nothing"
