"""The installed version: of the whole of ptqlab, of it without MLflow, or of the engine without the lab."""

from __future__ import annotations

from functools import cache

DISTRIBUTIONS = ("ptqlab", "ptqlab-minimal", "ptqlab-engine")
"""What this package can be installed as."""


@cache
def installed_version() -> str:
    """Such as ``0.2.0``.

    Raises:
        PackageNotFoundError: no distribution is installed.
    """
    from importlib.metadata import PackageNotFoundError, version  # a start need not wait for it

    for name in DISTRIBUTIONS[:-1]:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return version(DISTRIBUTIONS[-1])
