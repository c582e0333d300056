"""What readers of labels share: image files of a folder, texts, numbers of classes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from engine.errors import CalibrationDataError, hint

PICTURE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".webp", ".tif", ".tiff"})
"""Suffixes of image files, lower case."""
IMAGE_FOLDERS = ("images", "image", "JPEGImages", "leftImg8bit", "img", "imgs")
"""Names of folders of images; a folder of labels may stand in the same path instead."""
_MOST_BYTES = 256 << 20
"""Size up to which a file of labels is read."""


ARRAY_SUFFIX = ".npy"
SAMPLE_SUFFIXES = PICTURE_SUFFIXES | {ARRAY_SUFFIX}
"""Suffixes of files that labels name."""


def samples_in(folder: Path, labels: Path | None = None) -> list[Path]:
    """Files in ``folder`` and below that labels are of, by name: its images, or its arrays if it holds no image.

    What lies below ``labels``, a folder in ``folder``, is no sample.
    """
    for listed in (pictures(folder), _visible(folder, {ARRAY_SUFFIX})):
        if labels is not None and not folder.is_relative_to(labels):
            listed = [path for path in listed if not path.is_relative_to(labels)]
        if listed:
            return listed
    return []


def pictures(folder: Path) -> list[Path]:
    """Image files in ``folder`` and below, by name; hidden ones left out."""
    return _visible(folder, PICTURE_SUFFIXES)


def _visible(folder: Path, suffixes: Container[str]) -> list[Path]:
    below = (path for path in folder.rglob("*") if path.suffix.lower() in suffixes)
    visible = (path for path in below if not any(part.startswith(".") for part in path.relative_to(folder).parts))
    return sorted(path for path in visible if path.is_file())


class NamedImages:
    """The images of a folder, or its arrays, found by the names that files of labels give them."""

    def __init__(self, folder: Path) -> None:
        self._found: dict[str, list[Path]] = defaultdict(list)
        self._whole: dict[str, list[Path]] = defaultdict(list)
        self.images = samples_in(folder)
        for path in self.images:
            whole = path.relative_to(folder)
            for name in {path.name, path.stem}:
                self._found[name].append(path)
            for name in {whole.as_posix(), whole.with_suffix("").as_posix()}:
                self._whole[name].append(path)

    def find(self, name: str) -> Path | None:
        """The image called ``name``: its path from the folder, or from a folder above; its name; each without suffix.

        A name that several images share finds none of them, unless it is the whole path of one. An array stands for the
        image of its name: ``a.jpg`` finds ``a.npy``.
        """
        if (
            self.images
            and self.images[0].suffix.lower() == ARRAY_SUFFIX
            and Path(name).suffix.lower() in SAMPLE_SUFFIXES
        ):
            name = name[: -len(Path(name).suffix)]
        parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".", "..")]
        for start in range(len(parts)):
            rest = "/".join(parts[start:])
            for known in (self._whole, self._found):
                if len(found := known.get(rest, [])) == 1:
                    return found[0]
        return None


FILE_COLUMNS = ("file", "filename", "file_name", "image", "image_id", "path", "name")
"""Columns of tables that name images."""
_LOOKED_AT = 50
"""Rows that a column of images is looked for in."""


def file_column(head: Sequence[str], rows: Sequence[Sequence[str]], there: NamedImages) -> int | None:
    """The column of a table that names images: by its headline where what it holds are images, else by what it holds.

    Args:
        head: headlines, lower case.
        rows: cells of the rows below.
        there: the images.
    """

    def hits(column: int) -> int:
        return sum(there.find(row[column].strip()) is not None for row in rows[:_LOOKED_AT] if len(row) > column)

    called = [head.index(name) for name in FILE_COLUMNS if name in head]
    named = next((column for column in called if hits(column)), None)
    if named is not None:
        return named
    best = max(range(len(head)), key=hits, default=None)
    if best is not None and hits(best):
        return best
    return called[0] if called else None


def asked_column(file: Path, head: Sequence[str], column: str) -> int:
    """The column of a table that ``--label-column`` names.

    Raises:
        CalibrationDataError: it has no such column.
    """
    if column.strip().lower() not in head:
        raise CalibrationDataError(
            f"{file}: has no column {column!r}; its first line has {', '.join(head)}{hint(column, head)}"
        )
    return head.index(column.strip().lower())


def instead_of_images(path: Path, name: str) -> Path | None:
    """``path`` with ``name`` in place of its last folder of images; None where it has none."""
    for index in range(len(path.parts) - 1, 0, -1):
        if path.parts[index] in IMAGE_FOLDERS:
            return Path(*path.parts[:index], name, *path.parts[index + 1 :])
    return None


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
