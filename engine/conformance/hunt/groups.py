"""Departures of one signature: how many draws show it, the smallest network that does, and a sentence."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import onnx
from pydantic import BaseModel, ConfigDict, ValidationError

from engine.conformance.hunt.agreement import DrawOutcome
from engine.conformance.hunt.signatures import Signature
from engine.errors import ConfigError
from engine.fingerprint import digest_of
from engine.ir import write_atomically

GROUPS = "groups"
"""Folder of the groups below that of the hunt."""
FILE = "group.json"
MOST_NAMED = 12
"""How many operators of a network a sentence lists."""


class DepartureGroup(BaseModel):
    """One signature.

    Attributes:
        name: of its folder.
        signature: what its departures have in common.
        first: the draw that was recorded.
        operators: of the recorded network, in graph order.
        departure: of the recorded network, as ``conformance check`` prints it.
        march: of the recorded case.
        options: of the recorded case, as YAML has them.
        asked: how often the original was asked to make it smaller.
        shrunk: whether it was made as small as it gets.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    signature: Signature
    first: int
    operators: tuple[str, ...]
    departure: str
    march: str
    options: str
    asked: int = 0
    shrunk: bool = False

    def sentence(self, count: int, total: int) -> str:
        """What a person needs to know of it: how many of ``total`` draws show it, where, and with what network."""
        shown = ", ".join(self.operators[:MOST_NAMED])
        more = f" and {len(self.operators) - MOST_NAMED} more" if len(self.operators) > MOST_NAMED else ""
        kind = "smallest network" if self.shrunk else "a network"
        size = f"{len(self.operators)} node{'s' if len(self.operators) != 1 else ''}"
        return (
            f"{count} of {total} draws depart at {self.signature}; {kind} that does has {size} ({shown}{more}), "
            f"on {self.march} with {self.options}: {self.departure}."
        )


def group_name(signature: Signature) -> str:
    """The folder of a group: its stage, operator, and eight digits that tell it from others."""
    operator = f"_{signature.operator}" if signature.operator else ""
    return f"{signature.stage}{operator}_{digest_of(signature.model_dump())[:8]}"


def keep_group(group: DepartureGroup, case: Path, to: Path) -> DepartureGroup:
    """Put ``group`` and a copy of its recorded case below ``to``, in place of what was there; ``group``."""
    folder = to / GROUPS / group.name
    folder.mkdir(parents=True, exist_ok=True)
    fresh, old, kept = folder / ".fresh", folder / ".old", folder / group.name
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    shutil.copytree(case, fresh)
    if kept.exists():
        kept.rename(old)
    fresh.rename(kept)
    shutil.rmtree(old, ignore_errors=True)
    write_atomically(folder / FILE, group.model_dump_json(indent=1).encode())
    return group


def read_groups(folder: Path) -> dict[Signature, DepartureGroup]:
    """All groups of the hunt in ``folder`` by signature.

    Raises:
        ConfigError: one cannot be read.
    """
    found = {}
    for path in sorted((folder / GROUPS).glob(f"*/{FILE}")):
        try:
            group = DepartureGroup.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, ValidationError) as error:
            raise ConfigError(f"{path}: is no group of a hunt; remove its folder") from error
        found[group.signature] = group
    return found


def counts(outcomes: Iterable[DrawOutcome]) -> Counter[Signature]:
    """How many draws show each signature."""
    return Counter(each for outcome in outcomes for each in outcome.signatures)


def operators_of(model: onnx.ModelProto) -> tuple[str, ...]:
    """The operators of a network in graph order."""
    return tuple(node.op_type for node in model.graph.node)
