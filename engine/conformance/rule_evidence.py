"""What recorded conversions say of every rule: cases that show it, cases that contradict it, cases that need it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx_ir as ir

from engine.config import parse_config
from engine.conformance.cases import RecordedCase, printed_name
from engine.conformance.stages import activation_thresholds, calibrated_tensors, same_thresholds, weight_thresholds
from engine.convert.items import DATA, EQUALIZED, REQUESTS
from engine.convert.pipeline import DEFAULTS, WITHOUT_DATA
from engine.convert.runner import Given, Run
from engine.convert.stages.source import READ
from engine.errors import PtqlabError
from engine.facts.devices import CPU, on_bpu
from engine.graph.scales import scale_source
from engine.ir import MARK_LATE, MARK_ON, attribute, is_calibration, load_model, write_atomically
from engine.place import PlacementOptions, decomposed, place
from engine.rulebook.book import BOOK, RULES, Book
from engine.rulebook.marks import rules_of

MOST_NAMES = 20
"""How many contradictions, and how many cases that need it, are kept of a rule."""
FIXED_TOLERANCE = 1e-5
"""Relative difference of thresholds that are the same."""
MEASURED = frozenset({"scale.moved-values", "scale.softmax-margin"})
"""Rules about the data that a threshold is measured on: no placement shows whether they hold."""


@dataclass(frozen=True)
class PlacedSubject:
    """What rules decide on: an optimised model, and what a configuration asks.

    Attributes:
        optimized: the model.
        march: the BPU.
        requests: what is asked.
    """

    optimized: ir.Model
    march: str
    requests: PlacementOptions

    def placed(self, book: Book = BOOK) -> ir.Model:
        """The model with devices, calibrations and scales by the rules of ``book``."""
        return place(decomposed(self.optimized, self.march, self.requests), self.march, self.requests, book).model


@dataclass(frozen=True)
class RuleVerdict:
    """Whether the original did at one node or tensor what a rule says.

    Attributes:
        rule: its id.
        where: name of the node or tensor.
        agrees: whether it did.
    """

    rule: str
    where: str
    agrees: bool


@dataclass
class GatheredEvidence:
    """What the cases say of one rule.

    Attributes:
        cases: names of the cases that show it.
        families: their networks.
        nodes: how many nodes and tensors show it.
        contradicted: ``case: node`` where the original did otherwise.
        needed: cases whose placement is another one without the rule, the smallest first.
        apart: how many nodes and tensors of networks that are kept apart show it, ...
        apart_contradicted: ... and where the original did otherwise there; their names are not kept.
    """

    cases: set[str] = field(default_factory=set)
    families: set[str] = field(default_factory=set)
    nodes: int = 0
    contradicted: list[str] = field(default_factory=list)
    needed: list[str] = field(default_factory=list)
    apart: int = 0
    apart_contradicted: int = 0

    def as_json(self) -> dict[str, Any]:
        """Counts, and names of at most :data:`MOST_NAMES` cases."""
        return {
            "cases": len(self.cases),
            "networks": len(self.families),
            "nodes": self.nodes,
            "contradicted": len(self.contradicted),
            "contradictions": sorted(self.contradicted)[:MOST_NAMES],
            "needed": self.needed[:MOST_NAMES],
            "apart": self.apart,
            "apart_contradicted": self.apart_contradicted,
        }


def subject_of(case: RecordedCase) -> PlacedSubject:
    """The optimised model of ``case``, and what its configuration asks.

    Raises:
        PtqlabError: the case does not convert as far.
    """
    with TemporaryDirectory(prefix="ptqlab-rules-") as folder:
        config = parse_config(case.parameters(Path(folder) / "case"), case.config)
        run = Run((READ, *WITHOUT_DATA), config, {**DEFAULTS, DATA: Given(None)})
        return PlacedSubject(run[EQUALIZED], config.march.value, run[REQUESTS])


def verdicts(placed: ir.Model, case: RecordedCase) -> Iterator[RuleVerdict]:
    """Every rule that decided something in ``placed``, beside what the original did.

    Args:
        placed: our placement of the case.
        case: what the original made of it.
    """
    theirs = load_model(case.calibrated) if case.calibrated.is_file() else None
    nodes = {} if theirs is None else {str(node.name): node.op_type for node in theirs.graph}
    tensors = {} if theirs is None else calibrated_tensors(theirs)
    thresholds = {} if theirs is None else {**weight_thresholds(theirs), **activation_thresholds(theirs)}
    for node in placed.graph:
        name = str(node.name)
        tensor = str(node.inputs[0].name) if is_calibration(node) and node.inputs[0] is not None else ""
        for rule in rules_of(node):
            table = rule.partition(".")[0]
            if table == "device" and (device := case.devices.get(printed_name(name))) is not None:
                yield RuleVerdict(rule, name, (device == CPU) is not on_bpu(node))
            elif table == "rewrite" and theirs is not None:
                yield RuleVerdict(rule, name, nodes.get(name) == node.op_type)
            elif table == "calibrated" and theirs is not None:
                found = [value.name for value in node.outputs if value.name in tensors]
                yield RuleVerdict(rule, tensor or name, tensor in tensors if tensor else not found)
        source = scale_source(node) if is_calibration(node) else None
        own = thresholds.get(tensor)
        if source is None or own is None or not source.rules:
            continue
        other = thresholds.get(source.of or "")
        agrees: bool | None = None
        if source.fixed is not None:
            agrees = own.size == 1 and abs(float(own[0]) - source.fixed) <= FIXED_TOLERANCE * max(1.0, source.fixed)
        elif other is not None:
            agrees = same_thresholds(own, other)
        if agrees is not None:
            yield from (RuleVerdict(rule, tensor, agrees) for rule in source.rules if rule not in MEASURED)


def signature(placed: ir.Model) -> list[tuple[Any, ...]]:
    """All that rules decide in ``placed``, but for which rules did."""
    found: list[tuple[Any, ...]] = []
    for node in placed.graph:
        marks = [node.metadata_props.get(key) for key in (MARK_ON, MARK_LATE)]
        scale = replace(scale_source(node), rules=()) if is_calibration(node) else None
        found.append((node.name, [v.name for v in node.inputs if v], marks, scale, attribute(node, "qtype")))
    return found


def needed_by(subject: PlacedSubject, rules: Iterable[str]) -> list[str]:
    """Those of ``rules`` without which ``subject`` is placed otherwise."""
    expected = signature(subject.placed())
    return [rule for rule in rules if rule in RULES and signature(subject.placed(BOOK.without(rule))) != expected]


def gather(
    cases: Sequence[RecordedCase],
    most_nodes: int,
    passed_over: Callable[[str, str], None] = lambda case, why: None,
    apart: Collection[str] = (),
) -> dict[str, GatheredEvidence]:
    """The evidence for every rule, by its id.

    Args:
        cases: recorded conversions.
        most_nodes: of a network for which it is tried what it is placed like without each rule.
        passed_over: told the name of a case that says nothing, and why: it was refused, is damaged, or does not
            convert.
        apart: families of networks that are only counted, since rules were not looked for in them.
    """
    found = {rule: GatheredEvidence() for rule in RULES}
    needing: dict[str, list[tuple[int, str]]] = {rule: [] for rule in RULES}
    for case in cases:
        if case.refusal or case.damage:
            passed_over(case.name, case.damage or "the original refused it")
            continue
        try:
            subject = subject_of(case)
        except PtqlabError as error:
            passed_over(case.name, str(error))
            continue
        placed = subject.placed()
        decided = {rule for node in placed.graph for rule in rules_of(node) if rule in found}
        for verdict in verdicts(placed, case):
            evidence = found.get(verdict.rule)
            if evidence is None:
                continue
            if case.family in apart:
                evidence.apart += verdict.agrees
                evidence.apart_contradicted += not verdict.agrees
            elif verdict.agrees:
                evidence.cases.add(case.name)
                evidence.families.add(case.family)
                evidence.nodes += 1
            else:
                evidence.contradicted.append(f"{case.name}: {verdict.where}")
        size = len(subject.optimized.graph)
        if size <= most_nodes and case.family not in apart:
            for rule in needed_by(subject, sorted(decided)):
                needing[rule].append((size, case.name))
    for rule, pairs in needing.items():
        found[rule].needed = [name for _, name in sorted(pairs)]
    return found


def write_evidence(found: Mapping[str, GatheredEvidence], path: Path) -> Path:
    """Write the evidence as JSON, a rule a line."""
    lines = [f"  {json.dumps(rule)}: {json.dumps(evidence.as_json())}" for rule, evidence in found.items()]
    return write_atomically(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
