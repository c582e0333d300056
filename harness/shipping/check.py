"""What was built from a ship folder, compared with what was measured, and kept beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import onnx_ir as ir

from engine.ir import load_model
from engine.ship import Verification, read_record, verify
from engine.ship.build import Built
from engine.ship.record import digest_of_integers
from engine.toolchain.tool import Tell
from harness.shipping.record import DepartedNode, Matched, Outputs, Shipped, save_shipped

Look = Callable[[ir.Model], Outputs | None]
"""Runs a quantised model on samples beside ours."""


def check_and_keep(directory: Path, built: Built, look: Look | None, tell: Tell | None = None) -> Shipped:
    """Compare what was built in a ship folder with what was measured, and keep the comparison there.

    Args:
        directory: the ship folder.
        built: what :func:`engine.ship.build.run_toolchain` left there; it has a quantised model.
        look: runs the model on samples; None to run it on nothing.
        tell: told what is at work.

    Raises:
        ConfigError: it is no ship folder.
        ModelError: the toolchain's model cannot be read.
    """
    if built.quantized is None:
        raise ValueError("nothing to compare")
    found = compare_built(directory, built.quantized, look, tell)
    binary = built.binary
    shipped = found.model_copy(
        update={
            "toolchain": built.version,
            "binary": "" if binary is None else str(binary.relative_to(directory.resolve())),
            "binary_sha256": "" if binary is None else _digest(binary),
        }
    )
    save_shipped(shipped, directory)
    return shipped


def compare_built(directory: Path, quantized: Path, look: Look | None, tell: Tell | None = None) -> Shipped:
    """Compare the toolchain's quantised model, built anywhere, with what was measured.

    Raises:
        ConfigError: ``directory`` is no ship folder.
        ModelError: a model cannot be read.
    """
    origin = read_record(directory).origin
    if tell is not None:
        tell("compares node by node")
    verification = verify(directory, quantized)
    theirs = load_model(quantized)
    if look is not None and tell is not None:
        tell("runs what was built on the simulator")
    return Shipped(
        trial=origin.trial.get("trial", ""),
        key=origin.trial.get("key", ""),
        integers=Matched.of(verification.integers),
        thresholds=None if verification.thresholds is None else Matched.of(verification.thresholds),
        renamed=len(verification.renamed),
        first=_first(verification),
        outputs=None if look is None else look(theirs),
        digest=digest_of_model(theirs),
    )


def _first(verification: Verification) -> DepartedNode | None:
    first = verification.first
    return None if first is None else DepartedNode(node=first.node, what=first.what, reason=first.reason)


def digest_of_model(quantized: ir.Model) -> str:
    """SHA-256 of all integers of a quantised model in graph order; names do not count."""
    found = hashlib.sha256()
    for node in quantized.graph:
        found.update(f"{node.op_type} {digest_of_integers(node)}\n".encode())
    return found.hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
