"""Names alone: which rule decides over which, and what names are made of."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir
import pytest

from engine.chips import ChipFamily
from engine.rulebook.name import NAMES, NamedKind, NamedPart, NameSite, Naming, without_names

CONVERTED = replace(NameSite(NamedPart.REQUANTIZES, tensor="t"), scale=0.0199996)
OPERAND = NameSite(NamedPart.OPERAND, tensor="c", node="sum", reader="conv", index=4)


@pytest.mark.parametrize(
    ("site", "name", "rule"),
    [
        (CONVERTED, "t_calibrated_Requantize", "requantizes"),
        (replace(CONVERTED, calibrated="t_calibrated"), "t_calibrated_Requantize", "requantizes-again"),
        (replace(CONVERTED, calibrated="t_calibrated", widens=True), "t_Requantize", "widens"),
        (
            replace(CONVERTED, widens=True, as_convolution=True),
            "UNIT_CONV_FOR_t_calibrated_0.02000_TO_FUSE_SCALE",
            "rescaling-convolution",
        ),
        (OPERAND, "sum_c_quantized", "operand"),
        (replace(OPERAND, is_number=True), "sum_c_quantized", "operand"),
        (replace(OPERAND, changes_layout=True), "conv_nchw2nhwc_transposed_input4", "operand-in-other-layout"),
        (
            replace(OPERAND, changes_layout=True, is_number=True),
            "conv_NCHW2NHWC_LayoutConvert_Input4_c_quantized",
            "number-in-other-layout",
        ),
        (NameSite(NamedPart.CALIBRATION, tensor="t", number=2), "t_HzCalibration_2", "further-calibration"),
    ],
)
def test_a_name(site: NameSite, name: str, rule: str) -> None:
    names = Naming(ChipFamily.BAYES)
    assert names.of(site) == name
    (given,) = names.given.values()
    assert (given.site, given.rule) == (site, f"name.{rule}")


def test_without_its_rules_something_is_called_as_what_it_stands_for() -> None:
    site = NameSite(NamedPart.CALIBRATED, tensor="t", number=1)
    ids = [rule.id for rule in NAMES[NamedPart.CALIBRATED]]
    assert Naming(ChipFamily.BAYES, without_names(NAMES, ids[1:2])).of(site) == "t_calibrated"
    alone = Naming(ChipFamily.BAYES, without_names(NAMES, ids))
    assert (alone.of(site), alone.given) == ("t", {})


def test_a_node_knows_the_rules_of_its_name_its_results_and_its_constants() -> None:
    names = Naming(ChipFamily.BAYES)
    sites = (
        NameSite(NamedPart.QUANTIZES, tensor="t"),
        NameSite(NamedPart.QUANTIZED, tensor="t"),
        NameSite(NamedPart.SCALE, tensor="t"),
    )
    node_name, result, scale = map(names.of, sites)
    constant = ir.Value(name=scale, const_value=ir.tensor([1.0]))
    node = ir.node("HzQuantize", [constant], outputs=[ir.Value(name=result)], name=node_name)
    ir.Graph([], node.outputs, nodes=[node], initializers=[constant])
    assert names.rules(node) == ["name.quantizes", "name.quantized", "name.scale"]
    assert (NamedKind.TENSOR, scale) not in names.given


def test_every_part_has_a_rule() -> None:
    assert NAMES.keys() == set(NamedPart)
