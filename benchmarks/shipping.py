"""Whether the original toolchain builds what was measured: ``python -m benchmarks.shipping CASES -o results.jsonl``.

Every configuration is converted, shipped (:mod:`engine.ship`) and built by the toolchain that ``PTQLAB_HB_MAPPER``
names; its quantised model is compared with ours node by node, and both run on our simulator on inputs drawn with seed
0. One JSON line per case is appended as soon as it is known, and cases that have a line are not asked again, so that a
run can be ended at any time. The compiler runs at ``O0``, which changes no integer. A last line on the screen sums up.

CASES are folders of recorded conversions (:mod:`engine.conformance.cases`) or configuration files.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.config import Config, load_config, parse_config
from engine.conformance.cases import RecordedCase, find_cases
from engine.errors import ConfigError, PtqlabError
from engine.ir import load_model
from engine.ship import ship, verify, write
from engine.ship.folder import CONFIGURATION
from engine.simulate import Session
from engine.simulate.session import image_inputs
from engine.simulate.tensors import describe, graph_inputs
from engine.terms import OptimizeLevel
from engine.toolchain.tool import VARIABLE, Toolchain, find_toolchain


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask what has no line yet; 0 where every case is equal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", type=Path, nargs="+", help="folders of recorded cases, or configuration files")
    parser.add_argument("-o", "--output", type=Path, required=True, help="JSON lines, appended to")
    parser.add_argument("--only", default="*", help="pattern of the names of cases")
    parser.add_argument("--options", default="", help="words added to optimization, separated by commas")
    parser.add_argument("--marches", default="", help="marches instead of the configuration's, separated by commas")
    parser.add_argument("--runs", type=int, default=2, help="inputs that both models run on")
    parser.add_argument("--seconds", type=float, default=300, help="that a conversion of the toolchain may take")
    given = parser.parse_args(arguments)
    tool = find_toolchain(None, time_limit=given.seconds)
    if tool is None:
        parser.error(f"{VARIABLE} is not set")
    logging.disable(logging.CRITICAL)
    options = [word for word in given.options.split(",") if word]
    known = {line["case"] for line in _lines(given.output)}
    with tempfile.TemporaryDirectory(prefix="shipping-") as work:
        for name, config in _configurations(given.cases, Path(work), given.only, options, given.marches.split(",")):
            if name not in known:
                _append(given.output, {"case": name, **_asked(config, Path(work) / "ship" / name, tool, given.runs)})
    lines = _lines(given.output)
    equal = sum(bool(line.get("outputs")) for line in lines)
    integers = sum(bool(line.get("equal")) for line in lines)
    built = sum(line["outcome"] == "built" for line in lines)
    print(f"{len(lines)} cases: {built} built, every integer equal in {integers}, outputs equal in {equal}")
    return 0 if equal == len(lines) else 1


def _configurations(
    cases: Sequence[Path], work: Path, only: str, options: Sequence[str], marches: Sequence[str]
) -> Iterator[tuple[str, Config]]:
    """Every configuration with its name, which says what differs from the recorded one."""
    suffix = "".join(f"+{option}" for option in options)
    for path in cases:
        found: list[tuple[str, RecordedCase | None]] = [(path.stem, None)]
        if path.is_dir():
            found = [(case.name, case) for case in find_cases(path)]
        for name, case in found:
            if not fnmatch.fnmatch(name, only):
                continue
            for march in marches:
                full = f"{name}{suffix}{f'@{march}' if march else ''}"
                if case is None:
                    yield full, _changed(load_config(path), options, march)
                elif not case.refusal and not case.damage:
                    parameters = case.parameters(work / full)
                    yield full, _changed(parse_config(parameters, case.config), options, march)


def _changed(config: Config, options: Sequence[str], march: str) -> Config:
    """``config`` with more options, for ``march`` where one is given, compiled at O0."""
    calibration, model = config.calibration_parameters, config.model_parameters
    added = (*calibration.optimization, *(each for each in options if each not in calibration.optimization))
    model = model.model_copy(update={"march": type(model.march)(march)} if march else {})
    compiler = config.compiler_parameters.model_copy(update={"optimize_level": OptimizeLevel.O0})
    return config.model_copy(
        update={
            "calibration_parameters": calibration.model_copy(update={"optimization": added}),
            "model_parameters": model,
            "compiler_parameters": compiler,
        }
    )


def _asked(config: Config, folder: Path, tool: Toolchain, runs: int) -> dict[str, Any]:
    """What became of one configuration."""
    start = time.perf_counter()
    found: dict[str, Any] = {"march": config.march.value}
    try:
        shipment = ship(config)
        write(shipment, folder)
    except PtqlabError as error:
        return found | {"outcome": "refused", "message": str(error)}
    except Exception as error:  # noqa: BLE001 - a defect is a result of the run, which goes on
        return found | {"outcome": "crashed", "message": f"{type(error).__name__}: {error}"}
    shipped = time.perf_counter()
    built = tool.convert(folder / CONFIGURATION, folder / "model_output", march=config.march)
    found |= {"seconds": [round(shipped - start, 1), round(time.perf_counter() - shipped, 1)]}
    if "quantized" not in built.models:
        return found | {"outcome": "failed", "message": built.failure}
    result = verify(folder, built.models["quantized"])
    found |= {
        "outcome": "built",
        "toolchain": built.version,
        "equal": result.equal,
        "integers": [result.integers.equal, result.integers.total],
        "thresholds": None if result.thresholds is None else [result.thresholds.equal, result.thresholds.total],
        "renamed": len(result.renamed),
    }
    if result.first is not None:
        first = result.first
        found |= {"first": first.node, "what": first.what, "why": first.reason}
        found |= {"differences": [str(each) for each in result.differences[:5]]}
    try:
        found |= {"outputs": _same_outputs(shipment.quantized, load_model(built.models["quantized"]), runs)}
    except PtqlabError as error:
        found |= {"outputs": False, "message": str(error)}
    return found


def _same_outputs(ours: ir.Model, theirs: ir.Model, runs: int) -> bool:
    """Whether all outputs of both models are equal, to the last bit, on random inputs."""
    sessions = [Session(model, threads=1) for model in (ours, theirs)]
    generator, images = np.random.default_rng(0), set(image_inputs(ours))
    for _ in range(runs):
        feed = {}
        for info in describe(graph_inputs(ours)):
            if info.name in images:
                feed[info.name] = generator.integers(-128, 128, info.shape).astype(info.dtype)
            else:
                feed[info.name] = generator.standard_normal(info.shape).astype(info.dtype)
        first, second = (session.run(feed) for session in sessions)
        if list(first) != list(second) or not all(np.array_equal(first[name], second[name]) for name in first):
            return False
    return True


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _append(path: Path, line: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")
    print(
        line["case"],
        line["outcome"],
        line.get("integers", ""),
        line.get("outputs", line.get("message", "")),
        flush=True,
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ConfigError as error:
        sys.exit(str(error))
