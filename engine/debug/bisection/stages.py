"""The stages of a conversion, and what each may do to the one before it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from engine.errors import ConfigError, hint
from engine.floats.health import FLOOR_COSINE, FLOOR_SQNR, MOST_DEAD, MOST_SATURATED


class StageName(StrEnum):
    """The stages in order."""

    SOURCE = "source"
    ORIGINAL = "original"
    OPTIMIZED = "optimized"
    CALIBRATED = "calibrated"
    QUANTIZED = "quantized"
    BIN = "bin"
    DUMPS = "dumps"
    FOREIGN = "foreign"


FLOAT_STAGES = frozenset({StageName.SOURCE, StageName.ORIGINAL, StageName.OPTIMIZED, StageName.CALIBRATED})
"""Stages that compute in floats."""
INTEGER_STAGES = frozenset(StageName) - FLOAT_STAGES
"""Stages that compute in integers."""


@dataclass(frozen=True)
class Bounds:
    """What one stage may do. The first three always hold; the others, where given, for the outputs of the network;
    the stages that quantise have :data:`FLOORS`.

    Attributes:
        relative: largest difference of a tensor of float stages, relative to its largest magnitude.
        threshold: most dB of noise that a threshold may have above the best one for the inputs.
        lsb: largest difference of an integer tensor in units. Above 0, tensors of floats are not compared.
        requantisation: largest difference in units of any node of the integer model to the nearest integer of its
            float node on the same inputs: what is lost in integer weights, multipliers and shifts.
        max_abs: largest difference.
        sqnr: least ratio of signal to noise, dB.
        cosine: least similarity.
        metric: most that the task metric may fall.
        saturated: largest share of elements beyond what the stage can give.
        dead: largest share of elements in slices along an axis that are constant and were not.
    """

    relative: float = 1e-4
    threshold: float = 20.0
    lsb: float = 0.0
    requantisation: float | None = None
    max_abs: float | None = None
    sqnr: float | None = None
    cosine: float | None = None
    metric: float | None = None
    saturated: float | None = None
    dead: float | None = None

    def with_floors(self, stage: StageName) -> Bounds:
        """These bounds, and where none is given, those below which a model is broken, of the stages that quantise."""
        if stage not in _QUANTISING:
            return self
        return replace(self, **{name: value for name, value in FLOORS.items() if getattr(self, name) is None})


_QUANTISING = frozenset({StageName.CALIBRATED, StageName.QUANTIZED})
FLOORS: Mapping[str, float] = MappingProxyType(
    {"sqnr": FLOOR_SQNR, "cosine": FLOOR_COSINE, "saturated": MOST_SATURATED, "dead": MOST_DEAD}
)
"""Bounds on the outputs of the stages that quantise, where the user gives none."""

_AFTER_SOURCE = frozenset(StageName) - {StageName.SOURCE}
ALLOWED: Mapping[str, frozenset[StageName]] = MappingProxyType(
    {
        "relative": FLOAT_STAGES - {StageName.SOURCE},
        "threshold": frozenset({StageName.CALIBRATED}),
        "lsb": INTEGER_STAGES,
        "requantisation": frozenset({StageName.QUANTIZED}),
        **dict.fromkeys(("max_abs", "sqnr", "cosine", "metric", "saturated", "dead"), _AFTER_SOURCE),
    }
)
"""Stages that a bound may be given for."""


def parse_bounds(texts: Sequence[str]) -> dict[StageName, Bounds]:
    """Bounds from texts ``STAGE:BOUND=NUMBER``, as ``bin:lsb=1``: what ``STAGE`` may do to the stage before it.

    Raises:
        ConfigError: a text has another form, or names a stage or bound that does not exist there.
    """
    found: dict[StageName, Bounds] = {}
    for text in texts:
        stage, _, rest = text.partition(":")
        name, separator, number = rest.partition("=")
        if not separator or stage not in list(StageName) or StageName(stage) not in ALLOWED.get(name, ()):
            allowed = "; ".join(f"{key} of {', '.join(sorted(stages))}" for key, stages in ALLOWED.items())
            near = hint(stage, StageName) if stage not in list(StageName) else hint(name, ALLOWED)
            raise ConfigError(f"bound {text!r}: expected STAGE:BOUND=NUMBER; allowed are {allowed}{near}")
        try:
            value = float(number)
        except ValueError as error:
            raise ConfigError(f"bound {text!r}: {number!r} is no number") from error
        if math.isnan(value):
            raise ConfigError(f"bound {text!r}: nothing keeps a bound of NaN; inf and -inf are allowed")
        found[StageName(stage)] = replace(found.get(StageName(stage), Bounds()), **{name: value})
    return found
