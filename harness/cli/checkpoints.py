"""Options of a network that PyTorch wrote, and of the data that ultralytics' YAML describes."""

from __future__ import annotations

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
        exists=True,
        dir_okay=False,
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


def described_images(model: Path, images: Path | None, data: Path | None) -> tuple[Path, tuple[str, ...]]:
    """The folder of images that the user gives, and the names of classes where a data YAML has them.

    Raises:
        ConfigError: neither folder nor YAML is given, or both are.
    """
    from harness.checkpoints.data_yaml import read_data_yaml

    if data is not None and images is not None:
        raise ConfigError("--data and --images: give one of them")
    if data is not None:
        described = read_data_yaml(data)
        say(f"data        {described.split} of {data}: {described.images}; {len(described.names)} class names")
        return described.images, described.names
    if images is None:
        raise ConfigError(
            f"{model}: give the images to sweep the network on: ptqlab run {model} --images DIR, or --data data.yaml"
        )
    return images, ()


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
