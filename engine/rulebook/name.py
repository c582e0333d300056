"""What the nodes, tensors and constants of calibrated and quantised models are called.

Placement and quantisation ask :class:`Naming`; what an operator's own constants are called (weights, tables) its module
in :mod:`engine.ops` says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, unique
from types import MappingProxyType

import onnx_ir as ir

from engine.chips import ChipFamily
from engine.ops.core.unit_conv import UNIT_CONV
from engine.rulebook.rule import Pattern, Rule, Table

TO_NHWC_MARK, TO_NCHW_MARK = "_NCHW2NHWC_LayoutConvert_Input", "_NHWC2NCHW_LayoutConvert_Output"
"""What the names of nodes that change the layout of an input, or of a result, have in them."""


class NamedKind(Enum):
    """What has a name; no two of one kind have the same."""

    NODE = "node"
    TENSOR = "tensor"
    CONSTANT = "constant"


@unique
class NamedPart(Enum):
    """What is named, as a rule's pattern says it."""

    CALIBRATION = "calibrates a tensor"
    CALIBRATED = "is the calibrated form of a tensor"
    BEFORE = "is what an output of the network is calibrated of"
    COMPUTES = "computes integers"
    UNIT_CONVOLUTION = "is the convolution by which a sum reads its first map"
    INTEGERS = "holds the integers that a node gives"
    QUANTIZES = "quantises a float tensor"
    QUANTIZED = "is a float tensor, quantised"
    OPERAND = "holds the integers of a constant operand"
    SCALE = "is the scale by which a tensor is dequantised"
    FLOAT = "is the float form of an integer tensor"
    DEQUANTIZES = "dequantises a tensor"
    DEQUANTIZED = "is an integer tensor, dequantised"
    CASTS = "casts positions"
    REQUANTIZES = "gives a tensor another scale or width"
    REQUANTIZED = "is a tensor in another scale or width"
    PADS = "pads the input of a convolution"
    PADDED = "is the padded input of a convolution"
    TO_NHWC = "changes what a node reads to NHWC"
    IN_NHWC = "is what a node reads, changed to NHWC"
    TO_NCHW = "changes what a node gives to NCHW"
    IN_NCHW = "is what a node gives, changed to NCHW"
    RESHAPES = "is a Reshape in the place of a Transpose that keeps the order of elements"
    SHAPE = "is the shape to which a Reshape goes"
    TAKEN_NODE = "would have the name of another node"
    TAKEN = "would have the name of another tensor"
    TAKEN_CONSTANT = "would have the name of a constant that holds something else"


@dataclass(frozen=True)
class NameSite:
    """Something that gets a name.

    Attributes:
        part: what it is.
        tensor: name of the float tensor that it stands for.
        node: name of the node that it stands for, that gives it, or that it serves.
        reader: name of the quantised node that reads it.
        index: of the input of ``reader``, or of the result of ``node``.
        number: how many others there are; of a name that is taken, the count.
        calibrated: name of the calibrated form of the tensor, the first if there are two; empty if there is none.
        moved_scale: name of the scale of what the tensor is moved from.
        float_name: name of the tensor if it is float already.
        transpose: name of the Transpose that goes.
        wanted: the name that is taken.
        scale: of what it gives.
        is_output: whether the tensor is an output of the network.
        is_computed_with: whether the tensor is one that the BPU computes with.
        ahead: whether the tensor is moved before anything computes with it.
        changes_layout: whether the layout changes in it, or right behind it.
        is_number: whether it is one number.
        in_int32: whether it is of an accumulator.
        widens: whether it has more bits than what it is made of, and that is not what its calibration says.
        is_own: whether it has the scale of the tensor itself, and what that is moved from has another.
        as_convolution: whether it is a convolution.
        replaces: whether it takes the place of another node.
    """

    part: NamedPart
    tensor: str = ""
    node: str = ""
    reader: str = ""
    index: int = 0
    number: int = 0
    calibrated: str = ""
    moved_scale: str = ""
    float_name: str = ""
    transpose: str = ""
    wanted: str = ""
    scale: float = 0.0
    is_output: bool = False
    is_computed_with: bool = False
    ahead: bool = False
    changes_layout: bool = False
    is_number: bool = False
    in_int32: bool = False
    widens: bool = False
    is_own: bool = False
    as_convolution: bool = False
    replaces: bool = False


@dataclass(frozen=True)
class Form:
    """The form of a name.

    Attributes:
        kind: what has it.
        text: with attributes of :class:`NameSite` in braces.
    """

    kind: NamedKind
    text: str

    def of(self, site: NameSite) -> str:
        """The name of ``site``."""
        return self.text.format_map(vars(site))

    @property
    def form(self) -> str:
        """The text as it is shown: with attributes in angle brackets."""
        return re.sub(r"\{(\w+)[^}]*\}", r"<\1>", self.text)

    def __str__(self) -> str:
        return f"is called {self.form}"


NAME_TABLE = "name"
NameTable = Table[NameSite, Form]


def _named(
    part: NamedPart,
    kind: NamedKind,
    *entries: tuple[str, str, str] | tuple[str, str, str, Pattern[NameSite]],
) -> NameTable:
    """The table of ``part``: id, sentence, form and, but for the last, when; each entry is over those behind it."""
    rules: list[Rule[NameSite, Form]] = []
    what = Pattern[NameSite](part.value, lambda site: True)
    for name, says, text, *conditions in reversed(entries):
        when = what
        for condition in conditions:
            when = when & condition
        over = (rules[-1].id,) if rules else ()
        rules.append(Rule(f"{NAME_TABLE}.{name}", says, when, Form(kind, text), over=over))
    return Table(NAME_TABLE, reversed(rules))


FURTHER = Pattern[NameSite]("is not the first", lambda site: site.number > 0)
IS_OUTPUT = Pattern[NameSite]("is that of an output of the network", lambda site: site.is_output)
COMPUTED_WITH = Pattern[NameSite]("is that of an output that the BPU computes with", lambda site: site.is_computed_with)
IS_CALIBRATED = Pattern[NameSite]("is of one that is calibrated", lambda site: bool(site.calibrated))
CHANGES_LAYOUT = Pattern[NameSite]("has its layout changed", lambda site: site.changes_layout)

NAMES: Mapping[NamedPart, NameTable] = MappingProxyType(
    {
        NamedPart.CALIBRATION: _named(
            NamedPart.CALIBRATION,
            NamedKind.NODE,
            (
                "further-calibration",
                "Further calibrations of a tensor are counted.",
                "{tensor}_HzCalibration_{number}",
                FURTHER,
            ),
            ("calibration", "A calibration is called after its tensor.", "{tensor}_HzCalibration"),
        ),
        NamedPart.CALIBRATED: _named(
            NamedPart.CALIBRATED,
            NamedKind.TENSOR,
            ("calibrated-output", "An output that is calibrated keeps its name.", "{tensor}", IS_OUTPUT),
            (
                "further-calibrated",
                "What further calibrations of a tensor give is counted.",
                "{tensor}_calibrated_{number}",
                FURTHER,
            ),
            ("calibrated", "The calibrated form of a tensor is called after it.", "{tensor}_calibrated"),
        ),
        NamedPart.BEFORE: _named(
            NamedPart.BEFORE,
            NamedKind.TENSOR,
            (
                "before-read-output",
                "What an output that the BPU computes with is calibrated of has the name of a calibrated form.",
                "{tensor}_calibrated",
                COMPUTED_WITH,
            ),
            ("before-output", "What an output is calibrated of is called after the output.", "{tensor}_before"),
        ),
        NamedPart.COMPUTES: _named(
            NamedPart.COMPUTES,
            NamedKind.NODE,
            ("computes", "A quantised node has the name of the first node that it computes.", "{node}"),
        ),
        NamedPart.UNIT_CONVOLUTION: _named(
            NamedPart.UNIT_CONVOLUTION,
            NamedKind.NODE,
            ("unit-convolution", "A convolution in front of a sum is called after the sum.", UNIT_CONV + "{node}"),
        ),
        NamedPart.INTEGERS: _named(
            NamedPart.INTEGERS,
            NamedKind.TENSOR,
            (
                "integers-ahead",
                "Integers that are moved before anything computes with them have the name of the float tensor (40 in "
                "four networks).",
                "{tensor}",
                Pattern("is only moved", lambda site: site.ahead),
            ),
            (
                "integers-of-positions",
                "Positions that stand beside values, as those of a TopK, are called after their tensor.",
                "{tensor}_index",
                Pattern("is of positions beside values", lambda site: site.index > 0),
            ),
            ("integers", "The integers that a node gives are called after the float tensor.", "{tensor}_quantized"),
        ),
        NamedPart.QUANTIZES: _named(
            NamedPart.QUANTIZES,
            NamedKind.NODE,
            (
                "quantizes",
                "What quantises a tensor is called after it and its calibration.",
                "{tensor}_{tensor}_HzCalibration_HzQuantize",
            ),
        ),
        NamedPart.QUANTIZED: _named(
            NamedPart.QUANTIZED,
            NamedKind.TENSOR,
            (
                "quantized",
                "A float tensor, quantised, is called after its calibrated form.",
                "{tensor}_calibrated_quantized",
            ),
        ),
        NamedPart.OPERAND: _named(
            NamedPart.OPERAND,
            NamedKind.CONSTANT,
            (
                "number-in-other-layout",
                "One number, whose layout a node would change, is called after that node (2 of 2 in mobilevit).",
                "{reader}" + TO_NHWC_MARK + "{index}_{tensor}_quantized",
                CHANGES_LAYOUT & Pattern("is one number", lambda site: site.is_number),
            ),
            (
                "operand-in-other-layout",
                "A constant operand in another layout is called as what changes that gives.",
                "{reader}_nchw2nhwc_transposed_input{index}",
                CHANGES_LAYOUT,
            ),
            (
                "operand",
                "Every node that reads a constant operand has its own, called after both.",
                "{node}_{tensor}_quantized",
            ),
        ),
        NamedPart.SCALE: _named(
            NamedPart.SCALE,
            NamedKind.CONSTANT,
            (
                "scale-of-accumulator",
                "The scale of an accumulator is called after its node.",
                "{node}_x_scale",
                Pattern("is of an accumulator", lambda site: site.in_int32),
            ),
            (
                "scale-of-moved",
                "A tensor that has no calibration of its own has the scale of what it is moved from.",
                "{moved_scale}",
                Pattern("is of one without calibration, made of one with a scale", lambda site: bool(site.moved_scale)),
            ),
            ("scale", "A scale is called after the calibration of its tensor.", "{tensor}_HzCalibration_y_scale"),
        ),
        NamedPart.FLOAT: _named(
            NamedPart.FLOAT,
            NamedKind.TENSOR,
            ("float-of-calibrated", "What is calibrated has that name in float too.", "{calibrated}", IS_CALIBRATED),
            ("float", "What is not calibrated has its own name in float.", "{tensor}"),
        ),
        NamedPart.DEQUANTIZES: _named(
            NamedPart.DEQUANTIZES,
            NamedKind.NODE,
            ("dequantizes", "What dequantises a tensor is called after what it gives.", "{tensor}_HzDequantize"),
        ),
        NamedPart.DEQUANTIZED: _named(
            NamedPart.DEQUANTIZED,
            NamedKind.TENSOR,
            (
                "dequantized-in-other-layout",
                "What is transposed once it is float is called after what dequantises it.",
                "{tensor}_HzDequantize_dequanti_output",
                CHANGES_LAYOUT,
            ),
            ("dequantized", "What is dequantised has its name in float.", "{tensor}"),
        ),
        NamedPart.CASTS: _named(
            NamedPart.CASTS,
            NamedKind.NODE,
            (
                "casts-beside-values",
                "What casts positions that stand beside values, as those of a TopK, is called after what it gives.",
                "{tensor}_Cast",
                Pattern("is of positions beside values", lambda site: site.index > 0),
            ),
            ("casts", "What casts positions is called after the node that finds them.", "{node}_cast"),
        ),
        NamedPart.REQUANTIZES: _named(
            NamedPart.REQUANTIZES,
            NamedKind.NODE,
            (
                "rescales-its-own",
                "A convolution that gives what is moved its own scale is called after it and that scale.",
                UNIT_CONV + "{tensor}_{scale:.5f}_TO_FUSE_SCALE",
                Pattern("is a convolution, and gives its own scale", lambda site: site.as_convolution and site.is_own),
            ),
            (
                "rescaling-convolution",
                "A convolution that changes a scale is called after the tensor and its new scale.",
                UNIT_CONV + "{tensor}_calibrated_{scale:.5f}_TO_FUSE_SCALE",
                Pattern("is a convolution", lambda site: site.as_convolution),
            ),
            (
                "widens",
                "What gives a tensor in int16 that is not calibrated in int8, or one that is moved in its own scale, "
                "is called after it.",
                "{tensor}_Requantize",
                Pattern("gives it more bits, or its own scale", lambda site: site.widens or site.is_own),
            ),
            (
                "requantizes-again",
                "What requantises a tensor that is calibrated twice is called after the first calibrated form.",
                "{calibrated}_Requantize",
                Pattern("reads one that is calibrated twice", lambda site: bool(site.calibrated)),
            ),
            (
                "requantizes",
                "What requantises a tensor is called after its calibrated form.",
                "{tensor}_calibrated_Requantize",
            ),
        ),
        NamedPart.REQUANTIZED: _named(
            NamedPart.REQUANTIZED,
            NamedKind.TENSOR,
            (
                "rescaled",
                "What such a convolution gives is called after it.",
                "{node}_quantized",
                Pattern("is given by a convolution", lambda site: site.as_convolution),
            ),
            ("requantized", "What is requantised is called after the node that does.", "{node}_requantized_output"),
        ),
        NamedPart.PADS: _named(
            NamedPart.PADS,
            NamedKind.NODE,
            ("pads", "What pads unsigned integers is called after their calibrated form.", "{tensor}_calibrated_pad"),
        ),
        NamedPart.PADDED: _named(
            NamedPart.PADDED,
            NamedKind.TENSOR,
            ("padded", "What is padded is called after the node that does.", "{node}_output"),
        ),
        NamedPart.TO_NHWC: _named(
            NamedPart.TO_NHWC,
            NamedKind.NODE,
            (
                "to-nhwc",
                "What changes a layout to NHWC is called after the node that reads it.",
                "{reader}" + TO_NHWC_MARK + "{index}",
            ),
        ),
        NamedPart.IN_NHWC: _named(
            NamedPart.IN_NHWC,
            NamedKind.TENSOR,
            (
                "in-nhwc",
                "What has been changed to NHWC is called after the node that reads it.",
                "{reader}_nchw2nhwc_transposed_input{index}",
            ),
        ),
        NamedPart.TO_NCHW: _named(
            NamedPart.TO_NCHW,
            NamedKind.NODE,
            (
                "to-nchw",
                "What changes a layout to NCHW is called after the node whose result it is.",
                "{node}" + TO_NCHW_MARK + "{index}",
            ),
        ),
        NamedPart.IN_NCHW: _named(
            NamedPart.IN_NCHW,
            NamedKind.TENSOR,
            (
                "float-in-nchw",
                "What is float by then has its name in float.",
                "{float_name}",
                Pattern("is float by then", lambda site: bool(site.float_name)),
            ),
            (
                "in-nchw",
                "What has been changed to NCHW is called after the node whose result it is.",
                "{node}_nhwc2nchw_transposed_output{index}",
            ),
        ),
        NamedPart.RESHAPES: _named(
            NamedPart.RESHAPES,
            NamedKind.NODE,
            ("reshapes", "A Reshape in the place of a Transpose is called after that.", "{transpose}_reshape"),
        ),
        NamedPart.SHAPE: _named(
            NamedPart.SHAPE,
            NamedKind.CONSTANT,
            (
                "shape-of-new",
                "The shape of a Reshape that takes the place of a Transpose is its target shape.",
                "{node}_target_shape",
                Pattern("is of one in the place of a Transpose", lambda site: site.replaces),
            ),
            (
                "shape-around",
                "The shape of a Reshape between two Transpose that go is called after it and the second.",
                "{node}_{transpose}_shape",
                Pattern("is of one between two Transpose that go", lambda site: bool(site.transpose)),
            ),
            ("shape", "The shape of another Reshape is called after it.", "{node}_shape"),
        ),
        NamedPart.TAKEN_NODE: _named(
            NamedPart.TAKEN_NODE,
            NamedKind.NODE,
            ("taken-node", "Further nodes of one name are counted.", "{wanted}_{number}"),
        ),
        NamedPart.TAKEN: _named(
            NamedPart.TAKEN,
            NamedKind.TENSOR,
            ("taken", "Further tensors of one name are counted.", "{wanted}_{number}"),
        ),
        NamedPart.TAKEN_CONSTANT: _named(
            NamedPart.TAKEN_CONSTANT,
            NamedKind.CONSTANT,
            (
                "taken-constant",
                "Further constants of one name with other values are counted.",
                "{wanted}_{number}",
            ),
        ),
    }
)
"""By what is named. Sources: names in the recorded calibrated and quantised models (``ptqlab rules show ID``)."""


def without_names(tables: Mapping[NamedPart, NameTable], ids: Iterable[str]) -> Mapping[NamedPart, NameTable]:
    """The tables that lack some rules."""
    return MappingProxyType({part: table.without(*ids) for part, table in tables.items()})


@dataclass(frozen=True)
class GivenName:
    """A name that was given.

    Attributes:
        site: what it was given to.
        rule: id of the rule that decided it.
    """

    site: NameSite
    rule: str


class Naming:
    """Gives names, and knows by which rule each was given.

    Args:
        family: of the chip.
        tables: the rules.
    """

    def __init__(self, family: ChipFamily, tables: Mapping[NamedPart, NameTable] = NAMES) -> None:
        self.family, self._tables = family, tables
        self.given: dict[tuple[NamedKind, str], GivenName] = {}

    def of(self, site: NameSite) -> str:
        """The name of ``site``; that of the tensor or node that it stands for where no rule says one."""
        rule = self._tables[site.part].decide(site, self.family)
        if rule is None:
            return site.tensor or site.node or site.wanted or site.reader
        name = rule.then.of(site)
        self.given[rule.then.kind, name] = GivenName(site, rule.id)
        return name

    def rules(self, node: ir.Node) -> list[str]:
        """Ids of the rules by which ``node``, what it gives and its constants are called."""
        constants = [value for value in node.inputs if value is not None and value.is_initializer()]
        names = [(NamedKind.NODE, node.name), *((NamedKind.TENSOR, value.name) for value in node.outputs)]
        names += [(NamedKind.CONSTANT, value.name) for value in constants]
        found = [self.given.get((kind, str(name))) for kind, name in names]
        return list(dict.fromkeys(each.rule for each in found if each is not None))
