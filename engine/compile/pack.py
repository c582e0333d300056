"""Packed files: several compiled models in one ``.bin``, each as the bytes of its own file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.compile.compiler import CompiledModel, from_bytes
from engine.compile.container import MAGIC, ContainerReader, Section, SectionKind, encode
from engine.errors import ConfigError, ContainerError, hint
from engine.ir import notice_length, write_atomically


def pack(files: Sequence[Path], target: Path) -> Path:
    """Write the models of ``files`` into one file.

    Raises:
        ContainerError: a file is damaged, or is packed itself.
        ConfigError: two models have the same name.
    """
    names: dict[str, Path] = {}
    sections = []
    for index, file in enumerate(files):
        if is_packed(file):
            raise ContainerError(f"model: {file} is a packed model, it can not be packed again!")
        data = file.read_bytes()
        name = from_bytes(data, str(file)).name
        if name in names:
            raise ConfigError(f"{file}: its model has the name {name!r}, like that of {names[name]}; names must differ")
        names[name] = file
        sections.append(Section(SectionKind.MODEL, index, data))
    return write_atomically(target, encode(sections))


def is_compiled(path: Path) -> bool:
    """Whether a file is a container, by its first bytes."""
    with path.open("rb") as stream:
        stream.seek(notice_length(stream))
        return stream.read(len(MAGIC)) == MAGIC


def is_packed(path: Path) -> bool:
    """Whether ``path`` holds several models.

    Raises:
        ContainerError: it is not a ``.bin`` file, or its table is damaged.
    """
    with path.open("rb") as stream:
        return ContainerReader(stream, str(path)).count(SectionKind.MODEL) > 0


def open_models(path: Path, name: str | None = None) -> tuple[CompiledModel, ...]:
    """The models of a plain or packed file; only the one called ``name`` where it is given.

    Raises:
        ContainerError: the file is damaged.
        ConfigError: no model is called ``name``.
    """
    with path.open("rb") as stream:
        reader = ContainerReader(stream, str(path))
        count = reader.count(SectionKind.MODEL)
        parts = [reader.read(SectionKind.MODEL, k) for k in range(count)]
    models = tuple(from_bytes(data, str(path)) for data in (parts or [path.read_bytes()]))
    if name is None:
        return models
    chosen = tuple(model for model in models if model.name == name)
    if not chosen:
        names = [model.name for model in models]
        raise ConfigError(f"{path}: has no model {name!r}; it holds {', '.join(names)}{hint(name, names)}")
    return chosen


def open_single(path: Path) -> CompiledModel:
    """The model of a file that is not packed.

    Raises:
        ContainerError: the file is damaged or packed.
    """
    if is_packed(path):
        raise ContainerError(f"{path}: pack model is not supported.")
    return open_models(path)[0]
