"""The names under which Python code for custom operators is registered, and the files that register it."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from engine.errors import ConfigError

Implementation = Callable[..., Any]
ShapeFunction = Callable[[list[list[int]]], Any]
T = TypeVar("T", bound=Callable[..., Any])

FILES_VARIABLE = "PTQLAB_CUSTOM_OPS"
"""Environment variable: files that register operators, joined by ``os.pathsep``, for tools that read no YAML."""

USER_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""What code of users may raise; it is reported with the place of the call."""


class CustomOperators:
    """Implementations and shape functions by name; a later registration takes the place of an earlier one.

    Sessions take implementations when they are made: what is registered afterwards does not change them.
    """

    def __init__(self) -> None:
        self._implementations: dict[str, Implementation] = {}
        self._shapes: dict[str, ShapeFunction] = {}
        self._pending = True

    def register(self, kind: str, implementation: Implementation) -> None:
        """Compute nodes of the name ``kind`` with ``implementation``: a class with a method, or a function."""
        self._implementations[kind] = implementation

    def register_shapes(self, kind: str, function: ShapeFunction) -> None:
        """Learn output shapes of nodes of the name ``kind`` from ``function``, which takes the list of input shapes."""
        self._shapes[kind] = function

    def find(self, name: str) -> Implementation | None:
        """The implementation that is registered as ``name``, or whose own name that is."""
        self._load_named_in_environment()
        found = self._implementations.get(name)
        if found is not None:
            return found
        return next((item for item in self._implementations.values() if getattr(item, "__name__", "") == name), None)

    def find_shapes(self, name: str) -> ShapeFunction | None:
        """The shape function of ``name``, or of the name that the implementation ``name`` is registered under."""
        implementation = self.find(name)
        kinds = [name, *(kind for kind, item in self._implementations.items() if item is implementation)]
        return next((self._shapes[kind] for kind in kinds if kind in self._shapes), None)

    def how_to(self) -> str:
        """What a user can do about a name that is missing, and the names that there are."""
        known = ", ".join(sorted(self._implementations)) or "none"
        return (
            f"registered: {known}; name its file in custom_op.op_register_files of the YAML, or in the environment "
            f"variable {FILES_VARIABLE}"
        )

    def _load_named_in_environment(self) -> None:
        """Load the files of :data:`FILES_VARIABLE`, once; what is registered already stays."""
        if not self._pending:
            return
        self._pending = False
        given = dict(self._implementations), dict(self._shapes)
        for name in filter(None, os.environ.get(FILES_VARIABLE, "").split(os.pathsep)):
            load_file(Path(name))
        self._implementations.update(given[0])
        self._shapes.update(given[1])


REGISTRY = CustomOperators()
"""The operators of this process: decorators in users' files have no other place to register at."""


def op_implement_register(kind: str) -> Callable[[T], T]:
    """Decorator: the class or function computes custom operators of the name ``kind``."""

    def decorate(implementation: T) -> T:
        REGISTRY.register(kind, implementation)
        return implementation

    return decorate


def op_shape_infer_register(kind: str) -> Callable[[T], T]:
    """Decorator: the function gives output shapes of the operators ``kind`` for a list of input shapes."""

    def decorate(function: T) -> T:
        REGISTRY.register_shapes(kind, function)
        return function

    return decorate


def op_register(module: str) -> None:
    """Import ``module``, whose decorators register operators.

    Raises:
        ConfigError: it cannot be imported.
    """
    try:
        import_module(module)
    except USER_ERRORS as error:
        raise ConfigError(f"op_register({module!r}): {type(error).__name__}: {error}") from error


LOOKALIKE: Mapping[str, Callable[..., Any]] = {
    "op_implement_register": op_implement_register,
    "op_register": op_register,
    "op_shape_infer_register": op_shape_infer_register,
}
"""What users' files import from ``horizon_nn.custom``."""

LOOKALIKE_MODULES = ("horizon_nn.custom", "horizon_nn.custom.op_registration")


def load_files(names: Sequence[str], folder: Path) -> None:
    """Execute the files ``names`` of ``folder``, which register operators.

    Raises:
        ConfigError: a file is missing, lies outside ``folder``, or fails.
    """
    root = folder.resolve()
    for name in names:
        try:
            path = (root / name).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise ConfigError(f"custom_op.op_register_files: {name!r} is no path: {error}") from error
        if not path.is_relative_to(root):
            raise ConfigError(f"custom_op.op_register_files: {name!r} lies outside custom_op_dir {folder}")
        load_file(path)


def load_file(path: Path) -> None:
    """Execute ``path``, whose decorators register operators; it may import modules of its own folder.

    Raises:
        ConfigError: it is missing, is no Python file, or fails.
    """
    if path.suffix != ".py" or not path.is_file():
        raise ConfigError(f"custom operators: {path}: no such Python file (.py)")
    name = f"_custom_op_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"custom operators: {path}: cannot be imported")
    module = importlib.util.module_from_spec(spec)
    try:
        with _importable(module, path.parent):
            spec.loader.exec_module(module)
    except USER_ERRORS as error:
        sys.modules.pop(name, None)
        raise ConfigError(f"custom operators: {path} fails: {type(error).__name__}: {error}") from error


@contextmanager
def _importable(module: ModuleType, folder: Path) -> Iterator[None]:
    """While ``module`` is executed: it is known by its name, its folder and ``horizon_nn.custom`` can be imported.

    What it imported from its folder is forgotten after: another folder may have modules of the same names.
    """
    before = set(sys.modules)
    before |= {module.__name__}
    sys.modules[module.__name__] = module
    sys.path.insert(0, str(folder))
    absent = [name for name in ("horizon_nn", *LOOKALIKE_MODULES) if name not in sys.modules]
    for name in absent:
        stand_in = ModuleType(name, "Look-alike of the original toolchain's module of this name, by ptqlab.")
        stand_in.__path__ = []
        stand_in.__dict__.update(LOOKALIKE if name in LOOKALIKE_MODULES else {})
        sys.modules[name] = stand_in
    try:
        yield
    finally:
        sys.path[:] = [entry for entry in sys.path if entry != str(folder)]
        neighbours = [name for name, found in sys.modules.items() if name not in before and _lies_in(found, folder)]
        for name in (*absent, *neighbours):
            del sys.modules[name]


def _lies_in(module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).is_relative_to(folder)
