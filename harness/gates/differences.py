"""What differs between two nights: inputs, sources, tools, artefacts and nodes, each in words that name it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from engine.terms import Device
from harness.files.strict_yaml import StrictModel
from harness.gates.made import KeptNode, Made
from harness.trials.artefacts import Artefact
from harness.trials.origins import Environment, ModelOrigin

_NAMED = 5
"""Largest number of files that are named; further ones are counted."""
_SHOWN_DIGITS = 12
"""Hexadecimal digits of a digest that people are shown."""
_RELATIVE = 1e-6
"""Least relative difference of two thresholds or cosines that is one: rounding of what is kept is none."""


class Kind(StrEnum):
    """What a difference is of: first what was put in, then what came of it."""

    MODEL = "model file"
    PREPROCESSING = "preprocessing"
    CALIBRATION_DATA = "calibration data"
    EVALUATION_DATA = "evaluation data"
    METRIC = "metric"
    ENGINE = "engine"
    TOOLS = "tools"
    FLOAT = "float score"
    ARTEFACT = "artefact"
    PLACEMENT = "placement"
    TYPE = "type"
    THRESHOLD = "threshold"
    COSINE = "cosine"
    BISECTION = "bisection"


class Cause(StrictModel):
    """One difference.

    Attributes:
        kind: what it is of.
        text: which, from what to what.
    """

    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.text}"


def of_environments(before: Environment, now: Environment) -> list[Cause]:
    """Sources and tools that differ; the first stage, in order, whose sources do."""
    found = []
    changed = sorted(
        path for path in before.sources.keys() | now.sources.keys() if before.sources.get(path) != now.sources.get(path)
    )
    stages = [name for name in now.stages if before.stages.get(name, now.stages[name]) != now.stages[name]]
    if changed:
        text = f"{_listed([f'{path}{_presence(path, before.sources, now.sources)}' for path in changed])} changed"
        if stages:
            text += f"; first stage that depends on it: {stages[0]}"
        found.append(Cause(kind=Kind.ENGINE, text=f"{text} ({before.version} → {now.version})"))
    tools = [
        f"{name} {before.tools.get(name, 'absent')} → {now.tools.get(name, 'absent')}"
        for name in sorted(before.tools.keys() | now.tools.keys())
        if before.tools.get(name) != now.tools.get(name)
    ]
    if tools:
        found.append(Cause(kind=Kind.TOOLS, text="; ".join(tools)))
    return found


def _presence(path: str, before: Mapping[str, str], now: Mapping[str, str]) -> str:
    if path not in before:
        return " (new)"
    return "" if path in now else " (removed)"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def of_models(before: ModelOrigin, now: ModelOrigin) -> list[Cause]:
    """What differs in a model's card and files; the content of its data is told apart by :func:`of_data`."""
    found = []
    if before.file != now.file:
        found.append(Cause(kind=Kind.MODEL, text=f"SHA-256 {_short(before.file)} → {_short(now.file)}"))
    keys = sorted(before.preprocessing.keys() | now.preprocessing.keys())
    changed = [
        f"{key} {before.preprocessing.get(key, 'not given')} → {now.preprocessing.get(key, 'not given')}"
        for key in keys
        if before.preprocessing.get(key) != now.preprocessing.get(key)
    ]
    if changed:
        found.append(Cause(kind=Kind.PREPROCESSING, text="; ".join(changed)))
    if before.metric != now.metric:
        found.append(Cause(kind=Kind.METRIC, text=f"{before.metric} → {now.metric}"))
    return found


def _short(digest: str) -> str:
    return f"{digest[:_SHOWN_DIGITS]}…" if len(digest) > _SHOWN_DIGITS else digest


def of_data(
    origins: tuple[ModelOrigin, ModelOrigin] | None, before: Made, now: Made, *, failed: bool = False
) -> list[Cause]:
    """Which images differ, those of the calibration or of the evaluation, and why as far as the card or suite say.

    Args:
        origins: of the model, before and now; None where they are not known.
        before, now: of the trial.
        failed: whether the trial has no artefacts now, so that only what it was asked to do can be told.
    """
    counts = {
        Kind.CALIBRATION_DATA: (before.calibration_samples, now.calibration_samples),
        Kind.EVALUATION_DATA: (before.evaluation_samples, now.evaluation_samples),
    }
    artefacts = {
        Kind.CALIBRATION_DATA: Artefact.CALIBRATION_IMAGES,
        Kind.EVALUATION_DATA: Artefact.EVALUATION_IMAGES,
    }
    found = []
    for kind, (old, new) in counts.items():
        reasons = [f"{old} → {new} samples"] if old != new else []
        if origins is not None:
            uses = [origin.calibration if kind is Kind.CALIBRATION_DATA else origin.evaluation for origin in origins]
            reasons += [f"{uses[0]} → {uses[1]}"] if uses[0] != uses[1] else []
            reasons += [f"data set {origins[0].data} → {origins[1].data}"] if origins[0].data != origins[1].data else []
        digests = [made.artefacts.get(artefacts[kind]) for made in (before, now)]
        known = None not in digests
        content = origins is not None and origins[0].data_digest != origins[1].data_digest
        if known and digests[0] == digests[1]:
            continue
        if known:
            found.append(Cause(kind=kind, text="; ".join(reasons) or "different images or labels in the same data set"))
        elif reasons or (failed and content):
            found.append(Cause(kind=kind, text="; ".join(reasons) or "the content of the data set has changed"))
    return found


def of_float(before: Made, now: Made) -> Cause | None:
    """Whether the float model's score moved."""
    if before.float_score is None or now.float_score is None or _same(before.float_score, now.float_score):
        return None
    word = "fell too" if now.float_score < before.float_score else "rose too"
    return Cause(kind=Kind.FLOAT, text=f"{word}: {before.float_score:.4f} → {now.float_score:.4f}")


def of_artefacts(before: Made, now: Made) -> Cause | None:
    """The first artefact that differs, in the order in which they come about."""
    both = [name for name in Artefact if name in before.artefacts and name in now.artefacts]
    for index, name in enumerate(both):
        if before.artefacts[name] != now.artefacts[name]:
            same = ", ".join(each.value for each in both[:index])
            text = f"{name.value} differs first"
            return Cause(kind=Kind.ARTEFACT, text=f"{text}; the same: {same}" if same else text)
    return None


def of_nodes(before: Mapping[str, KeptNode], now: Mapping[str, KeptNode]) -> Iterator[Cause]:
    """Nodes that moved, changed their type, have another threshold or are less similar to the float model."""
    shared = [name for name in now if name in before]
    for on in (Device.CPU, Device.BPU):
        moved = [name for name in now if now[name].on == on and (name not in before or before[name].on != on)]
        moved = [name for name in moved if before and (on is Device.CPU or name in before)]
        if moved:
            named = _listed([f"{name} ({now[name].reason})" if now[name].reason else name for name in moved])
            yield Cause(kind=Kind.PLACEMENT, text=f"newly on the {on}: {named}")
    gone = [name for name in before if name not in now]
    new = [name for name in now if name not in before]
    if before and now and (gone or new):
        parts = [f"{word} {_listed(names)}" for word, names in (("gone:", gone), ("new:", new)) if names]
        yield Cause(kind=Kind.PLACEMENT, text=f"different nodes in the graph; {'; '.join(parts)}")
    types = [name for name in shared if before[name].data_type != now[name].data_type]
    if types:
        text = _listed([f"{name} {before[name].data_type} → {now[name].data_type}" for name in types])
        yield Cause(kind=Kind.TYPE, text=text)
    yield from _of_figures(before, now, shared)


def _of_figures(before: Mapping[str, KeptNode], now: Mapping[str, KeptNode], shared: Sequence[str]) -> Iterator[Cause]:
    for name in shared:
        old, new = before[name].threshold, now[name].threshold
        if old is not None and new is not None and not _same(old, new):
            share = f" ({(new - old) / old:+.2%})" if old else ""
            yield Cause(kind=Kind.THRESHOLD, text=f"differs first at node {name}: {old:.6g} → {new:.6g}{share}")
            break
    falls: dict[str, tuple[float, float]] = {}
    for name in shared:
        old, new = before[name].cosine, now[name].cosine
        if old is not None and new is not None and new < old and not _same(old, new):
            falls[name] = (old, new)
    if falls:
        worst = max(falls, key=lambda name: falls[name][0] - falls[name][1])
        text = f"fell most at node {worst}: {falls[worst][0]:.6f} → {falls[worst][1]:.6f}"
        yield Cause(kind=Kind.COSINE, text=text)


def _same(old: float, new: float) -> bool:
    return abs(new - old) <= _RELATIVE * max(abs(old), abs(new))


def of_trials(before: Made, now: Made, environments: tuple[Environment | None, Environment | None]) -> list[Cause]:
    """All that differs between two trials, besides their figures.

    Args:
        before, now: the trials.
        environments: what computed each; None where it is not kept, or where both are of one engine.
    """
    found = list(of_data(None, before, now))
    old, new = environments
    if old is not None and new is not None:
        found += of_environments(old, new)
    found += [each for each in (of_float(before, now), of_artefacts(before, now)) if each is not None]
    return [*found, *of_nodes(before.nodes, now.nodes)] if before.nodes and now.nodes else found
