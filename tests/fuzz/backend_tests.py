"""ONNX's own node tests: ``python -m tests.fuzz.backend_tests --page docs/evidence/onnx_node_tests.md``.

Every test of the installed ``onnx`` whose operator exists at opset 19 or below is loaded, optimised for each march, run
and checked. What is not refused must give the expected outputs. Exit code 1: an error that is not ours, or a wrong
result. ``--part K/N`` runs every N-th test only.
"""

from __future__ import annotations

import argparse
import logging
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from engine.chips import MEASURED_MARCHES
from engine.convert import Draft, check
from engine.errors import PtqlabError
from engine.frontend import preprocess
from engine.frontend.onnx import load_onnx
from engine.frontend.versions import MAX_OPSET
from engine.optimize import optimize
from engine.simulate import Session

SECONDS = 20
"""CPU time for one test on one march."""


@dataclass(frozen=True)
class Case:
    """A test.

    Attributes:
        name: of it.
        model: at an opset that is read.
        feed: inputs by name.
        expected: outputs, in order; none where the test's are of a newer operator.
        tolerances: relative and absolute.
    """

    name: str
    model: onnx.ModelProto
    feed: dict[str, Any]
    expected: list[Any]
    tolerances: tuple[float, float]


@dataclass
class Tally:
    """What came of all tests on all marches."""

    right: int = 0
    unmeasured: int = 0
    refused: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    faults: list[str] = field(default_factory=list)


def cases() -> Iterator[Case]:
    """The tests of the package, those of newer opsets as far as the checker takes them at opset 19."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    for item in found:
        model = onnx.ModelProto()
        model.CopyFrom(item.model)
        if not _within_reach(model):
            continue
        given, expected = (item.data_sets or [((), ())])[0]
        names = [value.name for value in model.graph.input]
        yield Case(item.name, model, dict(zip(names, given, strict=False)), list(expected), (item.rtol, item.atol))


def _within_reach(model: onnx.ModelProto) -> bool:
    """Set the opset to 19 at most; whether the checker takes it so, and the operators mean the same."""
    (opset, *others) = model.opset_import
    if others or opset.domain:
        return True  # refused by its domain
    model.ir_version = min(model.ir_version, 10)
    newer = opset.version > MAX_OPSET
    opset.version = min(opset.version, MAX_OPSET)
    try:
        since = {onnx.defs.get_schema(node.op_type, opset.version, "").since_version for node in model.graph.node}
        onnx.checker.check_model(model)
    except (onnx.defs.SchemaError, onnx.checker.ValidationError):
        return not newer
    return bool(since)


def run(case: Case, march: str, folder: Path, tally: Tally) -> None:
    """Load, optimise, run and check ``case`` for ``march``."""
    path = folder / "m.onnx"
    path.write_bytes(case.model.SerializeToString())
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        source = load_onnx(path)
        optimized = optimize(preprocess.insert(source, []), march)
        _compare(case, source, optimized, tally, march)
        check(path, Draft(march))
    except PtqlabError as error:
        tally.refused[_kind(str(error).replace(f"{path}: ", ""))].add(case.name)
    except BaseException:  # noqa: BLE001 - whatever is raised beside PtqlabError is a finding
        tally.faults.append(f"{case.name} on {march}: {traceback.format_exc(limit=-4)}")
    signal.setitimer(signal.ITIMER_PROF, 0)


def _compare(case: Case, source: Any, optimized: Any, tally: Tally, march: str) -> None:
    feed = {value.name: _as_fed(case.feed[value.name]) for value in source.graph.inputs if value.name in case.feed}
    if len(feed) < len(source.graph.inputs):
        tally.unmeasured += 1
        return
    found = list(Session(optimized).run(feed).values())
    original = list(Session(source).run(feed).values())
    with np.errstate(all="ignore"):
        if not all(map(_same, found, original, [case.tolerances] * len(found))):
            tally.faults.append(f"{case.name} on {march}: the optimised model differs from the source")
        elif all(map(_same, found, case.expected, [case.tolerances] * len(found))):
            tally.right += 1
        else:
            tally.unmeasured += 1  # of a newer operator, or ONNX Runtime's own reading of it


def _as_fed(value: Any) -> Any:
    """Floats of other widths are taken as float32, as the model is."""
    floats = isinstance(value, np.ndarray) and (value.dtype.kind == "f" or value.dtype.name == "bfloat16")
    return value.astype(np.float32) if floats else value


def _same(first: Any, second: Any, tolerances: tuple[float, float]) -> bool:
    if np.asarray(second).dtype.kind not in "fiub":
        return True
    relative, absolute = tolerances
    return np.shape(first) == np.shape(second) and bool(
        np.allclose(first, second, rtol=relative, atol=max(absolute, 1e-5), equal_nan=True)
    )


def _kind(message: str) -> str:
    """A message without the names and figures of one model."""
    text = re.sub(r"'[^']*'", "…", message.splitlines()[0])
    text = re.sub(r"[\[(][^\])]*[\])]", "…", text)
    text = re.sub(r"\b[\w/]+_\d+\b|\b\d+(x\d+|\?)*\b", "…", text)
    return re.sub(r"(… ?)+", "… ", text).strip()[:110]


def page(tally: Tally, tests: int, marches: Sequence[str]) -> str:
    """The list of refusals as Markdown."""
    lines = [
        "# ONNX's own node tests",
        "",
        f"`python -m tests.fuzz.backend_tests --page docs/evidence/onnx_node_tests.md` with onnx {onnx.__version__}:",
        f"{tests} tests whose operators exist at opset {MAX_OPSET} or below, each loaded, optimised, run and checked",
        f"on {', '.join(marches)}. {tally.right} of these runs gave the expected outputs, {tally.unmeasured} those",
        "of ONNX Runtime for the unchanged model (the test has none for this opset, or ONNX Runtime reads the operator",
        f"otherwise), and {len(tally.faults)} ended otherwise. Most refusals say that nothing in a model of one node",
        "runs on the BPU.",
        "",
        "| message, names and figures left out | tests |",
        "|---|---|",
    ]
    for message, names in sorted(tally.refused.items(), key=lambda item: (-len(item[1]), item[0])):
        shown = sorted(name.removeprefix("test_") for name in names)
        listed = ", ".join(shown) if len(shown) <= 12 else f"{', '.join(shown[:6])} and {len(shown) - 6} more"
        lines.append(f"| {message.replace('|', '/')} | {listed} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.backend_tests", description=__doc__)
    parser.add_argument("--page", type=Path, help="where the list of refusals is written")
    parser.add_argument("--part", default="1/1", help="K/N: every N-th test from the K-th on")
    parser.add_argument("--march", action="append", choices=MEASURED_MARCHES, help="one of them only; may be repeated")
    chosen = parser.parse_args(arguments)
    part, parts = map(int, chosen.part.split("/"))
    logging.disable()
    signal.signal(signal.SIGPROF, _hang)
    tally, found = Tally(), list(cases())[part - 1 :: parts]
    begin = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        for case in found:
            for march in chosen.march or MEASURED_MARCHES:
                run(case, march, Path(folder), tally)
    if chosen.page is not None:
        chosen.page.write_text(page(tally, len(found), chosen.march or MEASURED_MARCHES), encoding="utf-8")
    refused = sum(map(len, tally.refused.values()))
    sys.stdout.write("".join(f"{fault}\n" for fault in tally.faults))
    sys.stdout.write(
        f"{len(found)} tests, {tally.right} runs as expected, {tally.unmeasured} as ONNX Runtime, "
        f"{refused} tests refused, "
        f"{len(tally.faults)} faults, {(time.process_time() - begin) / 60:.1f} CPU minutes\n"
    )
    return 1 if tally.faults else 0


def _hang(*_: object) -> None:
    raise AssertionError(f"no result after {SECONDS} s of CPU time")


if __name__ == "__main__":
    sys.exit(main())
