"""What is known of a file that was built from a ship folder: ``verification.json`` beside it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, ValidationError

from harness.files.cache import load_json, save_json
from harness.files.strict_yaml import StrictModel

if TYPE_CHECKING:
    from engine.ship import Count

_FOR_THE_BOARD = (".bin", ".hbm")

VERIFICATION = "verification.json"
SHIP = "ship"
"""Ship folder of a trial, in the folder of its files."""


class Matched(StrictModel):
    """How many of some things are equal."""

    equal: int
    total: int

    @classmethod
    def of(cls, count: Count) -> Matched:
        """The record of what the engine counted."""
        return cls(equal=count.equal, total=count.total)

    @property
    def all(self) -> bool:
        """Whether all are."""
        return self.equal == self.total

    def __str__(self) -> str:
        return f"{self.equal:,} of {self.total:,}"


class DepartedNode(StrictModel):
    """The first node that the toolchain made otherwise.

    Attributes:
        node: its name in our quantised model.
        what: what differs, ours first.
        reason: why, as far as it is known.
    """

    node: str
    what: str
    reason: str


class BuiltScores(StrictModel):
    """What was built, scored like the trial.

    Attributes:
        metric: name.
        float_value: of the float model.
        measured: of our quantised model.
        built: of the toolchain's.
        agreement: share of samples on which what was built decides as the float model does; None where the metric has
            no decisions.
        cosine: mean cosine of its outputs to the float model's.
    """

    metric: str
    float_value: float
    measured: float
    built: float
    agreement: float | None = None
    cosine: float | None = None

    def __str__(self) -> str:
        return f"{self.metric} {self.built:.4f} built, {self.measured:.4f} measured, {self.float_value:.4f} float"


class Outputs(StrictModel):
    """Outputs of what was built beside those of what was measured, on our simulator.

    Attributes:
        samples: what it was run on: ``images`` or ``calibration samples``.
        equal: number of samples with all outputs equal bit for bit.
        scores: of both; None where there are no labels.
    """

    samples: Literal["images", "calibration samples"]
    equal: Matched
    scores: BuiltScores | None = None

    def __str__(self) -> str:
        count = f"{self.equal.total:,}" if self.equal.all else str(self.equal)
        return f"outputs of {count} {self.samples} equal"


class Shipped(StrictModel):
    """What was built from a ship folder, beside what was measured.

    Attributes:
        format: version of this structure.
        trial: id of the trial; empty without one.
        key: of the trial.
        toolchain: version of the toolchain; empty where it is not known.
        binary: name of the file for the board, in the folder; empty where it was built elsewhere.
        binary_sha256: of its content.
        integers, thresholds: that are equal; ``thresholds`` None where they were not compared.
        renamed: number of names that differ, which changes no result.
        first: the first node that differs; None where none does.
        outputs: None where nothing was run.
        digest: of the integers that were built.
        checked_at: local time, ISO 8601.
    """

    format: Literal[1] = 1
    trial: str = ""
    key: str = ""
    toolchain: str = ""
    binary: str = ""
    binary_sha256: str = ""
    integers: Matched
    thresholds: Matched | None
    renamed: int
    first: DepartedNode | None
    outputs: Outputs | None = None
    digest: str
    checked_at: str = Field(default_factory=lambda: datetime.now().astimezone().isoformat(timespec="seconds"))

    @property
    def equal(self) -> bool:
        """Whether what was measured is what was built."""
        return self.first is None and (self.outputs is None or self.outputs.equal.all)

    @property
    def counts(self) -> str:
        """What is equal, in words."""
        parts = [f"{self.integers} integers"]
        parts += [] if self.thresholds is None else [f"{self.thresholds} thresholds"]
        text = ", ".join(parts)
        return text if self.outputs is None else f"{text}; {self.outputs}"

    def __str__(self) -> str:
        if self.equal:
            return f"EQUAL: {self.counts}"
        found = [f"DIFFERENT: {self.counts}"]
        if self.first is not None:
            found.append(f"first at {self.first.node}: {self.first.what} (cause: {self.first.reason})")
        if self.outputs is not None and self.outputs.scores is not None:
            found.append(str(self.outputs.scores))
        return "; ".join(found)


def save_shipped(shipped: Shipped, directory: Path) -> None:
    """Keep it in the ship folder."""
    save_json(shipped, directory / VERIFICATION)


def load_shipped(directory: Path) -> Shipped | None:
    """What :func:`save_shipped` kept; None where there is nothing, or nothing that this version can read."""
    try:
        return load_json(Shipped, directory / VERIFICATION)
    except (OSError, ValidationError, ValueError):
        return None


def files_to_keep(directory: Path) -> list[Path]:
    """The files of a ship folder that a record keeps: all but the models that the toolchain wrote on its way."""
    built = directory.glob("*/*")
    wanted = (*_FOR_THE_BOARD, "_quantized_model.onnx")
    return sorted(
        path for path in (*directory.glob("*"), *(p for p in built if p.name.endswith(wanted))) if path.is_file()
    )


class ShippedTrial(StrictModel):
    """A trial of a sweep that was to be shipped.

    Attributes:
        trial: id.
        key: of the trial.
        shipped: what was built; None where nothing was.
        problem: why nothing was built; empty where something was.
        refused: whether that is because the setting cannot be carried over.
        toolchain: version of the toolchain that was asked; empty without one.
        fresh: whether it was asked in this sweep, rather than in an earlier one.
    """

    trial: str
    key: str
    fresh: bool = True
    shipped: Shipped | None = None
    problem: str = ""
    refused: bool = False
    toolchain: str = ""

    def __str__(self) -> str:
        return str(self.shipped) if self.shipped is not None else f"not built: {self.problem}"
