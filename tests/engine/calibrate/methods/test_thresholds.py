"""Thresholds and scales on the nodes of a placed model."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.calibrate import (
    METHODS,
    CalibrationOptions,
    StatisticsOptions,
    collect,
)
from engine.calibrate.methods.thresholds import (
    activation_scales,
    apply_thresholds,
    calibrate,
    calibration_tensors,
    names_before_calibration,
    note_rules,
    threshold_sources,
)
from engine.calibrate.statistics.statistics import TensorStatistics
from engine.errors import ModelError, UnsupportedError
from engine.graph.scales import Margin, change_scale_source
from engine.ir import (
    calibration_nodes,
    constant_of,
    read_calibration,
    to_bytes,
)
from engine.rulebook.integers import KL_DECIMALS
from engine.rulebook.marks import rules_of
from engine.terms import CalibrationType
from tests.engine.calibrate.models import add_calibration, graph, residual, shortcut

DATA = {"x": np.random.default_rng(3).standard_normal((10, 3, 6, 5)).astype(np.float32)}


def placed(model: ir.Model | None = None) -> ir.Model:
    model = residual() if model is None else model
    for name in ("x", "w0", "c0", "w1", "r0", "a", "g"):
        add_calibration(model, name)
    return model


def by_name(model: ir.Model) -> dict[str, ir.Node]:
    return {str(node.name).removesuffix("_HzCalibration"): node for node in calibration_nodes(model)}


def test_every_node_gets_thresholds_and_scales() -> None:
    model = placed()
    statistics = collect(residual(), calibration_tensors(model), DATA)
    calibrated = calibrate(model, statistics, CalibrationOptions())
    for name, node in by_name(calibrated).items():
        found = read_calibration(node)
        if name.startswith("w"):
            weight = np.abs(constant_of(node.inputs[0]))
            np.testing.assert_array_equal(found.thresholds, weight.max(axis=(1, 2, 3)))
        else:
            assert found.thresholds.tolist() == [statistics.tensors[name].pooled.maximum]
        np.testing.assert_array_equal(found.scales, found.thresholds / np.float32(127))


def test_placed_model_is_not_changed() -> None:
    model = placed()
    before = to_bytes(model)
    calibrate(model, collect(residual(), calibration_tensors(model), DATA), CalibrationOptions())
    assert to_bytes(model) == before


@pytest.mark.parametrize(("qtype", "largest"), [("int8", 127), ("int16", 32767), ("uint8", 255)])
def test_scale_divides_by_the_largest_magnitude(qtype: str, largest: int) -> None:
    model = residual()
    add_calibration(model, "c0", qtype=qtype)
    found = read_calibration(by_name(apply_thresholds(model, {"c0": [3.3]}))["c0"])
    assert found.scales.tolist() == [float(np.float32(3.3) / np.float32(largest))]


def test_ties_and_fixed_thresholds() -> None:
    model = placed()
    nodes = by_name(model)
    change_scale_source(nodes["r0"], of="a")
    change_scale_source(nodes["g"], fixed=5.49897)
    tensors = calibration_tensors(model)
    assert tensors == ("x", "c0", "a")
    statistics = collect(residual(), tensors, DATA)
    found = {
        name: read_calibration(node)
        for name, node in by_name(calibrate(model, statistics, CalibrationOptions())).items()
    }
    assert found["r0"].thresholds == found["a"].thresholds
    assert found["g"].thresholds.tolist() == [float(np.float32(5.49897))]


def test_a_tie_may_name_a_tensor_without_a_node() -> None:
    model = residual()
    change_scale_source(add_calibration(model, "c0"), of="r0")
    assert calibration_tensors(model) == ("r0",)
    found = read_calibration(by_name(apply_thresholds(model, {"r0": [2.0]}))["c0"])
    assert found.thresholds.tolist() == [2.0]


def test_missing_statistics_are_an_error() -> None:
    model = placed()
    statistics = collect(residual(), ["x", "c0"], DATA)
    with pytest.raises(ModelError, match=r"r0_HzCalibration.*'r0'"):
        calibrate(model, statistics, CalibrationOptions())
    with pytest.raises(ModelError, match=r"x_HzCalibration.*'x'"):
        calibrate(model, collect(residual(), [], DATA), CalibrationOptions())


@pytest.mark.parametrize("kind", ["skip", "load"])
def test_methods_without_data_give_one(kind: str) -> None:
    model = placed()
    change_scale_source(by_name(model)["g"], fixed=0.5)
    calibrated = calibrate(model, collect(residual(), [], DATA), CalibrationOptions(calibration_type=kind))
    for name, node in by_name(calibrated).items():
        if not name.startswith("w"):
            assert read_calibration(node).thresholds.tolist() == [0.5 if name == "g" else 1.0]


def test_load_keeps_the_thresholds_of_the_model() -> None:
    model = placed()
    node = by_name(model)["c0"]
    node.attributes["thresholds"] = ir.AttrFloat32s("thresholds", [7.0])
    node.attributes["scales"] = ir.AttrFloat32s("scales", [7.0 / 127])
    nodes = by_name(calibrate(model, collect(residual(), [], DATA), CalibrationOptions(calibration_type="load")))
    assert read_calibration(nodes["c0"]).thresholds.tolist() == [7.0]
    assert read_calibration(nodes["a"]).thresholds.tolist() == [1.0]


@pytest.mark.parametrize("kind", sorted(set(CalibrationType) - set(METHODS)))
def test_methods_to_come_are_refused(kind: CalibrationType) -> None:
    model = placed()
    with pytest.raises(UnsupportedError, match=f"{kind.value!r} is not supported yet; allowed are"):
        calibrate(model, collect(residual(), [], DATA), CalibrationOptions(calibration_type=kind))


def test_thresholds_per_channel_carry_their_axis() -> None:
    model = placed(shortcut())
    options = CalibrationOptions(per_channel=True)
    statistics = collect(shortcut(), calibration_tensors(model), DATA, StatisticsOptions.covering([options]))
    nodes = by_name(calibrate(model, statistics, options))
    found = read_calibration(nodes["r0"])
    assert (found.thresholds.size, found.axis) == (4, 1)
    assert len(set(found.thresholds.tolist())) > 1
    assert read_calibration(nodes["a"]).thresholds.size == 1


def test_what_is_tied_to_a_tensor_with_thresholds_per_channel_has_one_the_largest() -> None:
    """A Split of a convolution's channels gives tensors of other channels (graph 243 of seed 2311)."""
    model = placed(shortcut())
    change_scale_source(by_name(model)["a"], of="r0")
    options = CalibrationOptions(per_channel=True)
    statistics = collect(shortcut(), calibration_tensors(model), DATA, StatisticsOptions.covering([options]))
    nodes = by_name(calibrate(model, statistics, options))
    source, tied = read_calibration(nodes["r0"]), read_calibration(nodes["a"])
    assert source.thresholds.size == 4
    assert tied.thresholds.tolist() == [source.thresholds.max()]


def test_empty_weight_channels_get_the_smallest_normal_float() -> None:
    model = residual()
    weight = constant_of(model.graph.initializers["w0"]).copy()
    weight[2], weight[3, 0, 0, 0] = 0, np.nan
    model.graph.initializers["w0"].const_value = ir.tensor(weight, name="w0")
    add_calibration(model, "w0")
    found = read_calibration(by_name(apply_thresholds(model, {}))["w0"])
    assert found.thresholds[2] == np.float32(1.1754944e-38)
    assert found.thresholds[3] == np.nanmax(np.abs(weight[3]))


@pytest.mark.parametrize("group", [1, 2])
def test_transposed_convolution_has_a_threshold_per_output_channel(group: int) -> None:
    weight = np.random.default_rng(0).standard_normal((4, 3, 2, 2)).astype(np.float32)
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="deconv", group=group)
    model = graph([node], {"x": (1, 4, 5, 5)}, ["y"], {"w": weight})
    add_calibration(model, "w", axis=1, group=group)
    found = read_calibration(by_name(apply_thresholds(model, {}))["w"])
    expected = [
        np.abs(weight[g * (4 // group) : (g + 1) * (4 // group), channel]).max()
        for g in range(group)
        for channel in range(3)
    ]
    assert found.thresholds.tolist() == expected


def test_a_weight_must_be_constant() -> None:
    model = residual()
    node = add_calibration(model, "c0")
    node.attributes["quant_attrs"] = ir.AttrInt64("quant_attrs", 139537)
    with pytest.raises(ModelError, match="not a constant"):
        apply_thresholds(model, {})


def test_graph_outputs_go_by_the_name_of_their_calibrated_form() -> None:
    model = residual()
    node = add_calibration(model, "y")
    assert names_before_calibration(model) == {}
    model.graph.outputs[:] = node.outputs
    assert names_before_calibration(model) == {"y": "y_calibrated"}
    assert threshold_sources(model) == {"y_HzCalibration": "y_calibrated"}
    (found,) = calibration_nodes(apply_thresholds(model, {"y_calibrated": [2.0]}))
    assert read_calibration(found).thresholds.tolist() == [2.0]
    with pytest.raises(ModelError, match="the statistics have no entry for tensor 'y_calibrated'"):
        apply_thresholds(model, {"y": [2.0]})


def test_scales_are_those_that_are_written() -> None:
    model = apply_thresholds(placed(), None)
    scales = activation_scales(model, dict.fromkeys(calibration_tensors(model), (3.0,)))
    assert set(scales) == {f"{name}_HzCalibration" for name in ("x", "c0", "r0", "a", "g")}
    assert all(array.tolist() == [float(np.float32(3) / np.float32(127))] for array in scales.values())


@pytest.mark.parametrize(("fixed", "expected"), [(1.5, 3.0), (4.0, 4.0)])
def test_the_largest_of_several_tensors_and_fixed_thresholds(fixed: float, expected: float) -> None:
    model = placed()
    change_scale_source(by_name(model)["g"], largest=("c0", "r0", fixed))
    change_scale_source(by_name(model)["a"], margin=Margin(below=6.0, small=1.2, large=1.1))
    found = apply_thresholds(model, {"x": (1.0,), "c0": (2.0,), "r0": (3.0,), "a": (5.0,), "g": (9.0,)})
    assert read_calibration(by_name(found)["g"]).thresholds.tolist() == [expected]
    assert read_calibration(by_name(found)["a"]).thresholds.tolist() == [6.0]


@pytest.mark.parametrize(
    ("changes", "noted"), [({"margin": Margin(below=6.0, small=1.2, large=1.1)}, True), ({"largest": ("a",)}, False)]
)
def test_a_rule_is_noted_through_a_margin_but_not_on_what_joins(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], noted: bool
) -> None:
    monkeypatch.setattr(TensorStatistics, "rule", lambda *_: KL_DECIMALS)
    model, statistics = residual(), collect(residual(), ["a"], DATA)
    change_scale_source(add_calibration(model, "a"), **changes)
    calibrated = apply_thresholds(model, statistics.thresholds(CalibrationOptions()))
    note_rules(calibrated, statistics, [CalibrationOptions()])
    (node,) = calibration_nodes(calibrated)
    readers = [usage.node for usage in node.outputs[0].uses()]
    assert [KL_DECIMALS in rules_of(reader) for reader in readers] == [noted]
