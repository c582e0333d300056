"""What the kernels are compiled for: levels of CPUs, and the register tiles that suit each.

A level is a set of features that a compiler may use. Kernels that are compiled when a wheel is built
(:mod:`engine.simulate.kernels.build`) exist once per level; those that are compiled on the machine itself follow the
same tiles.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType


@dataclass(frozen=True)
class Registers:
    """Shape of the register tiles that suit a CPU.

    Attributes:
        lanes: int32 lanes of a vector register.
        quads: whether an instruction sums four products of uint8 and int8 per lane, exactly (AVX512-VNNI).
        permutes: whether an instruction picks bytes from 128 (AVX512-VBMI).
        matrices: whether an instruction multiplies matrices of up to 16 rows of 64 int8, exactly (AMX).
        rows: for 1, 2, … vectors of output channels, the rows (pixels) of a tile, so that accumulators, one weight
            vector per column and one broadcast activation fit the register file.
    """

    lanes: int
    rows: tuple[int, ...]
    quads: bool = False
    permutes: bool = False
    matrices: bool = False


@dataclass(frozen=True)
class Level:
    """CPUs with certain features.

    Attributes:
        name: of the level, in file names.
        cpu: LLVM's name of the CPU that code is arranged for.
        features: LLVM's names of what a CPU must have.
        registers: tiles that suit it.
    """

    name: str
    cpu: str
    features: frozenset[str]
    registers: Registers

    @property
    def feature_text(self) -> str:
        """The features as LLVM takes them."""
        return ",".join(f"+{name}" for name in sorted(self.features))


_V2 = frozenset({"cx16", "sahf", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2"})
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_AVX512 = (12, 12, 8, 6)
_OTHER = (8, 6)

LINUX_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "sahf": "lahf_lm",
        "sse3": "pni",
        "sse4.1": "sse4_1",
        "sse4.2": "sse4_2",
        "bmi": "bmi1",
        "lzcnt": "abm",
        "avx512vnni": "avx512_vnni",
        "amx-tile": "amx_tile",
        "amx-int8": "amx_int8",
    }
)
"""Linux's names of features that LLVM calls otherwise."""
CPU_INFO = Path("/proc/cpuinfo")

_MATRICES = frozenset({"amx-tile", "amx-int8"})
"""What a process must ask the system for before it uses it."""
_ARCH_PRCTL, _ASK_FOR_STATE, _MATRIX_STATE = 158, 0x1023, 18
"""Linux's number of the call, what it is to do, and the state of registers that AMX keeps (arch/x86/xstate.rst)."""

LEVELS = (
    Level(
        "v4-vnni-vbmi-amx",
        "x86-64-v4",
        _V4 | {"avx512vnni", "avx512vbmi"} | _MATRICES,
        Registers(16, _AVX512, quads=True, permutes=True, matrices=True),
    ),
    Level(
        "v4-vnni-vbmi",
        "x86-64-v4",
        _V4 | {"avx512vnni", "avx512vbmi"},
        Registers(16, _AVX512, quads=True, permutes=True),
    ),
    Level("v4-vnni", "x86-64-v4", _V4 | {"avx512vnni"}, Registers(16, _AVX512, quads=True)),
    Level("v4", "x86-64-v4", _V4, Registers(16, _AVX512)),
    Level("v3", "x86-64-v3", _V3, Registers(8, _OTHER)),
    Level("v2", "x86-64-v2", _V2, Registers(4, _OTHER)),
)
"""Levels of x86-64, the highest first; v2 to v4 are those of its psABI."""
ANY_CPU = Registers(4, _OTHER)
"""Tiles of a CPU of no level, such as ARM's."""


def available_features() -> frozenset[str]:
    """Features of the CPU that kernels are compiled for: this one, or that of numba's ``NUMBA_CPU_FEATURES``."""
    asked = os.environ.get("NUMBA_CPU_FEATURES")
    if asked is not None:
        features = frozenset(name[1:] for name in asked.split(",") if name.startswith("+"))
        if features >= _MATRICES:
            may_use_matrices()  # whatever the answer: what is compiled may be for another CPU
        return features
    if sys.platform == "linux" and platform.machine() == "x86_64":
        features = features_of(CPU_INFO.read_text(encoding="ascii", errors="replace"))
        return features if features >= _MATRICES and may_use_matrices() else features - _MATRICES
    from llvmlite import binding  # type: ignore[import-untyped]  # it ships no types; LLVM takes 40 MB

    return frozenset(name for name, has in binding.get_host_cpu_features().items() if has) - _MATRICES


def may_use_matrices() -> bool:
    """Ask Linux for the registers of AMX, for this process and those that it forks; whether it grants them."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.argtypes, call.restype = [ctypes.c_long] * 3, ctypes.c_long
    return bool(call(_ARCH_PRCTL, _ASK_FOR_STATE, _MATRIX_STATE) == 0)


def features_of(cpu_info: str) -> frozenset[str]:
    """The features of a level that all CPUs of ``/proc/cpuinfo`` have, under LLVM's names."""
    lines = [line.partition(":")[2].split() for line in cpu_info.splitlines() if line.startswith("flags")]
    flags = frozenset.intersection(*map(frozenset, lines)) if lines else frozenset()
    return frozenset(name for level in LEVELS for name in level.features if LINUX_NAMES.get(name, name) in flags)


def highest_level(features: frozenset[str]) -> Level | None:
    """The highest level that a CPU with ``features`` has."""
    return next((level for level in LEVELS if level.features <= features), None)


LEVEL = highest_level(available_features())
"""The level that kernels are compiled for."""
REGISTERS = LEVEL.registers if LEVEL is not None else ANY_CPU
LANES = REGISTERS.lanes
