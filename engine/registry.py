"""What users add under names of their own, without a line in ptqlab: by a decorator, or by an installed package.

A :class:`Registry` holds one kind of them. Its :meth:`Registry.register` is a decorator for a class of the user's; the
module in which it stands is imported by ptqlab where :data:`PLUGINS` names it, or where a distribution has an entry
point of the registry's group. As in pytest and lm-evaluation-harness, a name that is taken is refused.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from engine.errors import ConfigError, PtqlabError, hint

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
Object = TypeVar("Object")

PLUGINS = "PTQLAB_PLUGINS"
"""Environment variable: modules to import before names are looked up, separated by commas; a file, ``my_methods.py``,
or a module that Python finds, in the current folder too. Child processes inherit it."""

_OURS = ("engine", "harness")
_DIGITS = 24
_SUFFIX = ".py"
_INSTALLED = {"site-packages", "dist-packages"}


@dataclass(frozen=True)
class Registration(Generic[T]):
    """One thing that a user registered.

    Attributes:
        name: that options and files use.
        value: the class.
        digest: of its sources (:func:`digest_of_source`).
        where: its module and name, or the entry point.
    """

    name: str
    value: T
    digest: str
    where: str


class Registry(Generic[T]):
    """What users registered of one kind.

    Args:
        kind: in the singular, for messages: ``calibration method``.
        group: of entry points: ``ptqlab.calibration_methods``.
        base: what each must be derived from, as ``module:Class``, imported when the first is looked at.
        taken: ptqlab's own names: a list of them, or ``module:mapping`` whose keys they are.
        functions: whether a function may take the place of a class.
    """

    def __init__(
        self, kind: str, group: str, base: str, taken: Iterable[str] | str = (), *, functions: bool = False
    ) -> None:
        self.kind, self.group = kind, group
        self._base, self._taken, self._functions = base, taken, functions
        self._own: dict[str, Any] = {}
        self._checked: dict[str, Registration[T]] = {}
        self._lock = threading.RLock()

    def register(self, name: str) -> Callable[[Object], Object]:
        """Decorator that registers a class, or a function where this kind may be one, as ``name``.

        A class that is defined again, as by a cell of a notebook, takes the place of the one before.

        Raises:
            ConfigError: the name is no word, or is taken.
        """

        def registered(value: Object) -> Object:
            self._add(name, value)
            return value

        return registered

    def names(self) -> list[str]:
        """Names of all that users registered, sorted; entry points are not loaded for it.

        Raises:
            ConfigError: a plugin cannot be imported, or an entry point takes a name that is taken.
        """
        load_plugins()
        return sorted({*self._own, *self._points()})

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def entry(self, name: str) -> Registration[T]:
        """What is registered as ``name``.

        Raises:
            ConfigError: nothing is, or it cannot be loaded, is not what this kind must be, or has no source file.
        """
        known = self._checked.get(name)
        if known is not None:
            return known
        if name not in self:
            allowed = self.allowed()
            raise ConfigError(
                f"unknown {self.kind} {name!r}{hint(name, allowed)} Allowed: {', '.join(allowed) or 'none'}"
                f" (modules that {PLUGINS} names, and installed packages, may register more)"
            )
        with self._lock:
            for point in self._points().get(name, ()):
                self._add(name, _loading(f"{self.kind} {name!r}: {_described(point)}", point.load))
            value = self._own[name]
            self._check(name, value)
            found = Registration(name, value, digest_of_source(value, f"{self.kind} {name!r}"), _name_of(value))
            self._checked[name] = found
            return found

    def __getitem__(self, name: str) -> T:
        return self.entry(name).value

    def entries(self) -> list[Registration[T]]:
        """All that users registered, by name."""
        return [self.entry(name) for name in self.names()]

    def allowed(self) -> list[str]:
        """All names that options may have, ptqlab's own too, sorted."""
        return sorted({*self._reserved(), *self.names()})

    def _add(self, name: str, value: object) -> None:
        if not name.isidentifier():
            raise ConfigError(f"{self.kind} {name!r}: a name is a word of letters, digits and _, e.g. two_thirds")
        with self._lock:
            before = self._own.get(name)
            if name in self._reserved():
                raise ConfigError(
                    f"{self.kind} {name!r}: ptqlab has this name itself; register {_name_of(value)} under another"
                )
            if before is not None and before is not value and _name_of(before) != _name_of(value):
                raise ConfigError(
                    f"{self.kind} {name!r} is registered twice: by {_name_of(before)} and by {_name_of(value)}; "
                    "rename one"
                )
            self._own[name] = value
            self._checked.pop(name, None)

    def _points(self) -> dict[str, list[EntryPoint]]:
        """The entry points of this kind by name."""
        found: dict[str, list[EntryPoint]] = {}
        for point in _entry_points(self.group, tuple(sys.path)):
            found.setdefault(point.name, []).append(point)
        for name in found.keys() & set(self._reserved() if found else ()):
            raise ConfigError(
                f"{self.kind} {name!r}: {_described(found[name][0])}: ptqlab has this name itself; give it another"
            )
        return found

    def _reserved(self) -> list[str]:
        if isinstance(self._taken, str):
            found: Mapping[str, object] = _resolved(self._taken)
            return list(map(str, found))
        return list(map(str, self._taken))

    def _check(self, name: str, value: object) -> None:
        base: type = _resolved(self._base)
        if isinstance(value, type) and issubclass(value, base):
            missing = sorted(getattr(value, "__abstractmethods__", ()))
            if missing:
                raise ConfigError(f"{self.kind} {name!r}: {_name_of(value)} lacks {', '.join(missing)}")
            return
        if self._functions and callable(value) and not isinstance(value, type):
            return
        wanted = f"a class derived from {base.__module__}.{base.__qualname__}"
        wanted += " or a function" if self._functions else ""
        raise ConfigError(f"{self.kind} {name!r}: {_name_of(value)} is not {wanted}")


def load_plugins() -> None:
    """Import what :data:`PLUGINS` names, each once.

    Raises:
        ConfigError: one is not there, or raises.
    """
    for name in _plugins():
        _loading(f"{PLUGINS}: {name}", partial(_import, name))


def plugin_modules() -> dict[str, Path | None]:
    """Modules that :data:`PLUGINS` names, each with the folder of its file where it names a file."""
    return {_module_name(name): Path(name).resolve().parent if name.endswith(_SUFFIX) else None for name in _plugins()}


def digest_of_source(value: object, what: str) -> str:
    """Digest of the module in which ``value`` is defined and of the modules beside it that it imports.

    Of a package all modules count. Results that depend on ``value`` have this in their key.

    Raises:
        ConfigError: its source is not in a file; ``what``: how the message calls it.
    """
    module = sys.modules.get(getattr(value, "__module__", ""))
    file = getattr(module, "__file__", None)
    sources = _sources(file) if file else []
    if not sources:
        raise ConfigError(f"{what}: {_name_of(value)} is in no source file; put it into one, so that a change shows")
    found = hashlib.sha256()
    for path in sources:
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:_DIGITS]


def _sources(file: str) -> list[Path]:
    """The module's file, or all of its package, and modules beside it that these import, in a fixed order."""
    path = Path(file).resolve()
    if path.suffix != _SUFFIX or not path.is_file():
        return []
    top = path.parent
    if not (top / "__init__.py").is_file():
        return [path] if _INSTALLED & set(path.parts) else sorted(_closure(path))
    while (top.parent / "__init__.py").is_file():
        top = top.parent
    return sorted(top.rglob("*.py"))


def _closure(path: Path) -> set[Path]:
    found, waiting = set[Path](), [path]
    while waiting:
        current = waiting.pop()
        if current in found or current.suffix != _SUFFIX or not current.is_file():
            continue
        found.add(current)
        for name in _imports(current):
            spec = PathFinder.find_spec(name, [str(path.parent)]) if name not in _OURS else None
            if spec is not None and spec.submodule_search_locations:
                waiting += [each for place in spec.submodule_search_locations for each in Path(place).rglob("*.py")]
            elif spec is not None and spec.origin:
                waiting.append(Path(spec.origin).resolve())
    return found


def _imports(path: Path) -> Iterator[str]:
    """Top-level names of what a file imports."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _plugins() -> list[str]:
    return [name for part in os.environ.get(PLUGINS, "").split(",") if (name := part.strip())]


def _import(name: str) -> None:
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    module = _module_name(name)
    if module in sys.modules:
        return
    if not name.endswith(_SUFFIX):
        importlib.import_module(name)
        return
    file = Path(name).resolve()
    spec = importlib.util.spec_from_file_location(module, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    loaded = sys.modules[module] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(loaded)
    except BaseException:
        del sys.modules[module]
        raise


def _module_name(name: str) -> str:
    return Path(name).stem if name.endswith(_SUFFIX) else name


def _loading(what: str, load: Callable[[], Any]) -> Any:
    """What ``load`` gives; whatever it raises becomes one message about ``what``."""
    try:
        return load()
    except PtqlabError as error:
        raise ConfigError(str(error) if str(error).startswith(what) else f"{what}: {error}") from error
    except Exception as error:  # the user's code may raise anything
        raise ConfigError(f"{what} cannot be loaded: {type(error).__name__}: {error}") from error


@cache
def _entry_points(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Registration points of ``group``; ``path``: ``sys.path``, in which they are looked for."""
    del path
    from importlib.metadata import entry_points  # a start need not wait for it

    return tuple(sorted(entry_points(group=group), key=lambda point: (point.name, point.value)))


def _described(point: EntryPoint) -> str:
    return f"entry point {point.value!r}" + (f" of {point.dist.name}" if point.dist is not None else "")


def _resolved(text: str) -> Any:
    module, _, name = text.partition(":")
    return getattr(importlib.import_module(module), name)


def _name_of(value: object) -> str:
    if isinstance(value, type) or callable(value):
        return f"{getattr(value, '__module__', '?')}.{getattr(value, '__qualname__', value)}"
    return f"{type(value).__name__} {value!r}"[:80]
