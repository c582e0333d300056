"""BPU or CPU for every node: the rules, in the steps in which the original takes them (reference/operators.md).

It first looks at every node alone, then at what was asked, then at what is one with a node on the CPU, then at the ends
of the network, then at what it finds only after it has calibrated: such a node leaves the BPU late, so that its inputs
are quantised all the same. Last it looks at what moves floats of the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import Enum
from string import Formatter

import numpy as np
import onnx_ir as ir

from engine.chips import Chip
from engine.facts.devices import ends_on_bpu, is_quantised, joins_on_request, on_bpu
from engine.facts.moves import (
    is_computed_with,
    is_exact_sum,
    is_passive,
    is_wanted,
    joined_with,
    keeps_scale,
    moved_from,
    reaches_output,
)
from engine.graph import float_readers, sole_reader
from engine.ir import (
    MARK_LATE,
    MARK_STEPS,
    attribute,
    before_calibration,
    constant_of,
    is_calibration,
    shape_of,
)
from engine.ops.add import runs_as_convolution
from engine.ops.core.base import FloatRule
from engine.ops.core.element_functions import FUNCTIONS
from engine.ops.core.float_nodes import given, is_relu, subtracts_mean
from engine.ops.core.reasons import SENTENCES, Code, Reason, because
from engine.ops.foreign.composite import PREPROCESS
from engine.ops.foreign.custom import is_custom
from engine.ops.registry import rule_for
from engine.rulebook.calibrated import QUANTISED_BEFORE_LATE
from engine.rulebook.patterns import gives_rank, of_node, op, read_by
from engine.rulebook.rule import BAYES, BERNOULLI, MeasuredApart, Pattern, Rule, Table


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
        heads: the first node of the chain that gives a tensor.
    """

    node: ir.Node
    chip: Chip
    on_bpu: Set[str] = frozenset()
    on_cpu: Set[str] = frozenset()
    typed: bool = False
    typed_nodes: Set[str] = frozenset()
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


def _cpu(code: Code) -> Place:
    return Place(On.CPU, code)


def _late(code: Code) -> Place:
    return Place(On.LATE, code)


LACKING = (
    "GlobalAveragePool",
    "ReduceMean",
    "ReduceSum",
    "Transpose",
    "GatherElements",
    "Softmax",
    "TopK",
    "Equal",
    "Cast",
)
"""Operators that bernoulli2 does not have and the others do."""
LATE = ("Expand", "Gather", "Max", "ReduceMax", "Reshape", "Tile")
"""Operators that bernoulli2 does not have and whose inputs it quantises all the same."""
QUANTISED_OF_RANK_3 = ("Add", "Concat", "Gather", "HzRsqrt", "Mul", "Pow", "ReduceMean", "Reshape", "Slice", "Sub")
"""Operators whose inputs bernoulli2 quantises where they give tensors of rank 3."""


def _site(says: str, holds: Callable[[DeviceSite], bool]) -> Pattern[DeviceSite]:
    return Pattern(says, holds)


def _refusal(site: DeviceSite) -> Reason | None:
    return None if site.operator is None else site.operator.refusal(site.node, site.chip)


def _late_refusal(site: DeviceSite) -> Reason | None:
    return None if site.operator is None else site.operator.late_refusal(site.node, site.chip)


def _has_undefined_constant(site: DeviceSite) -> bool:
    node, rule = site.node, site.operator
    values = [] if rule is None else [node.inputs[index] for index in (*rule.activations(node), *rule.weights(node))]
    arrays = [constant_of(before_calibration(value)) for value in values if value is not None]
    return any(array is not None and not np.all(np.isfinite(array)) for array in arrays)


def _without_operator(site: DeviceSite) -> Reason | None:
    """The user's own Python code computes the operator, or nothing but the CPU has it."""
    if is_custom(site.node):
        return because(Code.CUSTOM)
    return because(Code.NO_OPERATOR, march=site.chip.name, op_type=site.node.op_type)


def _not_asked(site: DeviceSite) -> Reason | None:
    """The reason that a node runs on the BPU on request only, unless it would be refused then."""
    return _late_refusal(site) or because(Code.ON_REQUEST, op_type=site.node.op_type)


def _orders_pixels(node: ir.Node) -> bool:
    image = None if node.op_type != "Transpose" or node.inputs[0] is None else node.inputs[0].producer()
    is_image = image is not None and image.op_type == "HzPreprocess" and attribute(image, "data_format") == "NHWC"
    return is_image and tuple(attribute(node, "perm", ())) == (0, 3, 1, 2)


def _is_no_float(site: DeviceSite) -> bool:
    positions = () if site.operator is None else site.operator.index_outputs
    numbers = [value for index, value in enumerate(site.node.outputs) if index not in positions]
    return any(value.type is not None and value.dtype != ir.DataType.FLOAT for value in numbers)


def _multiplies_several(node: ir.Node) -> bool:
    return any(length != 1 for length in shape_of(node.outputs[0])[:-2])


def _reads_mean(node: ir.Node) -> bool:
    source = before_calibration(given(node, 0)).producer()
    return source is not None and source.op_type == "ReduceMean"


PIXELS_IN_ORDER = of_node("gives the pixels of an NHWC image the order NCHW", _orders_pixels)
TAKEN_IN_STEPS = of_node("averages a map in steps", lambda node: MARK_STEPS in node.metadata_props)
MEAN_OF_NORMALISATION = op("ReduceMean") & read_by("Sub", "HzRsqrt")
DIFFERENCE_FROM_MEAN = op("Sub") & of_node("reads a mean over axes second", subtracts_mean)
ROOT_OF_MEAN = op("HzRsqrt") & of_node("reads a mean over axes", _reads_mean)
OTHER_DIFFERENCE = op("Sub") & gives_rank(4) & ~DIFFERENCE_FROM_MEAN
OF_RANK_3 = op(*QUANTISED_OF_RANK_3) & gives_rank(3)
ON_REQUEST = _site(
    "has an operator that must be asked for and is not",
    lambda site: site.operator is not None and site.operator.on_request and not site.asked,
)

OPERATORS: Table[DeviceSite, Place] = Table(
    "device",
    [
        Rule(
            "device.no-operator",
            "What no BPU has an operator for, the user's own operators among them, runs on the CPU.",
            _site("has no operator on any BPU", lambda site: site.operator is None),
            Place(On.CPU, stated=_without_operator),
            over=("device.lacking",),
        ),
        Rule(
            "device.lacking",
            "bernoulli2 computes means and sums over axes and differences of maps, and moves by Transpose, on the "
            "CPU; a mean of a normalisation and the difference from it leave the BPU late, "
            "a Transpose that orders the pixels of an image moves nothing, and an average over a large map is taken in "
            "steps.",
            (op(*LACKING) & ~PIXELS_IN_ORDER & ~MEAN_OF_NORMALISATION & ~TAKEN_IN_STEPS) | OTHER_DIFFERENCE,
            _cpu(Code.NO_OPERATOR),
            BERNOULLI,
            over=("device.several-matrices",),
        ),
        Rule(
            "device.several-matrices",
            "bernoulli2 multiplies one matrix by one: stacks of matrices are multiplied on the CPU.",
            op("MatMul") & of_node("multiplies several matrices", _multiplies_several),
            _cpu(Code.SEVERAL_MATRICES),
            BERNOULLI,
            over=("device.rank-4-only",),
        ),
        Rule(
            "device.rank-4-only",
            "bernoulli2 computes tensors of rank 4 alone.",
            _site("gives a tensor of another rank than 4", lambda site: not _gives_maps(site.node))
            & ~OF_RANK_3
            & ~op("ReduceMax"),
            _cpu(Code.RANK_4_ONLY),
            BERNOULLI,
            over=("device.scalar",),
        ),
        Rule(
            "device.scalar",
            "A tensor without dimensions is not computed on the BPU.",
            of_node("gives a tensor without dimensions", lambda node: any(shape_of(v) == () for v in node.outputs)),
            _cpu(Code.SCALAR),
            over=("device.not-float",),
        ),
        Rule(
            "device.not-float",
            "Numbers of other types than float32 are not quantised.",
            _site("gives numbers of another type than float32", _is_no_float),
            _cpu(Code.NOT_FLOAT),
            over=("device.on-request",),
        ),
        Rule(
            "device.on-request",
            "A Softmax runs on the BPU only where the configuration asks for it.",
            ON_REQUEST,
            Place(On.CPU, stated=_not_asked),
            over=("device.undefined-constant",),
        ),
        Rule(
            "device.undefined-constant",
            "A constant that is infinite or undefined has no threshold.",
            _site("has a constant that would be quantised and is not finite", _has_undefined_constant),
            _cpu(Code.UNDEFINED_CONSTANT),
            over=("device.refused",),
            measured=MeasuredApart(
                "The original quantises the constant by the largest float32, and the result is lost: ptqlab departs "
                "on purpose (docs/evidence/field.md, a mask of minus infinity)",
                networks=2,
            ),
        ),
        Rule(
            "device.refused",
            "An operator runs on the CPU where its sizes, ranks or attributes are beyond what the BPU has.",
            _site("is refused by the operator of the BPU", lambda site: _refusal(site) is not None),
            Place(On.CPU, stated=_refusal),
            over=("device.mean-of-normalisation", "device.late-operator"),
        ),
        Rule(
            "device.mean-of-normalisation",
            "A mean that a difference or a reciprocal root reads is quantised, then computed on the CPU.",
            MEAN_OF_NORMALISATION,
            _late(Code.NO_OPERATOR),
            BERNOULLI,
            over=("device.of-rank-3",),
        ),
        Rule(
            "device.late-operator",
            "bernoulli2 quantises what Expand, Gather, Max, ReduceMax, Reshape, Tile and the difference from a mean "
            "read, then computes them on the CPU.",
            op(*LATE) | DIFFERENCE_FROM_MEAN,
            _late(Code.NO_OPERATOR),
            BERNOULLI,
            over=("device.of-rank-3",),
        ),
        Rule(
            "device.of-rank-3",
            "What arithmetic, Concat, Slice, Reshape and Gather of tensors of rank 3 read is quantised, then they are "
            "computed on the CPU.",
            OF_RANK_3,
            _late(Code.RANK_4_ONLY),
            BERNOULLI,
            over=("device.refused-late",),
        ),
        Rule(
            "device.refused-late",
            "Modes of a Resize or Pad, the axis of a Softmax, several axes of ReduceMax, Expand and Tile, what is "
            "gathered of rank 5 and, on bernoulli2, constants of products and sums are refused only after their "
            "inputs have been quantised.",
            _site("is refused late by the operator of the BPU", lambda site: _late_refusal(site) is not None),
            Place(On.LATE, stated=_late_refusal),
            over=("device.bpu",),
        ),
        Rule(
            "device.bpu",
            "What nothing keeps from it runs on the BPU.",
            _site("is any", lambda site: True),
            Place(On.BPU),
        ),
    ],
)
"""What the BPU has: every node is looked at alone."""


def _gives_maps(node: ir.Node) -> bool:
    return all(len(shape_of(value)) == 4 for value in node.outputs)


ASKED_ON_CPU = _site("is asked for on the CPU", lambda site: str(site.node.name) in site.on_cpu)

KEEPING_SCALES = (
    "AveragePool",
    "Clip",
    "Concat",
    "DepthToSpace",
    "Gather",
    "GlobalMaxPool",
    "LeakyRelu",
    "MaxPool",
    "PRelu",
    "ReduceMax",
    "Relu",
    "Reshape",
    "Resize",
    "Slice",
    "Tile",
    "Transpose",
)
"""What moves values, chooses among them or else keeps their scale."""


def _is_part(site: DeviceSite) -> bool:
    """Whether the node ends a chain that begins with another and of which nothing else is asked for on the CPU."""
    head = site.heads.get(site.node.outputs[0])
    others = [node for node in (head, site.whole) if node is not None]
    return head is not None and head is not site.node and not any(str(node.name) in site.on_cpu for node in others)


def _rectifies_on_cpu(node: ir.Node) -> bool:
    """Whether ``node``, a Relu or Clip, has neither a source nor a reader on the BPU, moved or not (6 of 6 asked)."""
    if node.op_type not in ("Relu", "Clip"):
        return False
    source = moved_from(given(node, 0), is_passive).producer()
    is_float = source is None or not is_quantised(source)
    return is_float and not is_computed_with(node.outputs[0], on_bpu, is_passive)


REQUESTS: Table[DeviceSite, Place] = Table(
    "device",
    [
        Rule(
            "device.part-asked-for",
            "A Relu, or a Clip from 0 on, stays part of the convolution or sum that it is right behind, whatever is "
            "asked.",
            ASKED_ON_CPU
            & of_node("is a Relu or a Clip from 0 on", is_relu)
            & _site("would be part of a convolution or sum", _is_part),
            Place(On.UNCHANGED),
            over=("device.kept-scale-asked-for",),
            measured=MeasuredApart(
                "17 of 17 behind convolutions, transposed ones and sums on three marches, and one drawn; four that the "
                "convolution is not read by alone, or that are another Clip, are not (docs/evidence/agreement.md)",
                networks=4,
            ),
        ),
        Rule(
            "device.kept-scale-asked-for",
            "What moves values, chooses among them or keeps their scale reads quantised values also where the "
            "configuration sends it to the CPU, if the BPU could compute it; not a Relu or Clip that neither reads "
            "from the BPU nor is read by it, moved or not.",
            ASKED_ON_CPU
            & op(*KEEPING_SCALES)
            & of_node("could run on the BPU", on_bpu)
            & ~of_node("is a Relu or Clip between nodes of the CPU", _rectifies_on_cpu),
            _late(Code.ASKED_FOR),
            over=("device.normalisation-asked-for",),
            measured=MeasuredApart(
                "20 maxima on two marches; 48 of 48 others on three, where 28 of other operators "
                "read floats (docs/evidence/agreement.md)",
                networks=8,
            ),
        ),
        Rule(
            "device.normalisation-asked-for",
            "So do a mean of a normalisation, the difference from it and its reciprocal root.",
            ASKED_ON_CPU
            & (MEAN_OF_NORMALISATION | DIFFERENCE_FROM_MEAN | ROOT_OF_MEAN)
            & of_node("would read quantised values", is_quantised),
            _late(Code.ASKED_FOR),
            over=("device.asked-for",),
        ),
        Rule(
            "device.asked-for",
            "The configuration sends a node to the CPU.",
            ASKED_ON_CPU,
            _cpu(Code.ASKED_FOR),
        ),
    ],
)
"""What was asked for."""


def _behind_cpu(site: DeviceSite) -> bool:
    """Whether the CPU computes the first input."""
    value = site.node.inputs[0] if site.node.inputs else None
    head = None if value is None else value.producer()
    return head is not None and not on_bpu(head)


def _is_only_activation(site: DeviceSite) -> bool:
    """Whether ``site`` is the activation of a convolution that nothing else reads."""
    value = site.node.inputs[0] if site.node.inputs else None
    head = None if value is None else value.producer()
    return (
        value is not None
        and head is not None
        and is_relu(site.node)
        and not site.asked
        and sole_reader(value) is site.node
        and head.op_type in ("Conv", "ConvTranspose")
    )


def _is_of_division(site: DeviceSite) -> bool:
    reader = None if site.node.op_type != "Reciprocal" or site.asked else sole_reader(site.node.outputs[0])
    return reader is not None and reader.op_type == "Mul" and not on_bpu(reader)


def _is_divisor_table(site: DeviceSite) -> bool:
    reader = None if site.node.op_type not in FUNCTIONS or site.asked else sole_reader(site.node.outputs[0])
    if reader is None or reader.op_type != "Reciprocal" or is_relu(site.node):
        return False
    if on_bpu(reader):
        return _is_of_division(replace(site, node=reader))
    return not any(map(on_bpu, _readers(reader)))


def _reads_floats_alone(site: DeviceSite) -> bool:
    """Whether the CPU computes what is read, and no BPU node of another kind reads it."""
    value = before_calibration(given(site.node, 0))
    head = moved_from(value, _reorders).producer()
    rivals = [reader for reader in float_readers(value) if on_bpu(reader) and reader.op_type != site.node.op_type]
    return not site.asked and not rivals and head is not None and not on_bpu(head)


def _reorders(node: ir.Node) -> bool:
    return on_bpu(node) and node.op_type in ("Reshape", "Transpose", "Slice")


BEHIND_CPU = _site("reads what the CPU computes", _behind_cpu)

WHOLES: Table[DeviceSite, Place] = Table(
    "device",
    [
        Rule(
            "device.activation-of-cpu-convolution",
            "The activation that alone reads a convolution on the CPU runs there too.",
            BEHIND_CPU & _site("is the only reader of a convolution, and its activation", _is_only_activation),
            _cpu(Code.PART_OF_CPU_NODE),
        ),
        Rule(
            "device.cast-of-cpu-comparison",
            "The cast of a comparison on the CPU runs there too.",
            BEHIND_CPU & op("Cast"),
            _cpu(Code.PART_OF_CPU_NODE),
        ),
        Rule(
            "device.resize-of-floats",
            "A Resize, Expand or Tile of what the CPU computes runs there too, unless the BPU reads that otherwise.",
            op("Expand", "Resize", "Tile", "Upsample")
            & _site("alone reads what the CPU computes, moved or not", _reads_floats_alone),
            _cpu(Code.PART_OF_CPU_NODE),
        ),
        Rule(
            "device.table-of-division",
            "The table that only such a reciprocal reads is quantised, then computed on the CPU.",
            _site("is a table that only a Reciprocal reads which only the CPU reads", _is_divisor_table),
            _late(Code.DIVISION),
        ),
        Rule(
            "device.division",
            "A reciprocal that only a product on the CPU reads runs there too: the original decides on their Div.",
            _site("is a Reciprocal that only a product on the CPU reads", _is_of_division),
            _cpu(Code.DIVISION),
        ),
    ],
)
"""What is one with a node on the CPU, from the inputs of the network on."""


def _readers(node: ir.Node) -> list[ir.Node]:
    return [reader for value in node.outputs for reader in float_readers(value)]


NOT_READ_BY_BPU = of_node("is read by no BPU node", lambda node: not any(map(on_bpu, _readers(node))))


def _is_asked_tail(site: DeviceSite) -> bool:
    """Whether ``site`` is asked for, or its result has a type that is asked for; not where the CPU gives what it reads.

    13 operators of the CPU, five of which leave the BPU late, and three movements each, and 8 Concats of which any is
    from the CPU, with both options for outputs (94 of 94 on bayes-e).
    """
    is_typed = str(site.node.name) in site.typed_nodes and reaches_output(site.node.outputs[0])
    sources = (value.producer() for value in site.node.inputs if value is not None)
    is_given = all(source is None or _stays(source) for source in sources)
    is_output = site.typed and site.node.outputs[0].is_graph_output() and is_given
    return site.asked or is_typed or is_output


def _moves_tail_sum(site: DeviceSite) -> bool:
    """Whether an int32 sum of one scale is moved, which is made float behind it as well."""
    value = site.node.inputs[0]
    passes = site.operator is not None and site.operator.moves_sums and MARK_LATE not in site.node.metadata_props
    return passes and value is not None and is_exact_sum(before_calibration(value))


RECTIFIERS = ("Elu", "LeakyRelu", "PRelu")
FUNCTIONS_OF_ENDS = ("Ceil", "Cos", "Floor", "Log", "Reciprocal", "Sin", "Tan")
"""Functions that bernoulli2 leaves to the CPU at the end of the network; others that were asked are int8 there."""
ENDS_ON_CPU = frozenset({"Add", "Mul", *RECTIFIERS, *FUNCTIONS_OF_ENDS})
"""What bernoulli2 computes on the CPU, or leaves in int32, where no BPU node reads it."""


def _moves_accumulator(node: ir.Node, site: DeviceSite) -> bool:
    """Whether ``node`` moves, directly or behind others, what could stay in int32 or float.

    Of several operands that a Concat joins, one that the CPU computes decides, and a sum, Resize or average; of others
    the first in the graph that the BPU does not compute with (92 Concats on three marches).
    """
    rule = rule_for(node)
    found = {}
    for index in () if rule is None else rule.activations(node):
        value = node.inputs[index]
        could_stay = _could_stay(value, site, node.op_type == "Concat")
        if could_stay and (len(node.inputs) == 1 or _decides(value, node, site)):
            return True
        if value is not None and could_stay is not None:
            found[value.producer()] = could_stay
    graph = node.graph
    first = next((each for each in graph if each in found), None) if len(found) > 1 and graph is not None else None
    return any(found.values()) if first is None else found[first]


def _could_stay(value: ir.Value | None, site: DeviceSite, joins: bool) -> bool | None:
    """Whether ``value`` could stay in int32 or float; None where it is computed with on the BPU, or part of a Split."""
    head = None if value is None else site.heads.get(before_calibration(value))
    source = None if head is None else rule_for(head)
    is_late = head is not None and MARK_LATE in head.metadata_props
    if value is not None and not is_late and is_computed_with(value, _stays, is_passive):
        return None
    if head is None or source is None or is_late or (joins and str(head.name) in site.on_bpu):
        return True
    moves_sums = source.passive and _moves_accumulator(head, site)
    if not moves_sums and (head.op_type == "Split" or _moves_used(head)):
        return None
    if source.stays_int32(head) and _follows_int16(value, head, site):
        return False
    on_cpu = head.op_type in ENDS_ON_CPU and site.chip.family in BERNOULLI
    return moves_sums or source.stays_int32(head) or on_cpu or head.op_type == "Pow"


def _follows_int16(value: ir.Value | None, head: ir.Node, site: DeviceSite) -> bool:
    """Whether a convolution, by ``head``, gives ``value`` behind an int16 result that it is joined with."""
    producer = None if value is None else value.producer()
    graph = head.graph
    if value is None or producer is None or graph is None or site.typed or site.chip.family not in BAYES:
        return False
    if "Add" in (producer.op_type, _before(producer)):
        return False
    wide = {site.heads[each] for each in joined_with(value) if _is_int16_at_end(each, site)}
    return next((node for node in graph if node is head or node in wide), head) is not head


def _is_int16_at_end(value: ir.Value, site: DeviceSite) -> bool:
    """Whether ``value`` is a result of the BPU at the end that is int16, and could not stay in int32."""
    head, last = site.heads.get(value), value.producer()
    rule = None if head is None else rule_for(head)
    given_by = None if last is None else rule_for(last)
    if rule is None or given_by is None or rule.int32_output or rule.passive or not given_by.int16_outputs:
        return False
    return not is_exact_sum(value) and not is_computed_with(value, _stays, is_passive)


def _moves_used(node: ir.Node) -> bool:
    """Whether ``node`` moves what the BPU computes with."""
    return (
        is_passive(node)
        and keeps_scale(node)
        and is_computed_with(moved_from(given(node, 0), is_passive), _stays, is_passive)
    )


def _decides(value: ir.Value | None, join: ir.Node, site: DeviceSite) -> bool:
    """Whether ``value``, which could stay, has ``join`` on the CPU whatever else that reads."""
    head = None if value is None else site.heads.get(before_calibration(value))
    producer = None if value is None else value.producer()
    if head is None or producer is None or rule_for(head) is None or MARK_LATE in head.metadata_props:
        return True
    sums = any(op in (head.op_type, producer.op_type, _before(producer)) for op in ("Add", "AveragePool", "Resize"))
    return sums or join.op_type != "Concat"


def _before(node: ir.Node) -> str:
    """The operator that gives the first input of ``node``."""
    producer = None if not node.inputs or node.inputs[0] is None else node.inputs[0].producer()
    return "" if producer is None else str(producer.op_type)


def _is_turned_for_bpu(node: ir.Node) -> bool:
    """Whether a Transpose moves the result of ``node`` to a BPU node."""
    return any(reader.op_type == "Transpose" and any(map(on_bpu, _readers(reader))) for reader in _readers(node))


def _shares_its_operand(node: ir.Node) -> bool:
    """Whether something else reads the first input of ``node`` too, as embeddings that are divided by their norm."""
    return any(reader is not node for reader in float_readers(before_calibration(given(node, 0))))


def _reads_ends(node: ir.Node) -> bool:
    """Whether the BPU computes with one of the inputs of ``node`` nowhere."""
    return not all(is_computed_with(value, _stays, is_passive) for value in node.inputs if value is not None)


def _stays(node: ir.Node) -> bool:
    """Whether ``node`` runs on the BPU to the end; the states of ``crnn_gru_b`` are moved by what leaves it late."""
    return on_bpu(node) and rule_for(node) is not None and MARK_LATE not in node.metadata_props


def _reads_cpu_product(site: DeviceSite) -> bool:
    """Whether the CPU computes the MatMul that is read: 6 of 6 Relus and Clips from 0 to 6 of scores run on the BPU."""
    producer = before_calibration(given(site.node, 0)).producer()
    return producer is not None and producer.op_type == "MatMul" and _reads_cpu_result(site)


def _follows_convolution(node: ir.Node) -> bool:
    """Whether ``node`` reads a convolution, or a sum that one may have absorbed, no ConvTranspose alone."""
    value = node.inputs[0]
    producer = None if value is None else before_calibration(value).producer()
    rule = None if producer is None else rule_for(producer)
    if producer is not None and producer.op_type == "Add":
        added = {each.op_type for item in producer.inputs if item is not None and (each := item.producer()) is not None}
        return "ConvTranspose" not in added or "Conv" in added
    return producer is not None and rule is not None and rule.stays_int32(producer)


def _reads_alone(node: ir.Node) -> bool:
    read = given(node, 0)
    value = before_calibration(read)
    uses = [*value.uses(), *read.uses()]
    return {use.node for use in uses if not is_calibration(use.node)} == {node} and not value.is_graph_output()


NOT_ASKED = ~_site("is asked for", lambda site: site.asked)
ASKED_TAIL = _site("is asked for, or has a type that is asked for", _is_asked_tail)
PASSIVE_TAIL = NOT_READ_BY_BPU & of_node("moves values, or chooses among them", is_passive)

TAILS: Table[DeviceSite, Place] = Table(
    "device",
    [
        Rule(
            "device.moved-sum",
            "An int32 sum of one scale is moved on the BPU and made float behind it; not on bernoulli2.",
            PASSIVE_TAIL & _site("moves an int32 sum of one scale", _moves_tail_sum),
            Place(On.UNCHANGED),
            BAYES,
            over=("device.passive-tail",),
        ),
        Rule(
            "device.passive-tail",
            "What moves the last results of the BPU, or takes the maxima or averages of their windows, runs on the CPU "
            "where these could stay in int32 or float; of what is joined, where one is on the CPU, a sum, a Resize or "
            "an average, or else where the first in the graph could, or is asked for on the BPU. A convolution that "
            "the graph has behind an int16 result which it is joined with could not.",
            PASSIVE_TAIL
            & ~ASKED_TAIL
            & _site("reads what could stay in int32 or float", lambda site: _moves_accumulator(site.node, site)),
            _cpu(Code.PASSIVE_TAIL),
            over=("device.joined-tail", "device.activation-tail"),
        ),
        Rule(
            "device.maximum-tail",
            "A ReduceMax, Expand or Tile that leaves the BPU late is not quantised where no BPU node reads it.",
            NOT_READ_BY_BPU
            & op("Expand", "ReduceMax", "Tile")
            & NOT_ASKED
            & of_node("leaves the BPU late", lambda node: MARK_LATE in node.metadata_props),
            _cpu(Code.PASSIVE_TAIL),
            measured=MeasuredApart(
                "6 at the end on bayes and bayes-e, 8 on bernoulli2; 30 and 24 that the BPU reads are quantised "
                "(docs/evidence/agreement.md)",
                networks=3,
            ),
        ),
        Rule(
            "device.joined-tail",
            "bernoulli2 joins nothing for the CPU that the BPU does not compute with: each operand keeps its scale.",
            PASSIVE_TAIL
            & op("Concat")
            & ~ASKED_TAIL
            & _site("reads what no BPU node computes with", lambda site: _reads_ends(site.node)),
            _cpu(Code.PASSIVE_TAIL),
            BERNOULLI,
            over=("device.activation-tail",),
        ),
        Rule(
            "device.activation-tail",
            "bernoulli2 does not apply a Relu to an int32 result of its own that no BPU node reads, but where an "
            "output or another node reads that result too.",
            NOT_READ_BY_BPU
            & of_node("is the activation of a convolution or sum", lambda n: is_relu(n) and _follows_convolution(n))
            & of_node("alone reads that, which is no output", _reads_alone)
            & ~_site("reads the product of a MatMul on the CPU", _reads_cpu_product),
            _cpu(Code.ACTIVATION_TAIL),
            BERNOULLI,
        ),
        Rule(
            "device.rectifier-tail",
            "bernoulli2 computes no Elu, LeakyRelu, PRelu, Sin, Cos, Tan, Log, Reciprocal, Floor or Ceil that no BPU "
            "node reads.",
            NOT_READ_BY_BPU
            & NOT_ASKED
            & op(*RECTIFIERS, *FUNCTIONS_OF_ENDS)
            & ~_site("is a Reciprocal that only a product on the CPU reads", _is_of_division),
            _cpu(Code.PRODUCT_TAIL),
            BERNOULLI,
        ),
        Rule(
            "device.rectifier-within",
            "An Elu, LeakyRelu, PRelu or power that no BPU node reads runs on the CPU where the BPU computes behind it "
            "again, wherever it goes: between a convolution and an LRN. At the end it is int16.",
            NOT_READ_BY_BPU
            & NOT_ASKED
            & op(*RECTIFIERS, "Pow")
            & of_node("reaches no output but by the BPU", lambda node: not reaches_output(node.outputs[0])),
            _cpu(Code.RECTIFIER_WITHIN),
            BAYES,
        ),
        Rule(
            "device.late-power-tail",
            "bernoulli2 finds last that no BPU node reads a power which a Transpose moves to one, or whose operand "
            "others read too, so its inputs are quantised.",
            NOT_READ_BY_BPU
            & NOT_ASKED
            & op("Pow")
            & (
                of_node("is turned for the BPU", _is_turned_for_bpu)
                | of_node("reads what others read too", _shares_its_operand)
            ),
            _late(Code.PRODUCT_TAIL),
            BERNOULLI,
            over=("device.power-tail",),
        ),
        Rule(
            "device.power-tail",
            "bernoulli2 computes no power that no BPU node reads.",
            NOT_READ_BY_BPU & NOT_ASKED & op("Pow"),
            _cpu(Code.PRODUCT_TAIL),
            BERNOULLI,
            measured=MeasuredApart(
                "8 powers that only reductions on the CPU, or nothing, read, in 3 small networks, within them also on "
                "bayes-e (device.rectifier-within), and 2 beside them that the BPU reads as well "
                "(docs/evidence/shipping.md)",
                networks=3,
            ),
        ),
    ],
)
"""The ends, from the outputs of the network on: what would cost the last results their precision."""


def _sums_alone(site: DeviceSite) -> bool:
    """Whether a sum is computed by no convolution."""
    return site.node.op_type == "Add" and not runs_as_convolution(site.node, site.chip)


def _reads_cpu_result(site: DeviceSite) -> bool:
    head = before_calibration(given(site.node, 0)).producer()
    return head is not None and not on_bpu(head) and head.op_type != PREPROCESS


def _reads_floats_of_cpu(site: DeviceSite) -> bool:
    """Whether the CPU computes what is read by what is not quantised in front of movements either.

    A PRelu behind 11 operators that are asked for on the CPU, 16 branches each on bayes and bernoulli2.
    """
    head = before_calibration(given(site.node, 0)).producer()
    return _reads_cpu_result(site) and head is not None and head.op_type not in QUANTISED_BEFORE_LATE


def _resizes_asked(site: DeviceSite) -> bool:
    """Whether what the configuration sends to the CPU, where it joins, gives what is read, and no BPU node reads it."""
    value = before_calibration(given(site.node, 0))
    head = value.producer()
    rivals = [reader for reader in float_readers(value) if on_bpu(reader) and reader.op_type != site.node.op_type]
    return head is not None and joins_on_request(head) and not rivals


PRODUCTS: Table[DeviceSite, Place] = Table(
    "device",
    [
        Rule(
            "device.rectified-floats",
            "A PRelu of what the CPU computes runs there too, unless a convolution, arithmetic, a reduction or a Clip, "
            "Cos, Elu, LeakyRelu, Log, Reciprocal, Relu, Sin or Tan gives it.",
            NOT_ASKED & op("PRelu") & _site("reads what the CPU computes as a float", _reads_floats_of_cpu),
            _late(Code.RECTIFIED_FLOATS),
        ),
        Rule(
            "device.resize-on-request",
            "A Resize, Expand or Tile of what a Concat gives that is asked for on the CPU runs there too.",
            NOT_ASKED
            & op("Expand", "Resize", "Tile", "Upsample")
            & _site("alone reads what is joined on the CPU because it is asked for", _resizes_asked),
            _late(Code.PART_OF_CPU_NODE),
        ),
        Rule(
            "device.product-tail",
            "bernoulli2 computes no product that no BPU node reads; it finds that last, so its inputs are quantised.",
            NOT_READ_BY_BPU & NOT_ASKED & op("Mul"),
            _late(Code.PRODUCT_TAIL),
            BERNOULLI,
        ),
        Rule(
            "device.sum-tail",
            "bernoulli2 computes no sum by an operator of its own that no BPU node reads.",
            NOT_READ_BY_BPU & NOT_ASKED & _site("is a sum that no convolution computes", _sums_alone),
            _late(Code.PRODUCT_TAIL),
            BERNOULLI,
        ),
    ],
)
"""Products and sums at the ends, from the inputs on.

So what only such a product or sum reads stays: 8 of 8 asked, two and three in a row, beside readers on the CPU or not.
"""


REORDERING = ("Pad", "Reshape", "Slice", "Transpose")
"""What moves floats in front of the quantisation that is behind it, where that is all that reads it."""
CHOOSING = ("DepthToSpace", "MaxPool", "Pad", "SpaceToDepth")
"""What moves floats of the CPU only as integers, where the BPU computes with them."""


def _source_on_cpu(node: ir.Node) -> ir.Node | None:
    """What computes on the CPU what ``node`` reads, moved on the BPU or not; None where it is the BPU or an input.

    None, too, where that is quantised for another reader, which it is then moved for as well.
    """
    value = before_calibration(moved_from(before_calibration(given(node, 0)), _reorders))
    head = value.producer()
    is_elsewhere = head is None or on_bpu(head) or head.op_type == PREPROCESS
    return None if is_elsewhere or is_wanted(value) else head


def _is_for_cpu_too(node: ir.Node) -> bool:
    """Whether the CPU reads the result of ``node``, or the user does."""
    return node.outputs[0].is_graph_output() or not all(map(ends_on_bpu, _readers(node)))


def _moves_to_movements(node: ir.Node) -> bool:
    """Whether what ``node`` gives is only moved further, and the floats of the CPU were not quantised to be moved."""
    source = _source_on_cpu(node)
    is_float = source is not None and not is_quantised(source)
    return is_float and (node.op_type == "SpaceToDepth" or not is_wanted(node.outputs[0]))


MOVEMENTS: Table[DeviceSite, Place] = Table(
    "device",
    [
        Rule(
            "device.moved-floats",
            "A Slice, Transpose, Reshape or Pad of what the CPU computes runs there too where the CPU reads it as "
            "well: floats are quantised in front of it for the BPU alone.",
            NOT_ASKED
            & op(*REORDERING)
            & of_node("is read by the CPU", _is_for_cpu_too)
            & of_node("moves what the CPU computes", lambda node: _source_on_cpu(node) is not None),
            Place(On.FLOATS, Code.PASSIVE_TAIL),
            over=("device.chosen-floats",),
        ),
        Rule(
            "device.chosen-floats",
            "So does a SpaceToDepth, and a MaxPool, DepthToSpace or Pad that the BPU does not compute with but moves.",
            NOT_ASKED & op(*CHOOSING) & of_node("moves floats of the CPU to movements alone", _moves_to_movements),
            _cpu(Code.PASSIVE_TAIL),
        ),
    ],
)
"""What moves floats of the CPU, from the outputs of the network on."""


@dataclass(frozen=True)
class DeviceStep:
    """One look at the network.

    Attributes:
        says: what is looked for.
        table: the rules.
        backwards: whether from the outputs on.
        everywhere: whether also at nodes that are not on the BPU.
        chains: whether the rules look at chains.
        settled: whether what is refused late leaves the BPU, before it or in turn.
    """

    says: str
    table: Table[DeviceSite, Place]
    backwards: bool = False
    everywhere: bool = False
    chains: bool = False
    settled: bool = False


LEAVING_LAST = ("Expand", "ReduceMax", "ReduceMean", "Sub", "Tile")
"""Of what is refused late, maxima, repetitions and the parts of a normalisation leave the BPU while products and sums
at the ends are looked at, in their turn; others leave before.

So the sum that only the mean and the difference of a normalisation read stays, one that only a Reshape reads does not
(``swin_b``, ``dropped_axes``).
"""
STEPS = (
    DeviceStep("what the BPU has", OPERATORS, everywhere=True),
    DeviceStep("what was asked for", REQUESTS, everywhere=True, chains=True),
    DeviceStep("what is one with a node on the CPU", WHOLES),
    DeviceStep("the ends of the network", TAILS, backwards=True, chains=True),
    DeviceStep("products and sums at the ends", PRODUCTS, settled=True),
    DeviceStep("what moves floats of the CPU", MOVEMENTS, backwards=True),
)
"""In order; what is refused late leaves the BPU before the last but one."""
