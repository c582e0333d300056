"""Compiles kernels and loops ahead, as a wheel is built.

``python -m engine.simulate.kernels.build [all | host | none]``

Writes object files for each of the :data:`~engine.native.registers.LEVELS` that are asked for (``host``: that of this
machine) beside the sources, and removes those of other sources. Every object is compiled in a process of its own, as
numba fixes its CPU on import; those of one level at the same time. ``hatch_build.py`` calls it through
:mod:`engine.simulate.kernels.alone`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numba
import numpy as np
from llvmlite import binding  # type: ignore[import-untyped]  # it ships no types
from numba import types

from engine.calibrate import compiled as statistics
from engine.floats import compiled as floats
from engine.native.intermediate import intermediate_code
from engine.native.loops import Argument, Loop
from engine.native.prebuilt import FOLDER, PARTS, PREFIX, object_names, supported
from engine.native.registers import LEVEL, LEVELS, Level
from engine.native.sources import sources_digest
from engine.simulate.kernels.entries import MAKERS, signature

LOOPS = (*statistics.LOOPS, *floats.LOOPS)
"""Loops of all rooms."""
NAMES = (*MAKERS, *(loop.name for loop in LOOPS))
"""Functions of the objects of a level."""
_FIRST = 10
"""The first object holds so many of them: half of the time that all take to compile."""
ALLOWED = frozenset(
    {"memcpy", "memmove", "memset", "sched_yield", "gettimeofday", "exp", "log", "logf", "erf", "sqrt", "sqrtf"}
)
"""Functions of the C library that an object may call; any other, such as Python's, would bind it to a version."""

LLVM_NAMES = {"int32": "i32", "int64": "i64", "float32": "float", "float64": "double"}
NOTHING_TO_FREE = "define void @NRT_MemInfo_call_dtor(ptr %memory) { ret void }"
"""What numba's counting of references would call; no kernel and no loop owns an array."""


def build(levels: Sequence[Level], folder: Path = FOLDER) -> list[Path]:
    """Write the objects of ``levels`` to ``folder``; what was there and belongs to other sources goes.

    Raises:
        RuntimeError: a kernel calls what is not in every process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    present = {name for level in LEVELS for name in object_names(level)}
    for path in folder.glob("*.o"):
        if path.name not in present:
            path.unlink()
    written = []
    for level in levels:
        paths = [folder / name for name in object_names(level)]
        missing = [(part, path) for part, path in enumerate(paths) if not path.is_file()]
        with ThreadPoolExecutor(PARTS) as threads:
            for _ in threads.map(lambda each, level=level: _in_child(level, *each), missing):
                pass
        written += paths
    return written


def _in_child(level: Level, part: int, path: Path) -> None:
    """Compile ``part`` for ``level`` in a process for which numba takes its CPU for the present one."""
    with TemporaryDirectory() as unused:
        environment = {
            **os.environ,
            "NUMBA_CPU_NAME": level.cpu,
            "NUMBA_CPU_FEATURES": level.feature_text,
            "NUMBA_CACHE_DIR": unused,
        }
        command = [sys.executable, "-P", str(Path(__file__).with_name("alone.py")), "object", str(part), str(path)]
        finished = subprocess.run(command, env=environment, capture_output=True, text=True)
    if finished.returncode:
        raise RuntimeError(f"kernels for {level.name}: {finished.stderr.strip().splitlines()[-1]}")


def names_of(part: int) -> tuple[str, ...]:
    """Functions of the object ``part``, of :data:`~engine.native.prebuilt.PARTS`."""
    return NAMES[_FIRST:] if part else NAMES[:_FIRST]


def write_object(part: int, path: str) -> None:
    """Compile the functions of ``part`` for the CPU that numba compiles for, as one object with plain names."""
    whole = binding.parse_assembly(NOTHING_TO_FREE)
    with intermediate_code() as machine:
        for name in names_of(part):
            _link(whole, *_compiled(name))
    _as_one(whole, machine)
    outside = {function.name for function in whole.functions if function.is_declaration} - ALLOWED
    outside = {name for name in outside if not name.startswith("llvm.")}
    if outside:
        raise RuntimeError(f"the kernels call {', '.join(sorted(outside))}")
    Path(path).with_suffix(".part").write_bytes(machine.emit_object(whole))
    Path(path).with_suffix(".part").replace(path)


def _compiled(name: str) -> tuple[Any, str]:
    """numba's library of the function ``name``, and the function by which others call it, as LLVM IR."""
    if name in MAKERS:
        entry = numba.cfunc(signature(name), error_model="numpy")(MAKERS[name](sources_digest()))
        native = entry._wrapper_name.removeprefix("cfunc.")
        return entry._library, caller(PREFIX + name, native, signature(name).args)
    (loop,) = (loop for loop in LOOPS if loop.name == name)
    kinds = tuple(map(kind_of, loop.arguments))
    dispatcher: Any = loop.function
    dispatcher.compile(kinds)
    compiled = dispatcher.overloads[kinds]
    return compiled.library, loop_caller(PREFIX + name, compiled.fndesc.llvm_func_name, loop)


def _link(whole: Any, library: Any, text: str) -> None:
    """Take numba's ``library`` and the function ``text`` into the module ``whole``."""
    module = library._final_module
    whole.triple, whole.data_layout = module.triple, module.data_layout
    whole.link_in(binding.parse_bitcode(module.as_bitcode()))
    whole.link_in(binding.parse_assembly(text))


def kind_of(argument: Argument) -> Any:
    """numba's type of ``argument``."""
    kind = getattr(types, argument.dtype)
    return types.Array(kind, argument.dimensions, "C") if argument.dimensions else kind


def loop_caller(name: str, native: str, loop: Loop) -> str:
    """A function ``name`` of a pointer to :meth:`~engine.native.loops.Loop.words`, which calls ``native``; LLVM IR.

    numba takes an array as eight and more values: who owns it, its object, size, bytes of an item, address, shape and
    strides.
    """
    lines: list[str] = []
    taken = ["ptr %result", "ptr %exception"]
    count = 0

    def word(kind: str) -> str:
        nonlocal count
        lines.append(f"%place{count} = getelementptr i64, ptr %words, i64 {count}")
        lines.append(f"%word{count} = load {kind}, ptr %place{count}")
        count += 1
        return f"{kind} %word{count - 1}"

    for argument in loop.arguments:
        if not argument.dimensions:
            taken.append(word(LLVM_NAMES[argument.dtype]))
            continue
        address, size = word("ptr"), word("i64")
        rest = [word("i64") for _ in range(2 * argument.dimensions)]
        taken += ["ptr null", "ptr null", size, f"i64 {np.dtype(argument.dtype).itemsize}", address, *rest]
    kinds = ", ".join(value.split()[0] for value in taken)
    body = "\n  ".join(lines)
    return f"""
declare i32 @{native}({kinds})

define void @{name}(ptr %words) {{
  %result = alloca ptr
  %exception = alloca ptr
  {body}
  %status = call i32 @{native}({", ".join(taken)})
  ret void
}}
"""


def caller(name: str, native: str, kinds: Sequence[Any]) -> str:
    """A function ``name`` of as many 64-bit values as there are ``kinds``, which calls numba's ``native``, as LLVM IR.

    numba's functions have two more arguments, for a result and an exception, and return a status: ours have neither.
    Of the kinds, numba's types of the arguments, only the first may be a pointer.
    """
    words = [f"i64 %{index}" for index in range(len(kinds))]
    first = "ptr %record" if isinstance(kinds[0], types.CPointer) else words[0]
    taken = ["ptr", "ptr", first.split()[0], *["i64"] * (len(kinds) - 1)]
    return f"""
declare i32 @{native}({", ".join(taken)})

define void @{name}({", ".join(words)}) {{
  %result = alloca ptr
  %exception = alloca ptr
  %record = inttoptr i64 %0 to ptr
  %status = call i32 @{native}({", ".join(["ptr %result", "ptr %exception", first, *words[1:]])})
  ret void
}}
"""


def _as_one(module: Any, machine: Any) -> None:
    """Optimise all kernels together: what one of them alone calls becomes part of it, and what none calls goes.

    numba adds the latter for calls from Python; and functions of a library of its own stay functions, so that an
    instruction of 16 numbers spent a third of its time on calls. As in numba, what is always inlined is inlined first,
    and counts of references go before loops are looked at.
    """
    entries = {PREFIX + name for name in NAMES}
    for value in [*module.functions, *module.global_variables]:
        if not value.is_declaration and value.name not in entries:
            value.linkage = "internal"
    inlining, inlining_builder = _pipeline(machine, 0)
    inlining.add_loop_rotate_pass()
    inlining.add_instruction_combine_pass()
    inlining.add_jump_threading_pass()
    inlining.add_refprune_pass()
    inlining.run(module, inlining_builder)
    whole, whole_builder = _pipeline(machine, 3)
    whole.add_refprune_pass()
    whole.add_strip_dead_prototype_pass()
    whole.run(module, whole_builder)


def _pipeline(machine: Any, level: int) -> tuple[Any, Any]:
    """LLVM's passes of optimisation ``level`` over a module, to which more can be added, and their builder."""
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=level))
    return builder.getModulePassManager(), builder


def chosen(word: str) -> tuple[Level, ...]:
    """The levels that ``all``, ``host`` or ``none`` asks for; no level of a CPU or system that has none.

    Raises:
        ValueError: any other word.
    """
    match word:
        case "all":
            return LEVELS
        case "host":
            return () if LEVEL is None else (LEVEL,)
        case "none":
            return ()
    raise ValueError(f"levels are {word!r}; allowed: all, host, none")


def main(arguments: Sequence[str]) -> None:
    """Build for the levels that are asked for, where objects are of use."""
    levels = chosen(arguments[0] if arguments else "all")
    for path in build(levels if supported() else ()):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
