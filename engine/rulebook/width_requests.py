"""What becomes of a type that is asked of a tensor: which tensor is meant, and what stands against it.

Source: reference/operators.md, int16.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum

import onnx_ir as ir

from engine.facts.chains import joins
from engine.facts.devices import is_quantised, on_bpu
from engine.facts.moves import ends_behind, moved_to
from engine.graph import float_readers
from engine.ops.registry import rule_for
from engine.rulebook.calibrated import INT8, INT16
from engine.rulebook.rule import BAYES, Pattern, Rule, Table
from engine.rulebook.width_sites import (
    CONVOLUTIONS,
    REQUANTISED,
    Chained,
    Width,
    moves_on_bpu,
    on_bpu_or_resized_late,
    rescaled_for,
)

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
    turned = [value] if producer is None or moves_on_bpu(producer) else moved_to(value, _turns)
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


def _turns(node: ir.Node) -> bool:
    return on_bpu(node) and node.op_type in ("Reshape", "Transpose")


def _is_held(site: Asked) -> bool:
    return on_bpu_or_resized_late(site.node) if site.gives else on_bpu(site.node)


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
    movers = [node for node in (*around, *([] if producer is None else [producer])) if moves_on_bpu(node)]
    names = {name for name, _ in site.requests}
    return any(str(node.name) in names and _has_int16(node) for node in movers)


def _has_int16(node: ir.Node) -> bool:
    rule = rule_for(node)
    return rule is not None and rule.int16_inputs and rule.int16_outputs


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
