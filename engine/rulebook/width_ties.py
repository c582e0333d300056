"""Which tensors must have one type, which follow the type of others, and the type of such a group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from engine.facts.devices import asked_late, is_quantised, on_bpu
from engine.facts.moves import is_exact_sum, joined_with, moved_from
from engine.graph import float_readers
from engine.ops.core.base import Tie
from engine.ops.registry import rule_for
from engine.rulebook.calibrated import REDUCTIONS
from engine.rulebook.rule import BAYES, Pattern, Rule, Table
from engine.rulebook.width_sites import (
    Width,
    is_moved_in_int8,
    joins_operands,
    moves_all_on_bpu,
    on_bpu_or_resized_late,
    rescaled_for,
)


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
    head = site.heads.get(moved_from(value, moves_all_on_bpu))
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


def _cannot_rescale(site: Tying) -> bool:
    rule = rule_for(site.node)
    # a LeakyRelu on the BPU reads int16 and gives int8: 6 of 6 asked, PRelus do not (4 of 4)
    is_leaky = site.node.op_type == "LeakyRelu" and not asked_late(site.node)
    return rule is not None and rule.tie(site.node) is not Tie.NONE and not is_leaky


TYING_ON_BPU = Pattern[Tying](
    "runs on the BPU, is asked for on the CPU and reads quantised values there, or is a Resize that left it late",
    lambda site: on_bpu_or_resized_late(site.node) or asked_late(site.node),
)
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
