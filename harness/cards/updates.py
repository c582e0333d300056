"""What cards must say of their files: which cards a suite, a folder or a name stands for, and what differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import hypot
from pathlib import Path
from typing import Any

import yaml

from engine.config import load_yaml
from engine.errors import ConfigError
from harness.datasets.registry import DatasetCard, data_set_cards, described
from harness.files import paths
from harness.files.cache import load_json
from harness.files.strict_yaml import read_mapping, unknown
from harness.report.results import SWEEP_FILE, SweepSummary
from harness.suites.expansion import expand
from harness.suites.suite import Suite, bundled_suites, open_suite
from harness.sweeps.planning import facts_of
from harness.zoo.cards import ModelCard, load_draft_card, model_cards
from harness.zoo.float_baseline import float_score

_SHORT = 12
"""Characters of a digest that are shown."""
_STDERRS = 2.0
"""Standard errors by which a float score falls before that is remarked on."""


@dataclass(frozen=True)
class Cards:
    """Names of cards.

    Attributes:
        data_sets: of data sets.
        models: of models, whose files and scores are looked at.
        followers: of models that use one of the data sets, whose scores alone are.
    """

    data_sets: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    followers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Update:
    """What a card should hold.

    Attributes:
        path: of the card.
        before: the keys in question, as far as the card has them.
        now: the same keys, as they should be.
        remarks: what a person should know before it is accepted.
    """

    path: Path
    before: Mapping[str, Any]
    now: Mapping[str, Any]
    remarks: tuple[str, ...] = field(default=())

    @property
    def changed(self) -> dict[str, Any]:
        """The keys whose values differ, with what they should be."""
        return {key: value for key, value in self.now.items() if self.before.get(key) != value}

    def lines(self) -> Iterator[str]:
        """The differences in words."""
        for key, value in self.changed.items():
            old = self.before.get(key)
            if isinstance(old, Mapping) and isinstance(value, Mapping) and key == "determinants":
                for name in [name for name in {**old, **value} if old.get(name) != value.get(name)]:
                    yield f"{key}.{name}: {_text(old.get(name))} → {_text(value.get(name))}"
            else:
                yield f"{key}: {_text(old)} → {_text(value)}"


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, Mapping) and set(value) == {"value", "stderr"}:
        return f"{value['value']:.4f} ± {value['stderr']:.4f}"
    text = value if isinstance(value, str) else yaml.safe_dump(value, default_flow_style=True, width=1000).strip()
    return f"{text[:_SHORT]}…" if len(text) == 64 and set(text) <= set("0123456789abcdef") else text


def cards_of(what: str, workdir: Path) -> Cards:
    """The cards that ``what`` stands for; they are found from here on.

    Args:
        what: a suite (name or file), a folder with ``zoo`` or ``datasets``, a card's file, or the name of a card, which
            may be one of a sweep in ``workdir``.
        workdir: of sweeps.

    Raises:
        ConfigError: it stands for nothing, or for two things.
    """
    path = Path(what)
    if path.is_dir():
        return _of_folder(path.resolve())
    if path.suffix in (".yaml", ".yml"):
        return _of_file(path)
    for file in sorted(workdir.glob(f"sweeps/*/{SWEEP_FILE}")):
        try:
            summary = load_json(SweepSummary, file)
        except (OSError, ValueError):
            continue
        paths.find_beside(summary.asked)
        summary.cards.search_first()
        if file.parent.name == what and what not in model_cards() and what not in data_set_cards():
            return _of_suite(summary.suite)
    models, data_sets = model_cards(), data_set_cards()
    if what in models and what in data_sets:
        raise ConfigError(
            f"{what!r} is both a model and a data set: give the file, {models[what]} or {data_sets[what]}"
        )
    if what in models:
        return Cards(models=(what,))
    if what in data_sets:
        return _of_data_sets([what])
    if what in bundled_suites():
        return _of_suite(open_suite(what))
    raise unknown("suite, folder or card", what, [*models, *data_sets, *bundled_suites()])


def _of_folder(folder: Path) -> Cards:
    base = folder.parent if folder.name in ("zoo", "datasets") else folder
    paths.find_in(base)
    names = {kind: tuple(paths.yaml_files([base / kind])) for kind in ("zoo", "datasets")}
    if folder != base:
        names = {kind: found if kind == folder.name else () for kind, found in names.items()}
    if not any(names.values()):
        raise ConfigError(
            f"{folder}: holds no cards; expected {folder / 'zoo'} or {folder / 'datasets'} with YAML files"
        )
    found = _of_data_sets(names["datasets"], names["zoo"])
    return Cards(found.data_sets, names["zoo"], found.followers)


def _of_file(path: Path) -> Cards:
    content = load_yaml(path)
    keys = set(content) if isinstance(content, Mapping) else set()
    folder = path.resolve().parent
    if "adapter" in keys:
        if folder.name == "datasets":
            paths.find_in(folder.parent)
        paths.search_first(datasets=[folder])
        return _of_data_sets([path.stem])
    if "input_parameters" in keys:
        if folder.name != "zoo":
            raise ConfigError(f"{path}: model cards are found in folders called zoo; move it to {folder / 'zoo'}")
        paths.find_in(folder.parent)
        return Cards(models=(path.stem,))
    paths.find_beside(path)
    return _of_suite(open_suite(str(path)))


def _of_suite(suite: Suite) -> Cards:
    """The models of ``suite`` and their data sets."""
    drafts = {name: load_draft_card(name)[0] for name in model_cards()}
    points = expand(suite, {name: facts_of(card) for name, card in drafts.items()}).points
    models = tuple(dict.fromkeys(point.model for point in points))
    data_sets = tuple(dict.fromkeys(drafts[name].dataset.name for name in models))
    return Cards(data_sets, models, _of_data_sets(data_sets, models).followers)


def _of_data_sets(names: Iterable[str], besides: Iterable[str] = ()) -> Cards:
    """``names`` with the models that use one of them, those ``besides`` left out."""
    data_sets, known = tuple(names), set(besides)
    used = {name: _data_set_of(path) for name, path in model_cards().items() if name not in known}
    return Cards(data_sets, (), tuple(name for name, data_set in used.items() if data_set in data_sets))


def _data_set_of(path: Path) -> str:
    use = read_mapping(path, ModelCard).get("dataset")
    return str(use.get("name", "")) if isinstance(use, Mapping) else ""


def of_data_set(name: str) -> Update:
    """What the card of a data set should say of the data as they are.

    Raises:
        PtqlabError: the data cannot be opened.
    """
    path = data_set_cards()[name]
    return _update(path, read_mapping(path, DatasetCard), described(name))


def of_model(name: str, *, score: bool) -> Update:
    """What the card of a model should say of its file; with ``score`` also of the float score on its data.

    Raises:
        PtqlabError: file or data cannot be opened.
    """
    card, has_score = load_draft_card(name)
    now: dict[str, Any] = {"digest": card.digest_of_file()}
    if score or not has_score:
        now["float_score"] = _measured(card.model_copy(update=now))
    return _of_card(card, now)


def of_follower(name: str) -> Update:
    """The float score that the card of a model should give, on data that have changed.

    Raises:
        PtqlabError: file or data cannot be opened, or the file is not the card's.
    """
    card, _ = load_draft_card(name)
    return _of_card(card, {"float_score": _measured(card)})


def _measured(card: ModelCard) -> dict[str, float]:
    found = float_score(card)
    return {"value": round(found.value, 6), "stderr": round(found.stderr, 6)}


def _of_card(card: ModelCard, now: Mapping[str, Any]) -> Update:
    path = model_cards()[card.name]
    before = read_mapping(path, ModelCard)
    remarks: tuple[str, ...] = ()
    if "float_score" in before and "float_score" in now:
        remarks = _remarks(card, before["float_score"], now["float_score"])
    return _update(path, before, now, remarks)


def _remarks(card: ModelCard, before: Mapping[str, float], now: Mapping[str, float]) -> tuple[str, ...]:
    """A loss of the float model beyond its standard errors."""
    change = now["value"] - before["value"]
    worse = -change if card.open_metric().higher_is_better else change
    if worse <= _STDERRS * hypot(before["stderr"], now["stderr"]):
        return ()
    return (
        f"the float model is worse than before ({card.metric.name} {before['value']:.4f} → {now['value']:.4f}): accept "
        "this only if you know why; colours, mean and scale of a network that was trained anew may differ",
    )


def _update(path: Path, content: Mapping[str, Any], now: Mapping[str, Any], remarks: tuple[str, ...] = ()) -> Update:
    """Values as YAML gives them, so that equal ones are equal."""
    plain = yaml.safe_load(yaml.safe_dump(dict(now), sort_keys=False))
    return Update(path, {key: content[key] for key in plain if key in content}, plain, remarks)
