"""Which tensors have one scale: rules that emit constraints, solved by :mod:`engine.rulebook.solve`.

An operator that only moves values cannot rescale them, so what it reads and writes has one threshold: that of the
tensor at the head of such a chain. A Concat takes the operands that nothing computes with at its output's threshold
and requantises the others. All 20 recorded patterns of operands and readers show it: an operand that a convolution or
a sum reads too keeps its own (`input.20` of GhostNet, `input.68` of YOLO11), so do all outputs of a Split one of
which is computed with (``min_c2f``); through Reshape, Transpose and Resize the Concat reaches back to the tensor that
was moved (the heads of YOLO11); of two Concats that a Resize's input and output go to, the one that runs last decides
(the necks of YOLOv5 to YOLO11). What a Resize or Pad reads follows its output in the same way: 61 operands in 12
networks do, 21 in four that something computes with keep their own (the necks of db_text, fpn_retina_gn and fpn_ssd,
the Pads of blazeface); the result then takes it (``tests/parity/recorded/together``, where its own would differ; 10 of
10 Pads with percentiles). A Reshape, Resize or Pad that goes to the CPU late is tied as if it stayed (`input.244` of
yolo11_b, the reflecting Pads of style). The result of a Relu that no convolution absorbs has its input's threshold
(golden conversions ``i16_conv1``, ``i16_res``), behind a slice that takes that of another the slice's own (6 networks).

So the original seems to go about it: it calibrates what operators compute with, and what Split, MaxPool, Concat and
their like read where what they give is calibrated; measures these; then calibrates what movements read, and results
that nobody computes with, by what is known: a slice of it, or the function of the threshold of the input.

The files of the original tell a threshold that was taken over from one of the tensor's own: its attributes are in
another order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from engine.facts.devices import asked_late, is_quantised, joins_on_request, on_bpu, refused_late
from engine.facts.moves import is_joined_for_use, is_passive, keeps_scale, moved_from, moved_to, waits
from engine.graph import float_readers
from engine.graph.scales import Gate, Margin, scale_source
from engine.ir import attribute, before_calibration, constant_of, is_calibration
from engine.ops.core.base import FloatRule, Tie
from engine.ops.core.float_nodes import given
from engine.ops.core.reasons import Code, reason_of
from engine.ops.registry import rule_for
from engine.rulebook.rule import MeasuredApart, Pattern, Rule, Table
from engine.rulebook.solve import Constraint, FixedThreshold, GateOf, HandedOver, How, LargestOf, ScaleOf
from engine.terms import DataType

TIED_ON_CPU = (
    "Concat",
    "Expand",
    "Gather",
    "Max",
    "Pad",
    "PRelu",
    "ReduceMax",
    "Relu",
    "Reshape",
    "Resize",
    "Slice",
    "Tile",
)
"""What has the scale of what it moves although it goes to the CPU late."""


@dataclass(frozen=True)
class ScaleSite:
    """A node, and what the rules may know of the network around it.

    Attributes:
        node: the node.
        calibrations: the ``HzCalibration`` of every calibrated tensor, by its name.
        asked: names of the tensors of which int16 is asked, but not of a Conv or MatMul, and of operands of a Concat of
            which a type is.
        leads: the tensor that takes the scale of each first one that is made of it by movements alone.
        waiting: tensors that nothing wants in integers but what is made of them by movements.
        again: outputs that are calibrated by their function first, and then by their own values.
    """

    node: ir.Node
    calibrations: Mapping[str, ir.Node] = field(default_factory=dict)
    asked: Collection[str] = ()
    leads: Mapping[str, str] = field(default_factory=dict)
    waiting: Collection[str] = ()
    again: Collection[str] = ()

    @property
    def operator(self) -> FloatRule | None:
        """How the operator runs on the BPU."""
        return rule_for(self.node)

    @property
    def source(self) -> str:
        """Name of the first input."""
        return tensor_name(self.node.inputs[0] if self.node.inputs else None)

    @property
    def result(self) -> str:
        """Name of the first output."""
        return str(self.node.outputs[0].name)

    @property
    def operands(self) -> tuple[str, ...]:
        """Names of the inputs that are quantised."""
        return () if self.operator is None else activations(self.node, self.operator)


ALWAYS_GATES = (Gate.SIGMOID, Gate.HARD_SIGMOID, Gate.SOFTPLUS, Gate.TANH)
"""Functions whose results have a threshold that follows from that of the input whoever reads them.

All 79 recorded results of a Tanh with ``kl``, percentile, ``default`` or ``mix`` do.
"""

Demand = Callable[[ScaleSite], Iterator[Constraint]]
"""What a rule demands of the tensors of a node."""


def tensor_name(value: ir.Value | None) -> str:
    """Name of the float tensor that ``value`` stands for; empty for none."""
    return "" if value is None else str(before_calibration(value).name)


def activations(node: ir.Node, rule: FloatRule) -> tuple[str, ...]:
    """Names of the tensors that ``node`` quantises."""
    return tuple(tensor_name(node.inputs[index]) for index in rule.activations(node))


def is_placed(node: ir.Node) -> bool:
    """Whether ``node`` runs on the BPU, or is tied as if it did."""
    stays = on_bpu(node) or (node.op_type in TIED_ON_CPU and refused_late(node))
    return stays and not is_calibration(node) and rule_for(node) is not None


def is_moving(node: ir.Node) -> bool:
    """Whether ``node`` runs on the BPU, or is tied as if it did, and what it gives has the scale of what it reads."""
    return is_placed(node) and keeps_scale(node)


def _ties(tie: Tie, says: str) -> Pattern[ScaleSite]:
    def holds(site: ScaleSite) -> bool:
        return is_placed(site.node) and site.operator is not None and site.operator.tie(site.node) is tie

    return Pattern(says, holds)


def _every_result_takes_the_source(site: ScaleSite) -> Iterator[Constraint]:
    """Every result takes the scale of the input."""
    return (ScaleOf(str(value.name), site.source, How.TAKES) for value in site.node.outputs)


def _joined_parts_are_measured(site: ScaleSite) -> Iterator[Constraint]:
    """Results that a Concat reads take what the function's values give it; others take the scale of the input."""
    function = str(_head_of(site).name)
    for value in site.node.outputs:
        name = str(value.name)
        is_joined = name in site.calibrations and any(map(_joins, float_readers(value)))
        yield ScaleOf(name, function, How.MEASURED) if is_joined else ScaleOf(name, site.source, How.TAKES)


def _head_of(site: ScaleSite) -> ir.Value:
    """What movements made the input of."""
    return moved_from(before_calibration(given(site.node, 0)), lambda node: is_calibration(node) or is_moving(node))


def _splits_a_gate(site: ScaleSite) -> bool:
    """Whether a Split is of the result of a function that always has the threshold which follows from its input."""
    function = _head_of(site).producer() if site.node.op_type == "Split" else None
    return function is not None and gate_of(replace(site, node=function)) in ALWAYS_GATES


def _first_leads(site: ScaleSite) -> Iterator[Constraint]:
    """What is moved takes the scale of the result; other results take that of the input."""
    for value in site.node.outputs:
        moved = site.leads.get(str(value.name))
        yield (
            ScaleOf(str(value.name), site.source, How.TAKES)
            if moved is None
            else ScaleOf(moved, str(value.name), How.LEADS)
        )


def _reads_rectified(site: ScaleSite) -> bool:
    """Whether a PRelu on the BPU gives what is read, which is not calibrated, and the result is."""
    producer = given(site.node, 0).producer()
    return (
        producer is not None
        and producer.op_type == "PRelu"
        and on_bpu(producer)
        and any(str(value.name) in site.calibrations for value in site.node.outputs)
    )


def _keeps_its_own(site: ScaleSite) -> Iterator[Constraint]:
    """Nothing: the threshold is fixed."""
    return iter(())


def _source_takes_the_result(site: ScaleSite) -> Iterator[Constraint]:
    """The input takes the scale of the result, unless it takes another; one that is moved there shares it."""
    if site.node.op_type == "PRelu" and site.operands[0] not in site.calibrations:
        yield from _both_share_one(site)
    else:
        yield ScaleOf(site.operands[0], site.result, How.IF_FREE)


def _both_share_one(site: ScaleSite) -> Iterator[Constraint]:
    """What the input has the scale of takes that of the result; where something computes with it, it gives it."""
    yield ScaleOf(site.operands[0], site.result, How.WITH_HEAD)
    if str(_head_of(site).name) in site.waiting:
        yield ScaleOf(site.result, site.source, How.IF_FREE)
    yield ScaleOf(site.result, site.operands[0], How.IF_FREE)


def _unasked_operands_follow(site: ScaleSite) -> Iterator[Constraint]:
    """Operands for which no type is asked take the scale of the result, unless something computes with it."""
    for name in site.operands:
        calibration = site.calibrations.get(name)
        if name in site.asked or _first_join(calibration) not in (None, site.node):
            continue
        if calibration is None or not _is_enlarged_of_joined(given(calibration, 0)):
            yield ScaleOf(name, site.result, How.WITH_HEAD)


def _operands_of_the_cpu_follow(site: ScaleSite) -> Iterator[Constraint]:
    """Operands follow as those of another Concat, but for what is not calibrated and what Gather and ReduceMax give."""
    left = {name for name in site.operands if name not in site.calibrations or _is_chosen(site.calibrations[name])}
    yield from (each for each in _unasked_operands_follow(site) if each.tensor not in left)


def _is_chosen(calibration: ir.Node) -> bool:
    producer = given(calibration, 0).producer()
    return producer is not None and producer.op_type in ("Gather", "ReduceMax") and on_bpu(producer)


def _takes_the_moved_operand(site: ScaleSite) -> Iterator[Constraint]:
    """The result takes the scale of the last operand that is moved; other operands keep what its values give."""
    moved = [name for name in site.operands if name in site.calibrations and _is_moved_there(site.calibrations[name])]
    if moved:
        readers = float_readers(site.node.outputs[0])
        parts = [str(part.name) for reader in readers if reader.op_type == "Split" for part in reader.outputs]
        led = next((name for name, head in site.leads.items() if head == site.result), site.result)
        others = [name for name in site.operands if name != moved[-1]]
        yield HandedOver(led, moved[-1], (*others, *parts), site.result)


def _is_moved_there(calibration: ir.Node) -> bool:
    """Whether movements alone read what a movement, a Pad or a Resize gives; it is not calibrated then."""
    producer = given(calibration, 0).producer()
    is_moved = producer is not None and (keeps_scale(producer) or producer.op_type in ("Pad", "Resize"))
    readers = [usage.node for usage in calibration.outputs[0].uses()]
    return is_moved and all(joins_on_request(each) or (is_quantised(each) and waits(each)) for each in readers)


def _first_join(calibration: ir.Node | None) -> ir.Node | None:
    """The first Concat, in the order of the graph, that reads what ``calibration`` gives."""
    graph = None if calibration is None else calibration.graph
    if calibration is None or not isinstance(graph, ir.Graph):
        return None
    readers = {usage.node for usage in calibration.outputs[0].uses() if _joins(usage.node)}
    return next((node for node in graph if node in readers), None) if len(readers) > 1 else None


def _is_enlarged_of_joined(value: ir.Value) -> bool:
    """Whether ``value`` is enlarged of what a Concat reads as it is: that one gives it its scale.

    The maps of UNet++; 12 of 12 asked, Resizes and Pads of convolutions and Relus in three orders.
    """
    while (producer := value.producer()) is not None and _enlarges(producer):
        if any(_joins(usage.node) for usage in given(producer, 0).uses()):
            return True
        value = before_calibration(given(producer, 0))
    return False


def _enlarges(node: ir.Node) -> bool:
    rule = rule_for(node)
    return is_placed(node) and rule is not None and rule.tie(node) is Tie.ONE_FOR_BOTH


def _joins(node: ir.Node) -> bool:
    rule = rule_for(node)
    return is_placed(node) and rule is not None and rule.tie(node) is Tie.OPERANDS_TAKE_OUTPUT


def _largest_of_operands(site: ScaleSite) -> Iterator[Constraint]:
    """The threshold is the largest of those of the operands."""
    yield LargestOf(site.result, site.operands)


def _result_takes_the_source(site: ScaleSite) -> Iterator[Constraint]:
    """The result takes the scale of the input, unless it takes another; its own where that is led by another."""
    yield ScaleOf(site.result, site.source, How.AS_MEASURED)


def _fixed(site: ScaleSite) -> Iterator[Constraint]:
    """Thresholds of what the operator reads alone, and of what it gives."""
    rule, decided = site.operator, scale_source(site.node).fixed
    read = site.calibrations.get(site.source)
    for name, index in ((site.source, 0), (site.result, 1)):
        calibration = site.calibrations.get(name)
        if rule is None or calibration is None:
            continue
        result = calibration.outputs[0]
        if index == 0 and (len(list(result.uses())) > 1 or result.is_graph_output() or _is_decided(calibration)):
            continue
        threshold = rule.fixed_thresholds(site.node, attribute(read or calibration, "qtype"))[index]
        if index == 1 and decided is not None:
            threshold = None if name in site.leads.values() else decided
        if threshold is not None:
            yield FixedThreshold(name, threshold)


def _is_decided(calibration: ir.Node) -> bool:
    """Whether a Softmax on the BPU gives the tensor, whose results have a fixed threshold."""
    producer = given(calibration, 0).producer()
    return producer is not None and scale_source(producer).fixed is not None


def gate_of(site: ScaleSite) -> Gate | None:
    """The function that gives the threshold of the result from that of the input; None where none does.

    Of what only movements read, a Max (6 of 6) or the CPU; a Sigmoid, HardSigmoid, Softplus (21 of 21) or Tanh (79 of
    79) always. An int16 result of the others has its own, unless something joins or computes with what movements make
    of it, and that is no output (24 of 24 on bayes-e and bayes), or where int16 is asked of it by name; an int8 one
    where an int16 tensor is read that is asked for by name (18 of 18; 12 of 12 where int16 is asked of all nodes have
    that of the function).
    """
    gate = unasked_gate_of(site)
    return None if gate not in ALWAYS_GATES and _is_asked_in_int16(site) else gate


def _is_asked_in_int16(site: ScaleSite) -> bool:
    """Whether the result is int16 because it is asked for by name."""
    calibration = site.calibrations.get(site.result)
    return calibration is not None and site.result in site.asked and attribute(calibration, "qtype") == DataType.INT16


def unasked_gate_of(site: ScaleSite) -> Gate | None:
    """What :func:`gate_of` were if no type of the result were asked for by name."""
    calibration = site.calibrations.get(site.result)
    if site.result in site.again:
        return None
    gate = None if site.operator is None or not on_bpu(site.node) else site.operator.gate(site.node)
    if gate is None or calibration is None or gate in ALWAYS_GATES:
        return gate if calibration is not None else None
    value = site.node.outputs[0]
    waits = (site.result in site.waiting and not is_joined_for_use(value)) or _is_only_compared(value)
    width, read = attribute(calibration, "qtype"), site.calibrations.get(site.source)
    is_alike = read is None or attribute(read, "qtype") == width or site.source not in site.asked
    is_within = width == "int8" or (_is_used_within(value) and not _is_only_moved_to_outputs(calibration.outputs[0]))
    return gate if waits and is_alike and is_within else None


def _is_used_within(value: ir.Value) -> bool:
    """Whether something joins or computes with what movements make of ``value``, and the BPU uses what it gives.

    What the CPU gives counts where it is quantised again (7 of 7 convolutions, sums, pads and joins on bayes-e), not at
    the end (4 of 4).
    """
    moved = moved_to(value, lambda node: is_calibration(node) or is_moving(node))
    readers = [reader for each in moved for reader in float_readers(each) if not is_moving(reader)]
    return any(on_bpu(reader) or _is_quantised_again(reader) for reader in readers)


def _is_quantised_again(node: ir.Node) -> bool:
    """Whether a result of ``node`` is calibrated."""
    return any(is_calibration(usage.node) for value in node.outputs for usage in value.uses())


def _is_only_compared(value: ir.Value) -> bool:
    """Whether nothing but a Max reads ``value``."""
    readers = float_readers(value)
    return bool(readers) and all(reader.op_type == "Max" for reader in readers)


def _ends_late(node: ir.Node) -> bool:
    reason = reason_of(node)
    return refused_late(node) and reason is not None and reason.code is Code.PRODUCT_TAIL


def _gated(site: ScaleSite) -> Iterator[Constraint]:
    """The threshold of the result is the function of that of the input."""
    gate = gate_of(site)
    if gate is not None:
        yield GateOf(site.result, site.source, gate)


def keeps_threshold(site: ScaleSite) -> bool:
    """Whether the result could have another scale than the input and does not."""
    keeps = is_placed(site.node) and site.operator is not None and site.operator.keeps_threshold(site.node)
    return keeps and site.source in site.calibrations


def _keeps_operands(site: ScaleSite) -> bool:
    """Whether the operands keep their own thresholds: what is given is int16, and no reader fixes it.

    Before an int16 Sigmoid they take its range (heads of ``yolov8_decode``, ``yolo11``, ``fpn_retina_gn``). What joins
    them has the largest of theirs (11 of 11 Concats in ``yolov8_nhwc`` and ``fpn_retina_gn``): an inner Concat gets it
    from its own values; an output needs it said.
    """
    calibration = site.calibrations.get(site.result)
    return calibration is not None and attribute(calibration, "qtype") == "int16" and not _reader_fixes(site)


def _is_moved_to_gate(site: ScaleSite) -> bool:
    """Whether a node that waits gives a tensor that one reader alone reads, which fixes its threshold."""
    return waits(site.node) and _reader_fixes(site)


def _reader_fixes(site: ScaleSite) -> bool:
    """Whether one reader alone reads the result, and fixes its threshold."""
    calibration = site.calibrations.get(site.result)
    readers = [] if calibration is None else [usage.node for usage in calibration.outputs[0].uses()]
    rule = rule_for(readers[0]) if len(readers) == 1 and on_bpu(readers[0]) else None
    if calibration is None or rule is None or calibration.outputs[0].is_graph_output():
        return False
    return rule.fixed_thresholds(readers[0], attribute(calibration, "qtype"))[0] is not None


def _is_output(site: ScaleSite) -> bool:
    """Whether the result is an output of the network, and no BPU node besides, which may fix its scale, reads it.

    What moves it to outputs alone does not.
    """
    calibration = site.calibrations.get(site.result)
    if calibration is None or not calibration.outputs[0].is_graph_output():
        return False
    read_on_bpu = any(on_bpu(usage.node) for usage in calibration.outputs[0].uses())
    return not read_on_bpu or _is_only_moved_to_outputs(calibration.outputs[0])


def _is_moved_to_output(site: ScaleSite) -> bool:
    """Whether one node reads the result, and it and what follows move or join it to outputs of the network alone."""
    calibration = site.calibrations.get(site.result)
    if calibration is None or len(list(calibration.outputs[0].uses())) != 1:
        return False
    return not calibration.outputs[0].is_graph_output() and _is_only_moved_to_outputs(calibration.outputs[0])


def _is_only_moved_to_outputs(value: ir.Value) -> bool:
    readers = [usage.node for usage in value.uses()]
    if not readers:
        return value.is_graph_output()
    moved = all(is_passive(reader) or is_calibration(reader) or asked_late(reader) for reader in readers)
    used = [result for reader in readers for result in reader.outputs if result.uses() or result.is_graph_output()]
    return moved and bool(used) and all(map(_is_only_moved_to_outputs, used))


def _casts_comparison(node: ir.Node) -> bool:
    """Whether ``node`` makes numbers of a comparison: 0 and 1 as they are on the CPU too."""
    source = node.inputs[0].producer() if node.op_type == "Cast" and node.inputs[0] is not None else None
    return source is not None and source.op_type == "Equal"


JOINS = _ties(Tie.OPERANDS_TAKE_OUTPUT, "joins its operands")
KEEPS_OPERANDS = Pattern("gives an int16 tensor that no reader fixes", _keeps_operands)
IS_TYPED: Pattern[ScaleSite] = Pattern(
    "has a type that is asked of it by name", lambda site: set(site.operands) <= set(site.asked)
)
OUTPUT = Pattern("gives an output of the network alone", _is_output)
MOVED_TO_OUTPUT = Pattern("moves its result to an output of the network alone", _is_moved_to_output)
MOVES = _ties(Tie.OUTPUT_TAKES_INPUT, "moves values, or chooses among them")
FIRST = Pattern[ScaleSite](
    "gives what is first wanted in integers of what is moved",
    lambda site: any(str(value.name) in site.leads for value in site.node.outputs),
)

AT_ITS_RESULT = ("AveragePool", "Clip", "GlobalMaxPool", "LeakyRelu", "MaxPool", "PRelu")
"""What reads its input at the scale of its result where the configuration sends it to the CPU."""


_POOLS_OR_RECTIFIES: Pattern[ScaleSite] = Pattern(
    "pools, cuts off or rectifies", lambda site: site.node.op_type in AT_ITS_RESULT
)


ScaleTable = Table[ScaleSite, Demand]

MOVED: ScaleTable = Table(
    "scale",
    [
        Rule(
            "scale.of-rectified",
            "What movements make of a PRelu's result that is not calibrated has scales of its own each: that result, "
            "and what the PRelu reads, has that of the first.",
            MOVES & Pattern("reads a PRelu's result as it is", _reads_rectified) & ~FIRST,
            _keeps_its_own,
            over=("scale.moved", "scale.moved-to-gate"),
        ),
        Rule(
            "scale.first-moved",
            "What only Reshape, Transpose, Slice, Pad, Resize, SpaceToDepth, shuffles of channels and Gathers that "
            "left the BPU late read takes the scale of what is first wanted in integers behind them, such as a slice, "
            "which has its own; what is joined is wanted, but of the result of a Concat last. What the others make of "
            "it has that scale too.",
            (MOVES | _ties(Tie.ONE_FOR_BOTH, "enlarges a map")) & FIRST,
            _first_leads,
            over=("scale.moved-to-gate",),
        ),
        Rule(
            "scale.moved-to-gate",
            "What a movement gives to a Sigmoid or HardSigmoid alone has the threshold that these fix.",
            MOVES & Pattern("waits for its reader, which alone fixes the threshold", _is_moved_to_gate),
            _keeps_its_own,
            over=("scale.moved",),
        ),
        Rule(
            "scale.split-of-function",
            "What a Split makes of the result of a Sigmoid or HardSigmoid and a Concat reads has the threshold which "
            "the values of that result give, not that which follows from the input of the function.",
            MOVES & Pattern("splits the result of a Sigmoid, HardSigmoid, Softplus or Tanh", _splits_a_gate),
            _joined_parts_are_measured,
            over=("scale.moved",),
            measured=MeasuredApart(
                "21 parts of 12 networks asked on bayes-e and bernoulli2 and of five recorded ones (boxes of YOLOv5); "
                "20 parts that no Concat reads have the scale of the function (docs/evidence/agreement.md)",
                networks=15,
            ),
        ),
        Rule(
            "scale.moved",
            "What moves values, or chooses among them, gives the scale of what it reads.",
            MOVES,
            _every_result_takes_the_source,
        ),
        Rule(
            "scale.of-result",
            "A LeakyRelu, PRelu or saturating Clip reads its input at the scale of its result.",
            _ties(Tie.INPUT_TAKES_OUTPUT, "is computed at the scale of its result"),
            _source_takes_the_result,
        ),
        Rule(
            "scale.of-result-on-cpu",
            "What pools, cuts off or rectifies on the CPU because the configuration asks for it reads its input at the "
            "scale of its result.",
            _POOLS_OR_RECTIFIES
            & Pattern("is asked for on the CPU and left the BPU late", lambda site: asked_late(site.node))
            & ~_ties(Tie.INPUT_TAKES_OUTPUT, "is computed at the scale of its result"),
            _source_takes_the_result,
            measured=MeasuredApart(
                "18 of 18 behind convolutions on three marches (docs/evidence/agreement.md)", networks=6
            ),
        ),
    ],
)
ENLARGED: ScaleTable = Table(
    "scale",
    [
        Rule(
            "scale.enlarged",
            "What a Resize or Pad reads takes the scale of its result; where something computes with it, the result "
            "takes that of the input.",
            _ties(Tie.ONE_FOR_BOTH, "enlarges a map"),
            _both_share_one,
        ),
    ],
)
JOINED: ScaleTable = Table(
    "scale",
    [
        Rule(
            "scale.joined-output",
            "An int16 output that joins tensors and that no BPU node reads has the largest of their thresholds, of "
            "what a function or cut gives that of its own values; where a type is asked of the Concat by name, its "
            "own.",
            JOINS & KEEPS_OPERANDS & OUTPUT & ~IS_TYPED,
            _largest_of_operands,
            over=("scale.joined",),
        ),
        Rule(
            "scale.joined-wide",
            "What a Concat joins keeps its thresholds where the result is int16, and moved or joined up to outputs; it "
            "has the largest of these, or of those of own values, as such an output.",
            JOINS & KEEPS_OPERANDS & MOVED_TO_OUTPUT & ~IS_TYPED,
            _largest_of_operands,
            over=("scale.joined",),
        ),
        Rule(
            "scale.joined-on-request",
            "A Concat that the configuration sends to the CPU gives its scale to its operands as another does, but not "
            "to what is not calibrated, or what a Gather or ReduceMax gives.",
            JOINS & Pattern("is asked for on the CPU", lambda site: joins_on_request(site.node)),
            _operands_of_the_cpu_follow,
            over=("scale.joined", "scale.joined-wide", "scale.joined-output"),
        ),
        Rule(
            "scale.joined",
            "What a Concat joins takes its scale, of several the first's, of what is enlarged of a tensor that of the "
            "Concat of that one, unless something computes with it, int16 is asked of it and no Conv or MatMul gives "
            "it, or a type is asked of the Concat.",
            JOINS,
            _unasked_operands_follow,
        ),
    ],
)
KEPT: ScaleTable = Table(
    "scale",
    [
        Rule(
            "scale.kept",
            "The result of a Relu or Clip that no convolution absorbs has the scale of its input, unless a Sigmoid or "
            "HardSigmoid alone reads it; where what is first wanted of that leads it, that of its own values.",
            Pattern("could rescale and does not", keeps_threshold)
            & ~Pattern("is read by one node, which fixes the threshold", _reader_fixes),
            _result_takes_the_source,
        ),
    ],
)
FIXED: ScaleTable = Table(
    "scale",
    [
        Rule(
            "scale.fixed",
            "What a Sigmoid or HardSigmoid alone reads, parts of a Softmax and others have thresholds that do not "
            "depend on data, where nothing else determines them; so has the cast of a comparison, also on the CPU.",
            Pattern(
                "is on the BPU or in front of a function that left it last, or casts a comparison",
                lambda site: (
                    not is_calibration(site.node)
                    and (on_bpu(site.node) or _ends_late(site.node) or _casts_comparison(site.node))
                ),
            ),
            _fixed,
        ),
    ],
)
GATED: ScaleTable = Table(
    "scale",
    [
        Rule(
            "scale.gated",
            "The threshold of what a Sigmoid, HardSigmoid, Softplus or Tanh gives is that function of the threshold of "
            "what it reads.",
            Pattern(
                "is a Sigmoid, HardSigmoid, Softplus or Tanh on the BPU", lambda site: gate_of(site) in ALWAYS_GATES
            ),
            _gated,
        ),
        Rule(
            "scale.of-function",
            "So is that of another int8 result which nothing but movements and the CPU read: of Abs, Asinh, Atan, "
            "Cosh, Erf, Exp, Gelu, HardSwish, Mish, Round, Selu, Sinh, Softsign, Sqrt and Swish; of an int16 one that "
            "is used within, unless int16 is asked of it by name.",
            Pattern(
                "gives what only movements and the CPU read, by such a function",
                lambda site: gate_of(site) not in (None, *ALWAYS_GATES),
            ),
            _gated,
        ),
    ],
)


HANDED_OVER: ScaleTable = Table(
    "scale",
    [
        Rule(
            "scale.moved-on-request",
            "What a Concat that the configuration sends to the CPU gives ends with the scale of the last operand that "
            "a movement gives it; so does what movements and maxima make of it. Other operands keep the threshold "
            "that its own values give.",
            Pattern("is a Concat that is asked for on the CPU", lambda site: joins_on_request(site.node)),
            _takes_the_moved_operand,
        ),
    ],
)


@dataclass(frozen=True)
class ScaleStep:
    """One look at the network.

    Attributes:
        says: what is looked for.
        table: the rules.
        backwards: whether from the outputs on.
    """

    says: str
    table: ScaleTable
    backwards: bool = False


STEPS = (
    ScaleStep("what moves values", MOVED),
    ScaleStep("what enlarges maps", ENLARGED),
    ScaleStep("what is joined, the last first", JOINED, backwards=True),
    ScaleStep("what keeps the scale of its input", KEPT),
    ScaleStep("thresholds that an operator fixes", FIXED),
    ScaleStep("thresholds that follow from that of the input", GATED),
    ScaleStep("what the CPU joins because it is asked to", HANDED_OVER),
)
"""In order; a constraint holds as far as those before allow it."""


CONSTANTS: Table[ir.Value, str] = Table(
    "scale",
    [
        Rule(
            "scale.constant",
            "The threshold of a constant operand is its largest magnitude, of zeros 1, where the calibration does not "
            "measure it.",
            Pattern("is constant", lambda value: constant_of(value) is not None),
            "largest magnitude",
        ),
    ],
)

SOFTMAX_MARGIN = Margin(below=2.8, small=1.2, large=1.1)
"""How much more than its largest magnitude a tensor takes that a Softmax on the CPU reads.

Asked of 36 int16 scores with magnitudes of 0.06 to 4.3, rows of 8: up to 2.78 they take 1.2 times as much, from 2.82
on 1.1 times. So do all 22 others that are recorded: 0.06 to 1.7 and 4 to 229, rows of 4 to 64. int8 ones do where they
are calibrated: 8 results of convolutions with ``set_model_output_int8``, and 35 of Sigmoids, of either type. Other
readers take it too: 26 branches of five producers in front of a Softmax and of one of seven operators, on bayes-e and
bernoulli2. A Relu behind the tensor has its threshold without the margin (4 of 4), and so has a tensor that takes the
scale of a Concat (one, int16, asked on bayes-e). Through a Reshape there is none (``min_fc``).
"""


def _goes_into_softmax(calibration: ir.Node) -> bool:
    return any(usage.node.op_type == "Softmax" and not on_bpu(usage.node) for usage in calibration.outputs[0].uses())


def _is_moved(calibration: ir.Node) -> bool:
    """Whether what is calibrated is moved, or chosen, from what is calibrated: a Softmax on the CPU reads that raw."""
    producer = given(calibration, 0).producer()
    return producer is not None and keeps_scale(producer) and is_calibration(given(producer, 0).producer())


MARGINS: Table[ir.Node, Margin] = Table(
    "scale",
    [
        Rule(
            "scale.softmax-margin",
            f"What a Softmax on the CPU reads takes {SOFTMAX_MARGIN.small} times its threshold if that is below "
            f"{SOFTMAX_MARGIN.below}, else {SOFTMAX_MARGIN.large} times, also where a function gives it and whatever "
            "else reads it; what is tied to it does not.",
            Pattern("is read by a Softmax on the CPU", _goes_into_softmax)
            & ~Pattern("is moved, or chosen, from what is calibrated", _is_moved),
            SOFTMAX_MARGIN,
        ),
    ],
)
