"""Exported models: standard operators only, and the reference's bits in stock ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.errors import ModelError, UnsupportedError
from engine.ir import HORIZON_DOMAIN, load_model, to_bytes
from engine.ops.core.portable import FUNCTION_DOMAIN
from engine.ops.registry import OPERATORS
from engine.simulate import Session
from engine.simulate.portable.export import OPSET, to_standard
from tests.engine.simulate import strategies as cases
from tests.engine.simulate.models import node_model
from tests.engine.simulate.strategies import NodeCase
from tests.golden_cases import BUNDLED, GoldenCase, conversion_cases, operator_cases
from tests.properties.stages import MARCHES, Stages
from tests.strategies.graphs import GraphCase, graph_cases

Array = NDArray[Any]
STRATEGIES = cases.quantised_operators()

OPTIMISED = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
AS_WRITTEN = ort.GraphOptimizationLevel.ORT_DISABLE_ALL

FLOAT_ROUNDING = {"softmax3"}
"""Golden cases whose float Softmax rounded otherwise where they were made; compared with our simulator instead."""


class Exported:
    """An exported model in stock ONNX Runtime, by default with all of its optimisations, as it is out of the box."""

    def __init__(self, model: ir.Model) -> None:
        self._data = to_bytes(to_standard(model))
        self.proto = onnx.load_from_string(self._data)
        self._sessions = {OPTIMISED: self._opened(OPTIMISED)}

    def _opened(self, level: ort.GraphOptimizationLevel) -> ort.InferenceSession:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.graph_optimization_level = level
        return ort.InferenceSession(self._data, options, providers=["CPUExecutionProvider"])

    def run(self, feed: Mapping[str, Array], level: ort.GraphOptimizationLevel = OPTIMISED) -> dict[str, Array]:
        if level not in self._sessions:
            self._sessions[level] = self._opened(level)
        session = self._sessions[level]
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, dict(feed)), strict=True))


def assert_same(actual: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    assert list(actual) == list(expected)
    for name, array in expected.items():
        assert actual[name].dtype == array.dtype
        np.testing.assert_array_equal(actual[name], array)


def assert_standard(proto: onnx.ModelProto) -> None:
    onnx.checker.check_model(proto, full_check=True)
    bodies = [proto.graph.node, *(function.node for function in proto.functions)]
    assert {node.domain for body in bodies for node in body} <= {"", FUNCTION_DOMAIN}
    assert HORIZON_DOMAIN not in {opset.domain for opset in proto.opset_import}


def check_golden(case: GoldenCase, levels: Sequence[ort.GraphOptimizationLevel] = (OPTIMISED,)) -> None:
    model = load_model(case.model)
    exported = Exported(model)
    assert_standard(exported.proto)
    simulator = Session(model, mode="reference") if str(case) in FLOAT_ROUNDING else None
    for inputs, expected in case.samples:
        wanted = expected if simulator is None else simulator.run(inputs)
        for level in levels:
            assert_same(exported.run(inputs, level), wanted)


def check_node(case: NodeCase) -> None:
    one = cases.result_of_one_sample(case)
    inputs = cases.inputs_of_sample(case, 0)
    model = node_model(
        case.op_type, inputs, case.attributes, case.constants, domain=case.domain, output=(one.dtype, one.shape)
    )
    if case.domain != HORIZON_DOMAIN:
        model.graph.append(ir.node("HzQuantizedReduceMax", [model.graph.inputs[0]], {"axis": 0}, domain=HORIZON_DOMAIN))
        model.graph[-1].outputs[0].name = "unused"
    exported = Exported(model)
    assert_standard(exported.proto)
    simulator = Session(model, mode="reference")
    for sample in range(len(next(iter(case.samples.values())))):
        feed = {f"x{k}": x[sample] for k, x in case.samples.items()}
        assert_same(exported.run(feed), simulator.run(feed))


def efficientnet_samples(reference_dir: Path) -> tuple[Array, Array]:
    with np.load(reference_dir / "golden" / "efficientnet_lite0_logits.npz") as data:
        return data["images"], data["logits"]


@pytest.mark.parametrize("case", operator_cases(BUNDLED) + conversion_cases(BUNDLED), ids=str)
def test_bundled_golden_case(case: GoldenCase) -> None:
    check_golden(case, (OPTIMISED, AS_WRITTEN))


@pytest.mark.parametrize("op_type", OPERATORS)
@given(data=st.data())
def test_operator(op_type: str, data: st.DataObject) -> None:
    """Random attributes, extreme integers, sums beyond int32."""
    check_node(data.draw(STRATEGIES[op_type]))


@given(case=cases.standard_nodes())
def test_standard_operator_on_integers(case: NodeCase) -> None:
    check_node(case)


@pytest.mark.parametrize(
    "march", [pytest.param(march, marks=pytest.mark.nightly if march == "bayes" else ()) for march in MARCHES]
)
@given(case=graph_cases())
def test_generated_network(march: str, case: GraphCase) -> None:
    model = Stages(case.model, case.calibration, march).quantized
    exported = Exported(model)
    assert_standard(exported.proto)
    simulator = Session(model, mode="reference")
    for sample in case.samples:
        feed = {"x": sample[None]}
        assert_same(exported.run(feed), simulator.run(feed))


@pytest.mark.nightly
@pytest.mark.reference
def test_reference_cases(reference_dir: Path) -> None:
    golden = reference_dir / "golden"
    all_cases = operator_cases(golden) + conversion_cases(golden)
    assert len(all_cases) > 150
    for case in all_cases:
        check_golden(case)


@pytest.mark.nightly
@pytest.mark.reference
def test_efficientnet(reference_dir: Path) -> None:
    """The logits of the original toolchain, from its own file."""
    exported = Exported(load_model(reference_dir.parent / "models" / "efficientnet_lite0_quantized_reference.onnx"))
    assert_standard(exported.proto)
    (x,) = exported.proto.graph.input
    images, logits = efficientnet_samples(reference_dir)
    for image, expected in zip(images, logits, strict=True):
        pixels = (image.transpose(2, 0, 1)[None].astype(np.int16) - 128).astype(np.int8)
        (actual,) = exported.run({x.name: pixels}).values()
        np.testing.assert_array_equal(actual.ravel(), expected)


def test_float_models_are_refused() -> None:
    relu = node_model("Relu", [np.zeros((1, 2), np.float32)], {}, domain="")
    with pytest.raises(ModelError, match="quantised"):
        to_standard(relu)


def test_weights_that_are_not_constant_are_refused() -> None:
    inputs = [np.zeros(shape, dtype) for shape, dtype in (((1, 4, 4, 1), np.int8), ((1, 1, 1, 1), np.int8))]
    constants = {2: np.zeros(1, np.int32), 3: np.zeros(1, np.int8)}
    model = node_model("HzSQuantizedConv", inputs, {"kernel_shape": [1, 1]}, constants)
    with pytest.raises(UnsupportedError, match="input 1"):
        to_standard(model)


def wide_layer(op_type: str, dtype: Any, group: int) -> NodeCase:
    """Sums of products that leave the exact range of float32 several times over."""
    rng = np.random.default_rng(0)
    limits, inside = np.iinfo(dtype), 400
    shape = (1, 2, 3, inside * group)
    samples = np.stack([np.full(shape, limits.min, dtype), rng.integers(limits.min, limits.max, shape, dtype)])
    attributes: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "group": group}
    bias = np.arange(4, dtype=np.int32)
    if op_type == "HzSQuantizedConv":
        constants = {1: rng.integers(-128, 0, (4, 3, 3, inside)).astype(np.int8), 2: bias, 3: np.zeros(4, np.int8)}
        return NodeCase(op_type, {0: samples}, attributes | {"output_bit": 32}, constants)
    constants = {1: rng.integers(-128, 0, (inside * group, 3, 3, 4 // group)).astype(np.int8), 2: bias}
    requantization = {"accu_right_shift": [13], "y_quant_scale": [20000], "y_right_shift": [17]}
    return NodeCase(op_type, {0: samples}, attributes | requantization, constants)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("dtype", [np.int8, np.int16])
@pytest.mark.parametrize("op_type", ["HzSQuantizedConv", "HzSQuantizedConvTranspose"])
def test_sums_that_float32_cannot_hold(op_type: str, dtype: Any, group: int) -> None:
    """Input channels are split over several convolutions; random cases have too few."""
    case = wide_layer(op_type, dtype, group)
    check_node(case)
    inputs = cases.inputs_of_sample(case, 0)
    nodes = to_standard(node_model(op_type, inputs, case.attributes, case.constants)).graph
    parts = np.dtype(dtype).itemsize
    assert sum(node.op_type in ("Conv", "ConvTranspose") for node in nodes) > parts


def test_kernel_that_float32_cannot_hold_is_refused() -> None:
    constants = {1: np.full((1, 40, 40, 1), -128, np.int8), 2: np.zeros(1, np.int32), 3: np.zeros(1, np.int8)}
    model = node_model("HzSQuantizedConv", [np.zeros((1, 40, 40, 1), np.int8)], {"kernel_shape": [40, 40]}, constants)
    with pytest.raises(UnsupportedError, match="204800"):
        to_standard(model)


def test_standard_domain_by_its_long_name() -> None:
    model = node_model("HzLeakyRelu", [np.zeros((1, 2), np.int8)], {"alpha_scale": 1, "alpha_shift": 1})
    model.opset_imports["ai.onnx"] = model.opset_imports.pop("")
    assert_standard(Exported(model).proto)


def test_older_models_are_raised_to_the_oldest_operator_set_that_is_written() -> None:
    x = np.zeros((1, 2, 2, 4), np.int8)
    model = node_model("HzSQuantizedReduceSum", [x], {"axis": 1, "output_bit": 32}, output=(np.int32, (1, 1, 2, 4)))
    assert model.opset_imports[""] < OPSET
    standard = to_standard(model)
    assert standard.opset_imports == {"": OPSET, FUNCTION_DOMAIN: 1}
    assert str(standard.graph[0].name).startswith("y/standard/")
    assert [value.name for value in (*standard.graph.inputs, *standard.graph.outputs)] == ["x0", "y"]
    assert {name[1] for name in standard.functions} == {"WrapInt32", "ShiftFloor"}, "only those that are called"
