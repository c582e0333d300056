"""What layers take at O0, from the times that the original's pages give for each layer.

Nothing overlaps there, so a layer's transfers are a wait and so many bytes per amount
(:mod:`engine.compile.unfused`): non-negative constants of the least symmetric relative error, kind by kind. Amounts
without which a kind is explained as well are left out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from engine.chips.latency import Latency
from engine.chips.latency.unfused import UnfusedLayer
from engine.compile.layers import Layer
from engine.compile.passes import layer_passes
from engine.compile.schedule import Schedule
from engine.compile.unfused import COMPUTED, WAITS, WANTED, Amounts, unfused_parts
from engine.terms import OptimizeLevel
from research.answers import Answered
from research.asking import AskedLayer, AskedSubgraph

Floats = NDArray[np.float64]

_LEAST = 2
"""Layers of a kind; of fewer the figures of the other march of the generation are taken."""
_ENOUGH = 20
"""Layers of a kind; fewer tell a march of its generation's constants but the pace."""
_TICK_US = 0.5
"""Of the times that the pages give."""
_SHOWN = 8
"""Layers that show an amount, or all of a kind of fewer."""
_SHORT = 0.1
"""Part of the layers that may take less than the wait, but for rounding."""
_FLOOR_US = 4.0
"""Times are whole microseconds: an error of one counts as that of so many."""
_EXACT = 0.02
"""Relative errors below which all count the same."""
_ROUNDS = 40
"""Of reweighting."""
_GAIN = 1.02
"""Factor by which an amount lowers the error of a kind, at least, where it is kept; the more the fewer layers show the
kind (of n layers the nth root of n, as Bayes' criterion has it: 1.3 of 8, 1.05 of 100).
"""
_MOST = 8
"""Amounts of a kind."""
_HELPER = re.compile(
    r"^(?:padded_|Fused_|trans\.|post_trans_|channel_max\.)|(?:-conv|channel_max|_SPLIT_WITH_DEPTHWISE_CONV_\d+)$"
)
"""What the original adds to the name of a layer for each of its steps."""
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
        own: where the figures are of a map that is stored once more: those of the layer that gives it, which are
            part of ``transfer_us``.
    """

    kind: str
    amounts: Amounts
    transfer_us: float
    compute_us: float
    beside: bool
    own: tuple[str, Amounts] | None = None


def timed_layers(answers: Iterable[Answered], latency: Latency) -> Iterator[Timed]:
    """The layers at O0 that the original and the schedules name alike."""
    for answer in answers:
        if answer.asked.level is OptimizeLevel.O0:
            for asked, schedule in zip(answer.asked.subgraphs, answer.schedules, strict=True):
                yield from _timed(asked, schedule, latency)


def _timed(asked: AskedSubgraph, schedule: Schedule, latency: Latency) -> Iterator[Timed]:
    own, changes = _by_layer(asked, schedule)
    every = unfused_parts(schedule.layers, latency.input_row.block)
    known = layer_passes(schedule.layers, latency, schedule.input_names)
    for layer, parts, passes in zip(schedule.layers, every, known, strict=True):
        kinds = dict(parts if passes is None else parts[:-1])
        converted = [kind for kind in kinds if kind.startswith("to_")]
        pages = changes.get(layer.name, [])
        if len(converted) == len(pages) == 1:
            yield Timed(converted[0], kinds[converted[0]], pages[0].transfer_us, pages[0].compute_us, beside=True)
        if layer.name in own and passes is None and len(kinds) > len(converted):
            page = own[layer.name]
            weights_us = (layer.weight_bytes + layer.parameter_bytes) / latency.fitted.load_gbps / 1000
            moved_us = max(page.transfer_us - weights_us, 0.0)
            beside = layer.kind not in COMPUTED
            wanted = [part for part in parts[:-1] if part[0].startswith(WANTED)]
            if wanted:
                yield Timed(*wanted[0], moved_us, page.compute_us, True, parts[-1])
            else:
                yield Timed(*parts[-1], moved_us, page.compute_us, beside)


def _by_layer(
    asked: AskedSubgraph, schedule: Schedule
) -> tuple[Mapping[str, AskedLayer], Mapping[str, list[AskedLayer]]]:
    """The pages of layers and of the layout changes in front of them, by the names of our layers."""
    names = {layer.name: layer for layer in schedule.layers}
    own: dict[str, AskedLayer] = {}
    changes: dict[str, list[AskedLayer]] = defaultdict(list)
    for page in asked.layers:
        changed = _CHANGED.match(page.name)
        found = page.name if page.name in names else _HELPER.sub("", page.name)
        if found in names:
            own[found] = _together(own[found], page) if found in own else page
        elif changed is not None and changed[1] in names:
            reader = _reader(names[changed[1]], schedule) if "NHWC2NCHW" in page.name else changed[1]
            changes[reader].append(page)
    return own, changes


def _together(one: AskedLayer, other: AskedLayer) -> AskedLayer:
    """The steps of one layer as one."""
    times = {"compute_us": one.compute_us + other.compute_us, "transfer_us": one.transfer_us + other.transfer_us}
    return other.model_copy(update=times)


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
    found, shown = [], []
    for answers, latency in generation:
        timed = list(timed_layers(answers, latency))
        alone = [each for each in timed if each.own is None]
        fitted = _fit_kinds(alone, latency)
        beside = list(_besides(timed, fitted, latency))
        fitted |= _fit_kinds(beside, latency)
        kept = {kind: value for kind, value in latency.unfused_layers.items() if value.apart}
        found.append(fitted | kept if fitted else {})
        shown.append([*alone, *beside])
    first, result = found[0], []
    for kinds, timed, (_, latency), pace in zip(found, shown, generation, paces, strict=True):
        layers = dict(kinds)
        for kind, value in first.items() if kinds is not first else ():
            if (layers[kind].layers < _ENOUGH and not layers[kind].apart) if kind in layers else bool(kinds):
                layers[kind] = _at_pace(value, [each for each in timed if each.kind == kind], latency, pace)
        for kind, value in next((other for other in found[1:] if kinds is first), {}).items():
            layers.setdefault(kind, _at_pace(value, [], latency, 1 / paces[1]))
        work = 0.0 if latency.unfused_computes or not kinds else float(f"{_work(timed):.3g}")
        update = {"unfused_layers": dict(sorted(layers.items())), "unfused_work": work}
        result.append(latency.model_copy(update=update))
    return result


def _at_pace(value: UnfusedLayer, timed: Sequence[Timed], latency: Latency, pace: float) -> UnfusedLayer:
    """What layers take on a march that shows few of a kind: as on the other, at the pace of the median layer.

    Args:
        value: the constants of the other march.
        timed: layers of the kind on this one.
        latency: of this march.
        pace: where there are none.
    """
    ratios = [each.transfer_us / max(transferred_us(value, each.amounts, latency), _TICK_US) for each in timed]
    if ratios:
        pace = float(np.median(ratios))
    scaled = {
        part: {name: float(f"{constant * pace:.3g}") for name, constant in constants.items()}
        for part, constants in (("waits", value.waits), ("bytes", value.bytes))
    }
    return value.model_copy(update={"us": float(f"{value.us * pace:.3g}"), "layers": len(timed), **scaled})


def _fit_kinds(timed: Sequence[Timed], latency: Latency) -> dict[str, UnfusedLayer]:
    """The constants of each kind of which there are enough layers."""
    by_kind = {kind: [each for each in timed if each.kind == kind] for kind in sorted({t.kind for t in timed})}
    return {kind: _fitted(each, latency) for kind, each in by_kind.items() if len(each) >= _LEAST}


def _besides(timed: Iterable[Timed], known: Mapping[str, UnfusedLayer], latency: Latency) -> Iterator[Timed]:
    """What maps that are stored once more take besides the layers that give them."""
    for each in timed:
        if each.own is not None and each.own[0] in known:
            own_us = transferred_us(known[each.own[0]], each.own[1], latency)
            share = max(1 - own_us / each.transfer_us, 0.0) if each.transfer_us else 0.0
            yield replace(each, transfer_us=share * each.transfer_us, compute_us=share * each.compute_us, own=None)


def transferred_us(kind: UnfusedLayer, amounts: Amounts, latency: Latency) -> float:
    """Time in which a layer waits and moves its maps."""
    waits = kind.us + sum(kind.waits.get(name, 0.0) * amount for name, amount in amounts.items())
    return waits + _per_byte(latency) * sum(kind.bytes.get(name, 0.0) * amount for name, amount in amounts.items())


def _per_byte(latency: Latency) -> float:
    """Microseconds that a byte takes of which half is loaded and half stored."""
    return (1 / latency.fitted.load_gbps + 1 / latency.fitted.store_gbps) / 2000


def _fitted(timed: Sequence[Timed], latency: Latency) -> UnfusedLayer:
    """The constants of one kind; amounts that explain little are left out, one after the other."""
    wanted = np.asarray([each.transfer_us for each in timed])
    per_byte = _per_byte(latency)
    shown = Counter(name for each in timed for name, amount in each.amounts.items() if amount)
    names = sorted(name for name, count in shown.items() if count >= min(_SHOWN, len(timed)))
    most = min(_MOST, len(timed) // 2)
    gain = max(_GAIN, len(timed) ** (1 / len(timed)))
    solution, error = _least(timed, wanted, names, per_byte)
    while len(names) > 1:
        without = [(_least(timed, wanted, [n for n in names if n != name], per_byte), name) for name in names]
        (other, least), dropped = min(without, key=lambda entry: entry[0][1])
        if least > error * gain and len(names) <= most:
            break
        names = [name for name in names if name != dropped]
        solution, error = other, max(least, error)
    known = {name: float(f"{value:.3g}") for name, value in zip(names, solution[1:].tolist(), strict=True) if value > 0}
    return UnfusedLayer(
        us=float(f"{solution[0]:.3g}"),
        waits={name: value for name, value in known.items() if name in WAITS},
        bytes={name: value for name, value in known.items() if name not in WAITS},
        layers=len(timed),
    )


def _work(timed: Sequence[Timed]) -> float:
    """What computing takes of the transfers; that of the array and of windows is known otherwise."""
    beside = [each for each in timed if each.beside]
    moved_us = sum(each.transfer_us for each in beside)
    return sum(each.compute_us for each in beside) / moved_us if moved_us else 0.0


def _least(timed: Sequence[Timed], wanted: Floats, names: Sequence[str], per_byte: float) -> tuple[Floats, float]:
    """The constants, the wait first, and the mean symmetric relative error."""
    units = [1.0 if name in WAITS else per_byte for name in names]
    amounts = [[1.0, *(each.amounts.get(name, 0.0) for name in names)] for each in timed]
    matrix = np.asarray(amounts) * np.asarray([1.0, *units])
    scale = np.maximum(wanted, _FLOOR_US)
    most_us = float(np.quantile(wanted, _SHORT)) + 1.0
    trust: Floats = np.ones(len(timed))
    solution: Floats = np.zeros(matrix.shape[1])
    errors: Floats = np.ones(len(timed))
    for _ in range(_ROUNDS):
        weights = trust / scale
        solution = _bounded(matrix * weights[:, None], wanted * weights, most_us)
        found = matrix @ solution
        scale = np.maximum(np.maximum(wanted, found), _FLOOR_US)
        errors = abs(found - wanted) / scale
        trust = 1 / np.sqrt(np.maximum(errors, _EXACT))
    return solution, float(errors.mean())


def _bounded(matrix: Floats, wanted: Floats, most: float) -> Floats:
    """The non-negative solution of which the first part, the wait, is no more than the shortest layer takes."""
    solution, _ = nnls(matrix, wanted)
    if solution[0] > most:
        rest, _ = nnls(matrix[:, 1:], wanted - most * matrix[:, 0])
        solution = np.concatenate([[most], rest])
    return np.asarray(solution, np.float64)
