"""The first stage and node where a conversion departs, for one change at each stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx_ir as ir
import pytest

from engine.conformance.cases import RecordedCase, find_cases
from engine.conformance.conversion import Ending, OurConversion
from engine.conformance.departure import ComparedStage, departure, same_subgraphs
from engine.ir import calibration_nodes, load_model

(CASE,) = find_cases(Path(__file__).parents[2] / "golden" / "cases" / "min_c2f_bayes-e_max_rgb")


def ours(outcome: Ending = Ending.CONVERTED, message: str = "") -> OurConversion:
    """A conversion that gives exactly what the original gave."""
    models = load_model(CASE.calibrated), load_model(CASE.quantized)
    return OurConversion(outcome, message, *models, dict(CASE.devices), CASE.latencies_us)


def found(
    conversion: OurConversion, outputs: str = "", case: RecordedCase = CASE
) -> tuple[ComparedStage | None, str, str]:
    result = departure(case, conversion, load_model(CASE.calibrated), load_model(CASE.quantized), outputs)
    return (None, "", "") if result is None else (result.stage, result.node, result.cause)


def node(model: ir.Model | None, name: str) -> ir.Node:
    assert model is not None
    return next(item for item in model.graph if item.name == name)


def calibration(conversion: OurConversion, tensor: str) -> ir.Node:
    assert conversion.calibrated is not None
    return next(
        item for item in calibration_nodes(conversion.calibrated) if item.inputs[0] and item.inputs[0].name == tensor
    )


def rename(conversion: OurConversion) -> None:
    node(conversion.calibrated, "Concat_27").name = "Other"


def replace_operator(conversion: OurConversion) -> None:
    target = node(conversion.calibrated, "Concat_27")
    target.name, target.op_type = "Other", "Sum"


def change_weights(conversion: OurConversion) -> None:
    assert conversion.calibrated is not None
    value = conversion.calibrated.graph.initializers["m.a.bias"]
    assert value.const_value is not None
    array = value.const_value.numpy().copy()
    array[0] += 1
    value.const_value = ir.tensor(array, name=value.name)


def change_attribute(conversion: OurConversion) -> None:
    node(conversion.calibrated, "Concat_27").attributes["axis"] = ir.AttrInt64("axis", 2)


def widen(conversion: OurConversion) -> None:
    calibration(conversion, "input").attributes["qtype"] = ir.AttrString("qtype", "int16")


def move_threshold(conversion: OurConversion) -> None:
    calibration(conversion, "input").attributes["thresholds"] = ir.AttrFloat32s("thresholds", [1.0])


def shift(conversion: OurConversion) -> None:
    target = node(conversion.quantized, "Conv_31")
    values = target.attributes["right_shift"].as_ints()
    target.attributes["right_shift"] = ir.AttrInt64s("right_shift", [values[0] + 1, *values[1:]])


@pytest.mark.parametrize(
    ("change", "stage", "where", "cause"),
    [
        (rename, ComparedStage.NAMES, "Concat_27", "ours is called Other"),
        (replace_operator, ComparedStage.GRAPH, "Concat_27", "ours has no such Concat, Sum Other in its place"),
        (change_weights, ComparedStage.CALIBRATION, "m.a.bias", "1 of"),
        (change_attribute, ComparedStage.GRAPH, "Concat_27", "attribute axis: 1 | 2"),
        (widen, ComparedStage.PLACEMENT, "input", "quantised to int8 | int16"),
        (move_threshold, ComparedStage.CALIBRATION, "input", "| 1"),
        (shift, ComparedStage.QUANTISATION, "Conv_31", "attribute right_shift"),
    ],
)
def test_first_departure(change: Callable[[OurConversion], None], stage: ComparedStage, where: str, cause: str) -> None:
    conversion = ours()
    change(conversion)
    assert found(conversion)[:2] == (stage, where)
    assert cause in found(conversion)[2]


def test_equal_conversions_do_not_depart() -> None:
    assert found(ours()) == (None, "", "")


def test_devices_and_outputs_come_last() -> None:
    conversion = ours()
    conversion.devices["Conv_31"] = "CPU"  # type: ignore[index]
    assert found(conversion, "outputs differ")[:2] == (ComparedStage.DEVICES, "Conv_31")
    assert found(ours(), "outputs differ") == (ComparedStage.OUTPUTS, "", "outputs differ")


def test_what_does_not_convert_departs_where_its_models_do() -> None:
    assert found(ours(Ending.REFUSED, "no")) == (ComparedStage.CONVERSION, "", "refused: no")
    conversion = ours(Ending.CRASHED, "KeyError")
    widen(conversion)
    assert found(conversion)[0] is ComparedStage.PLACEMENT


@pytest.mark.parametrize(
    ("theirs", "own", "same"),
    [((1.0, 2.0), (3.0, 1.0), True), ((1.0, 2.0), (3.0,), False), ((), (1.0,), None), ((1.0,), (), None)],
)
def test_subgraphs_are_counted(theirs: tuple[float, ...], own: tuple[float, ...], same: bool | None) -> None:
    case, conversion = replace(CASE, reduced=False, latencies_us=theirs), replace(ours(), latencies_us=own)
    assert same_subgraphs(case, conversion) is same
    assert same_subgraphs(CASE, replace(conversion, latencies_us=(1.0, 2.0))) is None  # the sum alone is recorded
    departed = (ComparedStage.COMPILATION, "", f"{len(theirs)} BPU subgraphs | {len(own)}")
    assert found(conversion, case=case) == (departed if same is False else (None, "", ""))
