"""What the tests of the day find of planted faults, and what those of the night add.

    python -m benchmarks.mutants plant CHECKOUT [--count 200] [--seed 20261127]
    cd CHECKOUT && PYTHONPATH=. python -m pytest -n 2 -m "" -p benchmarks.mutants_reach
    python -m benchmarks.mutants kill CHECKOUT > mutants.jsonl

``plant`` rewrites expressions of ``engine`` and ``harness`` in place, each behind a switch that is off: comparisons,
arithmetic, ``and``/``or``, ``not``, numbers, truth values, ``min``/``max``, ``any``/``all``. Code that numba compiles
stays. One run of all tests notes which test reaches which switch. ``kill`` turns the switches on one by one and runs
the tests that reach them, those of the day first, the module's own before others and quick ones before slow ones, until
one fails; where none of the day fails, those of the night. Tests that fail with every switch off do not count.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.native.sources import COMPILED

TABLE = "mutants.json"
REACHED = ".mutants"
"""Folder of what :mod:`benchmarks.mutants_reach` notes: ``*.reach`` and ``*.times``, tab-separated; ``failed``."""
SWITCH = '''"""Switches of planted faults."""
import os

_ACTIVE = int(os.environ.get("MUTANT", "-1"))
_FOLDER = os.environ.get("MUTANTS_REACHED")
_SEEN = set()


def _mutant(number):
    if _FOLDER:
        key = number, os.environ.get("MUTANT_TEST", "")
        if key not in _SEEN:
            _SEEN.add(key)
            with open(f"{_FOLDER}/{os.getpid()}.reach", "a") as file:
                file.write(f"{number}\\t{key[1]}\\n")
    return number == _ACTIVE
'''
COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}
CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
UNTOUCHED = (ast.Assert, ast.JoinedStr, ast.Match, ast.Raise)
"""Statements and expressions that stay whole: what they say is not what they compute."""
UNNAMED = {"annotation", "returns", "decorator_list", "bases", "args"}
"""Parts of definitions that run on import or not at all."""
SECONDS = 100.0
"""CPU time of tests by day, and again at night, after which a mutant counts as alive."""


@dataclass(frozen=True)
class Mutant:
    """A planted fault.

    Attributes:
        number: of its switch.
        file: relative to the checkout.
        line: of the file before planting.
        old: source of the expression.
        new: what takes its place.
    """

    number: int
    file: str
    line: int
    old: str
    new: str


def changed(node: ast.AST) -> ast.expr | None:
    """A faulty expression for ``node``, or None."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
        return ast.Compare(node.left, [COMPARED[type(node.ops[0])]()], node.comparators)
    if isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        return ast.BinOp(node.left, COMPUTED[type(node.op)](), node.right)
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return ast.Constant(not node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return ast.Constant(node.value + 1)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLED:
        return ast.Call(ast.Name(CALLED[node.func.id]), node.args, node.keywords)
    return None


def sites(tree: ast.AST, inside: bool = False) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Expressions inside functions, and what may take their place."""
    if isinstance(tree, UNTOUCHED):
        return
    inside = inside or isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)
    for name, value in ast.iter_fields(tree):
        if name in UNNAMED and not isinstance(tree, ast.Call):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST):
                continue
            new = changed(child) if inside and isinstance(child, ast.expr) else None
            binds = any(isinstance(part, ast.NamedExpr | ast.Yield | ast.Await) for part in ast.walk(child))
            if new is not None and isinstance(child, ast.expr) and not binds:
                yield child, new
            yield from sites(child, inside)


def plant(root: Path, count: int, seed: int) -> list[Mutant]:
    """Plant ``count`` mutants that do not overlap, chosen with ``seed`` from all sites of the checkout ``root``."""
    compiled = {path for pattern in COMPILED for path in (root / "engine").glob(pattern)}
    switch = root / "engine" / "_mutant.py"
    found = []
    for path in sorted([*(root / "engine").rglob("*.py"), *(root / "harness").rglob("*.py")]):
        source = path.read_text(encoding="utf-8")
        if path not in {*compiled, switch} and "numba" not in source:
            found += [(path, node, new) for node, new in sites(ast.parse(source))]
    random.Random(seed).shuffle(found)
    chosen: dict[Path, list[tuple[int, ast.expr, ast.expr]]] = defaultdict(list)
    number = 0
    for path, node, new in found:
        if number < count and all(_apart(node, other) for _, other, _ in chosen[path]):
            chosen[path].append((number, node, new))
            number += 1
    mutants = [mutant for path, items in chosen.items() for mutant in _write(root, path, items)]
    switch.write_text(SWITCH, encoding="utf-8")
    mutants.sort(key=lambda mutant: mutant.number)
    (root / TABLE).write_text(json.dumps([asdict(mutant) for mutant in mutants], indent=1), encoding="utf-8")
    return mutants


def _span(node: ast.expr) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)


def _apart(one: ast.expr, other: ast.expr) -> bool:
    (begin, end), (start, stop) = _span(one), _span(other)
    return end <= start or stop <= begin


def _write(root: Path, path: Path, items: Sequence[tuple[int, ast.expr, ast.expr]]) -> Iterator[Mutant]:
    lines = path.read_bytes().split(b"\n")
    for number, node, new in sorted(items, key=lambda item: _span(item[1]), reverse=True):
        (first, begin), (last, end) = _span(node)
        between = lines[first - 1 : last]
        before, after = between[0][:begin], between[-1][end:]
        between[-1] = between[-1][:end]
        between[0] = between[0][begin:]
        old, text = b"\n".join(between).decode(), ast.unparse(new)
        switched = f"(({text}) if _mutant({number}) else ({old}))".encode()
        lines[first - 1 : last] = [before + switched + after]
        yield Mutant(number, path.relative_to(root).as_posix(), first, old, text)
    source = b"\n".join(lines).decode()
    top = 0
    for statement in ast.parse(source).body:
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not is_text and not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        top = statement.end_lineno or 0
    out = source.split("\n")
    out.insert(top, "from engine._mutant import _mutant")
    path.write_text("\n".join(out), encoding="utf-8")


def kill(root: Path) -> Iterator[dict[str, object]]:
    """Each mutant with the test of the day that finds it (``day``), else that of the night (``night``), or empty."""
    notes = root / REACHED
    rows = [line.split("\t") for path in notes.glob("*.reach") for line in path.read_text().splitlines()]
    times = dict(line.split("\t") for path in notes.glob("*.times") for line in path.read_text().splitlines())
    broken = set((notes / "failed").read_text().splitlines()) if (notes / "failed").is_file() else set()
    listed = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0"]
    by_day = set(subprocess.run(listed, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines())
    reach: dict[int, set[str]] = defaultdict(set)
    for number, test in rows:
        reach[int(number)] |= {test} & times.keys() - broken
    for row in json.loads((root / TABLE).read_text(encoding="utf-8")):
        mutant = Mutant(**row)
        mirror = f"tests/{Path(mutant.file).parent}/test_{Path(mutant.file).stem}.py::"
        tests = sorted(reach[mutant.number], key=lambda test: (not test.startswith(mirror), float(times[test])))
        day = _first_failure(root, mutant, [test for test in tests if test in by_day], times)
        night = day or _first_failure(root, mutant, [test for test in tests if test not in by_day], times)
        yield {**row, "reached": len(tests), "day": day, "night": night}


def _first_failure(root: Path, mutant: Mutant, tests: Sequence[str], times: dict[str, str]) -> str:
    chosen, total = [], 0.0
    for test in tests:
        total += float(times[test])
        if total <= SECONDS:
            chosen.append(test)
    if not chosen:
        return ""
    arguments = root / REACHED / "arguments"
    arguments.write_text("\n".join(chosen), encoding="utf-8")
    words = ["-m", "pytest", "-x", "-q", "-n", "0", "-m", "", "-p", "no:cacheprovider", "--tb=no", f"@{arguments}"]
    environment = {**os.environ, "PYTHONPATH": str(root), "MUTANT": str(mutant.number)}
    started = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, *words], cwd=root, env=environment, capture_output=True, text=True, timeout=6 * SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"not done after {time.monotonic() - started:.0f} s"
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return "" if done.returncode == 0 else [*failed, f"exit code {done.returncode}"][0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["plant", "kill"])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=20261127)
    options = parser.parse_args()
    if options.step == "plant":
        print(f"{len(plant(options.checkout.resolve(), options.count, options.seed))} mutants: {TABLE}")
    else:
        for row in kill(options.checkout.resolve()):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
