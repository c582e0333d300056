"""The largest disagreements with the original that are known to remain, and where a network has what they rest on."""

from __future__ import annotations

from functools import cache
from importlib import resources

import numpy as np
import onnx_ir as ir
import yaml
from pydantic import BaseModel, ConfigDict

from engine.conformance.departure import ComparedStage
from engine.convert.unmeasured import activation_rank

MOST_NAMES = 5
"""How many nodes a warning names."""
FILE = "disagreements.yaml"
"""Beside this module; ``docs/evidence/conformance.md`` shows it as a table."""


class Construct(BaseModel):
    """What a network must have for a disagreement to concern it: a node of the float network before the optimiser.

    Attributes:
        operator: of the node.
        ranks: of the largest activation that it reads; empty for any.
        marches: BPU architectures; empty for all.
        at_least: lowest value of the largest number of an attribute.
        reads: operators that must be among those whose results it reads.
        read_by: operators that must be among those that read its results.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    operator: str
    ranks: tuple[int, ...] = ()
    marches: tuple[str, ...] = ()
    at_least: dict[str, float] = {}
    reads: tuple[str, ...] = ()
    read_by: tuple[str, ...] = ()

    def fits(self, node: ir.Node, march: str) -> bool:
        """Whether ``node`` is such a node."""
        producers = {value.producer() for value in node.inputs if value is not None}
        readers = {user for value in node.outputs for user in value.consumers()}
        return (
            node.op_type == self.operator
            and (not self.marches or march in self.marches)
            and (not self.ranks or activation_rank(node) in self.ranks)
            and all(_largest(node, name) >= least for name, least in self.at_least.items())
            and set(self.reads) <= {other.op_type for other in producers if other is not None}
            and set(self.read_by) <= {other.op_type for other in readers}
        )

    def __str__(self) -> str:
        """As in ``Conv with dilations of 2 or more on bayes``."""
        parts = [
            self.operator,
            f"on rank {' or '.join(map(str, self.ranks))}" if self.ranks else "",
            *(f"with {name} of {least:g} or more" for name, least in self.at_least.items()),
            f"that reads {' and '.join(self.reads)}" if self.reads else "",
            f"that {' and '.join(self.read_by)} reads" if self.read_by else "",
            f"on {', '.join(self.marches)}" if self.marches else "",
        ]
        return " ".join(filter(None, parts))


class Disagreement(BaseModel):
    """One known disagreement.

    Attributes:
        network: recorded case that shows it.
        node: where it departs first.
        stage: of the conversion where it departs.
        cause: why, or ``unknown``; what is known of it.
        effect: what it costs, measured.
        rests_on: what a network must have to be concerned; ``None`` where that is an option.
        option: what the configuration must say; empty for any.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    network: str
    node: str
    stage: ComparedStage
    cause: str
    effect: str
    rests_on: Construct | None = None
    option: str = ""


@cache
def known() -> tuple[Disagreement, ...]:
    """All of them, the largest first."""
    content = yaml.safe_load((resources.files("engine.conformance") / FILE).read_text("utf-8"))
    return tuple(Disagreement.model_validate(item) for item in content)


def concerned(network: ir.Model, march: str) -> tuple[tuple[Disagreement, tuple[str, ...]], ...]:
    """The disagreements that concern ``network``, each with the names of its nodes that fit.

    Args:
        network: the float network before the optimiser.
        march: BPU architecture.
    """
    found = []
    for item in known():
        if item.rests_on is None:
            continue
        fits = item.rests_on.fits
        names = tuple(str(node.name) for node in network.graph if fits(node, march))
        if names:
            found.append((item, names))
    return tuple(found)


def warnings_for(network: ir.Model, march: str) -> tuple[str, ...]:
    """What :func:`concerned` finds, in words."""
    return tuple(
        f"{', '.join(names[:MOST_NAMES])}{' …' if len(names) > MOST_NAMES else ''} ({item.rests_on}): may depart from "
        f"the original at the stage {item.stage.value}, as in {item.network}: {item.cause}; {item.effect}"
        for item, names in concerned(network, march)
    )


def as_markdown() -> str:
    """The table of the documentation."""
    lines = ["| | network | node | stage | cause | effect | explain warns at |", "|---|---|---|---|---|---|---|"]
    for index, item in enumerate(known(), 1):
        cells = (str(index), item.network, f"`{item.node}`", item.stage.value, item.cause, item.effect)
        lines.append(f"| {' | '.join((*cells, str(item.rests_on or f'`{item.option}`, which it does not see')))} |")
    return "\n".join(lines)


def _largest(node: ir.Node, name: str) -> float:
    attribute = node.attributes.get(name)
    return float("-inf") if attribute is None else float(np.max(np.asarray(attribute.value, np.float64)))
