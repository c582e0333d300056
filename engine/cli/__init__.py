"""Command line tools.

Importing this package, which every tool does first, defers modules that start-up would load for nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

DEFERRED = frozenset({"sympy", "onnx_ir._symbolic_shapes"})
"""Modules that run when something of theirs is first used: arithmetic on symbolic dimensions, 0.25 s of a start."""


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
