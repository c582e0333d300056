"""The table of quirks: rules of the original that were measured, not documented.

A rule is written where it is applied; this table has its evidence and how general that is. What rests on one network is
provisional: users are told when such a rule decided something in their network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from engine.errors import ConfigError, hint
from engine.terms import Compatibility


@dataclass(frozen=True)
class Quirk:
    """One rule of the original.

    Attributes:
        code: its name in files, logs and pages.
        rule: what the original does.
        evidence: how it was measured.
        networks: how many networks show it.
        confirmed: whether networks that were kept apart while the rule was looked for follow it; None where none shows
            it either way.
        instead: what ``compatibility: clean`` does; empty where the rule is always followed.
        advice: what a user does who loses accuracy by a rule that is always followed; empty where it costs none.
    """

    code: str
    rule: str
    evidence: str
    networks: int
    confirmed: bool | None = None
    instead: str = ""
    advice: str = ""

    @property
    def remark(self) -> str:
        """What a table says of a node that it decided; empty where users need not know."""
        if not self.provisional and not self.instead and not self.advice:
            return ""
        return f"quirk {self.code}{' (provisional)' if self.provisional else ''}"

    @property
    def provisional(self) -> bool:
        """Whether the rule rests on one network and nothing that was kept apart confirmed it."""
        return self.networks <= 1 and not self.confirmed

    def imitated(self, compatibility: Compatibility) -> bool:
        """Whether the rule is followed: always, or with ``compatibility: original`` where it costs accuracy."""
        return compatibility is Compatibility.ORIGINAL or not self.instead


def quirk(code: str) -> Quirk:
    """The quirk of that code.

    Raises:
        ConfigError: there is none.
    """
    try:
        return QUIRKS[code]
    except KeyError as error:
        raise ConfigError(f"no quirk {code!r}; known: {', '.join(QUIRKS)}{hint(code, QUIRKS)}") from error


BORDER_AVERAGE = "border-average"
HARD_SIGMOID = "hard-sigmoid-slope"
UNDEFINED_ENTRIES = "undefined-entries"
BIAS_CORRECTION_RACE = "bias-correction-race"
KL_STEPS = "kl-steps"
RENAMED_MEAN_OUTPUT = "renamed-mean-output"
DEFAULT_FIRST_SAMPLE = "default-first-sample"

_ALL = (
    Quirk(
        code=HARD_SIGMOID,
        rule="HardSigmoid has the slope 1/6 and the offset 1/2 in its int8 table whatever the model gives.",
        evidence="all 256 entries of the first HardSigmoid of six networks; at alpha 0.2 a right table differs in 241.",
        networks=6,
        instead="the table is that of the model's own alpha and beta",
    ),
    Quirk(
        code=BORDER_AVERAGE,
        rule="An AveragePool on the BPU divides by the size of the whole window where it reaches over the border of "
        "the map too, whatever count_include_pad and ceil_mode say.",
        evidence="the integer outputs of three small networks (docs/evidence/field.md); reference/arithmetic.md 1.",
        networks=3,
        advice="Give the node the CPU in node_info, or train and export with count_include_pad 1 and ceil_mode 0",
    ),
    Quirk(
        code=UNDEFINED_ENTRIES,
        rule="int8 tables hold -128 where the function is not defined, such as a root of negative numbers, which "
        "rounding can reach where the float network does not.",
        evidence="the tables of Sqrt, Log, Pow, 1/Sqrt, Acos, Asin and Atanh in 14 small networks on three marches "
        "(docs/evidence/field.md); that of Acosh holds 0 below 1.",
        networks=14,
        instead="such an entry is that of the nearest input with a value",
    ),
    Quirk(
        code=BIAS_CORRECTION_RACE,
        rule="bias_correction takes errors out of biases in two processes that do not see each other's corrections.",
        evidence="the node table of one configuration of EfficientNet-Lite0; MnasNet departs from it (cosine 0.84).",
        networks=1,
        confirmed=False,
        instead="every bias is corrected once, as mean_bias_correction does",
    ),
    Quirk(
        code=DEFAULT_FIRST_SAMPLE,
        rule="default takes the method whose outputs are most similar on the first calibration sample.",
        evidence="six of seven networks, and ten probes; in the seventh (CenterNet) another graph is compared. Whether "
        "it then goes per channel or asymmetric follows no rule that is known.",
        networks=6,
        instead="the mean over up to 32 samples decides",
    ),
    Quirk(
        code=KL_STEPS,
        rule="kl takes the first of the cuts whose divergences differ by less than about 1e-6.",
        evidence="four of 537 thresholds, in EfficientNet-Lite0 and a small EfficientNet; the step is fitted.",
        networks=2,
        instead="the cut of least divergence, in float64",
    ),
    Quirk(
        code=RENAMED_MEAN_OUTPUT,
        rule="An output that a ReduceMean over H and W computes without keeping them is called <node>_flatten_output.",
        evidence="three conversions of activations_a; no other of 49 networks ends so.",
        networks=1,
    ),
)

QUIRKS: Mapping[str, Quirk] = MappingProxyType({item.code: item for item in _ALL})
"""All quirks by code."""
