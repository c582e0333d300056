"""The record of an instruction."""

from __future__ import annotations

import numpy as np

from engine.simulate.kernels.instructions import FIELDS, INSTRUCTION, InstructionKind


def test_kinds_are_numbered_without_gaps() -> None:
    assert [int(kind) for kind in InstructionKind] == list(range(len(InstructionKind)))


def test_every_field_is_one_word() -> None:
    assert len(set(FIELDS)) == len(FIELDS)
    assert INSTRUCTION.itemsize == 8 * len(FIELDS)
    assert {INSTRUCTION[name] for name in FIELDS} == {np.dtype(np.int64)}
    assert FIELDS[:2] == ("kind", "units")
