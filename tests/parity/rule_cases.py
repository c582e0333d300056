"""Networks of a few nodes that need a rule, and what the original made of them.

``python -m tests.parity.rule_cases CASES...`` chooses, for every rule, the smallest recorded conversion that is placed
otherwise without it and that does not contradict it. Its optimised network is kept without its large constants, which
decide nothing here, with the devices and calibrations that the original chose and we agree with.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from engine.conformance.cases import RecordedCase, find_cases, printed_name
from engine.conformance.rule_evidence import PlacedSubject, needed_by, subject_of, verdicts
from engine.conformance.stages import calibrated_tensors
from engine.errors import PtqlabError
from engine.ir import MARK_ON, calibration_nodes, constant_of, is_calibration, load_model, to_bytes
from engine.place import NodeTypes, PlacementOptions
from engine.rulebook.book import BOOK
from engine.terms import Compatibility

FOLDER = Path(__file__).parent / "recorded" / "rules"
INDEX = FOLDER / "cases.json"
_LARGEST = 64
"""Elements of a constant that is kept as it is."""
_MOST_BYTES = 50_000
_MOST_NODES = 50


@dataclass(frozen=True)
class RuleCase:
    """One network.

    Attributes:
        name: of the recorded conversion; its file is ``<name>.onnx.gz``.
        march: the BPU.
        requests: what its configuration asks, as JSON.
        rules: ids of the rules that it needs.
        devices: of nodes, by the original.
        calibrated: names of tensors that the original calibrates, as we do.
    """

    name: str
    march: str
    requests: dict[str, Any]
    rules: tuple[str, ...]
    devices: dict[str, str]
    calibrated: tuple[str, ...]

    def subject(self) -> PlacedSubject:
        """The network with what is asked of it."""
        proto = onnx.load_from_string(gzip.decompress((FOLDER / f"{self.name}.onnx.gz").read_bytes()))
        return PlacedSubject(ir.from_proto(proto), self.march, _requests(self.requests))


def rule_cases() -> tuple[RuleCase, ...]:
    """All that were kept."""
    content = json.loads(INDEX.read_text(encoding="utf-8"))
    return tuple(
        RuleCase(**{**case, "rules": tuple(case["rules"]), "calibrated": tuple(case["calibrated"])}) for case in content
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
    """The file of ``model`` with zeros for its large constants."""
    copy = model.clone()
    for name, value in copy.graph.initializers.items():
        array = constant_of(value)
        if array is not None and array.size > _LARGEST and array.dtype.kind == "f":
            value.const_value = ir.tensor(np.zeros_like(array), name=name)
    return gzip.compress(to_bytes(copy), mtime=0)


def _facts(subject: PlacedSubject, case: RecordedCase) -> tuple[dict[str, str], tuple[str, ...]]:
    """Devices and calibrated tensors of the original that ours are equal to."""
    placed = subject.placed()
    theirs = calibrated_tensors(load_model(case.calibrated)) if case.calibrated.is_file() else {}
    devices = {
        str(node.name): on
        for node in placed.graph
        if not is_calibration(node)
        and (on := case.devices.get(printed_name(str(node.name)))) == node.metadata_props.get(MARK_ON)
        and on is not None
    }
    tensors = [str(node.inputs[0].name) for node in calibration_nodes(placed) if node.inputs[0] is not None]
    return devices, tuple(name for name in tensors if name in theirs)


def _chosen(cases: list[RecordedCase]) -> Iterator[tuple[RecordedCase, PlacedSubject, tuple[str, ...]]]:
    """Cases that need rules which no smaller one needs."""
    known = {rule.id for table in BOOK.tables for rule in table}
    subjects = []
    for case in cases:
        if not case.refusal and not case.damage:
            try:
                subjects.append((case, subject_of(case)))
            except PtqlabError:
                continue
    small = [pair for pair in subjects if len(pair[1].optimized.graph) <= _MOST_NODES]
    for case, subject in sorted(small, key=lambda pair: len(pair[1].optimized.graph)):
        contradicted = {each.rule for each in verdicts(subject.placed(), case) if not each.agrees}
        found = [rule for rule in needed_by(subject, sorted(known)) if rule not in contradicted]
        if found and len(_stripped(subject.optimized)) <= _MOST_BYTES:
            known -= set(found)
            yield case, subject, tuple(found)
        if not known:
            return


def main() -> None:
    """Write the networks and their index."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    kept = []
    for case, subject, rules in _chosen([case for folder in sys.argv[1:] for case in find_cases(Path(folder))]):
        (FOLDER / f"{case.name}.onnx.gz").write_bytes(_stripped(subject.optimized))
        devices, calibrated = _facts(subject, case)
        kept.append(RuleCase(case.name, subject.march, asdict(subject.requests), rules, devices, calibrated))
        sys.stdout.write(f"{case.name}: {', '.join(rules)}\n")
    INDEX.write_text(json.dumps([asdict(case) for case in kept], indent=1, default=list) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
