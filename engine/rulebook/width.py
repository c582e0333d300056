"""Which tensors are int16: what is asked, what is so at the ends, and what stands against it.

Tensors that must have one type are groups; :mod:`engine.place.widths` applies the tables to them. Source:
reference/operators.md, int16 and Partition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

import onnx_ir as ir

from engine.facts.chains import joins
from engine.facts.devices import is_quantised, joins_on_request, on_bpu
from engine.facts.moves import (
    ends_behind,
    is_computed_with,
    is_exact_sum,
    is_passive,
    joined_with,
    keeps_scale,
    moved_from,
    moved_to,
    reaches_output,
)
from engine.graph import float_readers
from engine.ops.core.base import FloatRule, Tie
from engine.ops.registry import rule_for
from engine.rulebook.calibrated import INT8, INT16, REDUCTIONS
from engine.rulebook.rule import BAYES, Pattern, Rule, Table

RESIZES = ("Resize", "Upsample")


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


Told = Callable[[Chained], ir.Value]
"""Picks the tensor of a chain that a type is asked for."""


def _of_activation(site: Chained) -> ir.Value:
    """The result of the activation."""
    return site.chain[site.index + 1].outputs[0]


def _of_result(site: Chained) -> ir.Value:
    """The result of the chain."""
    return site.result


def _reads_int16(site: Chained) -> bool:
    head = site.head
    read = () if head is None else (site.chain[0].inputs[index] for index in head.activations(site.chain[0]))
    return any(value is not None and site.types.get(value) == INT16 for value in read)


def _sums_int16_from_outside(site: Chained) -> bool:
    inside = {value for node in site.chain for value in node.outputs}
    return any(
        value is not None and value not in inside and site.types.get(value) == INT16 for value in site.node.inputs
    )


READS_INT16 = Pattern[Chained]("is part of a convolution that reads int16", _reads_int16) | Pattern(
    "reads int16 besides the convolution", _sums_int16_from_outside
)

OF_HEADS: Table[Chained, Told] = Table(
    "width",
    [
        Rule(
            "width.of-activation",
            "A type that is asked of the result of a convolution or sum, or of what an activation reads that is one "
            "with it, is asked of what the activation gives.",
            Pattern(
                "is followed by an activation that becomes one with it",
                lambda site: not joins(site.chain[site.index + 1]),
            ),
            _of_activation,
        ),
    ],
)
"""Picks the tensor whose type is meant where one is asked of a tensor within a chain."""

OF_SUMS: Table[Chained, Told] = Table(
    "width",
    [
        Rule(
            "width.inside-sum",
            "What is asked of a convolution in front of its sum is asked of the sum, unless what was asked before, "
            "node by node and operand by operand, has the sum computed apart.",
            ~READS_INT16,
            _of_result,
            BAYES,
        ),
    ],
)
"""Picks the tensor whose type is meant where int16 is asked of a convolution in front of its sum."""

SUMS: Table[Chained, str] = Table(
    "width",
    [
        Rule(
            "width.sum-apart",
            "A sum that reads int16, or whose convolution does, is computed apart; an int16 result does not matter.",
            Pattern[Chained]("is a sum", lambda site: joins(site.node)) & READS_INT16,
            "is computed apart from the convolution",
            BAYES,
        ),
    ],
)
"""Asked of residual blocks with ``InputType`` of the convolution, the sum, both, and the convolution behind (18
conversions, ``tests/parity/wide_sums.py``)."""


@dataclass(frozen=True)
class Asked:
    """A side of a node on which a tensor is, and whether int16 is asked of it.

    Attributes:
        value: the tensor.
        node: what gives or reads it.
        side: ``output``, or ``input`` and the index.
        requests: of int16 for the tensor: names of nodes and how it is asked.
        alone: whether no other node reads the tensor, moved or not.
        rescales: whether what the node reads is read by it alone, and given by what rescales, moved or not.
    """

    value: ir.Value
    node: ir.Node
    side: str
    requests: Collection[tuple[str, str]]
    alone: bool = True
    rescales: bool = True

    @property
    def gives(self) -> bool:
        """Whether the node gives the tensor."""
        return self.side == "output"

    @property
    def request(self) -> tuple[str, str]:
        """How the node is asked for int16 on this side."""
        how = "OutputType" if self.gives else f"InputType{self.side.removeprefix('input')}"
        return str(self.node.name), f"{how}: {INT16}"

    @property
    def own(self) -> tuple[tuple[str, str], ...]:
        """The requests that mean the node on this side."""
        whole = ((str(self.node.name), f"set_model_output_{INT16}"),) if self.gives else ()
        return (self.request, *whole)

    @property
    def lacks_int16(self) -> bool:
        """Whether the operator of the BPU has no int16 on this side."""
        rule = rule_for(self.node)
        return rule is not None and not (rule.int16_outputs if self.gives else rule.int16_inputs)

    @property
    def requantises(self) -> bool:
        """Whether the tensor may be int16 on this side for others: it is requantised."""
        rule = rule_for(self.node)
        if rule is None:
            return False
        if self.gives:
            return rule.requantized_to_int16 and (self.rescales or not rule.requantized_from_int16)
        return not rule.int16_outputs and (not self.alone or (rule.requantized_from_int16 and not self.rescales))

    @property
    def asks(self) -> bool:
        """Whether int16 is asked of the node on this side."""
        return any(asked in self.requests for asked in self.own)


def neighbours_of(
    value: ir.Value, requests: Collection[tuple[str, str]], heads: Mapping[ir.Value, ir.Node] | None = None
) -> list[Asked]:
    """The readers of ``value``, through what reshapes and transposes it, then what gives it.

    ``heads``: the first node of the chain that gives a tensor.
    """
    producer = value.producer()
    turned = [value] if producer is None or _moves(producer) else moved_to(value, _turns)
    uses = [(usage.node, usage.idx) for each in turned for usage in each.uses() if not _turns(usage.node)]
    if len(turned) == 1:
        uses = [(usage.node, usage.idx) for usage in value.uses()]
    alone = len({node for node, _ in uses}) == 1
    found = [
        Asked(value, node, f"input{index}", requests, alone, rescaled_for(node, heads or {})) for node, index in uses
    ]
    if producer is not None:
        rescales = rescaled_for(producer, heads or {}, REQUANTISED)
        found.append(Asked(value, producer, "output", requests, alone, rescales))
    return found


def _counts(node: ir.Node) -> bool:
    """Whether ``node`` runs on the BPU or is a Resize that left it late."""
    return on_bpu(node) or (node.op_type in RESIZES and is_quantised(node))


def _is_held(site: Asked) -> bool:
    return _counts(site.node) if site.gives else on_bpu(site.node)


def _turns(node: ir.Node) -> bool:
    return on_bpu(node) and node.op_type in ("Reshape", "Transpose")


def rescaled_for(node: ir.Node, heads: Mapping[ir.Value, ir.Node], by: Collection[str] | None = None) -> bool:
    """Whether ``node`` alone reads what an operator of ``by`` gives, moved or not.

    What rescales is meant where nothing is said: on the BPU functions too, as a Resize has the type of its result then.
    """
    value = node.inputs[0] if node.inputs else None
    while value is not None and len(set(float_readers(value))) == 1 and not value.is_graph_output():
        producer = value.producer()
        if producer is None or len(producer.outputs) != 1:
            return False
        if not _moves(producer) and not (on_bpu(producer) and producer.op_type in RESIZES):
            kinds = by or (RESCALED if on_bpu(node) else REQUANTISED)
            return heads.get(value, producer).op_type in kinds
        value = producer.inputs[0]
    return False


def _is_int32_for_cpu(site: Chained) -> bool:
    readers = float_readers(site.result)
    stays = site.head is not None and site.head.stays_int32(site.chain[0]) and site.chain[-1].op_type != "Clip"
    return stays and bool(readers) and not any(map(is_quantised, readers))


def _is_convolution_in_int8(site: Chained) -> bool:
    is_alone = len(site.chain) == 1 and site.head is not None and site.head.stays_int32(site.chain[0])
    return is_alone and site.output_type == INT8 and site.result.is_graph_output()


CPU_ALONE: Table[Chained, str] = Table(
    "width",
    [
        Rule(
            "width.cpu-alone",
            "The result of a convolution that the CPU alone computes with stays in int32, whatever is asked of it; one "
            "behind which nothing is quantised is int16.",
            Pattern("stays in int32, and is read by CPU nodes alone", _is_int32_for_cpu)
            & ~Pattern[Chained]("ends there", lambda site: ends_behind(float_readers(site.result))),
            "only CPU nodes read its result, which stays int32",
            BAYES,
        ),
        Rule(
            "width.convolution-at-end-int8",
            "With set_model_output_int8 the result of a convolution alone that is an output is int8, whatever is asked "
            "of it; those of activations, sums and products are as asked.",
            Pattern("is a convolution alone that gives an output, and int8 is asked of all", _is_convolution_in_int8),
            "set_model_output_int8 asks for int8",
            BAYES,
            over=("width.cpu-alone",),
        ),
    ],
)
"""Requests for results that are refused at once, and why."""


def lacking(site: Asked) -> str:
    """Why int16 is refused on a side."""
    where = f"The {site.side} of Node(name:{site.node.name}, type:{site.node.op_type})"
    return f"{where} does not support data type: {INT16}, it will be set back to {INT8}"


REQUESTS: Table[Asked, Width] = Table(
    "width",
    [
        Rule(
            "width.for-others-alone",
            "What asks for int16 on a side on which its operator has none is refused it; others may have it.",
            Pattern[Asked]("is asked for int16", lambda site: site.asks)
            & Pattern[Asked]("has no int16 there", lambda site: site.lacks_int16)
            & Pattern("is so on the BPU", lambda site: on_bpu(site.node)),
            Width.INT8,
            BAYES,
        ),
    ],
)
"""Requests that are refused while others for the same tensor stay (ConvTransposes between convolutions and before a
Concat, asked alone and with their neighbours: six conversions)."""


def is_read_by_floats(chain: Sequence[ir.Node]) -> bool:
    """Whether the BPU computes ``chain`` and nothing that is quantised reads its results."""
    given = None not in (rule_for(chain[0]), rule_for(chain[-1]))
    return given and not any(is_quantised(reader) and not ends_on_request(reader) for reader in _readers(chain))


def ends_on_request(node: ir.Node) -> bool:
    """Whether ``node`` is a Concat that is asked for on the CPU and whose result nothing quantised reads."""
    return joins_on_request(node) and not any(map(is_quantised, float_readers(node.outputs[0])))


def is_accumulator_at_end(chain: Sequence[ir.Node]) -> bool:
    """Whether ``chain`` gives sums in int32 that nothing quantised reads."""
    head = rule_for(chain[0])
    return head is not None and head.int32_output and is_read_by_floats(chain)


def _readers(chain: Sequence[ir.Node]) -> list[ir.Node]:
    return [reader for value in chain[-1].outputs for reader in float_readers(value)]


def _moves(node: ir.Node) -> bool:
    """Whether ``node`` moves values on the BPU, or chooses among them."""
    return on_bpu(node) and keeps_scale(node)


def _moves_all(node: ir.Node) -> bool:
    """Whether ``node`` moves all values on the BPU: it does not choose among them, as a maximum does."""
    rule = rule_for(node)
    return _moves(node) and rule is not None and rule.moves_sums


def _is_moved_from_other(site: Chained) -> bool:
    """Whether the last node moves what the BPU computes with as well, or what it does not give."""
    if not keeps_scale(site.chain[-1]):
        return False
    source = moved_from(site.result, _moves)
    producer = source.producer()
    return producer is None or not on_bpu(producer) or _is_computed_with(source)


def _is_computed_with(value: ir.Value) -> bool:
    """Whether a quantised node reads ``value``, or what it is moved to, that does more than move it."""
    return is_computed_with(value, _has_operator, lambda node: is_passive(node) or keeps_scale(node))


def _has_operator(node: ir.Node) -> bool:
    return is_quantised(node) and rule_for(node) is not None


def _is_moved_sum(site: Chained) -> bool:
    head = site.heads.get(moved_from(site.result, _moves_all))
    before = None if head is None else rule_for(head)
    return is_exact_sum(site.result) or (before is not None and before.int32_output)


def _is_asked_int8(site: Chained) -> bool:
    return any(value in site.asked_int8 for node in site.chain for value in (*node.inputs, *node.outputs))


def _is_asked_on_bpu(site: Chained) -> bool:
    giver = moved_from(site.result, _moves).producer()
    return any(str(node.name) in site.asked_on_bpu for node in (*site.chain, *(() if giver is None else (giver,))))


def is_table(node: ir.Node) -> bool:
    """Whether a table computes ``node``: it reads int16 where its result is int16."""
    rule = rule_for(node)
    return rule is not None and rule.wide_results_of_wide_inputs


def _is_of_table(site: Chained) -> bool:
    giver = moved_from(site.result, _moves).producer()
    return giver is not None and is_table(giver)


def _is_joined_on_request(site: Chained) -> bool:
    return any(map(ends_on_request, float_readers(site.result))) and _gives_int16(site)


def _gives_int16(site: Chained) -> bool:
    rule = rule_for(site.chain[-1])
    return rule is not None and rule.int16_outputs and not _is_summed_by_transposed(site)


def _is_summed_by_transposed(site: Chained) -> bool:
    """Whether the result is a sum that a ConvTranspose computes, moved or not: int8 (9 of 9 asked on bayes-e)."""
    value = moved_from(site.result, _moves_all)
    head, last = site.heads.get(value), value.producer()
    if head is None or head.op_type != "ConvTranspose" or last is None:
        return False
    source = last.inputs[0]
    before = source.producer() if last.op_type in ("Relu", "Clip") and source is not None else last
    return before is not None and before.op_type == "Add"


def _follows_int16(site: Chained) -> bool:
    head = site.heads.get(moved_from(site.result, _moves_all), site.chain[0])
    added = any(node.op_type == "Add" for node in site.chain) or head.op_type == "Add"
    return site.follows_int16 and _gives_int16(site) and not added and not is_exact_sum(site.result)


ASKED_ON_BPU = "width.asked-on-bpu"
"""The rule of results at the end that are asked for on the BPU."""
OUTPUTS_IN_INT16 = Pattern[Chained]("is asked for int16 as all outputs are", lambda site: site.output_type == INT16)

TAILS: Table[Chained, Width] = Table(
    "width",
    [
        Rule(
            "width.outputs-int8",
            "The option set_model_output_int8 leaves no result in int16.",
            Pattern("is asked for int8 as all outputs are", lambda site: site.output_type == INT8),
            Width.LEFT,
            BAYES,
            over=("width.end-in-int8",),
        ),
        Rule(
            "width.end-in-int8",
            "A result at the end that would be int16 is int8 where int8 is asked of it, or of what it is computed of.",
            Pattern("is asked for int8, or computed of what is", _is_asked_int8),
            Width.LEFT,
            BAYES,
            over=("width.asked-on-bpu",),
        ),
        Rule(
            ASKED_ON_BPU,
            "What gives a result at the end, moved or not, and is asked for on the BPU without a type gives int8, also "
            "where it could stay an int32 sum of one scale.",
            Pattern("is asked for on the BPU, and no type of its result", _is_asked_on_bpu),
            Width.LEFT,
            BAYES,
            over=("width.table-within",),
        ),
        Rule(
            "width.table-within",
            "The result of a table, moved or not, is int16 only at the end: not where the BPU computes behind the CPU "
            "again, wherever it goes.",
            Pattern[Chained]("is given by a table, moved or not", _is_of_table)
            & Pattern("reaches no output but by the BPU", lambda site: not reaches_output(site.result)),
            Width.LEFT,
            BAYES,
            over=("width.moved-from-other",),
        ),
        Rule(
            "width.moved-from-other",
            "What is moved to the end from a tensor that the BPU computes with as well, or does not give, has the type "
            "of that.",
            Pattern("is moved from what the BPU computes with too, or does not give", _is_moved_from_other),
            Width.LEFT,
            BAYES,
            over=("width.clip",),
        ),
        Rule(
            "width.clip",
            "A Clip at the end is int16, and so is what Clips that share a constant limit with it give.",
            Pattern("ends in a Clip", lambda site: site.chain[-1].op_type == "Clip"),
            Width.ALIKE,
            BAYES,
            over=("width.accumulator",),
        ),
        Rule(
            "width.joined-on-request",
            "What a Concat joins at the end that is asked for on the CPU is int16, also the result of a convolution.",
            Pattern("is joined at the end where the CPU is asked for", _is_joined_on_request),
            Width.INT16,
            BAYES,
            over=("width.joined-behind",),
        ),
        Rule(
            "width.joined-behind",
            "The result of a convolution or product at the end is int16 where it is joined, on either device, with an "
            "int16 result that comes before it in the graph; a sum that a convolution computes is not.",
            Pattern("is joined with an int16 result before it", _follows_int16),
            Width.INT16,
            BAYES,
            over=("width.accumulator", "width.moved-accumulator"),
        ),
        Rule(
            "width.accumulator",
            "The result of a convolution or product at the end is no int16, as it can stay in int32, unless int16 is "
            "asked of all outputs and nothing that follows is quantised.",
            Pattern[Chained]("is computed in int32", lambda site: site.head is not None and site.head.int32_output)
            & ~(OUTPUTS_IN_INT16 & Pattern("ends there", lambda site: ends_behind(_readers(site.chain)))),
            Width.LEFT,
            BAYES,
            over=("width.moved-accumulator",),
        ),
        Rule(
            "width.moved-accumulator",
            "What is only moved at the end from a convolution or an int32 sum is no int16, unless int16 is asked of "
            "all outputs.",
            Pattern[Chained]("is an int32 sum, or only moved from a convolution", _is_moved_sum) & ~OUTPUTS_IN_INT16,
            Width.LEFT,
            BAYES,
            over=("width.result",),
        ),
        Rule(
            "width.result",
            "A result of the BPU that only the CPU reads is int16.",
            Pattern("is given by an operator that has int16", _gives_int16),
            Width.INT16,
            BAYES,
        ),
    ],
)
"""Results that nothing quantised reads (operators.csv: Sigmoid, Mul and Div of two and three dimensions; one part of
the uneven Split there is an output; the Gather of one channel, but not ReduceMax)."""


@dataclass(frozen=True)
class TableNode:
    """An element-wise function that a table computes.

    Attributes:
        is_wide: whether its result shall be int16.
        reads_int8: whether int8 is asked of what it reads.
    """

    is_wide: bool
    reads_int8: bool


TABLE_INPUTS: Table[TableNode, Width] = Table(
    "width",
    [
        Rule(
            "width.table-input",
            "What a table whose result is int16 reads is int16. Where it cannot be, or int8 is asked of it, the table "
            "reads its requantised form.",
            Pattern[TableNode]("is read by a table whose result is int16", lambda site: site.is_wide)
            & ~Pattern("is asked for int8", lambda site: site.reads_int8),
            Width.INT16,
            BAYES,
        ),
    ],
)
"""What tables read. Not the other way round: with an int16 input that a convolution was asked for, 19 tables of
``yolov8_nhwc``, ``mobilenet_v3`` and ``activations_a`` have an int8 result."""

SIDES: Table[Asked, Width] = Table(
    "width",
    [
        Rule(
            "width.requantised-result",
            "What a ConvTranspose gives is requantised to int16 where others ask for it; so is what a Resize does that "
            "alone reads the result of a convolution, sum or product, moved or not.",
            Pattern[Asked]("is given by what requantises it", lambda site: site.gives and site.requantises),
            Width.INT16,
            BAYES,
            over=("width.no-int16",),
        ),
        Rule(
            "width.requantised-operand",
            "An operator without any int16 reads the requantised form of what others read as well.",
            Pattern[Asked]("is read by what has no int16, and by others", lambda site: not site.gives)
            & Pattern[Asked]("reads its requantised form", lambda site: site.requantises),
            Width.INT16,
            BAYES,
            over=("width.no-int16",),
        ),
        Rule(
            "width.moved-in-int16",
            "What moves values in int16 does so whatever reads them.",
            Pattern[Asked]("is asked for by what moves it", lambda site: not site.gives and is_asked_by_mover(site)),
            Width.INT16,
            BAYES,
            over=("width.no-int16",),
        ),
        Rule(
            "width.no-int16",
            "Where an operator of the BPU that gives or reads a tensor has no int16, that tensor is int8, whoever asks "
            "for more; those that must have the type of others are as these. So is what a Resize gives that left the "
            "BPU late.",
            Pattern[Asked]("is given or read by an operator without int16", lambda site: site.lacks_int16)
            & Pattern("is so on the BPU, or is what a Resize gives that left it late", _is_held),
            Width.INT8,
            BAYES,
        ),
    ],
)
"""What stands against int16 that is asked of a tensor itself (67 operators between convolutions, asked themselves and
their neighbours, and beside another reader)."""


def is_asked_by_mover(site: Asked) -> bool:
    """Whether what moves a tensor, and has int16, asks for it."""
    around = [usage.node for usage in site.value.uses()]
    producer = site.value.producer()
    movers = [node for node in (*around, *([] if producer is None else [producer])) if _moves(node)]
    names = {name for name, _ in site.requests}
    return any(str(node.name) in names and _has_int16(node) for node in movers)


def _has_int16(node: ir.Node) -> bool:
    rule = rule_for(node)
    return rule is not None and rule.int16_inputs and rule.int16_outputs


@dataclass(frozen=True)
class TiedTensors:
    """Tensors that must have one type.

    Attributes:
        asked: whether int16 is asked of one.
        ends: whether one is an int16 result at the end.
        rectified_in_int8: whether one is what a PRelu gives to an operator without int16.
    """

    asked: bool
    ends: bool
    rectified_in_int8: bool = False


GROUPS: Table[TiedTensors, Width] = Table(
    "width",
    [
        Rule(
            "width.rectified-in-int8",
            "A PRelu in front of an operator without int16, such as a mean over a map, reads int8 and gives it, "
            "whatever is asked of what it reads.",
            Pattern("is asked for int16, or tied to one that is", lambda group: group.asked)
            & Pattern("is what a PRelu gives to an operator without int16", lambda group: group.rectified_in_int8),
            Width.INT8,
            BAYES,
            over=("width.asked",),
        ),
        Rule(
            "width.asked",
            "Tensors that must have one type are int16 where it is asked of one of them.",
            Pattern("is asked for int16, or tied to one that is", lambda group: group.asked),
            Width.INT16,
            BAYES,
            over=("width.tied-end",),
        ),
        Rule(
            "width.tied-end",
            "What must have the type of an int16 result at the end is int16.",
            Pattern("is an int16 result at the end, or tied to one", lambda group: group.ends),
            Width.INT16,
            BAYES,
        ),
    ],
)
"""The type of a group, unless something stands against it."""


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
RESCALING = ("Add", "Sub", "Mul", "GlobalAveragePool", "Concat", "LeakyRelu")
"""Operators that read and give int8 unless int16 is asked."""


def refused_int8(value: ir.Value) -> str:
    """Why int8, which nothing makes firm, is not what ``value`` has."""
    return f"tensor {value.name} is int16 because of its other neighbours"


def refused_int16(value: ir.Value) -> str:
    """Why int16 is refused to ``value`` of which, or of what must have its type, int8 is asked."""
    return f"tensor {value.name} is int8, as it is asked of it or of a tensor that must have its type"


IGNORED = "int8 that is asked of a convolution changes nothing: its result stays in int32"
"""Why a convolution at the end is refused int8."""


class Narrowing(Enum):
    """What becomes of a request for int8."""

    NOTHING = "asks for int8 in vain"
    DEFAULT = "makes it int8, unless others make it int16"
    FIRM = "makes it int8, and all that must have its type, whoever asks for int16"


def _begins_with(*op_types: str) -> Callable[[Chained], bool]:
    return lambda site: site.chain[0].op_type in op_types


NARROW: Table[Chained, Narrowing] = Table(
    "width",
    [
        Rule(
            "width.int8-of-convolution",
            "A request of int8 for a convolution, or what becomes one with it, changes nothing: others may make it "
            "int16, and at the end it stays int16 or int32.",
            Pattern("is part of a convolution", _begins_with(*CONVOLUTIONS)),
            Narrowing.NOTHING,
            over=("width.int16-over-int8",),
        ),
        Rule(
            "width.int16-over-int8",
            "A request of int8 for sums, products, global means, Concats and LeakyRelus holds unless others make the "
            "tensor int16.",
            Pattern("can rescale", _begins_with(*RESCALING)),
            Narrowing.DEFAULT,
            over=("width.asked-int8",),
        ),
        Rule(
            "width.asked-int8",
            "A request of int8 for a table, MaxPool, Clip or another operator holds, whoever asks for int16.",
            Pattern("is any", lambda site: True),
            Narrowing.FIRM,
        ),
    ],
)
"""What is asked for int8: of what every kind of operator reads and gives, against int16 asked of its neighbours, and at
the end (46 conversions)."""


@dataclass(frozen=True)
class Tying:
    """A node that may give tensors one type.

    Attributes:
        node: the node.
        refused: tensors to which int16 is refused.
        asked_int8: names of the nodes that are asked for int8.
        heads: the first node of the chain that gives a tensor.
    """

    node: ir.Node
    refused: Collection[ir.Value] = ()
    asked_int8: Collection[str] = ()
    heads: Mapping[ir.Value, ir.Node] = field(default_factory=dict)


Tied = Callable[[Tying], Iterable[ir.Value]]
"""Tensors that a node gives one type."""


def members_of(site: Tying) -> list[ir.Value]:
    """What the node reads and gives has one type."""
    rule = rule_for(site.node)
    activations = [] if rule is None else [site.node.inputs[index] for index in rule.activations(site.node)]
    positions = () if rule is None else rule.index_outputs
    results = [value for index, value in enumerate(site.node.outputs) if index not in positions]
    return [value for value in (*activations, *results) if value is not None]


def others_of(site: Tying) -> list[ir.Value]:
    """All but what is left out has one type."""
    return [value for value in members_of(site) if not _is_left_out(value, site)]


def none_of(site: Tying) -> list[ir.Value]:
    """Nothing must have one type."""
    return []


def joined_of(site: Tying) -> list[ir.Value]:
    """What the BPU gives and the node joins has one type, but for what stays in int32."""
    return [value for value in joined_with(site.node.outputs[0]) if _is_given_with_type(value, site)]


def _is_given_with_type(value: ir.Value, site: Tying) -> bool:
    producer = value.producer()
    if producer is None or not on_bpu(producer) or is_exact_sum(value):
        return False
    head = site.heads.get(moved_from(value, _moves_all))
    rule = None if head is None else rule_for(head)
    return rule is not None and not (rule.int32_output and not any(map(is_quantised, float_readers(value))))


def _joins_on_cpu(site: Tying) -> bool:
    return joins_operands(site.node) and not is_quantised(site.node)


def alike_of(site: Tying) -> list[ir.Value]:
    """What Clips of one constant limit give has one type."""
    return clipped_alike(site.node)


def clipped_alike(clip: ir.Node) -> list[ir.Value]:
    """What Clips that share a constant limit with ``clip`` give."""
    alike = {usage.node: None for limit in clip.inputs[1:] if limit is not None for usage in limit.uses()}
    return [node.outputs[0] for node in (clip, *alike) if node.op_type == clip.op_type]


def is_moved_in_int8(value: ir.Value) -> bool:
    """Whether an operator of the BPU that has no int16 moves ``value``, or a Resize that left it late."""
    producer = value.producer()
    rule = None if producer is None or not _counts(producer) else rule_for(producer)
    return producer is not None and rule is not None and not rule.int16_outputs and rule.tie(producer) is not Tie.NONE


def _is_left_out(value: ir.Value, site: Tying) -> bool:
    """Whether ``value`` is given by what moves it in int8, and is so whatever reads it."""
    producer = value.producer()
    if producer is None or not is_moved_in_int8(value):
        return False
    return value in site.refused or _keeps_type(Tying(producer, heads=site.heads))


def _joins_left_out(site: Tying) -> bool:
    return joins_operands(site.node) and any(_is_left_out(value, site) for value in members_of(site))


def _keeps_type(site: Tying) -> bool:
    rule = rule_for(site.node)
    return rule is not None and rule.requantized_from_int16 and not rescaled_for(site.node, site.heads)


def _is_rectifier(site: Tying) -> bool:
    return site.node.op_type in ("Relu", "Clip") and site.heads.get(site.node.outputs[0]) is site.node


def _joins_in_int8(site: Tying) -> bool:
    return str(site.node.name) in site.asked_int8 and joins_operands(site.node)


def joins_operands(node: ir.Node) -> bool:
    """Whether ``node`` puts its operands beside one another, as a Concat does."""
    rule = rule_for(node)
    return rule is not None and rule.tie(node) is Tie.OPERANDS_TAKE_OUTPUT


def _cannot_rescale(site: Tying) -> bool:
    rule = rule_for(site.node)
    is_leaky = site.node.op_type == "LeakyRelu"  # reads int16 and gives int8: 6 of 6 asked, PRelus do not (4 of 4)
    return rule is not None and rule.tie(site.node) is not Tie.NONE and not is_leaky


TYING_ON_BPU = Pattern[Tying]("runs on the BPU, or is a Resize that left it late", lambda site: _counts(site.node))
TIES: Table[Tying, Tied] = Table(
    "width",
    [
        Rule(
            "width.untied",
            "A Concat that is asked for int8 rescales: what it reads and gives need not have one type.",
            TYING_ON_BPU & Pattern("is a Concat that is asked for int8", _joins_in_int8),
            none_of,
            BAYES,
            over=("width.joined-resize",),
        ),
        Rule(
            "width.joined-resize",
            "A Concat requantises what an operator without int16 moves to which it is refused, and what a Resize does "
            "that has the type of what it reads.",
            TYING_ON_BPU & Pattern("joins what is moved in int8, whatever reads it", _joins_left_out),
            others_of,
            BAYES,
            over=("width.one-type",),
        ),
        Rule(
            "width.resized-as-read",
            "A Resize has the type of what it reads, whatever is asked of its result, unless it alone reads the result "
            "of a convolution, sum or product, moved or not.",
            TYING_ON_BPU & Pattern("resizes what others read too, or does not rescale", _keeps_type),
            none_of,
            BAYES,
            over=("width.one-type",),
        ),
        Rule(
            "width.joined-on-cpu",
            "What a Concat on the CPU joins has one type, but for convolutions and products that stay in int32.",
            Pattern("joins on the CPU", _joins_on_cpu),
            joined_of,
            BAYES,
            over=("width.one-type",),
        ),
        Rule(
            "width.one-type",
            "What an operator that cannot rescale reads and gives has one type; so has what a Resize does, which "
            "computes it in int8.",
            TYING_ON_BPU & Pattern("cannot rescale", _cannot_rescale),
            members_of,
            over=("width.clips-alike",),
        ),
        Rule(
            "width.clips-alike",
            "What Clips that share a constant limit give has one type.",
            TYING_ON_BPU & Pattern("is a Clip", lambda site: site.node.op_type == "Clip"),
            alike_of,
        ),
    ],
)
"""Which tensors must have one type. Clips: measured on ``convr6``, whose last Clip makes the maps between the
convolutions int16 too; without a Clip at the end (``irb``, golden ``relu6``) they are int8. Resizes: between
convolutions, beside a MaxPool and before a Concat, asked themselves, and their neighbours (15 conversions)."""


FOLLOWING: Table[Tying, Width] = Table(
    "width",
    [
        Rule(
            "width.reduced-on-cpu",
            "What a mean or sum over axes gives is int16 where what it reads is, on either device, unless an operator "
            "without int16 reads it.",
            Pattern("is a ReduceMean or ReduceSum", lambda site: site.node.op_type in REDUCTIONS),
            Width.IF_READ,
            BAYES,
        ),
        Rule(
            "width.rectifier",
            "What a Relu or Clip gives that is no part of a convolution is int16 where what it reads is, and no reader "
            "changes that.",
            TYING_ON_BPU & Pattern("is a Relu or Clip by itself", _is_rectifier),
            Width.INT16,
            BAYES,
        ),
        Rule(
            "width.resized-in-int16",
            "What such a Resize gives is int16 where what it reads is, unless an operator without int16 reads it.",
            TYING_ON_BPU & Pattern("resizes what others read too, or does not rescale", _keeps_type),
            Width.IF_READ,
            BAYES,
        ),
    ],
)
"""What has the type of what it is made of, and not the other way round."""


@dataclass(frozen=True)
class WidthRules:
    """The tables, in the order in which they decide."""

    of_heads: Table[Chained, Told] = OF_HEADS
    of_sums: Table[Chained, Told] = OF_SUMS
    cpu_alone: Table[Chained, str] = CPU_ALONE
    requests: Table[Asked, Width] = REQUESTS
    tails: Table[Chained, Width] = TAILS
    ties: Table[Tying, Tied] = TIES
    following: Table[Tying, Width] = FOLLOWING
    table_inputs: Table[TableNode, Width] = TABLE_INPUTS
    groups: Table[TiedTensors, Width] = GROUPS
    sides: Table[Asked, Width] = SIDES
    narrow: Table[Chained, Narrowing] = NARROW
    sums: Table[Chained, str] = SUMS

    @property
    def tables(self) -> tuple[Table[Any, Any], ...]:
        """The tables alone."""
        return tuple(getattr(self, each.name) for each in fields(self))
