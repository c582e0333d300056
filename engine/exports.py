"""Names that a package offers but imports only on first use, and names that have moved."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from engine.deferral import deferring


@dataclass(frozen=True)
class Moved:
    """A name that is kept for scripts of an earlier release.

    Attributes:
        to: where it is now, ``package.module.name``.
        since: the release that deprecated it, such as ``0.2``. It goes with the next major release.
    """

    to: str
    since: str


def lazily(package: str, names: Mapping[str, str], moved: Mapping[str, Moved] | None = None) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package whose names lie in modules that are slow to import.

    Args:
        package: ``__name__`` of the package.
        names: the module of each name.
        moved: old names; using one gives a ``DeprecationWarning`` that says where it is now.
    """

    def getattribute(name: str) -> Any:
        if name in names:
            with deferring():
                return getattr(import_module(names[name]), name)
        if moved and name in moved:
            to = moved[name].to
            message = f"{package}.{name} is deprecated since ptqlab {moved[name].since}: use {to}"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            module, _, attribute = to.rpartition(".")
            return getattr(import_module(module), attribute)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return getattribute
