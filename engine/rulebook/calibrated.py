"""Which tensors are calibrated, and so quantised: what the BPU reads, what it gives, and where that is left out again.

Source: reference/calibration.md 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import onnx_ir as ir

from engine.chips import Chip
from engine.facts.devices import asked_late, is_quantised, joins_on_request, on_bpu, refused_late
from engine.facts.moves import ends_behind, is_exact_sum, is_passive, keeps_scale, moved_from, moved_to
from engine.graph import float_readers
from engine.ir import before_calibration, is_calibration
from engine.ops.add import runs_as_convolution
from engine.ops.core.element_functions import FUNCTIONS
from engine.ops.core.float_nodes import given, is_relu
from engine.ops.core.reasons import Code, reason_of
from engine.ops.registry import rule_for
from engine.rulebook.rule import BAYES, BERNOULLI, MeasuredApart, Pattern, Rule, Table

INT8, INT16 = "int8", "int16"


class Calibrate(Enum):
    """Whether a tensor is calibrated."""

    YES = "is calibrated"
    NO = "is not calibrated"
    ALREADY = "needs nothing more"
    TWICE = "is calibrated by its function, and that by its own values"


@dataclass(frozen=True)
class Input:
    """A tensor that a node on the BPU, or one that leaves it late, reads.

    Attributes:
        value: the tensor.
        reader: the node.
        types: of the tensors that are not int8 by default.
    """

    value: ir.Value
    reader: ir.Node
    types: Mapping[ir.Value, str] = field(default_factory=dict)


LEFT_OUT_BEFORE = frozenset({"Expand", "Gather", "HzChannelShuffle", "Pad", "Reshape", "Slice", "Tile", "Transpose"})
"""Movements in front of which a calibration may be left out, and not behind, where something computes with it."""
LATE_MOVEMENTS = frozenset({"Concat", "Reshape", "Slice"})
"""Movements of bernoulli2 between which no calibration stays once they have left the BPU late."""
CHOOSES = frozenset({"DepthToSpace", "GlobalMaxPool", "ReduceMax"})
"""What reads moved values as they are where it is asked for on the CPU."""
ENLARGES = frozenset({"Pad", "Resize"})
"""What enlarges a map at one scale."""
TABLES = frozenset(FUNCTIONS) - {"Relu", "Clip", "LeakyRelu"}
"""Functions that a table computes whose input and result have scales of their own."""


PRODUCTS = frozenset({"MatMul", "Mul", "Sub"})
"""Arithmetic that takes its operands at any scales."""
REPEATS = frozenset({"Expand", "Tile"})
"""What repeats an axis; its result is calibrated for what computes with it (11 of 11 on bayes-e)."""
REDUCED = frozenset({"Expand", "GlobalMaxPool", "ReduceMax", "ReduceMean", "ReduceSum", "Tile"})
"""What reduces or repeats axes, and takes its operand at any scale."""
BLOCKS = frozenset({"DepthToSpace", "SpaceToDepth"})
"""What makes channels of pixels or pixels of channels."""
READS_SUMS_LATE = frozenset({"Expand", "Mul", "Tile"})
"""What has an int32 sum calibrated where it left the BPU late."""


def _is_moved(site: Input) -> bool:
    """Whether an operator of the BPU that keeps the scale, no movement, gives what is read of what is calibrated.

    It may read another such, as it is: a Split of a part of a Split (26 of 28 pairs of readers on bayes-e).
    """
    mover = site.value.producer()
    if mover is None or mover.op_type in LEFT_OUT_BEFORE | REPEATS | {"SpaceToDepth"} or not _keeps(mover):
        return False
    given_to = Input(given(mover, 0), mover, site.types)
    return is_calibration(given_to.value.producer()) or (_takes_any_scale(given_to) and _is_moved(given_to))


def _keeps(node: ir.Node) -> bool:
    return on_bpu(node) and keeps_scale(node)


def _takes_any_scale(site: Input) -> bool:
    """Whether a table, a product, a difference, a Split, a reduction or what takes blocks of pixels reads."""
    return site.reader.op_type in TABLES | PRODUCTS | REDUCED | BLOCKS | {"LeakyRelu", "Split"}


GIVEN_BY_MOVER = Pattern[Input]("is given by an operator that keeps the scale, no movement", _is_moved)

INPUTS: Table[Input, Calibrate] = Table(
    "calibrated",
    [
        Rule(
            "calibrated.input-to-be-shaped",
            "A Reshape or Transpose reads an input of the network as it is, whatever else reads it: what it gives the "
            "BPU is calibrated.",
            Pattern(
                "is an input of the network, read by a Reshape or Transpose",
                lambda site: site.reader.op_type in {"Reshape", "Transpose"} and site.value.is_graph_input(),
            ),
            Calibrate.NO,
            BERNOULLI,
            over=("calibrated.input",),
            measured=MeasuredApart(
                "15 recorded conversions need it, of two drawn blocks, three drawn networks and four small ones; 55 "
                "inputs of 2, 3 or 5 dimensions and five of 4 that were asked are as it says "
                "(docs/evidence/agreement.md)",
                networks=9,
            ),
        ),
        Rule(
            "calibrated.exact-sum",
            "An int32 sum of one scale that is only moved until it is float is not calibrated, unless a type is asked "
            "for it, or a product, Expand or Tile that left the BPU late reads it.",
            Pattern(
                "is an int32 sum that is only moved, and has no type",
                lambda site: (
                    site.value not in site.types
                    and not (site.reader.op_type in READS_SUMS_LATE and refused_late(site.reader))
                    and is_exact_sum(site.value)
                ),
            ),
            Calibrate.NO,
            over=("calibrated.computed-of-moved",),
        ),
        Rule(
            "calibrated.computed-of-moved",
            "A product, a difference, a Split, a LeakyRelu, a table, DepthToSpace, SpaceToDepth or what reduces or "
            "repeats axes reads what pooling, Split, DepthToSpace or maximum over an axis gives as it is, also where "
            "these read such as it is: at the scale of what is calibrated before. Sums and convolutions do not.",
            GIVEN_BY_MOVER
            & Pattern(
                "is read by a product, a difference, a Split, a LeakyRelu, a table, blocks or what reduces or repeats",
                _takes_any_scale,
            ),
            Calibrate.NO,
            over=("calibrated.input",),
        ),
        Rule(
            "calibrated.averaged-of-moved",
            "So does GlobalAveragePool; bernoulli2 averages by convolutions.",
            GIVEN_BY_MOVER
            & Pattern("is averaged over the map", lambda site: site.reader.op_type == "GlobalAveragePool"),
            Calibrate.NO,
            BAYES,
            over=("calibrated.input",),
            measured=MeasuredApart(
                "12 averages behind MaxPool, Split and DepthToSpace on bayes and bayes-e; 6 on bernoulli2, and what "
                "AveragePool, MaxPool, sums, convolutions, Relu, Clip, Resize and Concat read, are calibrated "
                "(docs/evidence/agreement.md)",
                networks=6,
            ),
        ),
        Rule(
            "calibrated.input",
            "What a node on the BPU reads, or one that leaves it late, is calibrated.",
            Pattern("is any", lambda site: True),
            Calibrate.YES,
        ),
    ],
)
"""What is read."""


@dataclass(frozen=True)
class Result:
    """What a chain on the BPU gives.

    Attributes:
        chain: its nodes.
        chip: the BPU.
        types: of the tensors that are not int8 by default.
        output_type: what is asked of all outputs of the network.
    """

    chain: Sequence[ir.Node]
    chip: Chip
    types: Mapping[ir.Value, str] = field(default_factory=dict)
    output_type: str | None = None

    @property
    def value(self) -> ir.Value:
        """The tensor."""
        return self.chain[-1].outputs[0]

    @property
    def requested(self) -> str | None:
        """The type that is asked for: ``types`` has the outputs that were granted int16, refused ones are int8."""
        asked = INT8 if self.output_type is not None and self.value.is_graph_output() else None
        return self.types.get(self.value, asked)


def _is_calibrated(site: Result) -> bool:
    return any(is_calibration(usage.node) for usage in site.value.uses())


def _is_no_float(site: Result) -> bool:
    return site.value.type is not None and site.value.dtype != ir.DataType.FLOAT


def _moves_calibrated(site: Result) -> bool:
    """Whether the last node moves what is calibrated.

    No output of a recorded network that is moved so is calibrated again: 11 in ``detr``, ``efficientnet``, ``sknet``,
    ``vit_timm`` and ``yolov8_nhwc``, all int16, and 7 of what the CPU computes, whatever type was asked and how.
    """
    last = site.chain[-1]
    return (keeps_scale(last) or last.op_type == "Resize") and is_calibration(
        moved_from(given(last, 0), _keeps).producer()
    )


def _stays_int32(site: Result) -> bool:
    head = rule_for(site.chain[0])
    return head is not None and head.stays_int32(site.chain[0])


def _is_convolution_of_sum(site: Result) -> bool:
    return site.chain[0].op_type == "Add" and runs_as_convolution(site.chain[0], site.chip)


def _ends_in_asked_type(site: Result) -> bool:
    readers = float_readers(site.value)
    return (
        site.output_type is not None and bool(readers) and not any(map(is_quantised, readers)) and ends_behind(readers)
    )


STAYS_OR_SUMS = Pattern[Result]("stays in int32", lambda site: _stays_int32(site) or _is_convolution_of_sum(site))
HAS_RELU = Pattern[Result]("has a Relu", lambda site: any(is_relu(node) for node in site.chain[1:]))

RESULTS: Table[Result, Calibrate] = Table(
    "calibrated",
    [
        Rule(
            "calibrated.already",
            "What is calibrated for its readers, or is no float, needs no calibration.",
            Pattern("is calibrated for its readers", _is_calibrated) | Pattern("is no float", _is_no_float),
            Calibrate.ALREADY,
            over=("calibrated.moved-calibrated",),
        ),
        Rule(
            "calibrated.moved-calibrated",
            "What is moved or resized at the end from what is calibrated is not calibrated again.",
            Pattern("is moved from what is calibrated", _moves_calibrated),
            Calibrate.NO,
            over=("calibrated.requested",),
        ),
        Rule(
            "calibrated.requested",
            "A result of which a type is asked is calibrated.",
            Pattern("has a type that is asked for", lambda site: site.requested is not None),
            Calibrate.YES,
            over=("calibrated.end-in-asked-type",),
        ),
        Rule(
            "calibrated.end-in-asked-type",
            "Where a type is asked of all outputs, so is a result that the CPU computes with, if nothing that follows "
            "is quantised.",
            Pattern("is read by the CPU, and a type is asked of what ends there", _ends_in_asked_type),
            Calibrate.YES,
            BAYES,
            over=("calibrated.sum-at-end",),
        ),
        Rule(
            "calibrated.sum-at-end",
            "An int32 sum of one scale at the end has the scale of its accumulator.",
            Pattern("is an int32 sum that is only moved", lambda site: is_exact_sum(site.value)),
            Calibrate.NO,
            over=("calibrated.accumulator", "calibrated.accumulator-without-relu"),
        ),
        Rule(
            "calibrated.accumulator",
            "The int32 result of a convolution at the end is not calibrated.",
            Pattern("stays in int32", _stays_int32),
            Calibrate.NO,
            BAYES,
            over=("calibrated.moved",),
        ),
        Rule(
            "calibrated.accumulator-without-relu",
            "The int32 result of a convolution, or of a sum that is computed as one, at the end is not calibrated, "
            "unless a Relu is one with it.",
            STAYS_OR_SUMS & ~HAS_RELU,
            Calibrate.NO,
            BERNOULLI,
            over=("calibrated.moved",),
        ),
        Rule(
            "calibrated.moved",
            "What is moved at the end has the scale of what it is moved from.",
            Pattern("is moved, or chosen among values", lambda site: keeps_scale(site.chain[-1])),
            Calibrate.NO,
            over=("calibrated.result",),
        ),
        Rule(
            "calibrated.result",
            "What a chain of the BPU gives is calibrated.",
            Pattern("is any", lambda site: True),
            Calibrate.YES,
        ),
    ],
)
"""What is given and nobody on the BPU reads."""


@dataclass(frozen=True)
class OutputRead:
    """An output of the network that nodes on the BPU read as well, which read its calibrated form.

    Attributes:
        producer: the node of the BPU that gives it.
        readers: who reads its calibrated form.
    """

    producer: ir.Node
    readers: Sequence[ir.Node]


MEASURED_OUTPUTS = MeasuredApart(
    "19 operators in front of nine readers on bayes-e, 10 in front of four on bernoulli2, seven of the CPU in front of "
    "nine on both, each an output too (docs/evidence/agreement.md)",
    networks=5,
)
ALWAYS_GATED = frozenset({"HardSigmoid", "Sigmoid", "Softplus", "Tanh"})
"""Functions whose result has a threshold that follows from that of their input, whatever reads it."""


def _is_computed_with(site: OutputRead) -> bool:
    return any(is_quantised(reader) and not is_passive(reader) for reader in site.readers)


def _moves_what_is_calibrated(site: OutputRead) -> bool:
    return keeps_scale(site.producer) and is_calibration(given(site.producer, 0).producer())


OUTPUTS_READ: Table[OutputRead, Calibrate] = Table(
    "calibrated",
    [
        Rule(
            "calibrated.moved-output",
            "An output that is moved from what is calibrated is float, also where the BPU reads its calibrated form.",
            Pattern("is moved, or chosen, from what is calibrated", _moves_what_is_calibrated),
            Calibrate.NO,
            over=("calibrated.output-of-function",),
            measured=MEASURED_OUTPUTS,
        ),
        Rule(
            "calibrated.output-of-function",
            "An output that a Sigmoid, HardSigmoid, Softplus or Tanh gives and the BPU computes with is calibrated "
            "twice: by the function, and then by its own values.",
            Pattern[OutputRead](
                "is given by a Sigmoid, HardSigmoid, Softplus or Tanh",
                lambda site: site.producer.op_type in ALWAYS_GATED,
            )
            & Pattern("is read by a node of the BPU that computes with it", _is_computed_with),
            Calibrate.TWICE,
            over=("calibrated.output-computed-with",),
            measured=MEASURED_OUTPUTS,
        ),
        Rule(
            "calibrated.output-computed-with",
            "An output that the BPU computes with as well is what that reads, also where the CPU gives it by an "
            "operator that a BPU has.",
            Pattern("is read by a node of the BPU that computes with it", _is_computed_with),
            Calibrate.YES,
            measured=MEASURED_OUTPUTS,
        ),
    ],
)
"""Outputs that the BPU reads as well; what nothing computes with is calibrated as any other output."""


@dataclass(frozen=True)
class Calibrated:
    """A tensor that is calibrated so far.

    Attributes:
        producer: what gives it.
        readers: who reads its calibrated form.
        qtype: its type.
    """

    producer: ir.Node
    readers: Sequence[ir.Node]
    qtype: str = INT8


CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})
REDUCTIONS = frozenset({"ReduceMean", "ReduceSum"})
"""What gives on the CPU the type of what it reads, over several axes."""
FLOATS_LEFT_OUT_BEFORE = LEFT_OUT_BEFORE - {"Expand", "Gather", "Tile"}
"""Operators in front of which floats of the CPU are not quantised."""
QUANTISED_BEFORE_LATE = (
    CONVOLUTIONS
    | REDUCTIONS
    | {"Add", "HzRsqrt", "MatMul", "Mul", "Pow", "Sub"}
    | {"Clip", "Cos", "Elu", "LeakyRelu", "Log", "Reciprocal", "Relu", "Sin", "Tan"}
)
"""Operators of the CPU whose results bernoulli2 quantises in front of a movement that left the BPU late."""


FUNCTIONS_OF_ENDS = ("Ceil", "Cos", "Floor", "Log", "Reciprocal", "Sin", "Tan")
"""Functions that bernoulli2 leaves to the CPU at the end of the network; others that were asked are int8 there."""
LATE_FUNCTIONS = ("Elu", "Pow", *FUNCTIONS_OF_ENDS)
"""Functions that leave the BPU last where it reads their results nowhere."""


def _is_of_split(site: Calibrated) -> bool:
    return site.producer.op_type == "Split" and is_calibration(given(site.producer, 0).producer())


def _is_moved_beside_cpu(site: Calibrated) -> bool:
    return any(map(_moves_integers, site.readers)) and all(
        _moves_integers(reader) or not is_quantised(reader) for reader in site.readers
    )


def _is_moved_or_enlarged(site: Calibrated) -> bool:
    """Whether a movement, a Pad or a Resize gives the tensor.

    Windows of maps whose size is none of theirs (94 of 94 asked); what is resized and then moved (7 of 7).
    """
    node = site.producer
    return keeps_scale(node) or node.op_type in ENLARGES or joins_on_request(node)


def _moves_integers(node: ir.Node) -> bool:
    return (node.op_type in LEFT_OUT_BEFORE and is_quantised(node)) or joins_on_request(node)


def _is_calibrated_behind(value: ir.Value) -> bool:
    """Whether ``value``, or what movements on the BPU make of it, is calibrated."""
    return any(is_calibration(usage.node) for moved in moved_to(value, _moves) for usage in moved.uses())


def _moves(node: ir.Node) -> bool:
    return on_bpu(node) and keeps_scale(node)


def _quantised_behind(site: Calibrated) -> bool:
    """Whether all that the readers make of the tensor is quantised behind them."""
    return all(
        joins_on_request(reader)
        or (reader.op_type in FLOATS_LEFT_OUT_BEFORE and _is_calibrated_behind(reader.outputs[0]))
        for reader in site.readers
    )


def _reads_for_bpu(node: ir.Node) -> bool:
    return on_bpu(node) or joins_on_request(node)


def _is_of_convolution(node: ir.Node) -> bool:
    """Whether a convolution gives what ``node`` does, or a Relu or Clip behind one (5 of 5 on bayes-e)."""
    source = before_calibration(given(node, 0)).producer() if node.op_type in ("Relu", "Clip") else None
    return node.op_type in CONVOLUTIONS or (source is not None and source.op_type in CONVOLUTIONS)


def _is_left_to_late_movements(site: Calibrated) -> bool:
    """Whether the CPU computes the tensor by itself, and movements alone that left the BPU late read it."""
    node = site.producer
    computes = not is_quantised(node) and not keeps_scale(node) and node.op_type not in QUANTISED_BEFORE_LATE
    return computes and all(map(refused_late, site.readers))


def _is_late_movement(node: ir.Node) -> bool:
    return node.op_type in LATE_MOVEMENTS and refused_late(node)


def _joins_floats(node: ir.Node) -> bool:
    """Whether the CPU joins floats, as a class token with tokens: CoaT, 6 of 6 asked."""
    return node.op_type == "Concat" and not on_bpu(node) and not is_quantised(node)


def _moves_late(node: ir.Node) -> bool:
    """Whether a reader moves on either device, or left the BPU late and has the scale of what it reads."""
    return node.op_type in LEFT_OUT_BEFORE or (node.op_type in LATE_MOVEMENTS | {"ReduceMax"} and refused_late(node))


RECTIFIES = "PRelu"
"""What keeps scales as movements do: nothing is calibrated between it and these."""
MOVED_OR_RECTIFIED = (LEFT_OUT_BEFORE - {"Gather"}) | {"Resize", "SpaceToDepth", RECTIFIES}
"""What reads a PRelu's result as it is, where that is calibrated behind it."""


def _is_between_rectifiers(site: Calibrated) -> bool:
    """Whether a PRelu gives the tensor to movements, or movements give it to PRelus."""
    producer, readers = site.producer, site.readers
    if producer.op_type == RECTIFIES and on_bpu(producer):
        reads = MOVED_OR_RECTIFIED
    elif (not on_bpu(producer) and producer.op_type not in QUANTISED_BEFORE_LATE) or _is_moved_or_enlarged(site):
        reads = frozenset({RECTIFIES})
    else:
        return False
    quantised = [reader for reader in readers if is_quantised(reader)]
    return bool(quantised) and all(reader.op_type in reads for reader in quantised)


def _is_calibrated_behind_all(site: Calibrated) -> bool:
    """Whether what every reader makes of the tensor is calibrated, or rectified or moved until it is."""
    return all(_is_calibrated_later(reader.outputs[0]) for reader in site.readers if is_quantised(reader))


def _is_calibrated_later(value: ir.Value) -> bool:
    moved = moved_to(value, lambda node: _moves(node) or (on_bpu(node) and node.op_type in MOVED_OR_RECTIFIED))
    return any(is_calibration(usage.node) for each in moved for usage in each.uses())


def _is_only_moved(site: Calibrated) -> bool:
    """Whether something that is quantised reads the tensor, and all that is so moves it.

    A Neg of the CPU beside a Slice, as in rotary positions: 8 of 8 asked on bayes-e behind five kinds of movements.
    """
    quantised = [reader for reader in site.readers if is_quantised(reader)]
    return bool(quantised) and all(
        reader.op_type in LEFT_OUT_BEFORE | {"TopK"}
        or (reader.op_type in CHOOSES and asked_late(reader))
        or joins_on_request(reader)
        or (joins_on_request(site.producer) and reader.op_type == "Resize" and refused_late(reader))
        for reader in quantised
    )


SPLIT_TO_BE_MOVED: Rule[Calibrated, Calibrate] = Rule(
    "calibrated.split-to-be-moved",
    "What a Split gives to movements is not calibrated, whether the CPU reads it too or not: queries, keys and values.",
    Pattern[Calibrated]("is given by a calibrated Split", _is_of_split)
    & Pattern("is read by movements, and besides by nothing that is quantised", _is_moved_beside_cpu),
    Calibrate.NO,
)

BEFORE_SCALES: Table[Calibrated, Calibrate] = Table(
    "calibrated",
    [
        Rule(
            "calibrated.floats-to-be-moved",
            "What the CPU computes and only movements on the BPU read, or Concats that are asked for on the CPU, is "
            "quantised as the first calibrated tensor behind them.",
            Pattern("is read by movements alone behind which it is quantised", _quantised_behind)
            & Pattern(
                "is computed by the CPU for the BPU, by no convolution with its Relu, and is no int16 mean or sum",
                lambda site: (
                    not _is_of_convolution(site.producer)
                    and not (site.producer.op_type in REDUCTIONS and site.qtype == INT16)
                    and not on_bpu(site.producer)
                    and not refused_late(site.producer)
                    and all(map(_reads_for_bpu, site.readers))
                ),
            ),
            Calibrate.NO,
            over=("calibrated.floats-to-be-moved-late",),
        ),
        Rule(
            "calibrated.rectified",
            "Nothing is calibrated between a PRelu and what moves, pads, resizes or rectifies its result, if that is "
            "calibrated behind it, whether the CPU reads it too or not; nor between what moves, pads, resizes or pools "
            "on the BPU and a PRelu.",
            Pattern("is given by a PRelu to movements, or by these to PRelus", _is_between_rectifiers)
            & Pattern("is calibrated behind all that reads it", _is_calibrated_behind_all),
            Calibrate.NO,
            over=("calibrated.floats-to-be-moved", "calibrated.floats-to-be-moved-late", SPLIT_TO_BE_MOVED.id),
        ),
        Rule(
            "calibrated.floats-to-be-moved-late",
            "bernoulli2 quantises what the CPU computes and only movements that left the BPU late read behind these; "
            "what convolutions, arithmetic, reductions, Clip, Cos, Elu, LeakyRelu, Log, Reciprocal, Relu, Sin and Tan "
            "give it quantises itself.",
            Pattern("is read by movements alone behind which it is quantised", _quantised_behind)
            & Pattern("is computed by the CPU, and late movements alone read it", _is_left_to_late_movements),
            Calibrate.NO,
            BERNOULLI,
            over=(SPLIT_TO_BE_MOVED.id,),
        ),
        SPLIT_TO_BE_MOVED,
    ],
)
"""Where a calibration is left out before scales are known."""

AFTER_SCALES: Table[Calibrated, Calibrate] = Table(
    "calibrated",
    [
        Rule(
            "calibrated.between-movements",
            "No tensor between movements, of 440 in 12 networks, nor one that a Pad or Resize gives to movements is "
            "calibrated, whether the CPU reads it too or not: it has the scale of what is moved. Before a Split, a "
            "MaxPool or a Concat all are, but a TopK, and a Concat that is asked for on the CPU, count as movements.",
            Pattern("is moved, padded or resized already", _is_moved_or_enlarged)
            & Pattern("is read by movements, and besides by nothing that is quantised", _is_only_moved),
            Calibrate.NO,
            over=(SPLIT_TO_BE_MOVED.id,),
        ),
        Rule(
            "calibrated.between-late-movements",
            "What a Concat, Reshape or Slice that left the BPU late, or a Concat of floats, gives to such, to a "
            "ReduceMax that left it late, or to movements on either device alone, is not calibrated: it has the scale "
            "of what is moved, and the CPU reads floats.",
            Pattern(
                "is given by a late movement or a Concat of floats and read by late or other movements alone",
                lambda site: (
                    (_is_late_movement(site.producer) or _joins_floats(site.producer))
                    and all(map(_moves_late, site.readers))
                ),
            ),
            Calibrate.NO,
            BERNOULLI,
            over=(SPLIT_TO_BE_MOVED.id, "calibrated.between-movements"),
        ),
        SPLIT_TO_BE_MOVED,
    ],
)
"""Where it is left out once scales are known."""


@dataclass(frozen=True)
class OfCpu:
    """What a node on the CPU reads.

    Attributes:
        value: the tensor.
        reader: the node.
    """

    value: ir.Value
    reader: ir.Node


def _is_read_by_convolutions(site: OfCpu) -> bool:
    return all(reader.op_type in CONVOLUTIONS for reader in float_readers(site.value))


def _is_moved_from_calibrated(site: OfCpu) -> bool:
    mover = site.value.producer()
    return mover is not None and _moves(mover) and is_calibration(moved_from(site.value, _moves).producer())


def _adds_reshaped(site: OfCpu) -> bool:
    """Whether a sum of the CPU reads what a Reshape of the CPU gives of what is calibrated."""
    mover = site.value.producer()
    return (
        site.reader.op_type == "Add"
        and not is_quantised(site.reader)
        and mover is not None
        and mover.op_type == "Reshape"
        and not on_bpu(mover)
        and is_calibration(given(mover, 0).producer())
    )


def _ends_on_cpu(node: ir.Node) -> bool:
    reason = reason_of(node)
    return reason is not None and reason.code in (Code.PRODUCT_TAIL, Code.RECTIFIER_WITHIN)


READ_BY_CPU: Table[OfCpu, Calibrate] = Table(
    "calibrated",
    [
        Rule(
            "calibrated.function-of-cpu",
            "A function or LeakyRelu that the BPU leaves to the CPU, as no node of it reads the result, reads what it "
            "reads as it is, where others read its calibrated form.",
            Pattern(
                "is read by such a function or LeakyRelu",
                lambda site: site.reader.op_type in {*LATE_FUNCTIONS, "LeakyRelu"} and _ends_on_cpu(site.reader),
            ),
            Calibrate.NO,
        ),
    ],
)
"""Which form the CPU reads of what is calibrated."""
FOR_CPU: Table[OfCpu, Calibrate] = Table(
    "calibrated",
    [
        Rule(
            "calibrated.cpu-convolution",
            "What convolutions on the CPU alone read is calibrated where it is moved from what is. Where others read "
            "it too, the quantised model shows nothing of it.",
            Pattern("is read by convolutions on the CPU alone", _is_read_by_convolutions)
            & Pattern("is moved on the BPU from what is calibrated", _is_moved_from_calibrated),
            Calibrate.YES,
            measured=MeasuredApart(
                "32 convolutions on the CPU behind Reshape, Transpose, Slice, MaxPool, Split and DepthToSpace on "
                "bayes, bayes-e and bernoulli2; 13 behind what is not calibrated, or not moved, and 8 nodes of other "
                "operators are as before (docs/evidence/shipping.md)",
                networks=6,
            ),
        ),
        Rule(
            "calibrated.cpu-sum",
            "A sum that bernoulli2 leaves to the CPU reads the calibrated form of what a Reshape of the CPU "
            "moves from what is calibrated: the tokens beside which a mixer adds. Products, differences and Concats "
            "read floats.",
            Pattern("is reshaped from what is calibrated and added to others, on the CPU", _adds_reshaped),
            Calibrate.YES,
            BERNOULLI,
            measured=MeasuredApart(
                "10 of 10 sums of tokens and what a mixer gives, behind sum, product, convolution, Relu and Sigmoid, "
                "as either operand; a product, a difference, a Concat and two sums of what is not calibrated read "
                "floats (docs/evidence/agreement/2026_12_01.md)",
                networks=5,
            ),
        ),
    ],
)
"""What the CPU reads, once scales are known."""
