"""Models in which single tensors are quantised: what a run leaves out changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings, strategies
from numpy.typing import NDArray
from onnx import helper

from engine.calibrate import FloatSession
from engine.errors import InferenceError
from engine.floats.compare import cosine
from engine.floats.float_model import Kernels
from engine.floats.switched import SwitchedModel, _cosines_of_rows
from engine.ir import Calibration, calibration_nodes, read_calibration
from tests.engine.calibrate.models import DATA, add_calibration, calibrated_residual, graph, residual
from tests.engine.floats.test_chained import SHAPE, networks

SAMPLE = {"x": DATA["x"][:1]}


def calibrations(model: ir.Model) -> dict[str, Calibration]:
    return {str(node.name): read_calibration(node) for node in calibration_nodes(model)}


def expected(model: ir.Model, feed: Mapping[str, NDArray[Any]], working: Collection[str]) -> list[list[float]]:
    """The cosines by two whole models."""
    outputs = []
    for names in (working, ()):
        switched = model.clone()
        for node in calibration_nodes(switched):
            node.attributes["switch"] = ir.AttrString("switch", "ON" if node.name in names else "OFF")
        outputs.append(FloatSession(switched, kernels=Kernels.PLAIN, max_batch=1).run(feed))
    actual, plain = outputs
    return [[cosine(*rows) for rows in zip(actual[name], plain[name], strict=True)] for name in plain]


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by 1 with every output that is compared because it changed, by 0 with every one that did not."""
    found: list[int] = []

    def count(name: str, actual: NDArray[Any], expected: NDArray[Any]) -> Any:
        found.append(int(actual is not expected))
        return _cosines_of_rows(name, actual, expected)

    monkeypatch.setattr("engine.floats.switched._cosines_of_rows", count)
    return found


def test_results_are_those_of_whole_models() -> None:
    model = calibrated_residual()
    known = calibrations(model)
    choices = [{name: known[name] for name in choice} for choice in (["x_HzCalibration"], list(known)[2:4], known)]
    wanted = [expected(model, SAMPLE, choice) for choice in choices]
    for threads in (1, 2):
        (sample,) = SwitchedModel(model, threads=threads).on(SAMPLE)
        for _ in range(2):  # the second time all is known
            for cosines, whole in zip(sample.cosines(choices), wanted, strict=True):
                np.testing.assert_allclose(cosines, whole, rtol=0, atol=1e-9)


@settings(max_examples=max(5, settings.default.max_examples // 4))
@given(networks(), strategies.data())
def test_any_graph(proto: onnx.ModelProto, data: strategies.DataObject) -> None:
    """Custom operators, several inputs and outputs, tensors that are read twice or by nobody."""
    model = ir.from_proto(proto)
    names = ["x", "z", *(str(value.name) for node in list(model.graph)[1:] for value in node.outputs)]
    for name in data.draw(strategies.lists(strategies.sampled_from(names), min_size=1, max_size=4, unique=True)):
        scale = data.draw(strategies.sampled_from([0.25, 1.0, 4.0]))
        add_calibration(model, name, thresholds=[127 * scale], scales=[scale])
    known = calibrations(model)
    rng = np.random.default_rng(0)
    feed = {name: rng.integers(-2, 3, SHAPE).astype(np.float32) / 2 for name in ("x", "z")}
    choices = [*({name: calibration} for name, calibration in known.items()), known]
    wanted = [expected(model, feed, choice) for choice in choices]
    for threads in (1, 2):
        (sample,) = SwitchedModel(model, threads=threads).on(feed)
        for order in (choices, choices[::-1]):
            results = [sample.cosines([choice])[0] for choice in order]
            for cosines, whole in zip(results, wanted if order is choices else wanted[::-1], strict=True):
                for rows, others in zip(cosines, whole, strict=True):
                    np.testing.assert_allclose(rows, others, rtol=0, atol=1e-9)


def test_what_a_later_threshold_undoes_in_part_is_no_end_that_others_come_to() -> None:
    """``u`` differs for both choices and is read before its calibration, behind which only one of them differs."""
    model = graph(
        [
            helper.make_node("Neg", ["x"], ["t"], name="neg"),
            helper.make_node("Sub", ["t", "half"], ["s"], name="sub"),
            helper.make_node("Relu", ["s"], ["u"], name="relu"),
            helper.make_node("Exp", ["u"], ["v"], name="exp"),
            helper.make_node("Add", ["v", "u"], ["y"], name="add"),
        ],
        {"x": (1, 3, 6, 5)},
        ["y"],
        {"half": np.asarray(0.5, np.float32)},
    )
    for name, scale in (("t", 0.7), ("u", 2.0)):
        add_calibration(model, name, thresholds=[127 * scale], scales=[scale])
    by_name = {str(node.name): node for node in model.graph}
    by_name["add"].replace_input_with(1, by_name["relu"].outputs[0])
    known = calibrations(model)
    choices = [known, {"t_HzCalibration": known["t_HzCalibration"]}]
    feed = {"x": np.zeros((1, 3, 6, 5), np.float32)}
    feed["x"][0, 0, 0, :2] = [-0.36, 0.36]
    (sample,) = SwitchedModel(model).on(feed)
    for choice in choices:
        np.testing.assert_allclose(sample.cosines([choice])[0], expected(model, feed, choice), rtol=0, atol=1e-6)


def test_samples_are_looked_at_one_by_one() -> None:
    model = calibrated_residual()
    choice = {"r0_HzCalibration": calibrations(model)["r0_HzCalibration"]}
    samples = SwitchedModel(model, list(choice)).on(DATA)
    found = [sample.cosines([choice])[0][0][0] for sample in samples]
    np.testing.assert_allclose(found, expected(model, DATA, choice)[0], rtol=0, atol=1e-9)


def moved(scale: float = 0.05) -> ir.Model:
    """``y = |t|``, ``z = |u|``; ``t = -x`` is only moved to ``u``, and both are calibrated."""
    model = graph(
        [
            helper.make_node("Neg", ["x"], ["t"], name="neg"),
            helper.make_node("Transpose", ["t"], ["u"], name="move", perm=[0, 3, 1, 2]),
            helper.make_node("Abs", ["u"], ["y"], name="abs"),
        ],
        {"x": (1, 3, 6, 5)},
        ["y"],
    )
    for name, step in (("t", 0.05), ("u", scale)):
        add_calibration(model, name, thresholds=[127 * step], scales=[step])
    return model


@pytest.mark.parametrize(("scale", "runs"), [(0.05, 1), (0.06, 2)])
def test_what_is_only_moved_is_computed_once_if_its_threshold_is_the_same(
    ends: list[int], scale: float, runs: int
) -> None:
    model = moved(scale)
    choices = [{name: calibration} for name, calibration in calibrations(model).items()]
    (sample,) = SwitchedModel(model).on(SAMPLE)
    found = sample.cosines(choices)
    assert len(ends) == runs
    for choice, cosines in zip(choices, found, strict=True):
        np.testing.assert_allclose(cosines, expected(model, SAMPLE, choice), rtol=0, atol=1e-12)


def test_any_tensor_can_be_looked_at_and_choices_are_told_of_as_they_finish() -> None:
    model = moved()
    choices = [{name: calibration} for name, calibration in calibrations(model).items()]
    done: list[int] = []
    (sample,) = SwitchedModel(model, fetch=["t", "u"]).on(SAMPLE)
    found = sample.compared(choices, lambda name, actual, expected: float(np.abs(actual - expected).max()), done.append)
    assert sorted(done) == [0, 1]
    assert all(each["t"] == 0 for each in found), "it is computed before all calibrations"
    assert 0 < found[0]["u"] <= 0.025 + 1e-6
    assert found[1]["u"] == 0
    assert sample.cost(choices[0]) > 0
    assert sample.cost(choices[1]) == sample.cost({}) == 0, "nothing that is looked at lies behind it"
    with pytest.raises(InferenceError, match="absent"):
        SwitchedModel(model, fetch=["absent"])


def test_an_output_on_the_way_is_not_that_of_another_choice_that_ends_in_the_same() -> None:
    """Both choices come to the same ``u``; ``t``, an output before it, differs for one of them alone."""
    model = moved()
    model.graph.outputs.append(next(node for node in model.graph if node.name == "t_HzCalibration").outputs[0])
    known = calibrations(model)
    choices = [known, {"u_HzCalibration": known["u_HzCalibration"]}, {"t_HzCalibration": known["t_HzCalibration"]}]
    for order in (choices, choices[::-1], choices[1:] + choices[:1]):
        (sample,) = SwitchedModel(model, threads=1).on(SAMPLE)
        for choice in order:
            cosines = sample.cosines([choice])[0]
            for rows, others in zip(cosines, expected(model, SAMPLE, choice), strict=True):
                np.testing.assert_allclose(rows, others, rtol=0, atol=1e-12)


def test_equal_thresholds_of_two_methods_are_computed_once(ends: list[int]) -> None:
    model = moved()
    choice = {"u_HzCalibration": calibrations(model)["u_HzCalibration"]}
    (sample,) = SwitchedModel(model).on(SAMPLE)
    assert sample.cosines([choice]) == sample.cosines([dict(choice)])
    assert len(ends) == 1


def test_what_quantisation_does_not_change_ends_at_once(ends: list[int]) -> None:
    model = moved()
    feed = {"x": np.full((1, 3, 6, 5), 0.25, np.float32)}
    exact = Calibration(np.asarray([127 * 0.25], np.float32), np.asarray([0.25], np.float32))
    ((found,),) = (sample.cosines([{"t_HzCalibration": exact}]) for sample in SwitchedModel(model).on(feed))
    assert found == ((1.0,),)
    assert ends == [0]


def test_a_tensor_that_is_also_read_before_its_calibration_differs_only_behind_it() -> None:
    """A float node, and an output, read the tensor itself."""
    model = residual()
    add_calibration(model, "c0", thresholds=[12.7], scales=[0.1])
    add = next(node for node in model.graph if node.name == "add")
    add.replace_input_with(1, next(node for node in model.graph if node.name == "conv0").outputs[0])
    (sample,) = SwitchedModel(model).on(SAMPLE)
    choice = calibrations(model)
    np.testing.assert_allclose(sample.cosines([choice])[0], expected(model, SAMPLE, choice), rtol=0, atol=1e-9)


def test_constants_are_quantised_too() -> None:
    model = residual()
    add_calibration(model, "w0", thresholds=[4.0] * 4, scales=[1.0] * 4)
    add_calibration(model, "w1", thresholds=[4.0] * 4, scales=[0.5] * 4)
    (sample,) = SwitchedModel(model).on(SAMPLE)
    for name, calibration in calibrations(model).items():
        found = sample.cosines([{name: calibration}])[0]
        assert found[0][0] < 0.9999
        np.testing.assert_allclose(found, expected(model, SAMPLE, [name]), rtol=0, atol=1e-6)


def test_what_cannot_be_chosen_never_quantises() -> None:
    model = calibrated_residual()
    name, calibration = "r0_HzCalibration", calibrations(model)["r0_HzCalibration"]
    results = [
        sample.cosines([{name: calibration}])
        for names in ([name], None)
        for sample in SwitchedModel(model, names).on(SAMPLE)
    ]
    np.testing.assert_allclose(results[0], results[1], rtol=0, atol=1e-9)


def test_opset_8() -> None:
    model = residual(opset=8)
    add_calibration(model, "r0", thresholds=[127.0], scales=[2.0])
    (sample,) = SwitchedModel(model).on(SAMPLE)
    ((found,),) = sample.cosines([calibrations(model)])
    assert found[0] < 0.99999


def test_inputs_of_another_shape() -> None:
    with pytest.raises(InferenceError, match="the model takes"):
        list(SwitchedModel(moved()).on({"x": np.zeros((1, 3, 6, 6), np.float32)}))
