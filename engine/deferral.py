"""Modules that run when something of theirs is first used, because most programs never use them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

DEFERRED = frozenset({"sympy", "onnx_ir._symbolic_shapes"})
"""Arithmetic on symbolic dimensions: 0.25 s and 33 MB of an import of onnx_ir."""


class DeferringFinder(MetaPathFinder):
    """Finds the modules of :data:`DEFERRED` as the path does, with a loader that waits."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See :meth:`importlib.abc.MetaPathFinder.find_spec`."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname in DEFERRED else None
        if spec is not None and spec.loader is not None:
            spec.loader = _WaitingLoader(spec.loader)
        return spec


@contextmanager
def deferring() -> Iterator[None]:
    """Modules of :data:`DEFERRED` that are first imported in this block wait; later imports are as they were."""
    finder = DeferringFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _WaitingLoader(Loader):
    """Creates a module as ``loader`` does, and leaves running it to the first use.

    :class:`importlib.util.LazyLoader` of Python 3.11 shows a second thread a module that is half run.
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.lock = threading.RLock()
        self.running = False

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """See :meth:`importlib.abc.Loader.create_module`."""
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Make the module wait."""
        module.__loader__ = self.loader
        module.__class__ = _Waiting

    def run(self, module: ModuleType) -> None:
        """Run the module unless this thread is running it already, or another thread has run it meanwhile."""
        with self.lock:
            if self.running or type(module) is not _Waiting:
                return
            self.running = True
            try:
                self.loader.exec_module(module)
                object.__setattr__(module, "__class__", ModuleType)
            finally:
                self.running = False


class _Waiting(ModuleType):
    """A module that has not run yet."""

    def __getattribute__(self, name: str) -> object:
        spec: ModuleSpec = object.__getattribute__(self, "__spec__")
        loader = spec.loader
        if isinstance(loader, _WaitingLoader):
            loader.run(self)
        return ModuleType.__getattribute__(self, name)
