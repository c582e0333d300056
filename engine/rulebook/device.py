"""BPU or CPU for every node: the rules, in the steps in which the original takes them (reference/operators.md).

It first looks at every node alone, then at what was asked, then at what is one with a node on the CPU, then at the ends
of the network, then at what it finds only after it has calibrated: such a node leaves the BPU late, so that its inputs
are quantised all the same. Last it looks at what moves floats of the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from engine.facts.devices import is_quantised, on_bpu
from engine.facts.moves import (
    is_computed_with,
    is_passive,
    moved_from,
)
from engine.graph import float_readers, sole_reader
from engine.ir import (
    MARK_STEPS,
    attribute,
    before_calibration,
    constant_of,
    shape_of,
)
from engine.ops.core.element_functions import FUNCTIONS
from engine.ops.core.float_nodes import given, is_relu, subtracts_mean
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.foreign.custom import is_custom
from engine.rulebook.device_ends import MOVEMENTS, PRODUCTS, TAILS
from engine.rulebook.device_sites import (
    DeviceSite,
    On,
    Place,
    is_of_division,
    leaves_late,
    of_site,
    readers_of,
    reorders,
    to_cpu,
)
from engine.rulebook.patterns import gives_rank, of_node, op, read_by
from engine.rulebook.rule import BERNOULLI, MeasuredApart, Rule, Table

LACKING = (
    "GlobalAveragePool",
    "ReduceMean",
    "ReduceSum",
    "Transpose",
    "GatherElements",
    "HzSoftmax",
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
ON_REQUEST = of_site(
    "has an operator that must be asked for and is not",
    lambda site: site.operator is not None and site.operator.on_request and not site.asked,
)

OPERATORS: Table[DeviceSite, Place] = Table(
    "device",
    [
        Rule(
            "device.no-operator",
            "What no BPU has an operator for, the user's own operators among them, runs on the CPU.",
            of_site("has no operator on any BPU", lambda site: site.operator is None),
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
            to_cpu(Code.NO_OPERATOR),
            BERNOULLI,
            over=("device.several-matrices",),
        ),
        Rule(
            "device.several-matrices",
            "bernoulli2 multiplies one matrix by one: stacks of matrices are multiplied on the CPU.",
            op("MatMul") & of_node("multiplies several matrices", _multiplies_several),
            to_cpu(Code.SEVERAL_MATRICES),
            BERNOULLI,
            over=("device.rank-4-only",),
        ),
        Rule(
            "device.rank-4-only",
            "bernoulli2 computes tensors of rank 4 alone.",
            of_site("gives a tensor of another rank than 4", lambda site: not _gives_maps(site.node))
            & ~OF_RANK_3
            & ~op("ReduceMax"),
            to_cpu(Code.RANK_4_ONLY),
            BERNOULLI,
            over=("device.scalar",),
        ),
        Rule(
            "device.scalar",
            "A tensor without dimensions is not computed on the BPU.",
            of_node("gives a tensor without dimensions", lambda node: any(shape_of(v) == () for v in node.outputs)),
            to_cpu(Code.SCALAR),
            over=("device.not-float",),
        ),
        Rule(
            "device.not-float",
            "Numbers of other types than float32 are not quantised.",
            of_site("gives numbers of another type than float32", _is_no_float),
            to_cpu(Code.NOT_FLOAT),
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
            of_site("has a constant that would be quantised and is not finite", _has_undefined_constant),
            to_cpu(Code.UNDEFINED_CONSTANT),
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
            of_site("is refused by the operator of the BPU", lambda site: _refusal(site) is not None),
            Place(On.CPU, stated=_refusal),
            over=("device.mean-of-normalisation", "device.late-operator"),
        ),
        Rule(
            "device.mean-of-normalisation",
            "A mean that a difference or a reciprocal root reads is quantised, then computed on the CPU.",
            MEAN_OF_NORMALISATION,
            leaves_late(Code.NO_OPERATOR),
            BERNOULLI,
            over=("device.of-rank-3",),
        ),
        Rule(
            "device.late-operator",
            "bernoulli2 quantises what Expand, Gather, Max, ReduceMax, Reshape, Tile and the difference from a mean "
            "read, then computes them on the CPU.",
            op(*LATE) | DIFFERENCE_FROM_MEAN,
            leaves_late(Code.NO_OPERATOR),
            BERNOULLI,
            over=("device.of-rank-3",),
        ),
        Rule(
            "device.of-rank-3",
            "What arithmetic, Concat, Slice, Reshape and Gather of tensors of rank 3 read is quantised, then they are "
            "computed on the CPU.",
            OF_RANK_3,
            leaves_late(Code.RANK_4_ONLY),
            BERNOULLI,
            over=("device.refused-late",),
        ),
        Rule(
            "device.refused-late",
            "Modes of a Resize or Pad, the axis of a Softmax, several axes of ReduceMax, Expand and Tile, what is "
            "gathered of rank 5 and, on bernoulli2, constants of products and sums are refused only after their "
            "inputs have been quantised.",
            of_site("is refused late by the operator of the BPU", lambda site: _late_refusal(site) is not None),
            Place(On.LATE, stated=_late_refusal),
            over=("device.bpu",),
        ),
        Rule(
            "device.bpu",
            "What nothing keeps from it runs on the BPU.",
            of_site("is any", lambda site: True),
            Place(On.BPU),
        ),
    ],
)
"""What the BPU has: every node is looked at alone."""


def _gives_maps(node: ir.Node) -> bool:
    return all(len(shape_of(value)) == 4 for value in node.outputs)


ASKED_ON_CPU = of_site("is asked for on the CPU", lambda site: str(site.node.name) in site.on_cpu)

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
            & of_site("would be part of a convolution or sum", _is_part),
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
            leaves_late(Code.ASKED_FOR),
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
            leaves_late(Code.ASKED_FOR),
            over=("device.asked-for",),
        ),
        Rule(
            "device.asked-for",
            "The configuration sends a node to the CPU.",
            ASKED_ON_CPU,
            to_cpu(Code.ASKED_FOR),
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


def _is_divisor_table(site: DeviceSite) -> bool:
    reader = None if site.node.op_type not in FUNCTIONS or site.asked else sole_reader(site.node.outputs[0])
    if reader is None or reader.op_type != "Reciprocal" or is_relu(site.node):
        return False
    if on_bpu(reader):
        return is_of_division(replace(site, node=reader))
    return not any(map(on_bpu, readers_of(reader)))


def _reads_floats_alone(site: DeviceSite) -> bool:
    """Whether the CPU computes what is read, and no BPU node of another kind reads it."""
    value = before_calibration(given(site.node, 0))
    head = moved_from(value, reorders).producer()
    rivals = [reader for reader in float_readers(value) if on_bpu(reader) and reader.op_type != site.node.op_type]
    return not site.asked and not rivals and head is not None and not on_bpu(head)


BEHIND_CPU = of_site("reads what the CPU computes", _behind_cpu)

WHOLES: Table[DeviceSite, Place] = Table(
    "device",
    [
        Rule(
            "device.activation-of-cpu-convolution",
            "The activation that alone reads a convolution on the CPU runs there too.",
            BEHIND_CPU & of_site("is the only reader of a convolution, and its activation", _is_only_activation),
            to_cpu(Code.PART_OF_CPU_NODE),
        ),
        Rule(
            "device.cast-of-cpu-comparison",
            "The cast of a comparison on the CPU runs there too.",
            BEHIND_CPU & op("Cast"),
            to_cpu(Code.PART_OF_CPU_NODE),
        ),
        Rule(
            "device.resize-of-floats",
            "A Resize, Expand or Tile of what the CPU computes runs there too, unless the BPU reads that otherwise.",
            op("Expand", "Resize", "Tile", "Upsample")
            & of_site("alone reads what the CPU computes, moved or not", _reads_floats_alone),
            to_cpu(Code.PART_OF_CPU_NODE),
        ),
        Rule(
            "device.table-of-division",
            "The table that only such a reciprocal reads is quantised, then computed on the CPU.",
            of_site("is a table that only a Reciprocal reads which only the CPU reads", _is_divisor_table),
            leaves_late(Code.DIVISION),
        ),
        Rule(
            "device.division",
            "A reciprocal that only a product on the CPU reads runs there too: the original decides on their Div.",
            of_site("is a Reciprocal that only a product on the CPU reads", is_of_division),
            to_cpu(Code.DIVISION),
        ),
    ],
)
"""What is one with a node on the CPU, from the inputs of the network on."""


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
    DeviceStep("products and sums at the ends", PRODUCTS, chains=True, settled=True),
    DeviceStep("what moves floats of the CPU", MOVEMENTS, backwards=True),
)
"""In order; what is refused late leaves the BPU before the last but one."""
