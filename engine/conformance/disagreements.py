"""The largest disagreements with the original that are known to remain, and where a network has what they rest on."""

from __future__ import annotations

from collections.abc import Iterable, Set
from functools import cache
from importlib import resources

import numpy as np
import onnx_ir as ir
import yaml
from pydantic import BaseModel, ConfigDict

from engine.config import Config, NodeInfo
from engine.conformance.departure import ComparedStage
from engine.convert.unmeasured import activation_rank
from engine.terms import DEFAULT_OPTIMIZE_LEVEL, DataType

MOST_NAMES = 5
"""How many nodes a warning names."""
FILE = "disagreements.yaml"
"""Beside this module; ``docs/evidence/conformance.md`` shows it as a table."""
INT16 = "int16"
"""Setting: the configuration asks for int16 somewhere."""
DEFAULT_SETTINGS = frozenset({f"optimize_level: {DEFAULT_OPTIMIZE_LEVEL.value}"})
"""Settings of a conversion without a configuration."""


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
        rests_on: what a network must have to be concerned; ``None`` for any network.
        settings: what the configuration must say, each as in :func:`settings_of`. Without these and ``rests_on``, it is
            not known what brings the disagreement.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    network: str
    node: str
    stage: ComparedStage
    cause: str
    effect: str
    rests_on: Construct | None = None
    settings: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """As in ``Conv on bayes; optimize_level: O1``; empty where nothing is known."""
        return "; ".join(filter(None, ("" if self.rests_on is None else str(self.rests_on), ", ".join(self.settings))))

    def nodes_of(self, network: ir.Model, march: str, settings: Set[str]) -> tuple[str, ...] | None:
        """Names of the nodes that it concerns (none where it rests on settings alone); ``None``: not this network."""
        if not self.where or not set(self.settings) <= settings:
            return None
        if self.rests_on is None:
            return ()
        return tuple(str(node.name) for node in network.graph if self.rests_on.fits(node, march)) or None


@cache
def known() -> tuple[Disagreement, ...]:
    """All of them, the largest first."""
    content = yaml.safe_load((resources.files("engine.conformance") / FILE).read_text("utf-8"))
    return tuple(Disagreement.model_validate(item) for item in content)


def settings_of(config: Config) -> frozenset[str]:
    """What disagreements may rest on, as in ``per_channel: true``, ``optimization: bias_correction`` and ``int16``."""
    model, calibration = config.model_parameters, config.calibration_parameters
    found = {
        f"calibration_type: {calibration.calibration_type.value}",
        f"per_channel: {str(calibration.per_channel).lower()}",
        f"optimize_level: {config.compiler_parameters.optimize_level.value}",
        *(f"optimization: {option}" for option in calibration.optimization),
    }
    int16 = DataType.INT16 in model.set_node_data_type.values() or asks_int16(model.node_info.values())
    if int16 or any(option.endswith(INT16) for option in calibration.optimization):
        found.add(INT16)
    return frozenset(found)


def asks_int16(requests: Iterable[NodeInfo]) -> bool:
    """Whether one of ``requests`` is for int16."""
    return any(info.uses_int16 for info in requests)


def warnings_for(network: ir.Model, march: str, settings: Set[str] = DEFAULT_SETTINGS) -> tuple[str, ...]:
    """The disagreements that concern ``network``, in words.

    Args:
        network: the float network before the optimiser.
        march: BPU architecture.
        settings: of the conversion; see :func:`settings_of`.
    """
    found = []
    for item in known():
        names = item.nodes_of(network, march, settings)
        if names is not None:
            more = " …" if len(names) > MOST_NAMES else ""
            nodes = (
                f"{', '.join(names[:MOST_NAMES])}{more} ({item.where})" if names else f"any network with {item.where}"
            )
            stage = f"may depart from the original at the stage {item.stage.value}, as in {item.network}"
            found.append(f"{nodes}: {stage}: {item.cause}; {item.effect}")
    return tuple(found)


def _largest(node: ir.Node, name: str) -> float:
    attribute = node.attributes.get(name)
    return float("-inf") if attribute is None else float(np.max(np.asarray(attribute.value, np.float64)))
