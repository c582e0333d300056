"""What an operator module offers to the rest of the engine.

A module under ``engine/ops`` holds all that is known of one quantised operator (ONNX domain ``horizon``):

* a :class:`QuantizedOperator`: its schema, its integer semantics in numpy (the definition of the arithmetic), and what
  the backends need of it;
* zero or more :class:`FloatRule`: how a float node of the optimised graph becomes it, what placement it needs, where
  thresholds stand.

Standard operators that the BPU runs on integers as they are have a :class:`StandardOperator` instead.

What a backend needs is an abstract member of :class:`BpuOperator`, so that an operator without an entry for one of them
cannot be registered: Python names the missing ones. ``engine.ops.registry`` lists the modules. Other parts of the
engine ask for what an operator declares, not for its type; only the conversions between floats and integers are put
in, and known, by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.graph.scales import Gate
from engine.ir import HORIZON_DOMAIN, Calibration
from engine.ops.core.bounds import Bound, Case
from engine.ops.core.costs import CostKind
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode
from engine.ops.core.reasons import Reason
from engine.ops.core.rows import RowAccess

if TYPE_CHECKING:
    from engine.chips import Chip

Array = NDArray[Any]
AttributeValue = int | float | str | Sequence[int] | Sequence[float] | Sequence[str]


@dataclass(frozen=True)
class Attribute:
    """One attribute of a quantised operator.

    Attributes:
        kind: ``int``, ``float``, ``str``, ``ints``, ``floats`` or ``strs``.
        default: value where the attribute is absent; ``None`` where it is required.
        doc: meaning, unit, range.
    """

    kind: str
    default: AttributeValue | None = None
    doc: str = ""


Attributes = Mapping[str, Any]
"""Attribute values of one node, the schema's defaults filled in; lists are int64 or float64 arrays, strings ``str``."""


class BpuOperator(ABC):
    """An operator that a quantised graph may hold on the BPU, and what the backends need of it; stateless."""

    op_type: ClassVar[str]

    @property
    @abstractmethod
    def float_types(self) -> tuple[str, ...]:
        """Float operators that it is made of; none where the conversion puts it in, or only models of others hold it.

        :mod:`engine.quantize.lowering` holds rules to it.
        """

    @property
    @abstractmethod
    def cost(self) -> CostKind:
        """How the BPU executes it, as far as its cost goes; for :mod:`engine.compile.layers`."""

    @property
    @abstractmethod
    def rows(self) -> RowAccess:
        """Which rows of its inputs it reads for a band of its output; for :mod:`engine.compile.tiles`."""

    @property
    @abstractmethod
    def instructions(self) -> Instructions:
        """How the fast simulator computes it; for :mod:`engine.simulate.lowering`."""


class StandardOperator(BpuOperator):
    """A standard ONNX operator that the BPU runs on integers: its semantics and attributes are ONNX's."""


class QuantizedOperator(BpuOperator):
    """Schema and integer semantics of one operator of domain ``horizon``; registered once."""

    attributes: ClassVar[Mapping[str, Attribute]] = {}

    @abstractmethod
    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Compute the operator exactly as the BPU does.

        Written to be read beside ``reference/arithmetic.md``; allowed to be slow. The batch dimension
        is the first of every activation and may be any size.

        Args:
            inputs: the node's inputs in order; ``None`` for an omitted one. Integer activations are int8, int16 or
                int32, NHWC for rank 4.
            attributes: the node's attributes, defaults filled in.
        """

    @abstractmethod
    def error_bound(self, case: Case) -> Bound:
        """How far a node may be from the float nodes that it stands for, on the same integers, or that nothing says so.

        For :mod:`engine.quantize.error_bound`; :mod:`engine.ops.core.bounds` has the parts that most bounds are made
        of.
        """

    @abstractmethod
    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """Write the standard ONNX nodes that compute the same bits; what stands for the node's outputs.

        For :mod:`engine.simulate.portable`.

        Raises:
            UnsupportedError: the node has no such form, e.g. weights that are not constant.
        """

    def probe(self, inputs: Sequence[Array | None], attributes: Attributes) -> list[Array | None]:
        """Inputs, smaller ones where the definition is slow, for which the outputs have the same shapes and types."""
        return list(inputs)


class Tie(Enum):
    """Whose threshold a tensor takes where an operator cannot rescale (reference/arithmetic.md 2.1)."""

    NONE = "none"
    OUTPUT_TAKES_INPUT = "output takes input"
    INPUT_TAKES_OUTPUT = "input takes output"
    ONE_FOR_BOTH = "one for both"
    """The output's, unless the input is computed with as well: then each has its own."""
    OPERANDS_TAKE_OUTPUT = "operands take output"
    """Only those that nothing computes with; others keep theirs and are requantised."""


@dataclass(frozen=True)
class Quantized:
    """The integer form of a float tensor.

    Attributes:
        value: int8, int16 or int32 tensor of the quantised graph.
        scale: float32, shape (1,), or (channels,) for int32 accumulators.
        bits: width of ``value``.
        offset: what is added to an integer before it is multiplied by its scale: 128 for a tensor of type ``uint8``.
    """

    value: ir.Value
    scale: NDArray[np.float32]
    bits: int
    offset: int = 0


class Lowering(Protocol):
    """What a rule sees of the model that is being quantised; implemented by :mod:`engine.quantize`."""

    march: Chip

    def integer(
        self,
        value: ir.Value,
        layout: str = "NHWC",
        like: Calibration | None = None,
        per_channel: bool = False,
        unsigned: bool = False,
        index: int | None = None,
    ) -> Quantized:
        """The integer form of an activation input, quantised or requantised to its calibration, or to ``like``.

        Where the tensor has a scale per channel and the caller does not take ``per_channel`` ones, it is requantised
        to the largest of them. ``index`` is the position of the input where that is not the float node's: names of
        layout changes and constants have it.

        Raises:
            UnsupportedError: the tensor is unsigned and the caller does not take ``unsigned`` ones.
        """

    def padded(self, value: ir.Value, form: Quantized, pads: Sequence[int]) -> Quantized:
        """``form`` of ``value``, NHWC, inside integers that stand for zero.

        Args:
            value: the float tensor.
            form: its integers.
            pads: of rows and columns, begins in front of ends.
        """

    def constant(self, value: ir.Value | None) -> NDArray[Any] | None:
        """Float array of a constant input, seen through its calibration node; ``None`` for a missing input."""

    def calibration(self, value: ir.Value) -> Calibration | None:
        """Calibration of the tensor ``value`` stands for (its own node, or the one that reads it), or is moved from."""

    def is_tail(self, value: ir.Value) -> bool:
        """Whether only float consumers (CPU nodes, graph outputs) read ``value``."""

    def initializer(self, name: str, array: NDArray[Any]) -> ir.Value:
        """A constant of the quantised graph."""

    def alias(self, result: ir.Value, form: Quantized) -> None:
        """Let ``form`` be the integer form of ``result`` too: no operator is needed."""

    def emit(
        self,
        op_type: str,
        node: ir.Node,
        inputs: Sequence[ir.Value],
        attributes: Mapping[str, Any],
        *results: ir.Value,
        bits: int | Sequence[int],
        scale: NDArray[np.float32],
        layout: str = "NHWC",
        domain: str = HORIZON_DOMAIN,
        name: str | None = None,
    ) -> None:
        """Append a quantised node; its outputs become the integer forms of ``results``.

        Args:
            op_type: of the quantised node.
            node: the float node that it stands for.
            inputs: of the quantised node.
            attributes: of the quantised node, in the original's names.
            results: float outputs of ``node``.
            bits: width of all outputs, or that of each.
            scale: float32, float units per integer of the outputs: one value or one per channel.
            layout: of the outputs, NHWC or NCHW.
            domain: of the operator.
            name: of the quantised node; None for that of ``node``.
        """


class FloatRule(ABC):
    """How a float operator of the optimised graph runs on the BPU; stateless, registered once."""

    op_types: ClassVar[tuple[str, ...]]
    passive: ClassVar[bool] = False
    """A passive operator runs on the BPU only where a BPU node reads it; behind the last convolution it does not."""
    int16_inputs: ClassVar[bool] = True
    """Whether activation inputs may be int16 (on a march that has int16 at all)."""
    int16_outputs: ClassVar[bool] = True
    """Whether the output may be int16."""
    requantized_to_int16: ClassVar[bool] = False
    """Whether an int8 result is requantised where others want it in int16."""
    requantized_from_int16: ClassVar[bool] = False
    """Whether an input that others want in int16 is requantised to int8 for it; its result may be int16 again."""
    wide_results_of_wide_inputs: ClassVar[bool] = False
    """Whether an int16 result needs an int16 input; that may have an int8 result."""
    int32_output: ClassVar[bool] = False
    """Whether results that only float consumers read stay in int32; see :meth:`stays_int32`."""
    sums_exactly: ClassVar[bool] = False
    """Whether results that only float consumers read, also behind movement, are the int32 sums; see :meth:`lower`."""
    moves_sums: ClassVar[bool] = False
    """Whether int32 results of one scale pass the operator as they are."""
    on_request: ClassVar[bool] = False
    """Whether the operator runs on the BPU only where the configuration asks for it."""
    index_outputs: ClassVar[tuple[int, ...]] = ()
    """Outputs that are positions, not quantised numbers; the CPU casts them to the float node's type."""

    def is_passive(self, node: ir.Node) -> bool:
        """See :attr:`passive`."""
        return self.passive

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        """Why ``node`` cannot run on the BPU of ``march``; ``None`` where it can."""
        return None

    def late_refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        """Why ``node`` runs on the CPU although its inputs are quantised for it.

        The original finds these reasons only after it has calibrated (golden conversions ``x_near15``,
        ``bpu_softmax``).
        """
        return None

    def stays_int32(self, node: ir.Node) -> bool:
        """Whether the result of ``node`` stays in int32 where only float consumers read it."""
        return self.int32_output

    def has_one_scale(self, node: ir.Node) -> bool:
        """Whether the int32 result of ``node`` has one scale, so that BPU nodes can move it before it is float."""
        return self.sums_exactly

    def layout(self, node: ir.Node) -> str:
        """Layout of the maps that ``node`` reads: ``NHWC``, or ``NCHW``, that of the float graph."""
        return "NHWC"

    def tie(self, node: ir.Node) -> Tie:
        """Which thresholds of ``node`` must be the same."""
        return Tie.NONE

    def keeps_threshold(self, node: ir.Node) -> bool:
        """Whether the result has the threshold of the input although ``node`` could rescale; other ties come first."""
        return False

    def activations(self, node: ir.Node) -> tuple[int, ...]:
        """Indices of the inputs that are quantised as activations."""
        return (0,)

    def weights(self, node: ir.Node) -> Mapping[int, int]:
        """Channel axis per index of the inputs that are quantised as weights."""
        return {}

    def fixed_thresholds(self, node: ir.Node, qtype: str) -> tuple[float | None, float | None]:
        """Thresholds of input and output that do not depend on data; ``None`` where they do."""
        return (None, None)

    def gate(self, node: ir.Node) -> Gate | None:
        """The function that gives the threshold of the result from that of the input; ``None`` where there is none."""
        return None

    def absorbs(self, chain: Sequence[ir.Node], consumer: ir.Node, march: Chip) -> bool:
        """Whether ``consumer``, the only reader of the last node of ``chain``, joins the same quantised node."""
        return False

    def declines(self, chain: Sequence[ir.Node], consumer: ir.Node, march: Chip) -> bool:
        """Whether ``consumer``, which ``chain`` could absorb, runs by itself all the same."""
        return False

    def decompose(self, node: ir.Node, wide: bool = False) -> Sequence[ir.Node] | None:
        """Nodes to put in the place of ``node`` where it runs on the BPU; ``None`` where it stays.

        ``wide``: whether its input is asked for in int16.
        The last one computes the outputs of ``node``. A mark ``hz.scale`` on a new node gives the threshold of its
        output.
        """
        return None

    @abstractmethod
    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        """Emit the quantised nodes of ``chain``: the float node and what it absorbed, in order.

        Raises:
            UnsupportedError: the node has no integer form with these types; :meth:`refusal` gives all other reasons
                before, at placement.
        """
