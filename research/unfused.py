"""What layers take at O0, from the times that the original's pages give for each layer.

Nothing overlaps there, so a layer's transfers are a wait and so many bytes per amount
(:mod:`engine.compile.unfused`): non-negative constants of the least symmetric relative error, kind by kind. Amounts
without which a kind is explained as well are left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from engine.chips.latency import Latency, UnfusedLayer
from engine.compile.layers import Layer
from engine.compile.schedule import Schedule
from engine.compile.unfused import COMPUTED, ITEMS, Amounts, unfused_parts
from engine.terms import OptimizeLevel
from research.answers import Answered
from research.asking import AskedLayer, AskedSubgraph

Floats = NDArray[np.float64]

_LEAST = 4
"""Layers of a kind; of fewer the figures of the other march of the generation are taken."""
_FLOOR_US = 4.0
"""Times are whole microseconds: an error of one counts as that of so many."""
_EXACT = 0.02
"""Relative errors below which all count the same."""
_ROUNDS = 40
"""Of reweighting."""
_GAIN = 1.03
"""Factor by which an amount lowers the error of a kind, at least, where it is kept."""
_MOST = 5
"""Amounts of a kind."""
_CHANGED = re.compile(r"(.*?)(?:-conv)?_(?:NHWC2NCHW_LayoutConvert_Output|NCHW2NHWC_LayoutConvert_Input)\d+$")


@dataclass(frozen=True)
class Timed:
    """A layer, or a layout change in front of one, as the original's page has it.

    Attributes:
        kind: what its constants are called.
        amounts: what it moves.
        transfer_us: loading and storing, but for weights.
        compute_us: computing.
        beside: whether its work is not computed from its windows.
    """

    kind: str
    amounts: Amounts
    transfer_us: float
    compute_us: float
    beside: bool


def timed_layers(answers: Iterable[Answered], latency: Latency) -> Iterator[Timed]:
    """The layers at O0 that the original and the schedules name alike."""
    for answer in answers:
        if answer.asked.level is OptimizeLevel.O0:
            for asked, schedule in zip(answer.asked.subgraphs, answer.schedules, strict=True):
                yield from _timed(asked, schedule, latency)


def _timed(asked: AskedSubgraph, schedule: Schedule, latency: Latency) -> Iterator[Timed]:
    own, changes = _by_layer(asked, schedule)
    for layer, parts in zip(schedule.layers, unfused_parts(schedule.layers, latency.input_row.block), strict=True):
        kinds = dict(parts)
        converted = [kind for kind in kinds if kind.startswith("to_")]
        pages = changes.get(layer.name, [])
        if len(converted) == len(pages) == 1:
            yield Timed(converted[0], kinds[converted[0]], pages[0].transfer_us, pages[0].compute_us, beside=True)
        if layer.name in own and len(kinds) > len(converted):
            page = own[layer.name]
            weights_us = (layer.weight_bytes + layer.parameter_bytes) / latency.fitted.load_gbps / 1000
            kind = parts[-1][0]
            moved_us = max(page.transfer_us - weights_us, 0.0)
            yield Timed(kind, kinds[kind], moved_us, page.compute_us, layer.kind not in COMPUTED)


def _by_layer(
    asked: AskedSubgraph, schedule: Schedule
) -> tuple[Mapping[str, AskedLayer], Mapping[str, list[AskedLayer]]]:
    """The pages of layers and of the layout changes in front of them, by the names of our layers."""
    names = {layer.name: layer for layer in schedule.layers}
    own: dict[str, AskedLayer] = {}
    changes: dict[str, list[AskedLayer]] = defaultdict(list)
    for page in asked.layers:
        plain = page.name.removesuffix("-conv")
        changed = _CHANGED.match(page.name)
        if page.name in names or plain in names:
            own[page.name if page.name in names else plain] = page
        elif changed is not None and changed[1] in names:
            reader = _reader(names[changed[1]], schedule) if "NHWC2NCHW" in page.name else changed[1]
            changes[reader].append(page)
    return own, changes


def _reader(layer: Layer, schedule: Schedule) -> str:
    """The first layer that reads what ``layer`` computes in another layout; empty where there is none."""
    readers = (
        other.name
        for other in schedule.layers
        if any(other.inputs[position] == layer.output for position in other.converted)
    )
    return next(readers, "")


def fit_unfused(generation: Sequence[tuple[Sequence[Answered], Latency]], paces: Sequence[float]) -> list[Latency]:
    """The data of marches of one generation with what layers take at O0; as they are where too little was asked.

    Args:
        generation: of each march, the answers and the data that all else is taken from.
        paces: what a wait takes of one on the first march.
    """
    found = []
    for answers, latency in generation:
        timed = list(timed_layers(answers, latency))
        by_kind = {kind: [each for each in timed if each.kind == kind] for kind in sorted({t.kind for t in timed})}
        fitted = {kind: _fitted(each, latency) for kind, each in by_kind.items() if len(each) >= _LEAST}
        kept = {kind: value for kind, value in latency.unfused_layers.items() if value.apart}
        found.append(kept | fitted if fitted else {})
    result = []
    for position, (_, latency) in enumerate(generation):
        kinds = dict(found[position])
        for other, pace in zip(found, paces, strict=True):
            for kind, value in other.items():
                waits = float(f"{value.us * paces[position] / pace:.3g}")
                kinds.setdefault(kind, value.model_copy(update={"us": waits, "layers": 0}))
        layers = dict(sorted(kinds.items())) if found[position] else {}
        result.append(latency.model_copy(update={"unfused_layers": layers}))
    return result


def _fitted(timed: Sequence[Timed], latency: Latency) -> UnfusedLayer:
    """The constants of one kind; amounts that explain little are left out, one after the other."""
    wanted = np.asarray([each.transfer_us for each in timed])
    per_byte = (1 / latency.fitted.load_gbps + 1 / latency.fitted.store_gbps) / 2000
    names = sorted({name for each in timed for name in each.amounts})
    solution, error = _least(timed, wanted, names, per_byte)
    while len(names) > 1:
        without = [(_least(timed, wanted, [n for n in names if n != name], per_byte), name) for name in names]
        (other, least), dropped = min(without, key=lambda entry: entry[0][1])
        if least > error * _GAIN and len(names) <= _MOST:
            break
        names = [name for name in names if name != dropped]
        solution, error = other, max(least, error)
    constants = dict(zip(names, solution[1:].tolist(), strict=True))
    return UnfusedLayer(
        us=float(f"{solution[0]:.3g}"),
        item_us=float(f"{constants.pop(ITEMS, 0.0):.3g}"),
        bytes={name: float(f"{value:.3g}") for name, value in constants.items() if value > 0},
        work=float(f"{_work(timed):.3g}"),
        layers=len(timed),
    )


def _work(timed: Sequence[Timed]) -> float:
    """What computing takes of the transfers; that of the array and of windows is known otherwise."""
    beside = [each for each in timed if each.beside]
    moved_us = sum(each.transfer_us for each in beside)
    return sum(each.compute_us for each in beside) / moved_us if moved_us else 0.0


def _least(timed: Sequence[Timed], wanted: Floats, names: Sequence[str], per_byte: float) -> tuple[Floats, float]:
    """The constants, the wait first, and the mean symmetric relative error."""
    units = [1.0 if name == ITEMS else per_byte for name in names]
    amounts = [[1.0, *(each.amounts.get(name, 0.0) for name in names)] for each in timed]
    matrix = np.asarray(amounts) * np.asarray([1.0, *units])
    scale = np.maximum(wanted, _FLOOR_US)
    trust: Floats = np.ones(len(timed))
    solution: Floats = np.zeros(matrix.shape[1])
    errors: Floats = np.ones(len(timed))
    for _ in range(_ROUNDS):
        weights = trust / scale
        solution, _ = nnls(matrix * weights[:, None], wanted * weights)
        found = matrix @ solution
        scale = np.maximum(np.maximum(wanted, found), _FLOOR_US)
        errors = abs(found - wanted) / scale
        trust = 1 / np.sqrt(np.maximum(errors, _EXACT))
    return solution, float(errors.mean())
