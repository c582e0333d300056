"""Which conditions of the rules have an outcome that one recorded network alone shows: what may be fitted to it.

Every condition of the optimiser, placement, lowering and operators is wrapped while its module is read; each recorded
case (held-out families are left out) is then converted up to the quantised model in a process of its own.

    python -m benchmarks.rule_outcomes networks/cases --holdout 5 --only 'swin*' --rooms engine/place
"""

from __future__ import annotations

import argparse
import ast
import builtins
import importlib.abc
import importlib.machinery
import json
import os
import re
import sys
import tempfile
from collections import defaultdict
from fnmatch import fnmatch
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).parents[1]
ROOMS = ("engine/optimize", "engine/facts", "engine/rulebook", "engine/place", "engine/quantize", "engine/ops")
OPERATOR = re.compile(r"[A-Z][A-Za-z]*[a-z][A-Za-z0-9]*")
"""Names that a condition is noted with; others are names of nodes."""

Outcome = tuple[str, int, str, str]
"""File, line, condition and outcome: its truth, and the operator that was compared."""


class Recorder:
    """The conditions that were wrapped, and what they were."""

    def __init__(self) -> None:
        self.conditions: list[tuple[str, int, str]] = []
        self.outcomes: set[tuple[int, str]] = set()

    def truth(self, index: int, value: Any) -> Any:
        """Note whether ``value`` holds, and give it back."""
        self.outcomes.add((index, str(bool(value))))
        return value

    def compared(self, index: int, left: Any, right: Any, is_member: bool) -> bool:
        """Note and give ``left in right`` or ``left == right``; with ``left`` where it is an operator's name."""
        result = bool(left in right if is_member else left == right)
        named = result and isinstance(left, str) and OPERATOR.fullmatch(left)
        self.outcomes.add((index, f"{result}: {left}" if named else str(result)))
        return result


class Wrapping(ast.NodeTransformer):
    """Wraps the parts of every condition of a module."""

    def __init__(self, recorder: Recorder, file: str, source: str) -> None:
        self._recorder, self._file, self._source = recorder, file, source

    def visit_If(self, node: ast.If) -> ast.AST:
        return self._tested(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        return self._tested(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        return self._tested(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        return self._condition(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.value = None if node.value is None else self.visit(node.value)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = [self.visit(item) for item in node.body]
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        node.iter = self.visit(node.iter)
        node.ifs = [self._condition(item) for item in node.ifs]
        return node

    def _tested(self, node: ast.If | ast.IfExp | ast.While) -> ast.AST:
        test = node.test
        node.test = ast.Constant(True)
        self.generic_visit(node)
        node.test = self._condition(test)
        return node

    def _condition(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.BoolOp):
            node.values = [self._condition(value) for value in node.values]
            return node
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            node.operand = self._condition(node.operand)
            return node
        if any(isinstance(item, ast.NamedExpr) for item in ast.walk(node)):
            return node
        text = " ".join((ast.get_source_segment(self._source, node) or "").split())
        index = len(self._recorder.conditions)
        self._recorder.conditions.append((self._file, node.lineno, text))
        number = ast.Constant(index)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.Eq):
            operands = [self.visit(node.left), self.visit(node.comparators[0])]
            call = _call("rule_compared", [number, *operands, ast.Constant(isinstance(node.ops[0], ast.In))])
        else:
            call = _call("rule_truth", [number, self.generic_visit(node)])
        return ast.copy_location(call, node)


def _call(name: str, arguments: list[Any]) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), arguments, [])


class Finder(importlib.abc.MetaPathFinder):
    """Reads the modules of some rooms with their conditions wrapped."""

    def __init__(self, recorder: Recorder, rooms: tuple[str, ...]) -> None:
        self._recorder, self._rooms = recorder, rooms

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """See the base class."""
        spec = importlib.machinery.PathFinder.find_spec(fullname, path) if fullname.startswith("engine.") else None
        file = None if spec is None or not spec.origin else os.path.relpath(spec.origin, ROOT)
        if spec is None or file is None or not file.startswith(self._rooms) or not file.endswith(".py"):
            return None
        spec.loader = Loader(fullname, str(spec.origin), self._recorder, file)
        return spec


class Loader(importlib.machinery.SourceFileLoader):
    """Compiles one wrapped module."""

    def __init__(self, fullname: str, path: str, recorder: Recorder, file: str) -> None:
        super().__init__(fullname, path)
        self._recorder, self._file = recorder, file

    def get_code(self, fullname: str) -> CodeType:
        """See the base class."""
        source = Path(self.path).read_text(encoding="utf-8")
        tree = Wrapping(self._recorder, self._file, source).visit(ast.parse(source))
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--holdout", type=int, default=5, help="families that are left out: each n-th by name")
    parser.add_argument("--only", default="*", help="pattern of case names")
    parser.add_argument("--rooms", nargs="+", default=list(ROOMS), help="folders of the rules")
    arguments = parser.parse_args()
    recorder = Recorder()
    vars(builtins).update(rule_truth=recorder.truth, rule_compared=recorder.compared)
    sys.meta_path.insert(0, Finder(recorder, tuple(arguments.rooms)))
    shown = _outcomes(recorder, arguments.folder, arguments.holdout, arguments.only)
    for (file, line, text, outcome), families in sorted(shown.items()):
        if len(families) == 1:
            print(f"{file}:{line} [{outcome}] {next(iter(families))} | {text}")


def _outcomes(recorder: Recorder, folder: Path, holdout: int, only: str) -> dict[Outcome, set[str]]:
    """Families by the outcome of a condition that they show."""
    from engine.conformance.cases import find_cases
    from engine.conformance.run import held_out

    cases = find_cases(folder)
    left_out = held_out(cases, holdout)
    shown: dict[Outcome, set[str]] = defaultdict(set)
    for case in cases:
        if case.family in left_out or case.refusal or not fnmatch(case.name, only):
            continue
        read, write = os.pipe()
        if os.fork() == 0:
            os.close(read)
            with os.fdopen(write, "w", encoding="utf-8") as file:
                json.dump(sorted(_converted(recorder, case)), file)
            os._exit(0)
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as file:
            text = file.read()
        os.wait()
        print(case.name, "done" if text else "not converted", file=sys.stderr, flush=True)
        for place, line, condition, outcome in json.loads(text or "[]"):
            shown[place, line, condition, outcome].add(case.family)
    return shown


def _converted(recorder: Recorder, case: Any) -> set[Outcome]:
    """The outcomes of one conversion, up to the quantised model."""
    from engine.config import parse_config
    from engine.convert.items import QUANTIZED
    from engine.convert.pipeline import conversion

    recorder.outcomes.clear()
    with tempfile.TemporaryDirectory() as folder:
        run = conversion(parse_config(case.parameters(Path(folder)), case.config))
        _ = run[QUANTIZED]
    return {(*recorder.conditions[index], outcome) for index, outcome in recorder.outcomes}


if __name__ == "__main__":
    main()
