"""What readers of labels share: image files of a folder, texts, numbers of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.errors import CalibrationDataError

PICTURE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".webp"})
"""Suffixes of image files, lower case."""
_MOST_BYTES = 256 << 20
"""Of a file of labels."""


def pictures(folder: Path) -> list[Path]:
    """Image files in ``folder`` and below, by name; hidden ones left out."""
    below = (path for path in folder.rglob("*") if path.suffix.lower() in PICTURE_SUFFIXES)
    visible = (path for path in below if not any(part.startswith(".") for part in path.relative_to(folder).parts))
    return sorted(path for path in visible if path.is_file())


def numbered(labels: Sequence[str]) -> tuple[Mapping[str, int], tuple[str, ...]]:
    """Number of each label, and names in the order of numbers: none where the labels are numbers themselves."""
    different = sorted(set(labels))
    if all(label.isdecimal() for label in different):
        return {label: int(label) for label in different}, ()
    return {label: index for index, label in enumerate(different)}, tuple(different)


def read_label_text(file: Path) -> str:
    """The text of a file of labels.

    Raises:
        CalibrationDataError: it cannot be read, is no text, or is larger than 256 MiB.
    """
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise CalibrationDataError(f"{file}: is larger than {_MOST_BYTES >> 20} MiB")
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CalibrationDataError(f"{file}: cannot be read as a text file of labels: {error}") from error
