"""A node whose device is looked for, where it may run, and what several tables of rules ask about it."""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum
from string import Formatter

import onnx_ir as ir

from engine.chips import Chip
from engine.facts.devices import on_bpu
from engine.graph import float_readers, sole_reader
from engine.ir import (
    before_calibration,
)
from engine.ops.core.base import FloatRule
from engine.ops.core.float_nodes import given
from engine.ops.core.reasons import SENTENCES, Code, Reason, because
from engine.ops.foreign.composite import PREPROCESS
from engine.ops.registry import rule_for
from engine.rulebook.patterns import of_node
from engine.rulebook.rule import Pattern


class On(Enum):
    """Where a node runs."""

    BPU = "the BPU"
    LATE = "the CPU, and its inputs are quantised all the same"
    FLOATS = "the CPU, found when floats are quantised: scales are as if it were on the BPU"
    CPU = "the CPU"
    UNCHANGED = "where it is"


@dataclass(frozen=True)
class DeviceSite:
    """A node, and what the rules may know of the network around it.

    Attributes:
        node: the node.
        chip: its BPU.
        on_bpu: names of the nodes that are asked for on the BPU.
        on_cpu: names of the nodes that are asked for on the CPU.
        typed: whether a type is asked of all outputs of the network.
        typed_nodes: names of the nodes of which a type is asked.
        wide_results: names of the nodes whose results are asked for in int16.
        heads: the first node of the chain that gives a tensor.
    """

    node: ir.Node
    chip: Chip
    on_bpu: Set[str] = frozenset()
    on_cpu: Set[str] = frozenset()
    typed: bool = False
    typed_nodes: Set[str] = frozenset()
    wide_results: Set[str] = frozenset()
    heads: Mapping[ir.Value, ir.Node] = field(default_factory=dict)

    @property
    def operator(self) -> FloatRule | None:
        """How the operator runs on the BPU."""
        return rule_for(self.node)

    @property
    def asked(self) -> bool:
        """Whether the node is asked for on the BPU."""
        return str(self.node.name) in self.on_bpu

    @property
    def whole(self) -> ir.Node | None:
        """The node of which this one would be a part."""
        value = self.node.inputs[0] if self.node.inputs else None
        return None if value is None else value.producer()


@dataclass(frozen=True)
class Place:
    """Where a node runs, and why where that is the CPU.

    Attributes:
        on: where.
        code: why.
        stated: gives the reason, where the operator states it.
    """

    on: On
    code: Code | None = None
    stated: Callable[[DeviceSite], Reason | None] | None = None

    def reason(self, site: DeviceSite) -> Reason | None:
        """The reason that ``site`` carries; None for the BPU."""
        if self.stated is not None:
            return self.stated(site)
        if self.code is None:
            return None
        known = {"march": site.chip.name, "op_type": site.node.op_type}
        if site.whole is not None:
            known["node"] = str(site.whole.name)
        fields = [name for _, name, _, _ in Formatter().parse(SENTENCES[self.code]) if name]
        return because(self.code, **{name: known[name] for name in fields})


def to_cpu(code: Code) -> Place:
    """The CPU, for the reason ``code``."""
    return Place(On.CPU, code)


def leaves_late(code: Code) -> Place:
    """The CPU, for a node whose inputs are quantised all the same."""
    return Place(On.LATE, code)


def of_site(says: str, holds: Callable[[DeviceSite], bool]) -> Pattern[DeviceSite]:
    """A pattern of a node and of what is around it."""
    return Pattern(says, holds)


def readers_of(node: ir.Node) -> list[ir.Node]:
    """The nodes that read a result of ``node``, calibrated or not."""
    return [reader for value in node.outputs for reader in float_readers(value)]


def reorders(node: ir.Node) -> bool:
    """Whether ``node`` moves values on the BPU one by one."""
    return on_bpu(node) and node.op_type in ("Reshape", "Transpose", "Slice")


def reads_cpu_result(site: DeviceSite) -> bool:
    """Whether the CPU computes what is read, which is no image."""
    head = before_calibration(given(site.node, 0)).producer()
    return head is not None and not on_bpu(head) and head.op_type != PREPROCESS


def is_of_division(site: DeviceSite) -> bool:
    """Whether ``site`` is a Reciprocal that a product on the CPU alone reads."""
    reader = None if site.node.op_type != "Reciprocal" or site.asked else sole_reader(site.node.outputs[0])
    return reader is not None and reader.op_type == "Mul" and not on_bpu(reader)


NOT_ASKED = ~of_site("is asked for", lambda site: site.asked)
NOT_READ_BY_BPU = of_node("is read by no BPU node", lambda node: not any(map(on_bpu, readers_of(node))))
