"""Names in small recorded networks: which rules the original's names follow from, and would not without them."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

from engine.chips import load_chip
from engine.conformance.cases import find_cases
from engine.conformance.name_evidence import NameVerdict, name_verdicts
from engine.conformance.rule_evidence import subject_of
from engine.rulebook.name import NAMES, Naming

RECORDED = Path(__file__).parent / "recorded"
AS_WITHOUT = {"name.computes", "name.float", "name.dequantized"}
"""Rules by which something is called as it is without any."""
IN_LARGER_NETWORKS = {
    "name.further-calibration",
    "name.further-calibrated",
    "name.unit-convolution",
    "name.float-of-calibrated",
    "name.casts",
    "name.shape-around",
    "name.shape",
    "name.taken-node",
    "name.taken",
    "name.taken-constant",
}
"""Rules that no network here needs: recorded ones of more nodes show some (``ptqlab rules show ID``)."""


@cache
def verdicts() -> tuple[NameVerdict, ...]:
    found: list[NameVerdict] = []
    for case in find_cases(RECORDED):
        if not case.refusal and not case.damage and case.calibrated.is_file():
            naming = Naming(load_chip(case.march).family)
            placed = subject_of(case).placed(names=naming)
            found += name_verdicts(case, naming, placed)
    return tuple(found)


def test_names_are_the_original_s() -> None:
    """All but these of 21,626: shapes, 65 that need the requests of a configuration, the
    layout of two inputs that are trained on yuv444 and fed with nv12, the scale of an average that the CPU expands or
    reshapes, two of statistics that are expanded for a Concat of the CPU, what a Cast gives to a product on bayes-e,
    and tensors with a threshold per channel, whose calibrations are numbered.

    The original calls the shapes ``<node>_quanti_shape_dim4``.
    """
    others = Counter(verdict.rule for verdict in verdicts() if not verdict.agrees)
    assert others == {
        "name.calibrated": 16,
        "name.calibration": 16,
        "name.shape-around": 9,
        "name.scale-of-accumulator": 3,
        "name.scale": 18,
        "name.quantizes": 2,
        "name.quantized": 2,
        "name.integers": 11,
        "name.float-of-calibrated": 6,
        "name.dequantizes": 11,
        "name.dequantized": 2,
        "name.to-nhwc": 4,
        "name.in-nhwc": 4,
        "name.requantizes": 3,
        "name.requantized": 4,
        "name.to-nchw": 8,
        "name.in-nchw": 8,
        "name.computes": 1,
        "name.widens": 1,
        "name.integers-of-positions": 1,
        "name.casts-beside-values": 1,
    }


def test_every_rule_is_needed_by_a_case_or_known_without() -> None:
    needed = {verdict.rule for verdict in verdicts() if verdict.agrees and verdict.other != verdict.name}
    known = {rule.id for table in NAMES.values() for rule in table}
    assert needed == known - AS_WITHOUT - IN_LARGER_NETWORKS
