"""Where ptqlab's plain files are: bundled ones beside the packages, the user's own in folders that variables name.

In a source checkout ``suites``, ``datasets`` and ``reports`` are folders of the project; a wheel installs them under
``harness/bundled``. ``PTQLAB_SUITES`` and ``PTQLAB_DATASETS`` name further folders, separated as in ``PATH``: what they
hold is found before what is bundled under the same name. A suite that is given by its file brings the cards beside it.
The working directory plays no part.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from engine.errors import MissingError

_PACKAGE = Path(__file__).resolve().parents[1]
_PROJECT = _PACKAGE.parent

_CODE = "PTQLAB_CODE"
"""Variable by which a process tells its children where the user's modules are."""


def suites() -> tuple[Path, ...]:
    """Folders of sweep definitions, those of ``PTQLAB_SUITES`` first; ``zoo/`` in one of them holds model cards."""
    return (*_folders("PTQLAB_SUITES"), bundled("suites"))


def datasets() -> tuple[Path, ...]:
    """Folders of data set cards, those of ``PTQLAB_DATASETS`` first."""
    return (*_folders("PTQLAB_DATASETS"), bundled("datasets"))


def find_beside(suite: str | os.PathLike[str]) -> None:
    """Let cards in ``zoo`` and ``datasets`` beside the suite file ``suite`` be found, here and by workers.

    They are found before all others; a suite given by its name, or with no such folders, changes nothing.
    """
    folder = Path(suite).resolve().parent
    if Path(suite).suffix in (".yaml", ".yml"):
        find_in(folder)


def find_in(folder: Path) -> None:
    """Let cards in ``zoo`` and ``datasets`` of ``folder`` be found, before all others, here and by child processes."""
    search_first(
        suites=[folder] if (folder / "zoo").is_dir() else [],
        datasets=[folder / "datasets"] if (folder / "datasets").is_dir() else [],
    )


def search_first(suites: Iterable[Path] = (), datasets: Iterable[Path] = (), code: Iterable[Path] = ()) -> None:
    """Look in these folders before all others: for suites and their cards, cards of data sets, the user's modules."""
    for variable, first in (("PTQLAB_SUITES", suites), ("PTQLAB_DATASETS", datasets), (_CODE, code)):
        wanted = tuple(first)
        order = dict.fromkeys((*wanted, *_folders(variable)))
        if wanted:
            os.environ[variable] = os.pathsep.join(map(str, order))


def search_only(suites: Iterable[Path], datasets: Iterable[Path], code: Iterable[Path]) -> None:
    """Look in these folders, and in what is bundled, alone."""
    for variable in ("PTQLAB_SUITES", "PTQLAB_DATASETS", _CODE):
        os.environ.pop(variable, None)
    search_first(suites, datasets, code)


def code() -> tuple[Path, ...]:
    """Folders of modules of the user's own, besides those of cards and the current one."""
    return _folders(_CODE)


def yaml_files(folders: Iterable[Path]) -> dict[str, Path]:
    """YAML files by name without suffix, sorted by name; the first folder that has a name counts."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in folder.glob("*.yaml"):
            found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def reports() -> Path:
    """Folder of the report templates and accepted baselines."""
    return bundled("reports")


def external_data(path: str | os.PathLike[str]) -> Path:
    """Where data that are not bundled are: ``path`` as it is if absolute, else below the folder ``PTQLAB_DATA``.

    Raises:
        MissingError: ``path`` is relative and the variable is not set.
    """
    return _external("PTQLAB_DATA", path)


def external_models(path: str | os.PathLike[str]) -> Path:
    """Where a model that is not bundled is: ``path`` as it is if absolute, else below the folder ``PTQLAB_MODELS``.

    Raises:
        MissingError: ``path`` is relative and the variable is not set.
    """
    return _external("PTQLAB_MODELS", path)


def external_reference() -> Path | None:
    """Folder of the measured reference, ``PTQLAB_REFERENCE``; None where the variable is not set."""
    return _configured("PTQLAB_REFERENCE")


def bundled(name: str) -> Path:
    """A folder of ptqlab's own plain files: ``suites``, ``datasets`` or ``reports``."""
    installed = _PACKAGE / "bundled" / name
    return installed if installed.is_dir() else _PROJECT / name


def is_installed(path: Path) -> bool:
    """Whether ``path`` lies in an installation of ptqlab, whose files are not the user's."""
    return path.resolve().is_relative_to(_PACKAGE)


def _external(variable: str, path: str | os.PathLike[str]) -> Path:
    if Path(path).is_absolute():
        return Path(path)
    folder = _configured(variable)
    if folder is None:
        raise MissingError(f"{variable} is not set: it names the folder in which {os.fspath(path)} is looked for")
    return folder / path


def _configured(variable: str) -> Path | None:
    """The folder that an environment variable names; workers inherit it."""
    value = os.environ.get(variable)
    return Path(value) if value else None


def _folders(variable: str) -> tuple[Path, ...]:
    return tuple(Path(part) for part in os.environ.get(variable, "").split(os.pathsep) if part)
