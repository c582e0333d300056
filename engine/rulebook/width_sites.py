"""What several tables of types ask about nodes, chains and tensors, and the types that they decide."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import onnx_ir as ir

from engine.facts.devices import asked_late, is_quantised, on_bpu, refused_late
from engine.facts.moves import keeps_scale
from engine.graph import float_readers
from engine.ops.core.base import FloatRule, Tie
from engine.ops.registry import rule_for

RESIZES = ("Resize", "Upsample")

CONVOLUTIONS = ("Conv", "ConvTranspose")
REQUANTISED = ("Conv", "ConvTranspose", "Add", "Sub", "Mul", "MatMul", "GlobalAveragePool", "Concat")
"""Operators of whose results a Resize that left the BPU late has the type of its own result.

What a Resize on the BPU gives of these alone is requantised to int16 for who asks; behind functions both stay int8, be
it asked of the convolution behind, of all of them or of all nodes (36 of 36 branches of 12 functions on bayes-e).
"""
RESCALED = (
    *REQUANTISED,
    *("Elu", "Erf", "Exp", "HzGelu", "HzHardSwish", "HzMish", "HzSwish", "LeakyRelu", "Log", "Pow", "Sin", "Sqrt"),
)
"""Operators of whose results a Resize has the type of its own result (30 producers asked).

Not MaxPool, Abs and the functions whose threshold always follows from that of the input (Sigmoid, Tanh).
"""


class Width(Enum):
    """The type of a tensor."""

    INT16 = "is int16"
    IF_READ = "is int16, unless an operator without int16 reads it"
    ALIKE = "is int16, and so is what Clips that share a constant limit give"
    INT8 = "is int8"
    LEFT = "is left as it is, int8 or int32"


@dataclass(frozen=True)
class Chained:
    """Nodes that become one quantised node.

    Attributes:
        chain: the nodes.
        index: of the node that is looked at.
        types: of the tensors that are not int8 by default.
        output_type: what is asked of all outputs of the network.
        heads: the first node of the chain that gives a tensor.
        asked_int8: tensors of which int8 is asked, and those that must have their type.
        asked_on_bpu: names of nodes that are asked for on the BPU and of whose results no type is asked.
        follows_int16: whether the result is joined with an int16 one at the end that the graph has before it.
    """

    chain: Sequence[ir.Node]
    index: int = -1
    types: Mapping[ir.Value, str] = field(default_factory=dict)
    output_type: str | None = None
    heads: Mapping[ir.Value, ir.Node] = field(default_factory=dict)
    asked_int8: Collection[ir.Value] = ()
    asked_on_bpu: Collection[str] = ()
    follows_int16: bool = False

    @property
    def node(self) -> ir.Node:
        """The node that is looked at."""
        return self.chain[self.index]

    @property
    def head(self) -> FloatRule | None:
        """The operator of the BPU that the first node is."""
        return rule_for(self.chain[0])

    @property
    def result(self) -> ir.Value:
        """What the chain gives."""
        return self.chain[-1].outputs[0]


def is_table(node: ir.Node) -> bool:
    """Whether a table computes ``node``: it reads int16 where its result is int16."""
    rule = rule_for(node)
    return rule is not None and rule.wide_results_of_wide_inputs


def is_read_by_floats(chain: Sequence[ir.Node]) -> bool:
    """Whether the BPU computes ``chain`` and nothing that is quantised reads its results."""
    given = None not in (rule_for(chain[0]), rule_for(chain[-1]))
    return given and not any(
        is_quantised(reader) and not ends_on_request(reader) for reader in readers_of_result(chain)
    )


def ends_on_request(node: ir.Node) -> bool:
    """Whether ``node`` reads quantised values on the CPU, for which it is asked, and nothing quantised reads it."""
    return asked_late(node) and refused_late(node) and not any(map(is_quantised, float_readers(node.outputs[0])))


def is_accumulator_at_end(chain: Sequence[ir.Node]) -> bool:
    """Whether ``chain`` gives sums in int32 that nothing quantised reads."""
    head = rule_for(chain[0])
    return head is not None and head.int32_output and is_read_by_floats(chain)


def readers_of_result(chain: Sequence[ir.Node]) -> list[ir.Node]:
    """What reads the results of ``chain`` in the float graph."""
    return [reader for value in chain[-1].outputs for reader in float_readers(value)]


def moves_on_bpu(node: ir.Node) -> bool:
    """Whether ``node`` moves values on the BPU, or chooses among them."""
    return on_bpu(node) and keeps_scale(node)


def moves_all_on_bpu(node: ir.Node) -> bool:
    """Whether ``node`` moves all values on the BPU: it does not choose among them, as a maximum does."""
    rule = rule_for(node)
    return moves_on_bpu(node) and rule is not None and rule.moves_sums


def on_bpu_or_resized_late(node: ir.Node) -> bool:
    """Whether ``node`` runs on the BPU or is a Resize that left it late."""
    return on_bpu(node) or (node.op_type in RESIZES and is_quantised(node))


def is_moved_in_int8(value: ir.Value) -> bool:
    """Whether an operator of the BPU that has no int16 moves ``value``, or a Resize that left it late."""
    producer = value.producer()
    rule = None if producer is None or not on_bpu_or_resized_late(producer) else rule_for(producer)
    return producer is not None and rule is not None and not rule.int16_outputs and rule.tie(producer) is not Tie.NONE


def joins_operands(node: ir.Node) -> bool:
    """Whether ``node`` puts its operands beside one another, as a Concat does."""
    rule = rule_for(node)
    return rule is not None and rule.tie(node) is Tie.OPERANDS_TAKE_OUTPUT


def rescaled_for(node: ir.Node, heads: Mapping[ir.Value, ir.Node], by: Collection[str] | None = None) -> bool:
    """Whether ``node`` alone reads what an operator of ``by`` gives, moved or not.

    What rescales is meant where nothing is said: on the BPU functions too, as a Resize has the type of its result then.
    """
    value = node.inputs[0] if node.inputs else None
    while value is not None and len(set(float_readers(value))) == 1 and not value.is_graph_output():
        producer = value.producer()
        if producer is None or len(producer.outputs) != 1:
            return False
        if not moves_on_bpu(producer) and not (on_bpu(producer) and producer.op_type in RESIZES):
            kinds = by or (RESCALED if on_bpu(node) else REQUANTISED)
            return heads.get(value, producer).op_type in kinds
        value = producer.inputs[0]
    return False
