"""What the scale of a quantised tensor follows from: one record on its ``HzCalibration``, written by the placement."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import onnx_ir as ir

from engine.errors import ModelError

MARK_SCALE = "hz.scale"


class Gate(StrEnum):
    """A function that the original applies to the threshold of its input: that of its result.

    :mod:`engine.ops.core.gates` computes it.
    """

    SIGMOID = "Sigmoid"
    HARD_SIGMOID = "HardSigmoid"
    ABS = "Abs"
    ASINH = "Asinh"
    ATAN = "Atan"
    COSH = "Cosh"
    ERF = "Erf"
    EXP = "Exp"
    GELU = "HzGelu"
    HARD_SWISH = "HzHardSwish"
    MISH = "HzMish"
    ROUND = "Round"
    SELU = "Selu"
    SINH = "Sinh"
    SOFTPLUS = "Softplus"
    SOFTSIGN = "Softsign"
    SQRT = "Sqrt"
    SWISH = "HzSwish"
    TANH = "Tanh"


@dataclass(frozen=True)
class Gated:
    """The threshold of what gates give.

    Attributes:
        of: the tensor that the first one reads.
        gates: applied in this order to the threshold of that.
    """

    of: str
    gates: tuple[Gate, ...]


@dataclass(frozen=True)
class Margin:
    """How much more than the threshold that data give a tensor takes.

    Attributes:
        below: where thresholds are large.
        small, large: what those below and from there on are multiplied by.
    """

    below: float
    small: float
    large: float

    def __str__(self) -> str:
        return f"{self.small} times below {self.below}, else {self.large} times"

    def of(self, threshold: float) -> float:
        """What becomes of ``threshold``."""
        return threshold * (self.small if threshold < self.below else self.large)


Term = str | float | Gated
"""A tensor, whose values give a threshold, one that is fixed, or one that follows from that of a tensor."""


@dataclass(frozen=True)
class ScaleSource:
    """Where the threshold of a tensor comes from; by default from its own values.

    Attributes:
        of: name of the float tensor whose threshold it takes.
        largest: the largest of these is the threshold.
        margin: how much more than the threshold that data give it takes.
        fixed: the threshold, where it does not depend on data.
        rules: ids of the rules that decided it.
    """

    of: str | None = None
    largest: tuple[Term, ...] | None = None
    margin: Margin | None = None
    fixed: float | None = None
    rules: tuple[str, ...] = ()

    @property
    def follows(self) -> bool:
        """Whether the threshold is that of another tensor, follows from it, or is the largest of several."""
        return self.of is not None or self.largest is not None

    @property
    def gated(self) -> Gated | None:
        """How the threshold follows from that of one tensor, if it does."""
        match self.largest:
            case (Gated() as gated,):
                return gated
        return None


OWN = ScaleSource()
"""The threshold is that of the tensor's own values."""


def scale_source(node: ir.Node) -> ScaleSource:
    """What ``node`` carries; :data:`OWN` where it carries nothing.

    Raises:
        ModelError: what it carries was not written by :func:`set_scale_source`.
    """
    text = node.metadata_props.get(MARK_SCALE)
    if text is None:
        return OWN
    try:
        found = json.loads(text)
        largest, rules = found.pop("largest", None), found.pop("rules", ())
        terms = None if largest is None else tuple(map(_term, largest))
        margin = None if (written := found.pop("margin", None)) is None else Margin(**written)
        return ScaleSource(largest=terms, margin=margin, rules=tuple(rules), **found)
    except (ValueError, TypeError, AttributeError) as error:
        raise ModelError(
            f"node {node.name}: {MARK_SCALE} is {text!r}, not a source of a scale that this version knows"
        ) from error


def _term(written: Any) -> Term:
    match written:
        case {"of": str(of), "gates": list(gates)}:
            return Gated(of, tuple(map(Gate, gates)))
        case str() | float():
            return written
    raise ValueError(written)


def set_scale_source(node: ir.Node, source: ScaleSource) -> None:
    """Let ``node`` carry ``source``; nothing where that is :data:`OWN`."""
    found: dict[str, Any] = {key: value for key, value in vars(source).items() if value is not None and value != ()}
    if found:
        node.metadata_props[MARK_SCALE] = json.dumps(found, default=vars)
    else:
        node.metadata_props.pop(MARK_SCALE, None)


def change_scale_source(node: ir.Node, **changes: Any) -> None:
    """Change what ``node`` carries: ``changes`` are attributes of :class:`ScaleSource`."""
    set_scale_source(node, replace(scale_source(node), **changes))
