"""What determines a result besides its inputs: sources that a module imports, their data files, versions of tools.

A module depends on what it imports, at its top or inside functions, and on what that imports in turn. Whoever imports
a module from outside its package depends on the package's ``__init__`` as well, which is where registries are filled:
on the part of it that runs on import. A string that names a module counts as an import of it, for modules are
imported by name too. Imports for type checkers alone do not count.
"""

from __future__ import annotations

import ast
import hashlib
import json
import platform
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TypeGuard

from engine.sealed import sealed, unsealed
from engine.user_cache import read_kept, write_kept

_DIGITS = 24
"""Hexadecimal digits of a digest: 96 bits, enough that no two contents ever share one."""

_OURS = "engine"
"""The package that sources of every stage may lie in, besides the stage's own."""


@dataclass(frozen=True)
class Fingerprint:
    """What a module's results depend on.

    Attributes:
        files: digest by path of every source and data file, relative to the folder of the packages.
        tools: version by distribution, of Python too; :data:`ABSENT` for what is not installed.
    """

    files: Mapping[str, str]
    tools: Mapping[str, str]

    @cached_property
    def digest(self) -> str:
        """One digest of it all."""
        return digest_of(dict(self.files), dict(self.tools))


def digest_of(*parts: object) -> str:
    """Digest of JSON values; equal content gives equal digests on every machine."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def digest_of_files(paths: Iterable[Path]) -> str:
    """SHA-256, in hexadecimal, of the contents of files, one after the other."""
    found = hashlib.sha256()
    for path in paths:
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                found.update(block)
    return found.hexdigest()


@cache
def fingerprint_of(module: str) -> Fingerprint:
    """The fingerprint of ``module``, computed once per process."""
    sources, foreign = _closure(module)
    folders = {path.parent for path in sources}
    files = sources | {path for folder in folders for path in _data_of(folder)}
    root = _root(module)
    digests = {str(path.relative_to(root)): _digest(path) for path in sorted(files)}
    return Fingerprint(digests, {"python": platform.python_version(), **_versions(foreign)})


def _closure(module: str) -> tuple[set[Path], set[str]]:
    """Files of ``module`` and of ptqlab's modules that it imports; names of the other packages that these import."""
    top = module.partition(".")[0]
    files: set[Path] = set()
    foreign: set[str] = set()
    read: dict[str, _Named] = {}
    seen = {(module, True)}
    waiting = [(module, True)]
    while waiting:
        name, is_used = waiting.pop()
        found = _links(name, is_used, top)
        if found is None:
            continue
        files.add(found.path)
        foreign |= found.foreign
        read[found.key] = found.named
        fresh = found.ours - seen
        seen |= fresh
        waiting += fresh
    if not read.keys() <= _kept().keys():
        _keep(read)
    return files, foreign - set(sys.stdlib_module_names)


@dataclass(frozen=True)
class _Links:
    """What a module leads to.

    Attributes:
        path: its file.
        key: under which its imports are kept.
        named: its imports.
        ours: modules of ptqlab that it imports, and whether what their functions import counts too.
        foreign: other packages.
    """

    path: Path
    key: str
    named: _Named
    ours: frozenset[tuple[str, bool]]
    foreign: frozenset[str]


@cache
def _links(module: str, is_used: bool, top: str) -> _Links | None:
    """None for a name inside a module; ``top``: the package of the module whose fingerprint is made."""
    path = _source(module)
    if path is None:
        return None
    key, named = _imports(path, module)
    ours: set[tuple[str, bool]] = set()
    foreign: set[str] = set()
    for target in {*named[0], *named[1]} if is_used else named[0]:
        package = target.partition(".")[0]
        if package in (_OURS, top):
            ours |= {(target, True), *((entered, False) for entered in _entered(target, module))}
        else:
            foreign.add(package)
    return _Links(path, key, named, frozenset(ours), frozenset(foreign))


def _entered(target: str, importer: str) -> Iterator[str]:
    """The packages that ``target`` lies in, as far as ``importer`` does not lie in them too."""
    parts = target.split(".")
    for count in range(1, len(parts)):
        package = ".".join(parts[:count])
        if not f"{importer}.".startswith(f"{package}."):
            yield package


_PARSING = threading.Lock()
"""CPython 3.11 cannot parse in two threads at a time: it takes the depth of one for that of the other."""


_Named = tuple[list[str], list[str]]
"""What a file imports at its top, and what inside functions; of ``from a import b`` ``a``, and ``a.b`` too."""


@cache
def _imports(path: Path, module: str) -> tuple[str, _Named]:
    """What the file of ``module`` imports, behind the key under which it is kept between processes."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    source = path.read_bytes()
    key = digest_of(_FORM, package, hashlib.sha256(source).hexdigest())
    return key, _kept().get(key) or _parsed(source, package)


def _parsed(source: bytes, package: str) -> _Named:
    found: tuple[set[str], set[str]] = set(), set()
    with _PARSING:
        tree = ast.parse(source)
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, inside = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found[inside].update(_named(node, package))
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and _MODULE.fullmatch(node.value):
                found[inside].add(node.value)
        elif _is_for_checkers(node):
            waiting += [(other, inside) for other in node.orelse]
        elif not _is_logger(node):
            inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _waits(node)
            waiting += [(other, inside) for other in ast.iter_child_nodes(node)]
    return sorted(found[0]), sorted(found[1])


_FORM = 1
"""Goes up when :func:`_parsed` finds other names in the same source."""

_FILE = "imports.json"
_MOST = 5000
"""Sources of about ten versions of ptqlab; of more, those of the last process are kept."""


@cache
def _kept() -> Mapping[str, _Named]:
    """What earlier processes parsed: parsing all sources takes five CPU seconds, reading this 10 ms."""
    return _stored()


def _stored() -> dict[str, _Named]:
    try:
        return {key: (top, inside) for key, (top, inside) in json.loads(unsealed(read_kept(_FILE) or b"{}")).items()}
    except (ValueError, TypeError, AttributeError):  # damaged, or of another form
        return {}


def _keep(read: Mapping[str, _Named]) -> None:
    stored = _stored()
    if read.keys() <= stored.keys():
        return
    merged = {**stored, **read}
    write_kept(_FILE, sealed(json.dumps(merged if len(merged) <= _MOST else dict(read))))


_MODULE = re.compile(rf"{_OURS}(\.\w+)+")
"""A string that may be the name of a module."""


def _named(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*above, *filter(None, [base])])
    yield base
    yield from (f"{base}.{alias.name}" for alias in node.names)


def _is_for_checkers(node: ast.AST) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _waits(node: ast.AST) -> bool:
    """Whether what ``node`` names is imported later: the call of :func:`engine.exports.lazily`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "lazily"


def _is_logger(node: ast.AST) -> bool:
    """Whether it opens a logger, which has the name of a module."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "getLogger"


@cache
def _source(module: str) -> Path | None:
    """The file of one of ptqlab's modules; None for a name inside a module."""
    top, *parts = module.split(".")
    base = _folder(top).joinpath(*parts)
    for path in (base / "__init__.py", base.with_suffix(".py")):
        if path.is_file():
            return path
    return None


@cache
def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise LookupError(f"{package} is no package")
    return Path(next(iter(spec.submodule_search_locations))).resolve()


def _root(module: str) -> Path:
    """The folder that the packages lie in."""
    return _folder(module.partition(".")[0]).parent


@cache
def _data_of(folder: Path) -> tuple[Path, ...]:
    """Data files beside modules, and in folders below that hold no modules."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name != "__pycache__" and not any(path.glob("*.py")):
            found += [other for other in path.rglob("*") if other.is_file()]
        elif path.is_file() and path.suffix not in (".py", ".pyc"):
            found.append(path)
    return tuple(found)


@cache
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS]


@cache
def _distributions() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()


_DISTRIBUTIONS = {"PIL": "pillow", "google": "protobuf", "sklearn": "scikit-learn", "yaml": "PyYAML"}
"""Where packages come from whose distribution has another name; of other packages the installed files are searched."""


def _versions(packages: set[str]) -> dict[str, str]:
    """Versions of the distributions that these packages come from, most of which have the package's name."""
    found = {}
    for package in sorted(packages):
        name = _DISTRIBUTIONS.get(package, package)
        is_elsewhere = version_of(name) == ABSENT and find_spec(package) is not None
        names = _distributions().get(package, [name]) if is_elsewhere else [name]
        found.update({name: version_of(name) for name in names})
    return found


@cache
def version_of(distribution: str) -> str:
    """Version of an installed distribution, or :data:`ABSENT`; looked up once per process."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ABSENT


ABSENT = "absent"
"""Takes the place of the version of a package that is not installed."""
