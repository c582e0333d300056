"""What recorded conversions say of every rule: cases that show it, cases that contradict it, cases that need it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx_ir as ir

from engine.chips import load_chip
from engine.config import parse_config, read_yaml
from engine.conformance.cases import RecordedCase, printed_name
from engine.conformance.name_evidence import NameVerdict, name_verdicts
from engine.conformance.rewrite_evidence import RewriteSubject
from engine.conformance.stages import activation_thresholds, calibrated_tensors, weight_thresholds
from engine.convert.items import DATA, EQUALIZED, REQUESTS
from engine.convert.pipeline import DEFAULTS, WITHOUT_DATA
from engine.convert.runner import Given, Run
from engine.convert.stages.source import READ
from engine.errors import PtqlabError
from engine.facts.devices import ends_on_bpu
from engine.graph.scales import Gated, ScaleSource, Term, scale_source
from engine.ir import MARK_FLOATS, MARK_LATE, MARK_ON, attribute, is_calibration, load_model, write_atomically
from engine.ops.core.gates import behind_gates
from engine.ops.core.unit_conv import UNIT_CONV
from engine.place import PlacementOptions, decomposed, place
from engine.rulebook.book import BOOK, RULES, Book
from engine.rulebook.marks import rules_of
from engine.rulebook.name import Naming
from engine.terms import Device

MOST_NAMES = 20
"""How many contradictions, and how many cases that need it, are kept of a rule."""
MOST_NODES_WITHOUT_PASSES = 24
"""Nodes of a network for which it is tried what it becomes without each pass, which takes an optimisation each."""
FIXED_TOLERANCE = 1e-5
"""Relative difference of thresholds that are the same."""
DROPPABLE = tuple(rule.id for table in BOOK.tables if table not in BOOK.names.values() for rule in table)
"""Rules that a placement can be tried without: not the passes, and not those of names, which decide nothing else."""
MEASURED = frozenset({"scale.softmax-margin"})
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

    def placed(self, book: Book = BOOK, names: Naming | None = None) -> ir.Model:
        """The model with devices, calibrations and scales by the rules of ``book``; ``names`` names what is new."""
        optimized = decomposed(self.optimized, self.march, self.requests)
        return place(optimized, self.march, self.requests, book, names).model


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
        gained: how many more decisions in these are the original's, than are not, with the rule than without it.
    """

    cases: set[str] = field(default_factory=set)
    families: set[str] = field(default_factory=set)
    nodes: int = 0
    contradicted: list[str] = field(default_factory=list)
    needed: list[str] = field(default_factory=list)
    apart: int = 0
    apart_contradicted: int = 0
    gained: int = 0

    def count(self, verdict: RuleVerdict, case: RecordedCase) -> None:
        """Count ``verdict``, which is of ``case``."""
        if verdict.agrees:
            self.cases.add(case.name)
            self.families.add(case.family)
            self.nodes += 1
        else:
            self.contradicted.append(f"{case.name}: {verdict.where}")

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
            "gained": self.gained,
        }


@dataclass(frozen=True)
class PlacementAnswer:
    """What the original decided.

    Attributes:
        devices: ``BPU`` or ``CPU`` by :func:`~engine.conformance.cases.printed_name` of a node.
        types: by name of a calibrated tensor, weights too.
        thresholds: of tensors that have one, by name; float32. Those of constants only where the calibration is
            ``max``: other methods measure some of them.
    """

    devices: Mapping[str, str]
    types: Mapping[str, str]
    thresholds: Mapping[str, float]


def answer_of(case: RecordedCase) -> PlacementAnswer:
    """What the original decided in ``case``.

    The node table leaves out what only moves integers; it is on the BPU where its result is an integer.
    """
    if not case.calibrated.is_file():
        return PlacementAnswer(case.devices, {}, {})
    model, devices = load_model(case.calibrated), dict(case.devices)
    if case.quantized.is_file():
        integers = {str(value.name) for node in load_model(case.quantized).graph for value in node.outputs}
        for node in model.graph:
            if not is_calibration(node) and f"{node.outputs[0].name}_quantized" in integers:
                devices.setdefault(printed_name(str(node.name)), Device.BPU)
    calibration = read_yaml(case.config).get("calibration_parameters") or {}
    constants = weight_thresholds(model) if calibration.get("calibration_type") == "max" else {}
    thresholds = {**constants, **activation_thresholds(model)}
    found = {name: float(each[0]) for name, each in thresholds.items() if each.size == 1}
    return PlacementAnswer(devices, calibrated_tensors(model), found)


def compared(placed: ir.Model, answer: PlacementAnswer) -> dict[tuple[str, str], bool]:
    """Whether the original decided what ``placed`` says, by aspect (``device``, ``type``, ``scale``) and name.

    Devices of nodes, types of calibrated tensors, and thresholds that are fixed or those of another tensor.
    """
    found: dict[tuple[str, str], bool] = {}
    types: dict[str, str] = {}
    for node in placed.graph:
        if is_calibration(node) and node.inputs[0] is not None:
            name, source = _calibrated_tensor(node), scale_source(node)
            types[name] = str(attribute(node, "qtype"))
            same = _same_scale(name, source, answer)
            if same is not None:
                found["scale", name] = same
        elif (device := answer.devices.get(printed_name(str(node.name)))) is not None:
            found["device", str(node.name)] = (device == Device.BPU) is ends_on_bpu(node)
    if answer.types:
        names = types.keys() | answer.types.keys()
        found |= {("type", name): types.get(name) == answer.types.get(name) for name in names}
    return found


def _calibrated_tensor(node: ir.Node) -> str:
    """What the original's calibrated model calls the tensor; a convolution comes between two calibrations there."""
    read, given = (str(value.name) for value in (node.inputs[0], node.outputs[0]) if value is not None)
    is_convolved = given.startswith(UNIT_CONV) and not read.startswith(UNIT_CONV)
    return given.removesuffix("_calibrated") if is_convolved else read


def _same_scale(tensor: str, source: ScaleSource, answer: PlacementAnswer) -> bool | None:
    """Whether the threshold of ``tensor`` follows from ``source``; None where that is not known."""
    own, other = answer.thresholds.get(tensor), _expected(source, answer)
    return None if own is None or other is None else abs(own - other) <= FIXED_TOLERANCE * max(1.0, abs(other))


def _expected(source: ScaleSource, answer: PlacementAnswer) -> float | None:
    """The threshold that follows from ``source`` and the original's other thresholds; None where data alone tell."""
    if source.fixed is not None:
        return source.fixed
    if source.largest is None:
        return answer.thresholds.get(source.of or "")
    found = [_threshold(each, answer) for each in source.largest]
    return None if None in found else max(each for each in found if each is not None)


def _threshold(term: Term, answer: PlacementAnswer) -> float | None:
    if isinstance(term, float):
        return term
    threshold = answer.thresholds.get(term.of if isinstance(term, Gated) else term)
    return behind_gates(term.gates, threshold) if isinstance(term, Gated) and threshold is not None else threshold


def agreement(placed: ir.Model, answer: PlacementAnswer) -> int:
    """How many more decisions of ``placed`` are the original's than are not."""
    return sum(1 if holds else -1 for holds in compared(placed, answer).values())


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
    answer = answer_of(case)
    for node in placed.graph:
        name = str(node.name)
        tensor = str(node.inputs[0].name) if is_calibration(node) and node.inputs[0] is not None else ""
        for rule in rules_of(node):
            table = rule.partition(".")[0]
            if table == "device" and (device := case.devices.get(printed_name(name))) is not None:
                yield RuleVerdict(rule, name, (device == Device.CPU) is not ends_on_bpu(node))
            elif table == "rewrite" and theirs is not None:
                yield RuleVerdict(rule, name, nodes.get(name) == node.op_type)
            elif table == "calibrated" and theirs is not None:
                found = [value.name for value in node.outputs if value.name in tensors]
                yield RuleVerdict(rule, tensor or name, tensor in tensors if tensor else not found)
            elif table == "width" and theirs is not None:
                names = [tensor] if tensor else [str(value.name) for value in node.outputs]
                qtype = attribute(node, "qtype") if tensor else None
                yield RuleVerdict(rule, tensor or name, all(tensors.get(each) == qtype for each in names))
        source = scale_source(node) if is_calibration(node) else None
        agrees = None if source is None else _same_scale(tensor, source, answer)
        if source is not None and agrees is not None:
            yield from (RuleVerdict(rule, tensor, agrees) for rule in source.rules if rule not in MEASURED)


def signature(placed: ir.Model) -> list[tuple[Any, ...]]:
    """All that rules decide in ``placed``, but for which rules did."""
    found: list[tuple[Any, ...]] = []
    for node in placed.graph:
        marks = [node.metadata_props.get(key) for key in (MARK_ON, MARK_LATE, MARK_FLOATS)]
        scale = replace(scale_source(node), rules=()) if is_calibration(node) else None
        found.append((node.name, [v.name for v in node.inputs if v], marks, scale, attribute(node, "qtype")))
    return found


def needed_by(subject: PlacedSubject, rules: Iterable[str]) -> list[str]:
    """The ``rules`` without which ``subject`` is placed otherwise."""
    decided: set[str] = set()
    expected = signature(subject.placed(BOOK.watched(decided)))
    return [rule for rule in rules if rule in decided and signature(subject.placed(BOOK.without(rule))) != expected]


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
        naming = Naming(load_chip(subject.march).family)
        placed = subject.placed(names=naming)
        named = list(name_verdicts(case, naming, placed))
        of_names = (RuleVerdict(each.rule, each.name, each.agrees) for each in named)
        for verdict in (*verdicts(placed, case), *of_names):
            evidence = found.get(verdict.rule)
            if evidence is None:
                continue
            if case.family in apart:
                evidence.apart += verdict.agrees
                evidence.apart_contradicted += not verdict.agrees
            else:
                evidence.count(verdict, case)
        size = len(subject.optimized.graph)
        if size <= most_nodes and case.family not in apart:
            for rule, gained in (*_gained_by_placing(subject, case, placed), *_gained_by_names(named)):
                needing[rule].append((size, case.name))
                found[rule].gained += gained
            for rule, gained in _gained_by_passes(case) if size <= MOST_NODES_WITHOUT_PASSES else ():
                needing[rule].append((size, case.name))
                found[rule].gained += gained
                if gained > 0:
                    found[rule].cases.add(case.name)
                    found[rule].families.add(case.family)
    for rule, pairs in needing.items():
        found[rule].needed = [name for _, name in sorted(pairs)]
    return found


def _gained_by_placing(subject: PlacedSubject, case: RecordedCase, placed: ir.Model) -> Iterator[tuple[str, int]]:
    """The rules without which ``subject`` is placed otherwise, and how much further from the original's decisions."""
    answer = answer_of(case)
    agreed = agreement(placed, answer)
    for rule in needed_by(subject, DROPPABLE):
        yield rule, agreed - agreement(subject.placed(BOOK.without(rule)), answer)


def _gained_by_names(named: Sequence[NameVerdict]) -> Iterator[tuple[str, int]]:
    """The rules without which something has another name, and how many more names are the original's with them."""
    gained: dict[str, int] = {}
    for each in named:
        if each.other != each.name:
            gained[each.rule] = gained.get(each.rule, 0) + each.gained
    yield from gained.items()


def _gained_by_passes(case: RecordedCase) -> Iterator[tuple[str, int]]:
    """The passes without which the graph of ``case`` is another one, and how much further from the original's."""
    if case.calibrated.is_file():
        yield from ((rule, gained) for rule, gained in RewriteSubject.of(case).gained().items() if gained)


def write_evidence(found: Mapping[str, GatheredEvidence], path: Path) -> Path:
    """Write the evidence as JSON, a rule a line."""
    lines = [f"  {json.dumps(rule)}: {json.dumps(evidence.as_json())}" for rule, evidence in found.items()]
    return write_atomically(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
