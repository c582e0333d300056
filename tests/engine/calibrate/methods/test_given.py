"""Models that bring thresholds: ``calibration_type: load``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.calibrate import CalibrationOptions, calibrate, calibration_tensors, collect, run_calibration
from engine.calibrate.data.sources import as_data
from engine.calibrate.methods.given import with_given
from engine.config import parse_config
from engine.convert import placement_options
from engine.frontend.onnx import load_onnx
from engine.frontend.prepared import given_thresholds
from engine.graph.scales import Gate, Gated, change_scale_source, scale_source
from engine.ir import HORIZON_DOMAIN, attribute, calibration_nodes, read_calibration, save_model
from engine.optimize import optimize
from engine.place import NodeTypes, PlacementOptions, place
from tests.engine.calibrate.models import add_calibration, graph, residual

DATA = {"x": np.random.default_rng(3).standard_normal((10, 3, 6, 5)).astype(np.float32)}


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """A calibrated model as a file that says nothing of where it comes from."""
    model = residual()
    placed = place(model, "bayes-e", PlacementOptions()).model
    calibrated = calibrate(placed, collect(model, calibration_tensors(placed), DATA), CalibrationOptions())
    calibrated.metadata_props.clear()
    for node in calibrated.graph:
        node.metadata_props.clear()
        if node.name == "c0_HzCalibration":
            node.attributes["switch"] = ir.AttrString("switch", "OFF")
    return save_model(calibrated, tmp_path / "prepared.onnx")


def thresholds(model: ir.Model) -> dict[str, list[float]]:
    return {str(node.name): read_calibration(node).thresholds.tolist() for node in calibration_nodes(model)}


def test_calibration_nodes_are_taken_out(prepared: Path) -> None:
    model = load_onnx(prepared)
    assert [node.op_type for node in model.graph] == [node.op_type for node in residual().graph]
    assert HORIZON_DOMAIN not in model.opset_imports
    assert given_thresholds(model).keys() >= {"x", "r0", "w0", "w1", "a"}
    assert "c0" not in given_thresholds(model), "its switch is OFF"


def test_load_takes_the_thresholds_of_the_file(prepared: Path) -> None:
    optimized = optimize(load_onnx(prepared), "bayes-e")
    placed = place(optimized, "bayes-e", PlacementOptions()).model
    loaded = thresholds(run_calibration(optimized, placed, None, CalibrationOptions(calibration_type="load")))
    given = given_thresholds(load_onnx(prepared))
    for name in ("x", "r0", "w0", "w1", "a"):
        assert loaded[f"{name}_HzCalibration"] == given[name]
    assert loaded["c0_HzCalibration"] == given["r0"], "a Relu behind a convolution shares its input's threshold"


def test_skip_does_not(prepared: Path) -> None:
    optimized = optimize(load_onnx(prepared), "bayes-e")
    placed = place(optimized, "bayes-e", PlacementOptions()).model
    skipped = thresholds(run_calibration(optimized, placed, None, CalibrationOptions(calibration_type="skip")))
    assert skipped["r0_HzCalibration"] == [1.0]


@pytest.mark.parametrize("kind", ["skip", "load"])
def test_the_log_claims_nothing_that_needs_data(kind: str, prepared: Path, caplog: pytest.LogCaptureFixture) -> None:
    optimized = optimize(load_onnx(prepared), "bayes-e")
    placed = place(optimized, "bayes-e", PlacementOptions()).model
    options = CalibrationOptions(calibration_type=kind, per_channel=True, asymmetric=True, bias_correction=True)
    with caplog.at_level("INFO", "engine.calibrate"):
        run_calibration(optimized, placed, DATA, options)
    told = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    assert told == ["Run calibration model with fixed thresholds method."]


def reloaded(original: ir.Model, calibrated: ir.Model, folder: Path) -> tuple[ir.Model, ir.Model]:
    """``calibrated`` as a file, and what ``load`` makes of that file."""
    saved = save_model(calibrated, folder / "prepared.onnx")
    optimized = optimize(load_onnx(saved), "bayes-e")
    assert [value.name for value in optimized.graph.outputs] == [value.name for value in original.graph.outputs]
    options = placement_options(parse_config(LOAD), optimized)
    placed = place(optimized, "bayes-e", options).model
    return optimized, run_calibration(optimized, placed, None, CalibrationOptions(calibration_type="load"))


LOAD = {
    "model_parameters": {"onnx_model": "m.onnx", "march": "bayes-e", "output_model_file_prefix": "m"},
    "input_parameters": {
        "input_type_train": "featuremap",
        "input_layout_train": "NCHW",
        "input_type_rt": "featuremap",
    },
    "calibration_parameters": {"calibration_type": "load"},
}


def plain() -> ir.Model:
    """Two convolutions with Relu and a third: what ``asymmetric`` and int16 apply to."""
    rng = np.random.default_rng(0)
    shapes = {"w0": (4, 3, 3, 3), "w1": (4, 4, 1, 1), "w2": (6, 4, 1, 1)}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"], "conv0"),
        helper.make_node("Relu", ["c0"], ["r0"], "relu0"),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], "conv1"),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("Conv", ["r1", "w2"], ["y"], "conv2"),
    ]
    constants = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return graph(nodes, {"x": (1, 3, 6, 5)}, ["y"], constants)


@pytest.mark.parametrize(
    ("build", "placement", "options"),
    [
        (residual, PlacementOptions(), {}),
        (residual, PlacementOptions(), {"per_channel": True}),
        (plain, PlacementOptions(), {"asymmetric": True}),
        (plain, PlacementOptions(node_info={"conv1": NodeTypes(input_type="int16")}), {}),
        (plain, PlacementOptions(node_info={"conv1": NodeTypes(output_type="int16")}), {}),
        (plain, PlacementOptions(output_type="int8"), {}),
        (plain, PlacementOptions(output_type="int16"), {}),
    ],
)
def test_what_was_calibrated_is_loaded_as_it_was(
    build: Callable[[], ir.Model], placement: PlacementOptions, options: dict[str, bool], tmp_path: Path
) -> None:
    optimized = optimize(build(), "bayes-e")
    placed = place(optimized, "bayes-e", placement).model
    wanted = run_calibration(optimized, placed, as_data(DATA), CalibrationOptions.model_validate(options))
    _, found = reloaded(optimized, wanted, tmp_path)
    assert {str(node.name): attributes(node) for node in calibration_nodes(found)} == {
        str(node.name): attributes(node) for node in calibration_nodes(wanted)
    }


def attributes(node: ir.Node) -> dict[str, object]:
    """What decides the integers: equal thresholds of all channels are one."""
    found = {name: attribute(node, name) for name in ("thresholds", "scales", "qtype", "axis")}
    if "group" not in node.attributes and len(set(found["thresholds"])) == 1:
        found |= {"thresholds": found["thresholds"][:1], "scales": found["scales"][:1], "axis": None}
    return found


def test_tensors_that_share_a_threshold_take_the_given_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    constants = {"w0": rng.standard_normal((4, 3, 3, 3)), "w1": rng.standard_normal((4, 4, 1, 1))}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c"], "conv0"),
        helper.make_node("MaxPool", ["c"], ["p"], "pool", kernel_shape=[2, 2]),
        helper.make_node("Conv", ["p", "w1"], ["y"], "conv1"),
    ]
    model = graph(
        nodes, {"x": (1, 3, 6, 5)}, ["y"], {name: array.astype(np.float32) for name, array in constants.items()}
    )
    for name, values in (("p", [3.0, 9.0, 2.0, 1.0]), ("w1", [2.5])):
        add_calibration(model, name, thresholds=values, scales=[value / 127 for value in values])
    _, found = reloaded(model, model, tmp_path)
    wanted = {"c_HzCalibration": [9.0], "p_HzCalibration": [9.0], "w1_HzCalibration": [2.5] * 4}
    assert {name: values for name, values in thresholds(found).items() if name in wanted} == wanted


def test_thresholds_that_nothing_takes_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = residual()
    add_calibration(model, "c1", thresholds=[2.0], scales=[2 / 127])
    reloaded(residual(), model, tmp_path)
    assert "no BPU node uses the model's thresholds of c1." in caplog.text


def test_tensors_without_a_threshold_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = residual()
    for name in ("x", "c0", "r0"):
        add_calibration(model, name, thresholds=[2.0], scales=[2 / 127])
    _, found = reloaded(residual(), model, tmp_path)
    without = [name.removesuffix("_HzCalibration") for name, values in thresholds(found).items() if values == [1.0]]
    assert f"the model has no thresholds for {', '.join(without)}, so 1.0 is used." in caplog.text
    assert without


def with_marks(given: dict[str, list[float]], types: dict[str, str] | None = None) -> ir.Model:
    """A placed model of three convolutions whose file brought thresholds."""
    placed = place(optimize(plain(), "bayes-e"), "bayes-e", PlacementOptions()).model
    placed.metadata_props["hz.given_thresholds"] = json.dumps(given)
    placed.metadata_props["hz.given_types"] = json.dumps(types or {})
    return placed


def test_a_tensor_takes_thresholds_per_channel_and_a_weights_one_is_that_of_all_channels() -> None:
    given = {"x": [3.0], "r0": [1.0, 3.0, 2.0, 0.5], "w0": [0.25], "w1": [1.0, 2.0, 3.0, 4.0]}
    found = thresholds(with_given(with_marks(given)))
    assert found["x_HzCalibration"] == [3.0]
    assert found["r0_HzCalibration"] == given["r0"]
    assert found["w0_HzCalibration"] == [0.25] * 4
    assert found["w1_HzCalibration"] == [1.0, 2.0, 3.0, 4.0]


def test_a_weight_takes_one_threshold_or_one_per_channel() -> None:
    assert thresholds(with_given(with_marks({"w0": [1.0, 2.0]})))["w0_HzCalibration"] == []


def test_fixed_thresholds_stay() -> None:
    placed = with_marks({"r0": [7.0]})
    (node,) = (node for node in calibration_nodes(placed) if node.name == "r0_HzCalibration")
    change_scale_source(node, fixed=1.0)
    assert thresholds(with_given(placed))["r0_HzCalibration"] == []


def test_what_a_gate_gives_follows_from_the_given_threshold_of_its_input() -> None:
    placed = with_marks({"r0": [1.0], "r1": [7.0]})
    (node,) = (node for node in calibration_nodes(placed) if node.name == "r1_HzCalibration")
    change_scale_source(node, largest=(Gated("r0", (Gate.SIGMOID,)),))
    assert thresholds(with_given(placed))["r1_HzCalibration"] == [0.7310585975646973]


def test_an_unsigned_type_is_taken_where_a_tensor_can_be_unsigned() -> None:
    given = {name: [2.0] for name in ("x", "r0", "r1")}
    found = with_given(with_marks(given, dict.fromkeys(given, "uint8")))
    kinds = {str(node.name): attribute(node, "qtype") for node in calibration_nodes(found)}
    assert {name for name, kind in kinds.items() if kind == "uint8"} == {"r0_HzCalibration", "r1_HzCalibration"}


def test_a_warning_names_five_and_counts_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    with_given(with_marks({f"t{index}": [1.0] for index in range(7)}))
    assert "no BPU node uses the model's thresholds of t0, t1, t2, t3, t4 and 2 more." in caplog.text
    assert "the model has no thresholds for x, r0, r1" in caplog.text


def test_a_constant_operand_takes_its_own_threshold_before_its_largest_magnitude() -> None:
    """As the original takes it: Mul_14 and Add_24 of a drawn network, built from a ship folder by 1.24.3."""
    model = graph(
        [
            helper.make_node("Conv", ["x", "w0"], ["c"], "conv"),
            helper.make_node("Mul", ["c", "k"], ["y"], "mul"),
        ],
        {"x": (1, 3, 6, 5)},
        ["y"],
        {"w0": np.ones((4, 3, 1, 1), np.float32), "k": np.full((1, 4, 1, 1), 0.5, np.float32)},
    )
    placed = place(model, "bayes-e", PlacementOptions()).model
    (constant,) = [node for node in calibration_nodes(placed) if scale_source(node).fixed is not None]
    name = str(constant.inputs[0].name) if constant.inputs[0] is not None else ""
    placed.metadata_props["hz.given_thresholds"] = json.dumps({name: [0.125], "x": [1.0]})
    assert thresholds(with_given(placed))[str(constant.name)] == [0.125]
    placed.metadata_props["hz.given_thresholds"] = json.dumps({"x": [1.0]})
    assert thresholds(with_given(placed))[str(constant.name)] == [], "without one its largest magnitude is used"


def test_what_lies_behind_a_pad_has_what_the_file_says_of_its_result() -> None:
    """Its result would take the threshold of ``r``, which a convolution reads, and what is cut out of it as well."""
    first, last = (np.ones((8, channels, 1, 1), np.float32) for channels in (8, 12))
    numbers = {"pads": [0, 2, 0, 0, 0, 2, 0, 0], "begin": [0], "end": [6], "axis": [2]}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["r"], name="first"),
        helper.make_node("Conv", ["r", "w1"], ["q"], name="own"),
        helper.make_node("Pad", ["r", "pads"], ["p"], name="widen"),
        helper.make_node("Slice", ["p", "begin", "end", "axis"], ["s"], name="cut"),
        helper.make_node("Conv", ["p", "w2"], ["y"], name="whole"),
        helper.make_node("Conv", ["s", "w2"], ["z"], name="part"),
    ]
    constants = {name: np.array(values, np.int64) for name, values in numbers.items()}
    constants |= {"w0": first, "w1": first, "w2": last}
    model = optimize(graph(nodes, {"x": (1, 8, 8, 8)}, ["q", "y", "z"], constants), "bayes-e")
    placed = place(model, "bayes-e", PlacementOptions()).model
    sources = {str(node.name): scale_source(node).of for node in calibration_nodes(placed)}
    assert [sources[f"{name}_HzCalibration"] for name in "ps"] == ["r", "r"]
    for given, expected in (({"r": [1.0], "p": [2.0], "s": [2.0]}, [2.0, 2.0]), ({"r": [1.0], "p": [2.0]}, [2.0, 2.0])):
        placed.metadata_props["hz.given_thresholds"] = json.dumps(given)
        found = thresholds(with_given(placed))
        assert found["r_HzCalibration"] == [1.0]
        assert [found[f"{name}_HzCalibration"][0] for name in "ps"] == expected
