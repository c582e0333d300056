"""Modules that run when something of theirs is first used, because most programs never use them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import MappingProxyType, ModuleType
from typing import Any

DEFERRED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "sympy": frozenset(),
        "onnx_ir._symbolic_shapes": frozenset(),
        "numpy.f2py": frozenset(),
        "rich.markdown": frozenset({"Markdown"}),
        "rich.traceback": frozenset({"Traceback"}),
    }
)
"""Modules that wait, and the classes of each that may be imported from it without running it.

Arithmetic on symbolic dimensions takes 0.25 s and 33 MB of an import of onnx_ir, the translator of Fortran that
scipy.special looks at 0.2 s. Typer imports the two classes for
every help text, which takes 0.06 s; it needs them for help in Markdown and for tracebacks, and our commands have none.
"""


class DeferringFinder:
    """Finds the modules of :data:`DEFERRED` as the path does, with a loader that waits."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See :meth:`importlib.abc.MetaPathFinder.find_spec`; that class takes 0.02 s to import."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname in DEFERRED else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _WaitingLoader(spec.loader.name, spec.loader.path)
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


class _WaitingLoader(SourceFileLoader):
    """Creates a module as Python does, and leaves running it to the first use.

    :class:`importlib.util.LazyLoader` of Python 3.11 shows a second thread a module that is half run.
    """

    def __init__(self, fullname: str, path: str) -> None:
        super().__init__(fullname, path)
        self.lock = threading.RLock()
        self.running = False

    def exec_module(self, module: ModuleType) -> None:
        """Make the module wait."""
        module.__class__ = _Waiting

    def run(self, module: ModuleType) -> None:
        """Run the module unless this thread is running it already, or another thread has run it meanwhile."""
        with self.lock:
            if self.running or type(module) is not _Waiting:
                return
            self.running = True
            try:
                super().exec_module(module)
                object.__setattr__(module, "__class__", ModuleType)
            finally:
                self.running = False


class _Waiting(ModuleType):
    """A module that has not run yet."""

    def __getattribute__(self, name: str) -> object:
        loader = object.__getattribute__(self, "__spec__").loader
        if isinstance(loader, _WaitingLoader):
            classes = DEFERRED.get(loader.name, frozenset())
            if name in classes and not loader.running:
                return _StandIn(name, (), {"module": self})
            if not (classes and name.startswith("__")):  # the import system looks at some of these
                loader.run(self)
        return ModuleType.__getattribute__(self, name)


class _StandIn(type):
    """A class in place of the one of its name in a module that waits, which runs when the class is used."""

    module: ModuleType

    def __call__(cls, *arguments: Any, **options: Any) -> Any:
        return _of_module(cls)(*arguments, **options)

    def __getattr__(cls, name: str) -> Any:
        return getattr(_of_module(cls), name)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _of_module(cls))


def _of_module(stand_in: _StandIn) -> Any:
    """The class that ``stand_in`` stands for."""
    loader = getattr(stand_in.module.__spec__, "loader", None)
    if isinstance(loader, _WaitingLoader):
        loader.run(stand_in.module)
    return getattr(stand_in.module, stand_in.__name__)
