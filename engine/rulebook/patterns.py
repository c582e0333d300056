"""Patterns that several tables share: operators, readers, ranks of a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir

from engine.graph import float_readers
from engine.ir import shape_of
from engine.rulebook.rule import Pattern


def of_node(says: str, holds: Callable[[ir.Node], bool]) -> Pattern[Any]:
    """A pattern that needs nothing but the ``node`` of what rules look at."""
    return Pattern(says, lambda site: holds(site.node))


def op(*op_types: str) -> Pattern[Any]:
    """The operator is one of ``op_types``."""
    return of_node(f"is {_either(op_types)}", lambda node: node.op_type in op_types)


def read_by(*op_types: str) -> Pattern[Any]:
    """One of ``op_types`` reads the first result."""
    return of_node(
        f"is read by {_either(op_types)}",
        lambda node: any(reader.op_type in op_types for reader in float_readers(node.outputs[0])),
    )


def gives_rank(rank: int) -> Pattern[Any]:
    """All results have that rank."""
    return of_node(
        f"gives tensors of rank {rank}", lambda node: all(len(shape_of(value)) == rank for value in node.outputs)
    )


def _either(names: tuple[str, ...]) -> str:
    """With an article, as a sentence has it."""
    article = "an" if names[0][0] in "AEIO" else "a"
    return f"{article} " + (names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}")
