"""Where ptqlab's plain files are: bundled ones beside the packages, large or licensed ones outside.

In a source checkout ``suites``, ``datasets`` and ``reports`` are folders of the project; a wheel installs them under
``harness/bundled``; ``PTQLAB_SUITES`` and ``PTQLAB_DATASETS`` name folders of the user's own instead. The working
directory plays no part.
"""

from __future__ import annotations

import os
from pathlib import Path

from engine.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parent
_PROJECT = _PACKAGE.parent


def suites() -> Path:
    """Folder of the sweep definitions, ``PTQLAB_SUITES``, else the bundled one; ``zoo/`` in it holds model cards."""
    return _configured("PTQLAB_SUITES") or _bundled("suites")


def datasets() -> Path:
    """Folder of the dataset cards: ``PTQLAB_DATASETS``, else the bundled one."""
    return _configured("PTQLAB_DATASETS") or _bundled("datasets")


def reports() -> Path:
    """Folder of the report templates and accepted baselines."""
    return _bundled("reports")


def external_data(path: str | os.PathLike[str]) -> Path:
    """Where data that are not bundled are: ``path`` as it is if absolute, else below the folder ``PTQLAB_DATA``.

    Raises:
        ConfigError: ``path`` is relative and the variable is not set.
    """
    return _external("PTQLAB_DATA", path)


def external_models(path: str | os.PathLike[str]) -> Path:
    """Where a model that is not bundled is: ``path`` as it is if absolute, else below the folder ``PTQLAB_MODELS``.

    Raises:
        ConfigError: ``path`` is relative and the variable is not set.
    """
    return _external("PTQLAB_MODELS", path)


def _bundled(name: str) -> Path:
    installed = _PACKAGE / "bundled" / name
    return installed if installed.is_dir() else _PROJECT / name


def _external(variable: str, path: str | os.PathLike[str]) -> Path:
    if Path(path).is_absolute():
        return Path(path)
    folder = _configured(variable)
    if folder is None:
        raise ConfigError(f"{variable} is not set: it names the folder in which {os.fspath(path)} is looked for")
    return folder / path


def _configured(variable: str) -> Path | None:
    """The folder that an environment variable names; workers inherit it."""
    value = os.environ.get(variable)
    return Path(value) if value else None
