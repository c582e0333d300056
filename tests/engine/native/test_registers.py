"""Levels of CPUs: what each must have, and tiles that fit its registers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from llvmlite import binding

from engine.native import registers
from engine.native.registers import (
    ANY_CPU,
    LEVELS,
    LINUX_NAMES,
    Level,
    Registers,
    available_features,
    features_of,
    highest_level,
)

BY_NAME = {level.name: level for level in LEVELS}


@pytest.mark.parametrize("level", LEVELS)
def test_a_cpu_with_exactly_the_features_of_a_level_has_it(level: object) -> None:
    assert level in LEVELS
    for one in LEVELS:
        assert highest_level(one.features) == one


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        (
            {"avx512vnni", "avx512vbmi", "amx-tile", "amx-int8"},
            Registers(16, (12, 12, 8, 6), quads=True, permutes=True, matrices=True),
        ),
        ({"avx512vnni", "avx512vbmi", "amx-tile"}, Registers(16, (12, 12, 8, 6), quads=True, permutes=True)),
        ({"avx512vnni", "avx512vbmi"}, Registers(16, (12, 12, 8, 6), quads=True, permutes=True)),
        ({"avx512vnni"}, Registers(16, (12, 12, 8, 6), quads=True)),
        ({"avx512vbmi"}, Registers(16, (12, 12, 8, 6))),
    ],
)
def test_dot_products_of_four_need_their_instruction(extra: set[str], expected: Registers) -> None:
    level = highest_level(BY_NAME["v4"].features | extra)
    assert level is not None
    assert level.registers == expected


def test_other_cpus_have_no_level() -> None:
    assert highest_level(frozenset({"neon", "fp-armv8"})) is None
    assert ANY_CPU.lanes == 4


def test_the_cpu_that_numba_compiles_for_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registers.sys, "platform", "darwin")
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: {"avx2": True, "fma": False})
    monkeypatch.delenv("NUMBA_CPU_FEATURES", raising=False)
    assert available_features() == {"avx2"}
    monkeypatch.setenv("NUMBA_CPU_FEATURES", "+sse3,-avx,+popcnt")
    assert available_features() == {"sse3", "popcnt"}
    monkeypatch.setenv("NUMBA_CPU_FEATURES", BY_NAME["v3"].feature_text)
    assert highest_level(available_features()) == BY_NAME["v3"]


@pytest.mark.parametrize("level", LEVELS)
def test_linux_has_names_of_its_own_for_features(level: Level) -> None:
    flags = " ".join(sorted(LINUX_NAMES.get(name, name) for name in level.features))
    info = f"processor\t: 0\nflags\t\t: fpu {flags}\nvmx flags\t: x\nprocessor\t: 1\nflags\t\t: {flags} more\n"
    assert features_of(info) == level.features
    assert features_of(info + "flags\t: fpu\n") == features_of("") == frozenset()


@pytest.mark.parametrize("granted", [True, False])
def test_matrices_are_used_where_the_system_grants_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, granted: bool
) -> None:
    level = LEVELS[0]
    flags = " ".join(LINUX_NAMES.get(name, name) for name in level.features)
    (tmp_path / "cpuinfo").write_text(f"flags\t: {flags}\n", encoding="ascii")
    asked = []
    monkeypatch.delenv("NUMBA_CPU_FEATURES", raising=False)
    monkeypatch.setattr(registers, "CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(registers.sys, "platform", "linux")
    monkeypatch.setattr(registers.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(registers, "may_use_matrices", lambda: asked.append(1) or granted)
    assert highest_level(available_features()) == (level if granted else LEVELS[1])
    assert len(asked) == 1


def test_other_systems_grant_no_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registers.sys, "platform", "darwin")
    assert not registers.may_use_matrices()


@pytest.mark.skipif(not Path("/proc/cpuinfo").is_file(), reason="the system has no list of features")
def test_linux_and_llvm_agree_on_this_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CPU_FEATURES", raising=False)
    found = {name for name, has in binding.get_host_cpu_features().items() if has}
    assert sys.platform != "linux" or highest_level(available_features()) == highest_level(frozenset(found))
