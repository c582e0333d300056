"""Effects of settings: what a value of one setting gives, all others being equal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape

import numpy as np
import plotly.graph_objects as go

from engine.pages.colours import PALETTE, SYMBOLS
from harness.report.axes import LATENCY, Axis, buttons
from harness.report.names import ShortNames
from harness.suites.settings import Settings
from harness.trials.trial import TrialResult

EFFECTS = (
    Axis("accuracy.delta", "Δ accuracy", "mean Δ accuracy, points", 100, "+.2f"),
    Axis("cosine.output", "cosine", "mean cosine of outputs", form=".5f"),
    LATENCY,
)
_MOST_TICKS = 8
"""Values that an axis names."""
_TICK_LENGTH = 14
"""Letters of a line of a value's name."""


def varied(results: Sequence[TrialResult]) -> list[str]:
    """Settings in which the trials that they mean something for differ, in their order."""
    return [
        name
        for name in Settings.model_fields
        if len({level_of(result, name) for result in results if result.spec.settings.applies(name)}) > 1
    ]


def level_of(result: TrialResult, name: str) -> str:
    """The value of a setting, as text."""
    value = getattr(result.spec.settings, name)
    if name == "int16":
        return str(value.label.removeprefix("int16.") or "none")
    if name == "calibration_samples":
        return str(result.spec.calibration_samples)
    return str(value.value if hasattr(value, "value") else value).lower()


def in_order(levels: Collection[str]) -> list[str]:
    """Values of a setting: numbers by size, words as they come."""
    try:
        return sorted(levels, key=float)
    except ValueError:
        return list(levels)


def levels_of(results: Sequence[TrialResult], name: str) -> dict[str, list[TrialResult]]:
    """Trials of one model by the value of a setting, numbers in their order: those that can be compared.

    Trials that the setting means nothing for are left out. The others count where trials with the same other settings
    have every value; where there are no such, all count.
    """
    usable = [result for result in results if result.spec.settings.applies(name)]
    levels = in_order(dict.fromkeys(level_of(result, name) for result in usable))
    blocks: dict[str, dict[str, TrialResult]] = {}
    for result in usable:
        blocks.setdefault(_others(result, name), {})[level_of(result, name)] = result
    whole = [block for block in blocks.values() if len(block) == len(levels)]
    if whole:
        return {level: [block[level] for block in whole] for level in levels}
    return {level: [result for result in usable if level_of(result, name) == level] for level in levels}


def effects_figures(results: Sequence[TrialResult], names: ShortNames) -> list[go.Figure]:
    """Main effects: per setting a plot of the mean figure by value; a line per model."""
    usable = [result for result in results if result.ok]
    return [_effect_figure(usable, name, names) for name in varied(usable)]


def _others(result: TrialResult, name: str) -> str:
    """Model, march and all settings but ``name``."""
    spec = result.spec
    rest = {field: level_of(result, field) for field in Settings.model_fields if field != name}
    return repr((spec.model, spec.march.value, rest))


def _effect_figure(usable: Sequence[TrialResult], name: str, names: ShortNames) -> go.Figure:
    figure = go.Figure()
    drawn: list[list[list[float | None]]] = []
    shown: dict[str, None] = {}
    texts = _texts(usable, name, names)
    for index, model in enumerate(dict.fromkeys(result.spec.model for result in usable)):
        levels = levels_of([result for result in usable if result.spec.model == model], name)
        if len(levels) < 2:
            continue
        shown.update(dict.fromkeys(levels))
        drawn.append([[_mean(axis, found) for found in levels.values()] for axis in EFFECTS])
        figure.add_scatter(
            x=[escape(level) for level in levels],
            y=drawn[-1][0],
            name=escape(model),
            mode="lines+markers",
            line={"color": PALETTE[index % len(PALETTE)], "width": 1.5},
            marker={"symbol": SYMBOLS[index % len(SYMBOLS)], "size": 8},
            text=[f"{len(found)} trials" for found in levels.values()],
            hovertemplate="%{x}<br>%{y:.4g}, %{text}<extra>%{fullData.name}</extra>",
        )
    order = in_order(shown)
    ticks = order[:: -(-len(order) // _MOST_TICKS) or 1]
    figure.update_layout(
        margin={"l": 55, "r": 10, "t": 34, "b": 40},
        title={"text": name, "font": {"size": 14}},
        height=290,
        showlegend=len(figure.data) > 1,
        legend={"orientation": "h", "y": -0.3},
        updatemenus=[buttons(EFFECTS, lambda axis: [{"y": [found[EFFECTS.index(axis)] for found in drawn]}])],
        xaxis={
            "type": "category",
            "categoryorder": "array",
            "categoryarray": [escape(level) for level in order],
            "tickvals": [escape(level) for level in ticks],
            "ticktext": [_in_lines(texts[level]) for level in ticks],
            "tickangle": 0 if sum(len(texts[level]) for level in ticks) <= 40 else -35,
        },
    )
    return figure


def _texts(results: Sequence[TrialResult], name: str, names: ShortNames) -> dict[str, str]:
    """What values are called on an axis."""
    if name != "int16":
        return {level_of(result, name): level_of(result, name) for result in results}
    return {level_of(result, name): names.policy(result.spec.settings.int16) for result in results}


def _in_lines(text: str) -> str:
    """A name that fits beside others."""
    return escape(text if len(text) <= _TICK_LENGTH else f"{text[: _TICK_LENGTH - 1]}…")


def _mean(axis: Axis, results: Sequence[TrialResult]) -> float | None:
    values = [value for result in results if (value := axis.of(result)) is not None]
    return float(np.mean(values)) if values else None


def short_levels(results: Sequence[TrialResult], name: str, names: ShortNames) -> list[str]:
    """The values that ``results`` have of a setting, in the words of plots; a dash where it means nothing."""
    texts: Mapping[str, str] = _texts(results, name, names)
    return [texts[level_of(result, name)] if result.spec.settings.applies(name) else "–" for result in results]
