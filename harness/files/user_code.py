"""Metrics and data sets of the user's own: ``module:name``, found as in a script of the current folder.

Modules beside the cards of ``PTQLAB_SUITES`` and ``PTQLAB_DATASETS`` are found too. A module's source is part of what
determines a trial: what has changed is computed again.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from engine.errors import ConfigError, PtqlabError
from harness.files import paths


def is_own(name: str) -> bool:
    """Whether ``name`` is that of something in a module, rather than of something bundled."""
    return ":" in name


def load_own(name: str, kind: str) -> Any:
    """What ``name`` (``module:name``) stands for; ``kind`` says in messages what it is to be.

    Raises:
        ConfigError: there is no such module, it cannot be imported, or it has no such name.
    """
    module, _, attribute = name.partition(":")
    _search_here()
    try:
        with running_own(name, kind):
            found = importlib.import_module(module)
        return getattr(found, attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{kind} {name!r}: {error}") from error


@contextmanager
def running_own(name: str, kind: str) -> Iterator[None]:
    """Report what the code of ``name`` (``module:name``) raises inside in one line, with the line of its module.

    Raises:
        ConfigError: it raised anything but an error of ptqlab or the system's: too little memory, a file, an import.
    """
    try:
        yield
    except (PtqlabError, OSError, MemoryError, ImportError):
        raise
    except Exception as error:  # the user's code may raise anything
        at = _line_of(error, name.partition(":")[0])
        raise ConfigError(f"{kind} {name!r} raised {type(error).__name__}: {error}{at}") from error


def _line_of(error: Exception, module: str) -> str:
    """Where ``error`` was raised, as far as that is in ``module``; `` (FILE, line N)`` or empty."""
    file = getattr(sys.modules.get(module), "__file__", None)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" ({file}, line {lines[-1]})" if lines else ""


def digest_of_own(name: str) -> str:
    """SHA-256 of the source of the module of ``name``.

    Raises:
        ConfigError: it has none.
    """
    module = name.partition(":")[0]
    _search_here()
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        raise ConfigError(f"{name!r}: no module {module} in the current folder, beside the cards or installed")
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()


def folders_of_cards() -> list[Path]:
    """Folders beside cards of the user's own, and further ones, in which modules are looked for."""
    suites = [folder for suite in paths.suites()[:-1] for folder in (suite, suite / "zoo")]
    return [*suites, *paths.datasets()[:-1], *paths.code()]


def _search_here() -> None:
    """Let modules of the current folder, and those beside cards of the user's own, be found."""
    for folder in (os.getcwd(), *map(str, folders_of_cards())):
        if folder not in sys.path:
            sys.path.append(folder)
