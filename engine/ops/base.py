"""What an operator module offers to the rest of the engine.

A module under ``engine/ops`` holds all that is known of one quantised operator (ONNX domain ``horizon``):

* a :class:`QuantizedOperator`: its schema and its integer semantics in numpy, the definition of the arithmetic;
* zero or more :class:`FloatRule`: how a float node of the optimised graph becomes it, what placement it needs, where
  thresholds stand.

``engine.ops.registry`` lists them; no other place in the engine asks for an operator's type by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

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


class QuantizedOperator(ABC):
    """Schema and integer semantics of one operator of domain ``horizon``; stateless, registered once."""

    op_type: ClassVar[str]
    attributes: ClassVar[Mapping[str, Attribute]] = {}

    @abstractmethod
    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Compute the operator exactly as the BPU does.

        Written to be read beside ``reference/ARITHMETIC.md``; allowed to be slow. The batch dimension is the first of
        every activation and may be any size.

        Args:
            inputs: the node's inputs in order; ``None`` for an omitted one. Integer activations are int8, int16 or
                int32, NHWC for rank 4.
            attributes: the node's attributes, defaults filled in.
        """
