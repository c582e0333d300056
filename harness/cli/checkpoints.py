"""Options of a network that PyTorch wrote, and of the data that ultralytics' YAML describes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.console import say
from engine.errors import ConfigError

if TYPE_CHECKING:
    from harness.checkpoints.export import ExportedNetwork, ExportWishes
    from harness.onboarding.head_guess import HeadGuess

OwnData = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Data YAML of ultralytics: images, labels and names of classes; instead of --images.",
    ),
]
UserPythonOption = Annotated[
    Path | None,
    typer.Option(
        "--python",
        help="With a file of PyTorch: Python of the environment that has ultralytics or torch; default: this one, "
        "then python on PATH.",
    ),
]
Decoded = Annotated[
    bool,
    typer.Option(
        "--decoded",
        help="With a checkpoint: keep the decoding of boxes, or the Softmax, in the network; it may run on the CPU.",
    ),
]


def is_own_network(name: str) -> bool:
    """Whether ``name`` is that of a network rather than of a suite."""
    from harness.checkpoints.formats import is_torch_file

    return Path(name).suffix.lower() == ".onnx" or is_torch_file(Path(name))


def exported(model: Path, folder: Path, wishes: ExportWishes) -> ExportedNetwork | None:
    """The ONNX file of a file of PyTorch, made below ``folder``; None where ``model`` is no such file.

    Raises:
        ConfigError: ``model`` is another file, and options of PyTorch's files were given.
    """
    from harness.checkpoints.export import export_network
    from harness.checkpoints.formats import is_torch_file

    if not is_torch_file(model):
        if wishes.python is not None or wishes.decoded:
            option = "--decoded" if wishes.python is None else "--python"
            raise ConfigError(f"{model}: {option} belongs to a file of PyTorch")
        return None
    found = export_network(model, folder, wishes)
    say(f"exported    {found.words}{'' if found.is_new else '; earlier'}")
    return found


def described_images(model: Path, images: Path | None, data: Path | None, links: Path) -> tuple[Path, tuple[str, ...]]:
    """The folder of images that the user gives, and the names of classes where a data YAML has them.

    Args:
        model: of the user.
        images: folder that they name.
        data: YAML that they name.
        links: folder for links to the images of a YAML that names several folders, or lists.

    Raises:
        ConfigError: neither folder nor YAML is given, or both are.
    """
    from harness.checkpoints.data_yaml import read_data_yaml

    if data is not None and images is not None:
        raise ConfigError("--data and --images: give one of them")
    if data is not None:
        described = read_data_yaml(_yaml_file(data))
        found = described.in_one_folder(links)
        count = f"{len(described.images)} images, linked in " if described.images else ""
        say(f"data        {described.split} of {data}: {count}{found}; {len(described.names)} class names")
        return found, described.names
    if images is None:
        raise ConfigError(f"{model}: give the images to sweep the network on: --images DIR, or --data data.yaml")
    return _images_folder(images), ()


def _yaml_file(data: Path) -> Path:
    """``--data``, which is a file.

    Raises:
        ConfigError: it is none; says what to give instead.
    """
    if data.is_file():
        return data
    if not data.exists():
        raise ConfigError(
            f"--data {data}: no such file; give the data YAML that the network was trained with, or its images with "
            "--images DIR"
        )
    inside = sorted(path for path in data.iterdir() if path.suffix.lower() in (".yaml", ".yml"))
    if inside:
        raise ConfigError(f"--data {data}: is a folder; give the data YAML in it: --data {inside[0]}")
    from harness.datasets.label_files import samples_in

    if samples_in(data):
        raise ConfigError(f"--data {data}: is a folder of images or arrays; give it as --images {data}")
    raise ConfigError(
        f"--data {data}: is a folder without a YAML file and without images; give the data YAML that the network was "
        "trained with, or the folder of its images: --images DIR"
    )


def _images_folder(images: Path) -> Path:
    """``--images``, which is a folder.

    Raises:
        ConfigError: it is none; says what to give instead.
    """
    if images.is_file() and images.suffix.lower() in (".yaml", ".yml"):
        raise ConfigError(f"--images {images}: is a file; a data YAML is given as --data {images}")
    if not images.is_dir():
        what = "is a file" if images.exists() else "no such folder"
        raise ConfigError(f"--images {images}: {what}; give the folder that holds the images, at any depth")
    return images


def refuse_no_samples(images: Path) -> None:
    """Refuse a folder without images and arrays.

    Raises:
        ConfigError: it holds none; says what it holds.
    """
    from harness.datasets.label_files import ARRAY_SUFFIX, PICTURE_SUFFIXES, samples_in

    if not samples_in(images):
        others = Counter(path.suffix.lower() for path in images.rglob("*") if path.is_file())
        found = ", ".join(f"{count} {suffix or 'without suffix'}" for suffix, count in others.most_common(_SHOWN))
        held = f"it holds other files ({found})" if found else "it is empty"
        raise ConfigError(
            f"{images}: holds no images ({', '.join(sorted(PICTURE_SUFFIXES))}) and no arrays "
            f"({ARRAY_SUFFIX}), at any depth: {held}; give the folder of some tens of images as the network sees them, "
            "or convert them to one of these formats"
        )


_SHOWN = 3
"""Kinds of other files that a message shows."""


def refuse_other_names(names: tuple[str, ...], head: HeadGuess) -> None:
    """Refuse class names that are not those of the network.

    Raises:
        ConfigError: it has another number of classes.
    """
    if names and head.classes and len(names) != head.classes:
        raise ConfigError(
            f"--data: names {len(names)} classes ({', '.join(names[:3])}, …), the network has {head.classes}: give the "
            "YAML that it was trained with"
        )
