"""Public names mean one thing: a class or function that several modules define is listed here, with the reason."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

COMMANDS = ("engine/cli/", "harness/cli/", "engine/compat/")
"""Functions there are called like commands of a terminal or like the original's, of which they are thin fronts."""

BY_OPERATOR = (
    "engine/simulate/kernels/",
    "engine/simulate/lowering/",
    "engine/floats/",
    "engine/calibrate/statistics/loops.py",
    "engine/frontend/caffe/",
    "engine/ops/",
    "engine/conformance/hunt/grammar/",
)
"""Functions there are called like the operator that they compute, lower, read or describe, or like the block that they
draw, in each room once."""

CLASSES: Mapping[str, str] = {
    "Bisection": "the search for a stage and node, and what a gate keeps of one",
    "Curve": "of errors over nodes in the debugger, and where a tabulated function is bent",
    "Max": "the calibration method and the operator, both called so in files of the original",
    "Pad": "the operator and the transformer of images, both called so in files of the original",
    "Part": "a further result of a layer that cuts a map, and of a model as its page shows it",
    "Preparation": "of the trials of one model and of the inputs of one flow; never used together",
    "Removable": "nodes at the ends of a model, and files of a working directory",
    "Split": "the operator of ONNX, and a part of a data set as everybody calls it",
}
FUNCTIONS: Mapping[str, str] = {
    "as_integers": "float outputs as integers, by the model's scales and by the tensor's",
    "as_yaml": "text of a coverage table and of a trial",
    "check_outputs": "shapes of a model's outputs, and those that a metric takes",
    "digest_of": "of a module's sources, and of a baseline",
    "fingerprints": "of stages and of files",
    "float_outputs": "of one model on a feed and of a card on its split",
    "group": "rows of a table and trials of a plan",
    "held_out": "networks kept apart, of conformance and of the fit",
    "main": "entry points of modules",
    "mark": "a cell of a page, and a node of a graph",
    "markdown": "pages of conformance and of a sweep",
    "measure": "a case of conformance, and a tensor by a distance",
    "pack": "models into one file, and a constant into a section",
    "parse": "a conversion's model, and a YAML text",
    "planned": "memory and trials",
    "read_labels": "of a task's file and of a folder",
    "removable": "nodes at the ends of a model, and files of a working directory",
    "report": "of a flow and of the fit",
    "resolve": "a configuration's paths and a suite's points",
    "save": "a figure and a table of the debugger",
    "sensitivities": "of a search of calibration, and of the debugger over all nodes",
    "verify": "of the debugger against a file, and of a ship folder",
    "write_report": "of the debugger and of hb_perf",
}


def definitions(
    kind: type[ast.stmt] | tuple[type[ast.stmt], ...], without: tuple[str, ...] = ()
) -> dict[str, list[str]]:
    """Modules by public name at their top level; of those with several."""
    found = defaultdict(list)
    for package in ("engine", "harness", "research"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name.startswith(without):
                continue
            for item in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(item, kind) and not item.name.startswith("_"):  # type: ignore[attr-defined]
                    found[item.name].append(name)  # type: ignore[attr-defined]
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def test_classes_of_one_name_are_known() -> None:
    assert set(definitions(ast.ClassDef)) == set(CLASSES)


def test_functions_of_one_name_are_known() -> None:
    found = definitions((ast.FunctionDef, ast.AsyncFunctionDef), without=(*COMMANDS, *BY_OPERATOR))
    assert set(found) == set(FUNCTIONS)
