"""The stage runner: named stages that say what they read and give, computed by need, each at most once.

A :class:`Stage` declares the items and the parameters of the configuration that it reads, and the items that it gives.
It gets nothing else: an item that it does not declare is refused, and a parameter that it does not declare has its
default. A :class:`Run` computes an item by the stages that it takes. Because declarations are complete, the key of an
item follows from them: sources and tools of its stage, parameters, and the keys of what the stage reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from engine.config import Config
from engine.extensions import OwnName
from engine.fingerprint import digest_of, fingerprint_of

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Item(Generic[T_co]):
    """Something that one stage gives and others read.

    Attributes:
        name: unique among the items of a run.
    """

    name: str


Values = Mapping[Item[Any], Any]
"""Values by item."""


@dataclass(frozen=True)
class Stage:
    """One step of a conversion.

    Attributes:
        name: unique among the stages of a run.
        run: computes what the stage gives.
        gives: items that it gives.
        reads: items that it reads.
        parameters: what it reads of the configuration: groups (``input_parameters``), parameters of a group
            (``model_parameters.march``), or words of a list (``calibration_parameters.optimization:set_*``).
        passes: for a stage that only works where it is asked to: the item that it reads for each that it gives, which
            is that item unchanged where ``asked`` says no.
        asked: whether a configuration asks for the stage; None for always.
    """

    name: str
    run: Callable[[Work], None]
    gives: tuple[Item[Any], ...]
    reads: tuple[Item[Any], ...] = ()
    parameters: tuple[str, ...] = ()
    passes: Mapping[Item[Any], Item[Any]] = field(default_factory=dict)
    asked: Callable[[Config], bool] | None = None

    def is_asked(self, config: Config) -> bool:
        """Whether ``config`` asks for it."""
        return self.asked is None or self.asked(only(config, self.parameters))

    @property
    def module(self) -> str:
        """The module that it is written in."""
        return self.run.__module__


class Work:
    """What a stage works with: it reads items with ``[]`` and gives its own with :meth:`give`.

    Attributes:
        config: the configuration, with the parameters that the stage declares and defaults for others.
    """

    def __init__(self, stage: Stage, config: Config, read: Callable[[Item[Any]], Any]) -> None:
        self.config = only(config, stage.parameters)
        self._stage, self._read = stage, read
        self._given: dict[Item[Any], Any] = {}

    def __getitem__(self, item: Item[T]) -> T:
        """The value of an item that the stage declares to read."""
        if item not in self._stage.reads:
            raise LookupError(f"stage {self._stage.name} reads {item.name}, which it does not declare")
        value: T = self._read(item)
        return value

    def give(self, item: Item[T], value: T) -> None:
        """Give one of the stage's items."""
        if item not in self._stage.gives:
            raise LookupError(f"stage {self._stage.name} gives {item.name}, which it does not declare")
        self._given[item] = value

    def given(self) -> Values:
        """All that the stage gave; it must be all that it declares."""
        missing = [item.name for item in self._stage.gives if item not in self._given]
        if missing:
            raise LookupError(f"stage {self._stage.name} does not give {', '.join(missing)}")
        return self._given


class Hooks:
    """What happens around stages; this one does nothing."""

    def running(self, stage: Stage) -> AbstractContextManager[None]:
        """Entered while ``stage`` computes."""
        del stage
        return nullcontext()

    def made(self, item: Item[Any], value: Any) -> None:
        """A stage gave ``item``, computed or fetched: a checkpoint."""

    def fetched(self, stage: Stage, key: Callable[[Item[Any]], str], compute: Callable[[], Values]) -> Values:
        """What ``stage`` gives: from a cache, or by ``compute``.

        Args:
            stage: the stage.
            key: gives the key of an item.
            compute: runs the stage.
        """
        del stage, key
        return compute()


NO_HOOKS = Hooks()


@dataclass(frozen=True)
class Given:
    """An item that no stage of a run computes.

    Attributes:
        value: of the item.
        key: of its content; None where nothing that depends on it needs a key.
    """

    value: Any
    key: str | None = None


class Run:
    """One pass through stages.

    Args:
        stages: every item is given by one of them at most.
        config: the configuration.
        given: items that are there already; they take the place of the stage that gives them.
        hooks: what happens around stages.
        fingerprint: sources and tools of a stage, by name and module; None to compute it.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        config: Config,
        given: Mapping[Item[Any], Given] | None = None,
        hooks: Hooks = NO_HOOKS,
        fingerprint: Callable[[Stage], str] | None = None,
    ) -> None:
        self.config = config
        self._stages = tuple(stages)
        self._makers = {item: stage for stage in stages for item in stage.gives}
        if len(self._makers) < sum(len(stage.gives) for stage in stages):
            raise ValueError("an item is given by two stages")
        self._given = dict(given or {})
        self._values: dict[Item[Any], Any] = {item: each.value for item, each in self._given.items()}
        self._hooks = hooks
        self._fingerprint = fingerprint or (lambda stage: fingerprint_of(stage.module).digest)

    def __getitem__(self, item: Item[T]) -> T:
        """The value of ``item``, computed if it is not there yet."""
        if item not in self._values:
            self._obtain(self._maker(item))
        value: T = self._values[item]
        return value

    def key(self, item: Item[Any]) -> str:
        """Key of ``item``: equal where it must be equal. Nothing is computed for it."""
        if item in self._given:
            key = self._given[item].key
            if key is None:
                raise LookupError(f"{item.name} was given without a key")
            return key
        stage = self._maker(item)
        if not stage.is_asked(self.config):
            return self.key(stage.passes[item])
        reads = [self.key(read) for read in stage.reads]
        parameters = asked_of(self.config, stage.parameters)
        return digest_of(stage.name, item.name, self._fingerprint(stage), parameters, reads)

    def stages_of(self, *items: Item[Any]) -> tuple[Stage, ...]:
        """The stages that compute ``items``, in the order of the run, without unneeded ones."""
        found: set[str] = set()
        waiting = [item for item in items if item not in self._given]
        while waiting:
            item = waiting.pop()
            stage = self._maker(item)
            asked = stage.is_asked(self.config)
            reads = stage.reads if asked else (stage.passes[item],)
            if not asked or stage.name not in found:
                waiting += [read for read in reads if read not in self._given]
            if asked:
                found.add(stage.name)
        return tuple(stage for stage in self._stages if stage.name in found)

    def replacing(self, given: Mapping[Item[Any], Given]) -> Run:
        """A run with other values of some items; what does not depend on them is taken over."""
        other = Run(self._stages, self.config, {**self._given, **given}, self._hooks, self._fingerprint)
        stale = set(given)
        for stage in self._in_order():
            if stale & set(stage.reads):
                stale.update(item for item in stage.gives if item not in self._given)
        other._values.update({item: value for item, value in self._values.items() if item not in stale})
        return other

    def _in_order(self) -> list[Stage]:
        """The stages, each behind those that it reads from."""
        found: dict[str, Stage] = {}

        def visit(stage: Stage) -> None:
            for item in stage.reads:
                if item in self._makers and item not in self._given:
                    visit(self._makers[item])
            found.setdefault(stage.name, stage)

        for stage in self._stages:
            visit(stage)
        return list(found.values())

    def _maker(self, item: Item[Any]) -> Stage:
        try:
            return self._makers[item]
        except KeyError:
            raise LookupError(f"no stage gives {item.name}") from None

    def _obtain(self, stage: Stage) -> None:
        if stage.is_asked(self.config):
            values = self._hooks.fetched(stage, self.key, lambda: self._compute(stage))
        else:
            values = {item: self[read] for item, read in stage.passes.items()}
        for item in stage.gives:
            if item not in self._given:
                self._values[item] = values[item]
                self._hooks.made(item, values[item])

    def _compute(self, stage: Stage) -> Values:
        for item in stage.reads:  # first, so that the stage's own time is measured
            _ = self[item]
        with self._hooks.running(stage):
            work = Work(stage, self.config, self.__getitem__)
            stage.run(work)
            return work.given()


def only(config: Config, parameters: Sequence[str]) -> Config:
    """``config`` with those parameters (see :attr:`Stage.parameters`), and the defaults of all others."""
    wanted = _by_group(parameters)
    groups = {name: _only_of(getattr(config, name), wanted.get(name, {})) for name in type(config).model_fields}
    return type(config).model_construct(**groups)


def asked_of(config: Config, parameters: Sequence[str]) -> dict[str, Any]:
    """The named ``parameters`` of ``config`` as JSON, by group."""
    reduced = only(config, parameters)
    found: dict[str, Any] = {}
    for group, names in _by_group(parameters).items():
        content = getattr(reduced, group)
        if isinstance(content, BaseModel):
            wanted = type(content).model_fields if "*" in names else names
            found[group] = {name: _as_json(getattr(content, name)) for name in wanted}
        else:
            found[group] = None
    return found


def _as_json(value: Any) -> Any:
    """A parameter as JSON. Files and folders count by their content, what is registered by its sources."""
    if isinstance(value, Path):
        return content_of(value)
    if isinstance(value, OwnName):
        return [str(value), value.digest]
    if isinstance(value, BaseModel):
        return {name: _as_json(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    return value


def content_of(path: Path) -> Any:
    """Digest of a file, or of every file below a folder by its path there; None where there is nothing."""
    if path.is_dir():
        return {str(file.relative_to(path)): content_of(file) for file in sorted(path.rglob("*")) if file.is_file()}
    try:
        state = path.stat()
        return _digest_of_file(path.absolute(), state.st_size, state.st_mtime_ns, state.st_ino)
    except OSError:
        return None


@lru_cache(maxsize=1024)
def _digest_of_file(path: Path, size: int, changed: int, place: int) -> str:
    """SHA-256 of a file, read once in its present state: a sweep asks for that of its network dozens of times."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


_Wanted = Mapping[str, tuple[str, ...]]
"""Patterns of words by parameter; ``*`` for all parameters of a group."""


def _by_group(parameters: Sequence[str]) -> Mapping[str, _Wanted]:
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for text in parameters:
        path, _, words = text.partition(":")
        group, _, name = path.partition(".")
        names = found.setdefault(group, {})
        names[name or "*"] = (*names.get(name, ()), words or "*")
    return MappingProxyType(found)


def _only_of(group: Any, wanted: _Wanted) -> Any:
    """``group`` with the wanted parameters; None where it is not given."""
    if not isinstance(group, BaseModel) or "*" in wanted:
        return group
    values = {}
    for name, patterns in wanted.items():
        value = getattr(group, name)
        if "*" not in patterns:
            value = tuple(word for word in value if any(fnmatchcase(word, pattern) for pattern in patterns))
        values[name] = value
    return type(group).model_construct(_fields_set=group.model_fields_set & values.keys(), **values)
