"""What recorded conversions say of names: which of ours the original's models have, by the rules that gave them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from engine.chips import load_chip
from engine.conformance.cases import RecordedCase
from engine.errors import PtqlabError
from engine.ir import load_model
from engine.quantize import quantize
from engine.rulebook.name import NAMES, NamedKind, Naming, without_names


@dataclass(frozen=True)
class NameVerdict:
    """Whether the original gives a name that a rule gives.

    Attributes:
        rule: its id.
        name: what is called so.
        agrees: whether a node, tensor or constant of the original's is.
        other: what it would be called without the rule.
        gained: how many more names are the original's, than are not, with the rule than without it: 2, 0 or -2.
    """

    rule: str
    name: str
    agrees: bool
    other: str
    gained: int


def name_verdicts(case: RecordedCase, placing: Naming, placed: ir.Model) -> Iterator[NameVerdict]:
    """Every name that rules give in ``case``.

    Args:
        case: what the original made of it.
        placing: gave the names in ``placed``.
        placed: our placement of the case. It is compared with the original's calibrated model, and what we quantise of
            that with its quantised model.
    """
    if not case.calibrated.is_file():
        return
    calibrated = load_model(case.calibrated)
    yield from _verdicts(placing, placed, calibrated)
    if case.quantized.is_file():
        quantizing = Naming(load_chip(case.march).family)
        try:
            quantized = quantize(calibrated, case.march, quantizing)
        except PtqlabError:  # a type of calibration that only the original has
            return
        yield from _verdicts(quantizing, quantized, load_model(case.quantized))


def names_of(model: ir.Model) -> frozenset[tuple[NamedKind, str]]:
    """The names in ``model``."""
    graph = model.graph
    found = {(NamedKind.NODE, str(node.name)) for node in graph}
    found |= {(NamedKind.TENSOR, str(value.name)) for node in graph for value in node.outputs}
    found |= {(NamedKind.TENSOR, str(value.name)) for value in graph.inputs}
    return frozenset(found | {(NamedKind.CONSTANT, name) for name in graph.initializers})


def _verdicts(names: Naming, ours: ir.Model, theirs: ir.Model) -> Iterator[NameVerdict]:
    own, expected = names_of(ours), names_of(theirs)
    for (kind, name), given in names.given.items():
        if (kind, name) in own:
            other = Naming(names.family, without_names(NAMES, [given.rule])).of(given.site)
            agrees, agreed = (kind, name) in expected, (kind, other) in expected
            yield NameVerdict(given.rule, name, agrees, other, 2 * (agrees - agreed))
