"""What the original computes otherwise than the float network says, and how it chooses thresholds and biases: rules
that no placement shows. Where one costs accuracy, ``compatibility: clean`` does what ``instead`` says.

Those of ``arithmetic`` are about nodes on the BPU; placement notes them. Those of ``method`` are about the options of a
calibration: :mod:`engine.calibrate` asks them, and notes the nodes whose thresholds or biases they decided.
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from engine.facts.devices import on_bpu
from engine.ir import MARK_OLD_RESIZE, MARK_SHARED, MARK_STEPS, MARK_SWAPPED, calibration_of
from engine.ops.average_pool import reaches_over
from engine.ops.core.element_functions import FUNCTIONS, HARD_SIGMOID
from engine.ops.lut import UNDEFINED_ENTRIES, leaves_domain
from engine.ops.resize_upsample import is_nearest
from engine.ops.roi_resize import DEFAULT_COORDINATES, leaves_coordinates
from engine.rulebook.rule import BERNOULLI, MeasuredApart, Pattern, Rule, Table
from engine.terms import Compatibility

BORDER_AVERAGE = "arithmetic.border-average"
BIAS_CORRECTION_SAMPLE = "method.bias-correction-sample"
KL_DECIMALS = "method.kl-decimals"
DEFAULT_FIRST_SAMPLE = "method.default-first-sample"
MISH_OVERFLOW = "method.mish-overflow"
BORDER_COLUMNS = "method.border-columns"
SAMPLES_TOGETHER = "method.samples-together"


def _in_int8(node: ir.Node) -> bool:
    found = [calibration_of(value) for value in node.inputs if value is not None]
    return any(calibration is not None and calibration.qtype == "int8" for calibration in found)


_TABLE: Pattern[ir.Node] = Pattern(
    "is computed by an int8 table", lambda node: on_bpu(node) and node.op_type in FUNCTIONS and _in_int8(node)
)

ARITHMETIC: Table[ir.Node, str] = Table(
    "arithmetic",
    (
        Rule(
            HARD_SIGMOID,
            "HardSigmoid has the slope 1/6 and the offset 1/2 in its int8 table whatever the model gives.",
            _TABLE & Pattern("is a HardSigmoid", lambda node: node.op_type == "HardSigmoid"),
            "slope 1/6, offset 1/2",
            instead="the table is that of the model's own alpha and beta",
            measured=MeasuredApart(
                "all 256 entries of the first HardSigmoid of six networks; at alpha 0.2 a right table differs in 241", 6
            ),
        ),
        Rule(
            BORDER_AVERAGE,
            "An AveragePool on the BPU divides by the size of the whole window where it reaches over the border of the "
            "map too, whatever count_include_pad and ceil_mode say.",
            Pattern(
                "is an AveragePool on the BPU that reaches over the border",
                lambda node: node.op_type == "AveragePool" and on_bpu(node) and reaches_over(node),
            ),
            "divided by the whole window",
            advice="Apply ptqlab rewrite --apply border_average, which keeps the node on the BPU, or train and export "
            "with count_include_pad 1 and ceil_mode 0; asked for the CPU it reads its input at the scale of its result",
            measured=MeasuredApart(
                "the integer outputs of three small networks (docs/evidence/field.md); reference/arithmetic.md 1", 3
            ),
        ),
        Rule(
            DEFAULT_COORDINATES,
            "A linear Resize on the BPU that leaves its coordinates to the default, half_pixel, is computed from the "
            "origin, as asymmetric says.",
            Pattern("is on the BPU", on_bpu)
            & Pattern(
                "is a linear Resize that names no coordinates",
                lambda node: node.op_type == "Resize" and not is_nearest(node) and leaves_coordinates(node),
            ),
            "computed from the origin",
            instead="the result is that of half_pixel",
            advice="Or name the coordinates in coordinate_transformation_mode",
            measured=MeasuredApart(
                "five Resizes without coordinates, by 1.5 and 2, of operator sets 10 and 11 on bayes-e and bernoulli2; "
                "with the coordinates named half_pixel, asymmetric or align_corners each is as named "
                "(tests/parity/recorded/old_opsets)",
                4,
            ),
            over=("arithmetic.old-resize",),
        ),
        Rule(
            "arithmetic.old-resize",
            "A Resize or Upsample of operator set 9 or 10 takes its pixels half a pixel further than that says: the "
            "converter to operator set 11 leaves out the coordinates.",
            Pattern(
                "is a Resize of operator set 9 or 10 that interpolates, or repeats some pixels more often than others",
                lambda node: MARK_OLD_RESIZE in node.metadata_props,
            ),
            "half a pixel further",
            instead="the Resize keeps its coordinates",
            advice="Or export the network at operator set 11, which says where pixels lie",
            measured=MeasuredApart(
                "thresholds and outputs of 12 Resizes of operator sets 9 and 10, nearest and linear, by 1.5, 2, 2.1 "
                "and 3 (tests/parity/recorded/old_opsets); repeated whole pixels are the same either way",
                2,
            ),
        ),
        Rule(
            "arithmetic.swapped-difference",
            "Of two differences of the same tensors, one a - b and the other b - a, the first is computed for both.",
            Pattern(
                "stands for the difference with its operands exchanged, too",
                lambda node: MARK_SWAPPED in node.metadata_props,
            ),
            "the other has the wrong sign",
            instead="both are computed",
            advice="Or write b - a as the product of a - b and -1",
            measured=MeasuredApart(
                "four pairs in front of convolutions, Relus, Sigmoids and a Concat on bayes-e and bernoulli2 each, all "
                "eight with the outputs of a - b for both; written with -1 all are right "
                "(docs/evidence/agreement.md)",
                4,
            ),
        ),
        Rule(
            "arithmetic.shared-factor",
            "A weight or bias that several convolutions share is multiplied by the factors of all of them.",
            Pattern(
                "shares a constant that another one's factor changed", lambda node: MARK_SHARED in node.metadata_props
            ),
            "the factors of the others count here, too",
            instead="each convolution has its own factor",
            advice="Or give each level of a shared head weights of its own before the export",
            measured=MeasuredApart(
                "two and three convolutions of one weight, 30 on bayes-e, bayes and bernoulli2: numbers and numbers "
                "per channel, Mul and Div, behind them and in front of them, depthwise and transposed ones, shared "
                "weights, biases and both; BatchNormalizations and sums do not (docs/evidence/agreement.md)",
                30,
            ),
        ),
        Rule(
            "arithmetic.average-in-steps",
            "bernoulli2 halves a map, of which a side has a prime factor above 7, before it averages it; halves of an "
            "odd side average its end with zeros, so that the average is too small, of some sizes zero.",
            Pattern("is on the BPU", on_bpu)
            & Pattern("averages a map in steps", lambda node: MARK_STEPS in node.metadata_props),
            "averaged in halves",
            BERNOULLI,
            instead="the CPU averages it",
            advice="Or pool to sides without prime factors above 7 first, or give the node the CPU in node_info",
            measured=MeasuredApart(
                "66 files of 59 sizes, 14 of them drawn after the rule was written (reference/arithmetic.md 1, "
                "tests/parity/recorded/averages)",
                59,
            ),
        ),
        Rule(
            UNDEFINED_ENTRIES,
            "Tables of int8 hold -128 where the function is not defined, such as a root of negative numbers, which "
            "rounding can reach where the float network does not.",
            _TABLE & Pattern("can read what its function is not defined for", leaves_domain),
            "-128",
            instead="such an entry is that of the nearest input with a value",
            measured=MeasuredApart(
                "the tables of Sqrt, Log, Pow, 1/Sqrt, Acos, Asin and Atanh in 14 small networks on three marches "
                "(docs/evidence/field.md); that of Acosh holds 0 below 1",
                14,
            ),
        ),
    ),
)
"""About a placed node."""


def _asked(says: str) -> Pattern[Any]:
    """What a configuration asks for: engine.calibrate looks where it does it."""
    return Pattern(says, lambda options: True)


METHODS: Table[Any, str] = Table(
    "method",
    (
        Rule(
            BIAS_CORRECTION_SAMPLE,
            "The option bias_correction takes out of the bias of one convolution after the other what its result is "
            "off on average on the last sample, where the result is more similar without it, and out of none if the "
            "outputs are not.",
            _asked("is a convolution, with bias_correction"),
            "corrected on the last sample",
            instead="every bias is corrected once, as mean_bias_correction does",
            measured=MeasuredApart(
                "44 of 60 networks of one convolution, and 24 of several whose order was found, which follows no rule "
                "that is known (docs/evidence/agreement.md)",
                68,
            ),
        ),
        Rule(
            DEFAULT_FIRST_SAMPLE,
            "Calibration by default takes the method whose outputs are most similar on the first calibration sample.",
            _asked("is calibrated by default"),
            "judged on the first sample",
            instead="the mean over up to 32 samples decides",
            measured=MeasuredApart(
                "240 of 246 networks, 143 of which reach no 0.995 there with one signed threshold per tensor, 77 of "
                "82 before (docs/evidence/agreement.md); more than 32 samples: EfficientNet-Lite0",
                317,
            ),
        ),
        Rule(
            KL_DECIMALS,
            "Calibration by kl sums divergences in float32 and cuts off what is behind six decimals, so that cuts are "
            "alike that differ.",
            _asked("is calibrated by kl"),
            "six decimals",
            instead="the cut of least divergence, in float64",
            measured=MeasuredApart(
                "309 of 1,843 tensors asked or recorded, of which 1,841 have the original's threshold "
                "(docs/evidence/calibration.md)",
                40,
            ),
        ),
        Rule(
            MISH_OVERFLOW,
            "Calibration computes Mish by exponentials of float32: it is not a number for values above 88.7, and what "
            "is none is not measured; nor does an output that is none tell which method or tensor is better.",
            _asked("has a Mish"),
            "large results are not measured",
            instead="every result of a Mish is measured and compared",
            measured=MeasuredApart(
                "the thresholds of six Mish of one network whose values pass 88.7, and of six other networks, by max, "
                "kl and percentile (docs/evidence/agreement.md)",
                7,
            ),
        ),
        Rule(
            BORDER_COLUMNS,
            "Calibration takes padding on the right of a map for values of it: an AveragePool that does not count "
            "padding divides by it there, not on the other sides.",
            _asked("has an AveragePool with padding on the right that is not counted"),
            "padding on the right counts",
            instead="no padding counts",
            measured=MeasuredApart(
                "79 of 79 thresholds behind averages of 20 kinds of windows on two marches, 192 of 192 behind single "
                "places of eight samples, and two drawn networks (docs/evidence/agreement.md)",
                9,
            ),
        ),
        Rule(
            SAMPLES_TOGETHER,
            "Calibration runs the network as it stands on 8 samples at once; where a Resize to fixed sizes or a "
            "Reshape holds the number of samples and the run does not fail, what is behind it is of one sample.",
            _asked("holds the number of samples"),
            "of one sample in eight",
            instead="every sample is computed by itself",
            measured=MeasuredApart(
                "thresholds of five networks with a Resize to fixed sizes whose result is added "
                "(tests/parity/recorded/together), and of three drawn ones",
                8,
            ),
        ),
    ),
)
"""About the options of a calibration."""


def imitates(rule: str, compatibility: Compatibility) -> bool:
    """Whether a calibration follows the rule of ``METHODS`` with that id."""
    return next(each for each in METHODS if each.id == rule).imitated(compatibility)
