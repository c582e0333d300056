"""Kernels compiled ahead: they need numba alone, call the C library alone, and compute what the others compute."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import types

from engine.native.loops import Argument, Loop
from engine.native.prebuilt import FOLDER, PARTS, object_names, supported
from engine.native.registers import LEVEL, LEVELS
from engine.native.sources import COMPILED, ENGINE
from engine.simulate.kernels import build as module
from engine.simulate.kernels.build import LOOPS, NAMES, PREFIX, build, caller, chosen, loop_caller, names_of
from engine.simulate.kernels.entries import RECORDS
from engine.simulate.kernels.instructions import ENTRIES, InstructionKind

ROOT = Path(__file__).resolve().parents[4]
TESTED = [f"tests/engine/simulate/kernels/test_{name}.py" for name in ("machine", "convolution", "conversion")]
USE = """
import sys
from pathlib import Path
import pytest
from engine.native import prebuilt
prebuilt.FOLDER = Path(sys.argv[1])
assert prebuilt.addresses()
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[2:]]))
"""


def test_what_is_compiled_imports_nothing_else() -> None:
    """So that a wheel is built without the packages that the rest needs."""
    compiled = {path for pattern in COMPILED for path in ENGINE.glob(pattern)}
    for path in compiled:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("engine"):
                named = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
                files = [ENGINE.parent.joinpath(*name.split(".")).with_suffix(".py") for name in named]
                assert compiled & set(files), f"{path.name} imports {node.module}"


def test_the_objects_have_all_kernels_and_loops_once() -> None:
    kernels = {kind.name.lower() for kind in InstructionKind} | set(ENTRIES)
    assert len(set(NAMES)) == len(NAMES)
    assert set(NAMES) == kernels | {loop.name for loop in LOOPS}
    assert tuple(name for part in range(PARTS) for name in names_of(part)) == NAMES


def test_levels_are_chosen_by_word() -> None:
    assert chosen("all") == LEVELS
    assert chosen("none") == ()
    assert chosen("host") == (() if LEVEL is None else (LEVEL,))
    with pytest.raises(ValueError, match="all, host, none"):
        chosen("fast")


def test_objects_of_other_sources_go_and_present_ones_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(module, "_in_child", lambda level, part, path: made.append((level, part, path.name)))
    (tmp_path / "v3-0123456789abcdef.o").write_bytes(b"")
    first, *others = [(level, part, name) for level in LEVELS for part, name in enumerate(object_names(level))]
    (tmp_path / first[-1]).write_bytes(b"")
    assert build(LEVELS, tmp_path) == [tmp_path / name for level in LEVELS for name in object_names(level)]
    assert sorted(made, key=others.index) == others
    assert [path.name for path in tmp_path.iterdir()] == [first[-1]]


def test_a_caller_drops_what_only_numba_needs() -> None:
    text = caller("ptqlab_pad", "native", [RECORDS, types.intp, types.intp])
    assert "define void @ptqlab_pad(i64 %0, i64 %1, i64 %2)" in text
    assert "call i32 @native(ptr %result, ptr %exception, ptr %record, i64 %1, i64 %2)" in text
    assert "declare i32 @native(ptr, ptr, ptr, i64, i64)" in text
    assert "declare i32 @native(ptr, ptr, i64)" in caller("ptqlab_helper", "native", [types.intp])


def test_a_loops_caller_unfolds_arrays_and_numbers() -> None:
    loop = Loop("module", "sum", (Argument("float32", 2), Argument("float64")))
    text = loop_caller("ptqlab_sum", "native", loop)
    assert "define void @ptqlab_sum(ptr %words)" in text
    assert "declare i32 @native(ptr, ptr, ptr, ptr, i64, i64, ptr, i64, i64, i64, i64, double)" in text
    assert "ptr null, ptr null, i64 %word1, i64 4, ptr %word0, i64 %word2, i64 %word3, i64 %word4, i64 %word5" in text
    assert "%word6 = load double, ptr %place6" in text


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.skipif(LEVEL is None or not supported(), reason="kernels are compiled on first use on this platform")
def test_built_kernels_pass_the_tests_of_compiled_ones(tmp_path: Path) -> None:
    """Those of the installation where it has them, as a compilation takes 35 CPU seconds."""
    assert LEVEL is not None
    paths = [FOLDER / name for name in object_names(LEVEL)]
    if not all(map(Path.is_file, paths)):
        paths = build((LEVEL,), tmp_path)
    content = b"".join(map(Path.read_bytes, paths))
    assert all((PREFIX + name).encode() in content for name in NAMES)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    finished = subprocess.run(
        [sys.executable, "-c", USE, str(paths[0].parent), *TESTED],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stdout[-2000:] + finished.stderr[-2000:]
