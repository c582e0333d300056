"""Command line tools.

Importing this package, which every tool does first, defers modules that start-up would load for nothing, and has
Python look for cyclic garbage less often: graphs are many small objects that stay.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

DEFERRED = frozenset({"sympy", "onnx_ir._symbolic_shapes"})
"""Modules that run when something of theirs is first used: arithmetic on symbolic dimensions, 0.25 s of a start."""

_OBJECTS_PER_COLLECTION = 50_000
"""New objects after which garbage is looked for; Python's own 700 cost a start 0.1 s."""


class _DeferringFinder(MetaPathFinder):
    """Finds the modules of :data:`DEFERRED` as the path does, with a loader that waits."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in DEFERRED else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


sys.meta_path.insert(0, _DeferringFinder())
gc.set_threshold(_OBJECTS_PER_COLLECTION, *gc.get_threshold()[1:])
