"""Networks of a few nodes that need a rule, and what the original made of them.

``python -m tests.parity.rule_cases [--add] CASES...`` chooses, for every rule, or with ``--add`` for those that no kept
case needs, the smallest recorded conversion whose placement is further from what the original decided without it. Its
optimised network is kept with zeros for all but the largest number of large constants, which decide nothing else here,
with what the original decided and where that is not what the rules say.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from engine.conformance.cases import RecordedCase, find_cases
from engine.conformance.rule_evidence import (
    DROPPABLE,
    PlacedSubject,
    PlacementAnswer,
    agreement,
    answer_of,
    compared,
    needed_by,
    subject_of,
)
from engine.errors import PtqlabError
from engine.ir import constant_of, to_bytes
from engine.place import NodeTypes, PlacementOptions
from engine.rulebook.book import BOOK
from engine.terms import Compatibility

FOLDER = Path(__file__).parent / "recorded" / "rules"
ADD = "--add"
ON_DATA: Mapping[str, str] = {
    "scale.first-moved": "it says which of several tensors of one scale is measured",
    "scale.joined-wide": "it leaves operands of a Concat thresholds of their own, which are measured",
    "scale.of-function": "it says what follows from a threshold that is measured",
    "scale.split-of-function": "it says that a threshold is measured",
    "scale.of-rectified": "it leaves parts of a PRelu's result thresholds of their own, which are measured",
    "scale.softmax-margin": "it multiplies a threshold that is measured",
}
"""Rules whose effect is a threshold from data, which a placement does not have, and why: that their case is placed as
by the original, and otherwise without them, is all that is asked of it."""
_LARGEST = 64
"""Elements of a constant that is kept as it is."""
_MOST_BYTES = 50_000
_MOST_NODES = 50


def placement_departures(placed: ir.Model, answer: PlacementAnswer) -> tuple[str, ...]:
    """Aspects and names at which the original decided otherwise."""
    return tuple(
        sorted(f"{aspect} of {name}" for (aspect, name), holds in compared(placed, answer).items() if not holds)
    )


@dataclass(frozen=True)
class RuleCase:
    """One network.

    Attributes:
        name: of the recorded conversion; its file is ``<name>.onnx.gz``.
        march: the BPU.
        requests: what its configuration asks, as JSON.
        rules: ids of the rules that it needs.
        answer: what the original decided, by attribute of :class:`~engine.conformance.rule_evidence.PlacementAnswer`.
        departs: aspects and names of the nodes and tensors at which the original decided otherwise than the rules.
    """

    name: str
    march: str
    requests: dict[str, Any]
    rules: tuple[str, ...]
    answer: dict[str, dict[str, Any]]
    departs: tuple[str, ...]

    def subject(self) -> PlacedSubject:
        """The network with what is asked of it."""
        proto = onnx.load_from_string(gzip.decompress((FOLDER / f"{self.name}.onnx.gz").read_bytes()))
        return PlacedSubject(ir.from_proto(proto), self.march, _requests(self.requests))

    def answered(self) -> PlacementAnswer:
        """What the original decided."""
        return PlacementAnswer(**self.answer)


def rule_cases() -> tuple[RuleCase, ...]:
    """All that were kept."""
    content = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.json"))]
    return tuple(
        RuleCase(**{**case, "rules": tuple(case["rules"]), "departs": tuple(case["departs"])}) for case in content
    )


def _requests(content: dict[str, Any]) -> PlacementOptions:
    types = {
        name: NodeTypes(**{**each, "input_types": {int(key): kind for key, kind in each["input_types"].items()}})
        for name, each in content["node_info"].items()
    }
    lists = {key: tuple(content[key]) for key in ("run_on_cpu", "run_on_bpu")}
    kept = {key: value for key, value in content.items() if key not in ("node_info", "compatibility", *lists)}
    return PlacementOptions(**kept, **lists, node_info=types, compatibility=Compatibility(content["compatibility"]))


def _stripped(model: ir.Model) -> bytes:
    """The file of ``model`` with zeros for all but the largest number of its large constants."""
    copy = model.clone()
    for name, value in copy.graph.initializers.items():
        array = constant_of(value)
        if array is not None and array.size > _LARGEST and array.dtype.kind == "f":
            kept = np.zeros_like(array)
            largest = np.argmax(np.abs(array))
            kept.flat[largest] = array.flat[largest]
            value.const_value = ir.tensor(kept, name=name)
    return gzip.compress(to_bytes(copy), mtime=0)


def _chosen(cases: list[RecordedCase], shown: set[str]) -> Iterator[RuleCase]:
    """Cases that need rules not ``shown``, which no smaller one needs and at which the original did what they say."""
    known = set(DROPPABLE) - shown
    subjects = []
    for case in cases:
        if not case.refusal and not case.damage:
            try:
                subjects.append((case, subject_of(case)))
            except PtqlabError:
                continue
    small = [pair for pair in subjects if len(pair[1].optimized.graph) <= _MOST_NODES]
    for case, subject in sorted(small, key=lambda pair: (len(pair[1].optimized.graph), pair[0].name)):
        answer = answer_of(case)
        placed = subject.placed()
        departs, agreed = placement_departures(placed, answer), agreement(placed, answer)
        found = [
            rule
            for rule in needed_by(subject, sorted(known))
            if rule in ON_DATA or agreement(subject.placed(BOOK.without(rule)), answer) < agreed
        ]
        file = _stripped(subject.optimized)
        if found and len(file) <= _MOST_BYTES:
            known -= set(found)
            (FOLDER / f"{case.name}.onnx.gz").write_bytes(file)
            yield RuleCase(case.name, subject.march, asdict(subject.requests), tuple(found), asdict(answer), departs)
        if not known:
            return


def _refreshed(case: RuleCase) -> RuleCase:
    """``case`` with what the rules say of it now."""
    subject, answer = case.subject(), case.answered()
    placed = subject.placed()
    agreed = agreement(placed, answer)
    needed = tuple(
        rule
        for rule in needed_by(subject, [rule for rule in case.rules if rule in DROPPABLE])
        if rule in ON_DATA or agreement(subject.placed(BOOK.without(rule)), answer) < agreed
    )
    return replace(case, rules=needed, departs=placement_departures(placed, answer))


def main() -> None:
    """Write the networks, and what was decided of each: the arguments are folders of recorded conversions."""
    folders = [name for name in sys.argv[1:] if name != ADD]
    if missing := [name for name in folders or ["no folder"] if not Path(name).is_dir()]:
        sys.exit(f"usage: python -m tests.parity.rule_cases [{ADD}] CASES...; not a folder: {', '.join(missing)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    kept = [case for case in map(_refreshed, rule_cases()) if case.rules] if ADD in sys.argv else []
    for old in FOLDER.iterdir():
        if old.name.partition(".")[0] not in {case.name for case in kept}:
            old.unlink()
    shown = {rule for case in kept for rule in case.rules}
    for case in _chosen([case for folder in folders for case in find_cases(Path(folder))], shown):
        kept.append(case)
        sys.stdout.write(f"{case.name}: {', '.join(case.rules)}; {len(case.departs)} depart\n")
    for case in kept:
        text = json.dumps(asdict(case), indent=1, default=list) + "\n"
        (FOLDER / f"{case.name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
