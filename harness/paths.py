"""Where ptqlab's plain files are: bundled ones beside the packages, large or licensed ones outside.

In a source checkout ``suites``, ``datasets`` and ``reports`` are folders of the project; a wheel installs them under
``harness/bundled``; ``PTQLAB_SUITES`` and ``PTQLAB_DATASETS`` name folders of the user's own instead. The working
directory plays no part.
"""

from __future__ import annotations

import os
from pathlib import Path

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


def external_data() -> Path:
    """Folder of data sets that are not bundled: ``PTQLAB_DATA``, else ``../shared/data`` beside the project.

    It need not exist: who opens a file in it says what is missing.
    """
    return _external("PTQLAB_DATA", "data")


def external_models() -> Path:
    """Folder of models that are not bundled: ``PTQLAB_MODELS``, else ``../shared/models`` beside the project."""
    return _external("PTQLAB_MODELS", "models")


def _bundled(name: str) -> Path:
    installed = _PACKAGE / "bundled" / name
    return installed if installed.is_dir() else _PROJECT / name


def _external(variable: str, name: str) -> Path:
    return _configured(variable) or _PROJECT.parent / "shared" / name


def _configured(variable: str) -> Path | None:
    """The folder that an environment variable names; workers inherit it."""
    value = os.environ.get(variable)
    return Path(value) if value else None
