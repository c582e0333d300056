"""Runs :mod:`engine.simulate.kernels.build` with numba alone: ``python -P alone.py [all | host | none]``.

A wheel is built where the packages are not installed that the rest of the engine needs: this script imports the kernels
without the packages around them. ``python -P alone.py object PART FILE`` writes one object for the CPU that numba sees.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[3]
AROUND = (
    *("engine", "engine.calibrate", "engine.calibrate.statistics", "engine.floats", "engine.floats.softmax"),
    "engine.simulate",
)
"""Packages whose own code stays unread."""


def main(arguments: list[str]) -> None:
    """Import the builder alone, and call it."""
    for name in AROUND:
        package = ModuleType(name)
        package.__path__ = [str(ROOT.joinpath(*name.split(".")))]
        sys.modules[name] = package
    build = import_module("engine.simulate.kernels.build")
    if arguments[:1] == ["object"]:
        gc.disable()  # a tenth of the time: what numba knows of a function stays alive anyway
        build.write_object(int(arguments[1]), arguments[2])
    else:
        build.main(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
