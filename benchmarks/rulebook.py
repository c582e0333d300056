"""What the rulebook changed: lines and conditions of the rooms that decide, and the time of ``place``.

``python -m benchmarks.rulebook 673a3241^`` unpacks that revision, counts both, and times ``place`` of a chain of
residual blocks of 1,500 nodes in processes that alternate; then what is known of the rules.

A condition is an ``if``, an ``elif``, a conditional expression, a filter of a comprehension, or one more operand of
``and`` and ``or``.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("graph", "facts", "rulebook", "place", "optimize", "quantize", "ops")
MARCH = "bayes-e"
REPEATS = 5


def conditions(source: str) -> int:
    """How many conditions a module has."""
    count = 0
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.If | ast.IfExp):
            count += 1
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            count += len(node.ifs)
    return count


def sizes(root: Path, room: str) -> tuple[int, int]:
    """Lines and conditions of a room of the engine; zeros where there is none."""
    sources = [path.read_text(encoding="utf-8") for path in sorted((root / "engine" / room).rglob("*.py"))]
    return sum(len(source.splitlines()) for source in sources), sum(map(conditions, sources))


def modules(root: Path) -> set[str]:
    """The modules of the engine."""
    return {str(path.relative_to(root)) for path in (root / "engine").rglob("*.py")}


def child(path: Path) -> None:
    """Print the least CPU seconds of ``place``, with the engine of this process."""
    from engine.ir import load_model
    from engine.optimize import optimize
    from engine.place import place

    model = optimize(load_model(path), MARCH)
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        place(model, MARCH)
        times.append(time.process_time() - start)
    sys.stdout.write(f"{len(model.graph)} {min(times)}\n")


def timed(root: Path, network: Path) -> tuple[int, float]:
    """Nodes of the optimised network, and seconds of ``place`` with the engine of ``root``."""
    environment = {**os.environ, "PYTHONPATH": str(root), "PTQLAB_MAX_NODES": str(10**6)}
    command = [sys.executable, str(Path(__file__)), "--child", str(network)]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
    nodes, seconds = done.stdout.split()
    return int(nodes), float(seconds)


def compare(revision: str, nodes: int) -> None:
    """Print the tables."""
    from benchmarks.growth import network
    from engine.rulebook.book import RULES
    from engine.rulebook.evidence import evidence_for, is_provisional

    git = shutil.which("git") or "git"
    with TemporaryDirectory(prefix="ptqlab-rulebook-") as folder:
        before, path = Path(folder) / "before", Path(folder) / "m.onnx"
        before.mkdir()
        archive = subprocess.run([git, "archive", revision], cwd=ROOT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(before, filter="data")
        onnx.save(network("nodes", nodes), path)
        say("| room | lines before | now | conditions before | now |\n|---|---|---|---|---|")
        total = [0, 0, 0, 0]
        for room in ROOMS:
            (old_lines, old), (lines, new) = sizes(before, room), sizes(ROOT, room)
            total = [a + b for a, b in zip(total, (old_lines, lines, old, new), strict=True)]
            say(f"| `engine/{room}` | {old_lines:,} | {lines:,} | {old} | {new} |")
        say(f"| together | {total[0]:,} | {total[1]:,} | {total[2]:,} | {total[3]:,} |\n")
        say(f"Deleted: {', '.join(f'`{name}`' for name in sorted(modules(before) - modules(ROOT)))}.\n")
        rounds = [(timed(before, path), timed(ROOT, path)) for _ in range(2)]
        old_seconds, new_seconds = (min(each[side][1] for each in rounds) for side in (0, 1))
        say(
            f"`place` of {rounds[0][1][0]} optimised nodes: {old_seconds:.2f} CPU seconds before, {new_seconds:.2f} "
            f"now ({new_seconds / old_seconds:.2f} times).\n"
        )
    replayed = [rule for rule in RULES.values() if rule.measured is None]
    say(
        f"{len(RULES)} rules: {len(replayed)} that replays can show, of which {sum(map(is_provisional, replayed))} are "
        f"provisional (one network at the most shows them) and {sum(not evidence_for(r.id).needed for r in replayed)} "
        f"have no recorded case that needs them; {len(RULES) - len(replayed)} about integers and thresholds, "
        "measured apart."
    )
    tables: dict[str, list[str]] = {}
    for rule in replayed:
        tables.setdefault(rule.id.partition(".")[0], []).append(rule.id)
    for name, ids in tables.items():
        without = sum(not evidence_for(each).needed for each in ids)
        say(f"`{name}`: {len(ids)} rules, {without} without a case.")


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision", nargs="?", help="what is compared with")
    parser.add_argument("--nodes", type=int, default=1500)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child)
    else:
        compare(given.revision, given.nodes)
