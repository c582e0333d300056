"""What travels with a task to a worker that is no child of the sweep: cards, code of the user's own, the network.

A worker uses the sweep's own files where it sees the same ones under the same path, and copies below its working
directory where it does not. Data do not travel.
"""

from __future__ import annotations

import ast
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.ir import write_atomically
from engine.registry import PLUGINS, plugin_modules
from harness.cards.folders import CardFolders
from harness.datasets.registry import data_set_cards, load_dataset_card
from harness.files import paths
from harness.files.cache import Cache, content_key
from harness.files.strict_yaml import StrictModel
from harness.files.user_code import folders_of_cards, is_own
from harness.zoo.cards import load_card, model_cards

NETWORKS = "networks"
"""Kind of the cached copies of networks that lie beside their card."""
FOLDER = "luggage"
"""Folder of the working directory for files that a worker does not have in their own place."""

_VARIABLES = ("PTQLAB_MODELS", "PTQLAB_DATA")
"""Folders that a worker takes from the sweep where it names none itself."""
_OWN: Mapping[str, str | None] = MappingProxyType(
    {name: os.environ.get(name) for name in ("PTQLAB_SUITES", "PTQLAB_DATASETS", "PTQLAB_CODE", PLUGINS, *_VARIABLES)}
)
"""What this process was started with: each task begins with that."""


class Luggage(StrictModel):
    """Files of one model, as they are where the sweep was started.

    Attributes:
        folders: in which cards and modules were found.
        cards: content of the cards by their path.
        modules: content of the user's modules by their path.
        roots: folders from which these modules are imported.
        network: path of the network, where it lies beside its card; empty otherwise.
        digest: SHA-256 of the network.
        plugins: names of the modules that ``PTQLAB_PLUGINS`` names.
        data: folder of the data, where the data set's card gives it relative to itself; empty otherwise.
        places: folders that variables name.
    """

    folders: CardFolders = CardFolders()
    cards: Mapping[str, str] = {}
    modules: Mapping[str, str] = {}
    roots: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    network: str = ""
    digest: str = ""
    data: str = ""
    places: Mapping[str, str] = {}

    @property
    def code(self) -> str:
        """Key of the modules: a process that has imported some must not compute with others. Empty without any."""
        known = self.modules or self.plugins
        return content_key(dict(self.modules), list(self.roots), list(self.plugins)) if known else ""


def pack_luggage(model: str, cache: Cache) -> Luggage:
    """What a worker needs to find the card called ``model``, its data set's card, its own code and its network.

    A network that lies beside its card is copied into ``cache``.

    Raises:
        PtqlabError: a card is wrong.
    """
    places = {name: str(Path(os.environ[name]).resolve()) for name in _VARIABLES if os.environ.get(name)}
    folders = CardFolders.here()
    if model not in model_cards():
        return Luggage(folders=folders, places=places)
    plugins = plugin_modules()
    card = load_card(model)
    cards = [model_cards()[model]]
    names, data = [card.metric.name], ""
    if card.dataset.name in data_set_cards():
        data_set = load_dataset_card(card.dataset.name)
        cards.append(data_set_cards()[data_set.name])
        names.append(data_set.adapter)
        data = _data_beside(cards[-1], data_set.options)
    own = (name.partition(":")[0] for name in names if is_own(name))
    modules, roots = _modules([*own, *plugins], [folder for folder in plugins.values() if folder is not None])
    network = cards[0].resolve().parent / card.source.bundled if card.source.bundled and _is_users(cards[0]) else None
    digest = card.file_digest() if network is not None else ""
    if network is not None:
        _keep_network(network, digest, cache)
    return Luggage(
        folders=folders,
        cards={str(path.resolve()): path.read_text(encoding="utf-8") for path in cards if _is_users(path)},
        modules=modules,
        plugins=tuple(plugins),
        roots=tuple(roots),
        network=str(network or ""),
        digest=digest,
        data=data,
        places=places,
    )


def unpack_luggage(luggage: Luggage, cache: Cache, workdir: Path) -> None:
    """Let this process find what is in ``luggage``: in its own place where that has the same content, else in a copy.

    Args:
        luggage: of the task.
        cache: may have the network.
        workdir: of this worker; copies go below it.
    """
    _as_started()
    for name, place in luggage.places.items():
        os.environ.setdefault(name, place)
    files = {Path(path): text.encode() for path, text in (*luggage.cards.items(), *luggage.modules.items())}
    network = Path(luggage.network) if luggage.network else None
    root = Path("/")
    if not all(_has(path, content) for path, content in files.items()) or (network and not network.is_file()):
        root = workdir / FOLDER / content_key(luggage)
        for path, content in files.items():
            if not _has(_below(root, path), content):
                write_atomically(_below(root, path), content)
        if network is not None:
            _bring_network(network, luggage.digest, _below(root, network), cache)
        if luggage.data and Path(luggage.data).is_dir():
            _link(Path(luggage.data), _below(root, Path(luggage.data)))
    paths.search_first(
        *(
            [_below(root, folder) for folder in group]
            for group in (luggage.folders.suites, luggage.folders.datasets, luggage.folders.code)
        )
    )
    if luggage.plugins:
        os.environ[PLUGINS] = ",".join(luggage.plugins)
    for each in luggage.roots:
        place = str(_below(root, Path(each)))
        if place not in sys.path:
            sys.path.append(place)


def _as_started() -> None:
    for name, value in _OWN.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _below(root: Path, path: Path) -> Path:
    """Where the absolute ``path`` is below ``root``."""
    return root / path.relative_to(path.anchor)


def _has(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False


def _is_users(path: Path) -> bool:
    """Whether a card is the user's, not one that every installation has."""
    return not any(path.resolve().is_relative_to(paths.bundled(name).resolve()) for name in ("suites", "datasets"))


def _keep_network(path: Path, digest: str, cache: Cache) -> None:
    kept = cache.path(NETWORKS, digest, path.suffix)
    if path.is_file() and not cache.has(kept):
        write_atomically(kept, path.read_bytes())
        cache.share(kept)


def _bring_network(path: Path, digest: str, target: Path, cache: Cache) -> None:
    """Put the network in its place below the luggage; nothing where it is neither here nor in the cache."""
    kept = cache.path(NETWORKS, digest, path.suffix)
    source = kept if cache.has(kept) else path if path.is_file() else None
    if source is not None and not target.is_file():
        fresh = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.copyfile(source, fresh)
        fresh.replace(target)


def _data_beside(card: Path, options: Mapping[str, Any]) -> str:
    """The data's folder where it is one relative to ``card``; empty for others, which workers find by themselves."""
    folder = options.get("folder")
    if not isinstance(folder, str) or Path(folder).is_absolute():
        return ""
    place = Path(os.path.normpath(card.resolve().parent / folder))
    return str(place) if place.is_dir() else ""


def _link(target: Path, link: Path) -> None:
    """Let ``link`` lead to ``target``; other workers may do the same."""
    link.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        link.symlink_to(target)


def _modules(names: Iterable[str], further: Iterable[Path]) -> tuple[dict[str, str], list[str]]:
    """Source files of the modules ``names`` and of the user's own modules that they import; the folders of both.

    What is installed, which every worker has, is left out. ``further``: folders to look in besides those of cards.
    """
    folders = list(dict.fromkeys(str(folder.resolve()) for folder in (Path.cwd(), *folders_of_cards(), *further)))
    waiting, seen = list(names), set(_EVERYWHERE)
    files: dict[str, str] = {}
    roots: dict[str, None] = {}
    while waiting:
        name = waiting.pop().partition(".")[0]
        if name in seen or name in sys.stdlib_module_names:
            continue
        seen.add(name)
        found = PathFinder.find_spec(name, folders)
        if found is None or PathFinder.find_spec(name, [place for place in sys.path if place not in folders]):
            continue
        for root, path in _sources(found):
            try:
                text = path.read_text(encoding="utf-8")
                waiting += _imported(ast.parse(text))
            except (OSError, ValueError, SyntaxError):  # whoever imports it is told
                continue
            files[str(path)] = text
            roots[str(root)] = None
    return files, list(roots)


_EVERYWHERE = ("engine", "harness")
"""Packages of ptqlab, whatever folder the sweep was started in."""


def _sources(found: ModuleSpec) -> list[tuple[Path, Path]]:
    """Files of a module or package, each with the folder that it is imported from; none where it is no source."""
    if found.submodule_search_locations:
        places = [Path(place).resolve() for place in found.submodule_search_locations]
        return [(place.parent, path) for place in places for path in sorted(place.rglob("*.py"))]
    path = Path(found.origin or "").resolve()
    return [(path.parent, path)] if path.suffix == ".py" else []


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
