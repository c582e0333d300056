"""BPU or CPU at the ends of the network and around the CPU: the rules of the later steps.

They look at the network after those of :mod:`engine.rulebook.device`. What they find only after the original has
calibrated leaves the BPU late, so that its inputs are quantised all the same.
"""

from dataclasses import replace

import onnx_ir as ir

from engine.facts.devices import asked_late, ends_on_bpu, is_quantised, joins_on_request, on_bpu
from engine.facts.moves import (
    is_computed_with,
    is_exact_sum,
    is_passive,
    is_wanted,
    joined_with,
    keeps_scale,
    moved_from,
    moved_to,
    reaches_output,
)
from engine.graph import float_readers
from engine.ir import (
    MARK_LATE,
    before_calibration,
    is_calibration,
)
from engine.ops.add import runs_as_convolution
from engine.ops.core.float_nodes import given, is_relu
from engine.ops.core.reasons import Code
from engine.ops.foreign.composite import PREPROCESS
from engine.ops.registry import rule_for
from engine.rulebook.calibrated import LATE_FUNCTIONS, QUANTISED_BEFORE_LATE
from engine.rulebook.device_sites import (
    NOT_ASKED,
    NOT_READ_BY_BPU,
    DeviceSite,
    On,
    Place,
    is_of_division,
    leaves_late,
    of_site,
    readers_of,
    reads_cpu_result,
    reorders,
    to_cpu,
)
from engine.rulebook.patterns import of_node, op
from engine.rulebook.rule import BAYES, BERNOULLI, MeasuredApart, Rule, Table


def _is_asked_tail(site: DeviceSite) -> bool:
    """Whether ``site`` is asked for, or its result has a type that is asked for; not where the CPU gives what it reads.

    13 operators of the CPU, five of which leave the BPU late, and three movements each, and 8 Concats of which any is
    from the CPU, with both options for outputs (94 of 94 on bayes-e).
    """
    is_typed = str(site.node.name) in site.typed_nodes and reaches_output(site.node.outputs[0])
    read = [value for value in site.node.inputs if value is not None]
    if site.node.op_type != "Concat":
        read += [moved_from(before_calibration(value), is_passive) for value in read]
    is_given = all(producer is None or _stays(producer) for producer in (value.producer() for value in read))
    is_output = site.typed and _makes_output(site.node) and is_given
    return site.asked or is_typed or is_output


def _makes_output(node: ir.Node) -> bool:
    """Whether ``node`` gives an output, or what is asked for on the CPU makes one of it, which may then be moved.

    14 maxima and means that are asked for on the CPU, with a TopK behind and without.
    """
    late = [each for each in (node, *readers_of(node)) if asked_late(each)]
    moved = [value for each in late for value in moved_to(each.outputs[0], is_passive)]
    return any(value.is_graph_output() for value in (node.outputs[0], *moved))


def _moves_tail_sum(site: DeviceSite) -> bool:
    """Whether an int32 sum of one scale is moved, which is made float behind it as well."""
    value = site.node.inputs[0]
    passes = site.operator is not None and site.operator.moves_sums and MARK_LATE not in site.node.metadata_props
    return passes and value is not None and is_exact_sum(before_calibration(value))


RECTIFIED_ON_CPU = frozenset({"LeakyRelu", "PRelu", *LATE_FUNCTIONS})
"""What the CPU computes where no BPU node reads it: on bernoulli2, and within a network."""
ENDS_ON_CPU = frozenset({"Add", "Mul"}) | RECTIFIED_ON_CPU
"""What bernoulli2 computes on the CPU, or leaves in int32, where no BPU node reads it."""


def _moves_accumulator(node: ir.Node, site: DeviceSite, joins: bool = False) -> bool:
    """Whether ``node`` moves, directly or behind others, what could stay in int32 or float.

    Of several operands that a Concat joins, one that the CPU computes decides, and a sum, Resize or average; of others
    the first in the graph that the BPU does not compute with (92 Concats on three marches); any within. There a Concat
    counts as directly behind what movements give it (``joins``): a deviation beside a mean and what both are of, in
    attentive statistics (18 of 18 on bayes-e).
    """
    rule = rule_for(node)
    found = {}
    for index in () if rule is None else rule.activations(node):
        value = node.inputs[index]
        could_stay = _could_stay(value, site, joins or node.op_type == "Concat")
        if could_stay and (len(node.inputs) == 1 or _decides(value, node, site)):
            return True
        if value is not None and could_stay is not None:
            found[value.producer()] = could_stay
    if _joins_asked_wide(node, site):
        return False
    graph = node.graph
    first = next((each for each in graph if each in found), None) if len(found) > 1 and graph is not None else None
    return any(found.values()) if first is None or _is_within(site) else found[first]


def _could_move_sum(site: DeviceSite) -> bool:
    """Whether ``site`` would move what could stay in int32 or float, if int16 were asked of nothing."""
    return _moves_accumulator(site.node, replace(site, wide_results=frozenset()))


def _moves_asked_wide(site: DeviceSite) -> bool:
    """Whether what ``site`` moves to the end could stay in int32 or float but for the int16 that is asked of it.

    48 tails of convolutions, 42 of sums, poolings, Gemms and joined convolutions, on bayes and bayes-e; not within,
    where the BPU computes behind the CPU again (18 of 18 branches a march, and 18 at the end the other way round).
    """
    if not site.wide_results or _is_within(site):
        return False
    return _could_move_sum(site) and not _moves_accumulator(site.node, site)


def _could_stay(value: ir.Value | None, site: DeviceSite, joins: bool) -> bool | None:
    """Whether ``value`` could stay in int32 or float; None where it is computed with on the BPU, or part of a Split."""
    head = None if value is None else site.heads.get(before_calibration(value))
    source = None if head is None else rule_for(head)
    is_late = head is not None and MARK_LATE in head.metadata_props
    if value is not None and not is_late and is_computed_with(value, _stays, is_passive):
        return None
    if value is not None and not is_late and _is_asked_wide(value, site):
        return False
    if head is None or source is None or is_late or (joins and str(head.name) in site.on_bpu):
        return True
    moves_sums = source.passive and _moves_accumulator(head, site, joins)
    if not moves_sums and (head.op_type == "Split" or _moves_used(head)):
        return None
    if source.stays_int32(head) and _follows_int16(value, head, site):
        return False
    on_cpu = head.op_type in ENDS_ON_CPU and site.chip.family in BERNOULLI
    within = _is_within(site) and (head.op_type in RECTIFIED_ON_CPU or (joins and source.wide_results_of_wide_inputs))
    return moves_sums or source.stays_int32(head) or on_cpu or within or head.op_type == "Pow"


def _is_asked_wide(value: ir.Value, site: DeviceSite) -> bool:
    """Whether int16 is asked of ``value``, by the name of the node that computes it or of the one that gives it."""
    given_by = before_calibration(value)
    nodes = (site.heads.get(given_by), given_by.producer())
    return any(node is not None and str(node.name) in site.wide_results for node in nodes)


def _joins_asked_wide(node: ir.Node, site: DeviceSite) -> bool:
    """Whether one of several operands of ``node`` is asked for in int16."""
    values = [value for value in node.inputs if value is not None]
    return len(values) > 1 and any(_is_asked_wide(value, site) for value in values)


def _is_within(site: DeviceSite) -> bool:
    """Whether the BPU computes behind the CPU again, wherever the results of ``site`` go (not on bernoulli2).

    There a Concat of functions is left to the CPU, so is what moves a rectifier, and a convolution that is joined with
    an int16 result stays in int32 (24 branches a march).
    """
    return site.chip.family in BAYES and not reaches_output(site.node.outputs[0])


def _follows_int16(value: ir.Value | None, head: ir.Node, site: DeviceSite) -> bool:
    """Whether a convolution, by ``head``, gives ``value`` behind an int16 result that it is joined with."""
    producer = None if value is None else value.producer()
    graph = head.graph
    if value is None or producer is None or graph is None or site.typed or site.chip.family not in BAYES:
        return False
    if _is_within(site):
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


def _reads_ends(node: ir.Node) -> bool:
    """Whether the BPU computes with one of the inputs of ``node`` nowhere."""
    return not all(is_computed_with(value, _stays, is_passive) for value in node.inputs if value is not None)


def _stays(node: ir.Node) -> bool:
    """Whether ``node`` runs on the BPU to the end; the states of ``crnn_gru_b`` are moved by what leaves it late."""
    return on_bpu(node) and rule_for(node) is not None and MARK_LATE not in node.metadata_props


def _reads_cpu_product(site: DeviceSite) -> bool:
    """Whether the CPU computes the MatMul that is read: 6 of 6 Relus and Clips from 0 to 6 of scores run on the BPU."""
    producer = before_calibration(given(site.node, 0)).producer()
    return producer is not None and producer.op_type == "MatMul" and reads_cpu_result(site)


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


ASKED_TAIL = of_site("is asked for, or has a type that is asked for", _is_asked_tail)
WITHIN = of_node("reaches no output but by the BPU", lambda node: not reaches_output(node.outputs[0]))
PASSIVE_TAIL = NOT_READ_BY_BPU & of_node("moves values, or chooses among them", is_passive)

TAILS: Table[DeviceSite, Place] = Table(
    "device",
    [
        Rule(
            "device.moved-sum",
            "An int32 sum of one scale is moved on the BPU and made float behind it; not on bernoulli2.",
            PASSIVE_TAIL & of_site("moves an int32 sum of one scale", _moves_tail_sum),
            Place(On.UNCHANGED),
            BAYES,
            over=("device.passive-tail",),
        ),
        Rule(
            "device.moved-int16",
            "What moves a result at the end that int16 is asked of, or takes the maxima of its windows, runs on the "
            "BPU and is made float behind it; so does a Concat of such a result, but with a sum, Resize or average.",
            PASSIVE_TAIL & of_site("moves a result that int16 is asked of", _moves_asked_wide),
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
            PASSIVE_TAIL & ~ASKED_TAIL & of_site("reads what could stay in int32 or float", _could_move_sum),
            to_cpu(Code.PASSIVE_TAIL),
            over=("device.joined-tail", "device.activation-tail"),
        ),
        Rule(
            "device.maximum-tail",
            "A ReduceMax, Expand or Tile that leaves the BPU late is not quantised where no BPU node reads it, unless "
            "it is asked for on the CPU and a type is asked of what it gives.",
            NOT_READ_BY_BPU
            & op("Expand", "ReduceMax", "Tile")
            & NOT_ASKED
            & ~(of_node("is asked for on the CPU", asked_late) & ASKED_TAIL)
            & of_node("leaves the BPU late", lambda node: MARK_LATE in node.metadata_props),
            to_cpu(Code.PASSIVE_TAIL),
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
            & of_site("reads what no BPU node computes with", lambda site: _reads_ends(site.node)),
            to_cpu(Code.PASSIVE_TAIL),
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
            & ~of_site("reads the product of a MatMul on the CPU", _reads_cpu_product),
            to_cpu(Code.ACTIVATION_TAIL),
            BERNOULLI,
        ),
        Rule(
            "device.rectifier-tail",
            "bernoulli2 computes no LeakyRelu or PRelu that no BPU node reads.",
            NOT_READ_BY_BPU & NOT_ASKED & op("LeakyRelu", "PRelu"),
            to_cpu(Code.PRODUCT_TAIL),
            BERNOULLI,
        ),
        Rule(
            "device.rectifier-within",
            "A LeakyRelu or PRelu that no BPU node reads runs on the CPU where the BPU computes behind it again, "
            "wherever it goes: between a convolution and an LRN. At the end it is int16.",
            NOT_READ_BY_BPU & NOT_ASKED & op("LeakyRelu", "PRelu") & WITHIN,
            to_cpu(Code.RECTIFIER_WITHIN),
            BAYES,
        ),
        Rule(
            "device.function-tail",
            "An Elu, power, Sin, Cos, Tan, Log, Reciprocal, Floor or Ceil that no BPU node reads leaves bernoulli2 "
            "last: what it reads is quantised for others that read it too, or for what gives it by moving.",
            NOT_READ_BY_BPU
            & NOT_ASKED
            & op(*LATE_FUNCTIONS)
            & ~of_site("is a Reciprocal that only a product on the CPU reads", is_of_division),
            leaves_late(Code.PRODUCT_TAIL),
            BERNOULLI,
        ),
        Rule(
            "device.function-within",
            "An Elu, power, Sin, Cos, Tan, Log, Reciprocal, Floor or Ceil that no BPU node reads leaves the BPU last "
            "where this computes behind it again, wherever it goes: between a convolution and an LRN. At the end it is "
            "int16.",
            NOT_READ_BY_BPU & NOT_ASKED & op(*LATE_FUNCTIONS) & WITHIN,
            leaves_late(Code.RECTIFIER_WITHIN),
            BAYES,
        ),
    ],
)
"""The ends, from the outputs of the network on: what would cost the last results their precision."""


def _sums_alone(site: DeviceSite) -> bool:
    """Whether a sum is computed by no convolution."""
    return site.node.op_type == "Add" and not runs_as_convolution(site.node, site.chip)


def _left_last(reader: ir.Node) -> bool:
    """Whether ``reader`` is a function of :data:`LATE_FUNCTIONS` that left the BPU."""
    return reader.op_type in LATE_FUNCTIONS and MARK_LATE in reader.metadata_props


def _is_for_functions(site: DeviceSite) -> bool:
    """Whether only functions of :data:`LATE_FUNCTIONS` that left the BPU read a result that no int32 could hold."""
    head = site.heads.get(site.node.outputs[0])
    rule = None if head is None else rule_for(head)
    if head is None or rule is None or is_passive(site.node) or rule.stays_int32(head):
        return False
    if head.op_type == "Add" and runs_as_convolution(head, site.chip):
        return False
    readers = readers_of(site.node)
    return bool(readers) and all(map(_left_last, readers)) and not site.node.outputs[0].is_graph_output()


def _reads_floats_of_cpu(site: DeviceSite) -> bool:
    """Whether the CPU computes what is read by what is not quantised in front of movements either.

    A PRelu behind 11 operators that are asked for on the CPU, 16 branches each on bayes and bernoulli2.
    """
    head = before_calibration(given(site.node, 0)).producer()
    return reads_cpu_result(site) and head is not None and head.op_type not in QUANTISED_BEFORE_LATE


def _resizes_asked(site: DeviceSite) -> bool:
    """Whether what the configuration sends to the CPU, where it joins, gives what is read, and no BPU node reads it."""
    value = before_calibration(given(site.node, 0))
    head = value.producer()
    rivals = [reader for reader in float_readers(value) if on_bpu(reader) and reader.op_type != site.node.op_type]
    return head is not None and joins_on_request(head) and not rivals


NOT_READ_BY_FUNCTION = of_node(
    "is read by no function that left the BPU last", lambda node: not any(map(_left_last, readers_of(node)))
)

PRODUCTS: Table[DeviceSite, Place] = Table(
    "device",
    [
        Rule(
            "device.rectified-floats",
            "A PRelu of what the CPU computes runs there too, unless a convolution, arithmetic, a reduction or a Clip, "
            "Cos, Elu, LeakyRelu, Log, Reciprocal, Relu, Sin or Tan gives it.",
            NOT_ASKED & op("PRelu") & of_site("reads what the CPU computes as a float", _reads_floats_of_cpu),
            leaves_late(Code.RECTIFIED_FLOATS),
        ),
        Rule(
            "device.resize-on-request",
            "A Resize, Expand or Tile of what a Concat gives that is asked for on the CPU runs there too.",
            NOT_ASKED
            & op("Expand", "Resize", "Tile", "Upsample")
            & of_site("alone reads what is joined on the CPU because it is asked for", _resizes_asked),
            leaves_late(Code.PART_OF_CPU_NODE),
        ),
        Rule(
            "device.before-function",
            "What only functions read that left the BPU last, and could not stay in int32 for them, leaves it too: a "
            "Sigmoid in front of a Log.",
            NOT_READ_BY_BPU & NOT_ASKED & of_site("gives floats to functions that left last", _is_for_functions),
            leaves_late(Code.PRODUCT_TAIL),
            over=("device.product-tail", "device.sum-tail"),
        ),
        Rule(
            "device.product-tail",
            "bernoulli2 computes no product that no BPU node reads; it finds that last, so its inputs are quantised. A "
            "function that leaves the BPU last counts as one beside other readers.",
            NOT_READ_BY_BPU & NOT_READ_BY_FUNCTION & NOT_ASKED & op("Mul"),
            leaves_late(Code.PRODUCT_TAIL),
            BERNOULLI,
        ),
        Rule(
            "device.sum-tail",
            "bernoulli2 computes no sum by an operator of its own that no BPU node reads, nor a function beside others "
            "that leaves the BPU last.",
            NOT_READ_BY_BPU
            & NOT_READ_BY_FUNCTION
            & NOT_ASKED
            & of_site("is a sum that no convolution computes", _sums_alone),
            leaves_late(Code.PRODUCT_TAIL),
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
    value = before_calibration(moved_from(before_calibration(given(node, 0)), reorders))
    head = value.producer()
    is_elsewhere = head is None or on_bpu(head) or head.op_type == PREPROCESS
    return None if is_elsewhere or is_wanted(value) else head


def _is_for_cpu_too(node: ir.Node) -> bool:
    """Whether the CPU reads the result of ``node``, or the user does."""
    return node.outputs[0].is_graph_output() or not all(map(ends_on_bpu, readers_of(node)))


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
            to_cpu(Code.PASSIVE_TAIL),
        ),
    ],
)
"""What moves floats of the CPU, from the outputs of the network on."""
