"""How often both toolchains agree on networks that nobody chose, with confidence intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict
from scipy.stats import binomtest

from engine.conformance.hunt.signatures import Signature
from engine.conformance.measures import Row, Share

CONFIDENCE = 0.95
LEAST_DRAWS = 1
"""How many draws a line of a table has at least."""


class DrawOutcome(BaseModel):
    """What came of one draw.

    Attributes:
        index: of the draw.
        march, options, blocks: see :class:`~engine.conformance.hunt.draws.Draw`.
        nodes: of the float network.
        row: the measures; None where the original gave no answer.
        failure: why it gave none.
        signatures: in which ways it departs.
    """

    model_config = ConfigDict(frozen=True)

    index: int
    march: str
    options: tuple[str, ...]
    blocks: tuple[str, ...]
    nodes: int
    row: Row | None = None
    failure: str = ""
    signatures: tuple[Signature, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A share of draws, with Wilson's interval.

    Attributes:
        equal: draws that agree.
        total: draws that can be compared.
    """

    equal: int
    total: int

    @property
    def share(self) -> float | None:
        """Share of equal ones among those that can be compared; None where there is none."""
        return self.equal / self.total if self.total else None

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's, of confidence :data:`CONFIDENCE`; 0 to 1 where nothing can be compared."""
        if not self.total:
            return 0.0, 1.0
        found = binomtest(self.equal, self.total).proportion_ci(CONFIDENCE, method="wilson")
        return float(found.low), float(found.high)

    def __str__(self) -> str:
        """As in ``93.4 % (92.1 to 94.5)``."""
        low, high = self.interval
        return "-" if self.share is None else f"{100 * self.share:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


Read = Callable[[Row], bool | None]


def _whole(read: Callable[[Row], Share | None]) -> Read:
    def equal(row: Row) -> bool | None:
        share = read(row)
        return None if share is None or not share.total else share.equal == share.total

    return equal


PER_DRAW: Mapping[str, Read] = MappingProxyType(
    {
        "converts": lambda row: row.converts,
        "outputs": lambda row: row.outputs,
        "operators": lambda row: row.operators,
        "thresholds_all": _whole(lambda row: row.thresholds),
        "devices_all": _whole(lambda row: row.devices),
        "subgraphs": lambda row: row.subgraphs,
        "simulator": lambda row: row.simulator,
    }
)
"""The measures of ``conformance check`` that hold or do not hold for a draw."""
HEADLINE = ("outputs", "operators")
"""What the figure is of: outputs, or operators where no runtime recorded outputs."""


def rows_of(outcomes: Iterable[DrawOutcome]) -> list[Row]:
    """The rows of the draws that the original answered."""
    return [each.row for each in outcomes if each.row is not None]


def figure(rows: Sequence[Row], measure: str) -> Figure:
    """How many of ``rows`` agree in ``measure``."""
    found = [value for row in rows if (value := PER_DRAW[measure](row)) is not None]
    return Figure(sum(found), len(found))


def share_of_things(rows: Sequence[Row], read: Callable[[Row], Share | None]) -> Figure:
    """How many thresholds or nodes of all draws are equal; they are not independent, so it has no interval."""
    found = [value for row in rows if (value := read(row)) is not None]
    return Figure(sum(value.equal for value in found), sum(value.total for value in found))


def headline(rows: Sequence[Row]) -> str:
    """The measure that the figure is of."""
    return next((name for name in HEADLINE if figure(rows, name).total), HEADLINE[0])


def by(
    outcomes: Sequence[DrawOutcome], keys: Callable[[DrawOutcome], Iterable[str]], measure: str
) -> dict[str, Figure]:
    """The figure of every group of draws; a draw with several keys counts in each. The lowest share first."""
    groups: dict[str, list[Row]] = {}
    for each in outcomes:
        if each.row is not None:
            for key in keys(each):
                groups.setdefault(key, []).append(each.row)
    found = {key: figure(rows, measure) for key, rows in groups.items()}
    kept = {key: value for key, value in found.items() if value.total >= LEAST_DRAWS}
    return dict(sorted(kept.items(), key=lambda item: (item[1].share or 0.0, -item[1].total, item[0])))


TABLES: Mapping[str, Callable[[DrawOutcome], Iterable[str]]] = MappingProxyType(
    {
        "march": lambda outcome: (outcome.march,),
        "option": lambda outcome: outcome.options,
        "block": lambda outcome: outcome.blocks,
    }
)
"""What the figure is given by."""
