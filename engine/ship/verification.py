"""Whether the toolchain arrived at our integers: its quantised model beside ours, node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

from engine.conformance.stages import activation_thresholds, same_thresholds
from engine.ir import load_model
from engine.quantize.diff import UNPAIRED, Aspect, Difference, diff
from engine.ship.folder import EXPECTED, read_record
from engine.ship.record import ShipRecord, count_integers, count_of

QUANTIZED_SUFFIX, CALIBRATED_SUFFIX = "_quantized_model.onnx", "_calibrated_model.onnx"


UNKNOWN = "unknown"
"""Reason of a difference that nothing explains."""

_TOLD = frozenset({"weight_thresholds"})
"""Attributes that say what integers were made from, and take no part in what a node computes."""


@dataclass(frozen=True)
class Count:
    """How many of some things are equal."""

    equal: int
    total: int

    def __str__(self) -> str:
        return f"{self.equal:,} of {self.total:,}"


@dataclass(frozen=True)
class FirstDifference:
    """The first node, in the order of execution, that the toolchain made otherwise.

    Attributes:
        node: its name in our quantised model, or the border of the graph that differs.
        what: what differs, ours first.
        reason: why, as far as it is known; ``unknown`` else.
    """

    node: str
    what: str
    reason: str


@dataclass(frozen=True)
class Verification:
    """The toolchain's quantised model beside ours.

    Attributes:
        integers: integers of our model that the toolchain's has at the same place.
        thresholds: thresholds of activations, by name of the tensor; None where the toolchain's calibrated model is
            not there.
        renamed: names that differ, ours and theirs: they change no result.
        first: the first node that differs in more than names; None where none does.
        differences: all of them but the names, from outputs to inputs.
    """

    integers: Count
    thresholds: Count | None
    renamed: tuple[tuple[str, str], ...]
    first: FirstDifference | None
    differences: tuple[Difference, ...]

    @property
    def equal(self) -> bool:
        """Whether the toolchain's model computes what ours does: nothing but names differs."""
        return not self.differences

    def __str__(self) -> str:
        """One line, such as ``EQUAL: 4,651,204 of 4,651,204 integers, 52 of 52 thresholds``."""
        counts = f"{self.integers} integers" + ("" if self.thresholds is None else f", {self.thresholds} thresholds")
        if self.first is None:
            return f"EQUAL: {counts}"
        return f"DIFFERENT: {counts}; first at {self.first.node}: {self.first.what} ({self.first.reason})"


def verify(directory: Path, quantized: Path | ir.Model, calibrated: Path | ir.Model | None = None) -> Verification:
    """Compare what the toolchain made of the ship folder ``directory`` with what was measured.

    Args:
        directory: the ship folder.
        quantized: the toolchain's ``*_quantized_model.onnx``.
        calibrated: its ``*_calibrated_model.onnx``, whose thresholds are compared; None: that beside ``quantized``,
            if there is one.

    Raises:
        ConfigError: ``directory`` is no ship folder.
        ModelError: a model cannot be read.
    """
    record = read_record(directory)
    ours, theirs = load_model(directory / EXPECTED), _loaded(quantized)
    if calibrated is None and isinstance(quantized, Path):
        beside = quantized.with_name(quantized.name.removesuffix(QUANTIZED_SUFFIX) + CALIBRATED_SUFFIX)
        calibrated = beside if beside.is_file() else None
    found = diff(ours, theirs)
    names = tuple((each.first, each.second) for each in found if each.aspect is Aspect.NAME)
    others = tuple(each for each in found if each.aspect is not Aspect.NAME and each.what not in _TOLD)
    known = {} if calibrated is None else _different_thresholds(record, _loaded(calibrated), dict(names))
    total = len(record.thresholds)
    return Verification(
        integers=_integers(ours, others),
        thresholds=None if calibrated is None else Count(total - len(known), total),
        renamed=names,
        first=_first(ours, others, known),
        differences=others,
    )


def _loaded(model: Path | ir.Model) -> ir.Model:
    return load_model(model) if isinstance(model, Path) else model


def _integers(ours: ir.Model, differences: Sequence[Difference]) -> Count:
    """How many integers are equal; all of a node that the walk did not reach count as different."""
    total = count_integers(ours)
    unpaired = {each.where for each in differences if each.aspect is Aspect.STRUCTURE and each.what == UNPAIRED}
    different = sum(count_of(node) for node in ours.graph if node.name in unpaired)
    for each in differences:
        counted = each.where not in unpaired and each.aspect in (Aspect.INTEGERS, Aspect.ATTRIBUTE)
        different += each.elements if counted else 0
    return Count(max(0, total - different), total)


def _different_thresholds(record: ShipRecord, theirs: ir.Model, renamed: Mapping[str, str]) -> dict[str, str]:
    """Ours and theirs, as text, by name of the tensor, of thresholds that are not equal."""
    found = activation_thresholds(theirs)
    different = {}
    for name, threshold in record.thresholds.items():
        values = found.get(name, found.get(renamed.get(name, "")))
        ours = np.asarray(threshold.values, np.float32)
        if values is not None and ours.size == 1:  # the same for all channels may be said of each
            ours = np.broadcast_to(ours, values.shape)
        if values is None or not same_thresholds(values, ours):
            different[name] = f"{ours.max():.6g} | {'-' if values is None else f'{values.max():.6g}'}"
    return different


def _first(ours: ir.Model, differences: Sequence[Difference], thresholds: Mapping[str, str]) -> FirstDifference | None:
    """The first in the order of our nodes of those that the walk reached; the border of the graph where none is."""
    order = {str(node.name): index for index, node in enumerate(ours.graph)}
    reached = [each for each in differences if each.what != UNPAIRED] or differences
    found = min(reached, key=lambda each: order.get(each.where, len(order)), default=None)
    if found is None:
        return None
    what = f"{found.what}: {found.first} | {found.second}" if found.what else f"{found.first} | {found.second}"
    return FirstDifference(node=found.where, what=what, reason=_reason(found, thresholds))


def _reason(found: Difference, thresholds: Mapping[str, str]) -> str:
    """What explains a difference; a threshold that differs explains all that is behind it."""
    if thresholds:
        name, values = next(iter(thresholds.items()))
        rest = f" and of {len(thresholds) - 1} more tensors" if len(thresholds) > 1 else ""
        return f"another threshold of {name}: {values}{rest}"
    if found.aspect is Aspect.STRUCTURE:
        return "another operator in its place"
    if found.aspect is Aspect.TYPE or found.what == "output_bit":
        return "another width"
    return UNKNOWN
