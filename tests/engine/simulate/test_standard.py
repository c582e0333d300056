"""Exported models: standard operators only, and the reference's bits in stock ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
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
from engine.ops.registry import OPERATORS
from engine.simulate import Session
from engine.simulate.portable import TRANSLATIONS, to_standard
from engine.simulate.portable.functions import FUNCTION_DOMAIN
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

    def __init__(self, model: ir.Model, level: ort.GraphOptimizationLevel = OPTIMISED) -> None:
        data = to_bytes(to_standard(model))
        self.proto = onnx.load_from_string(data)
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.graph_optimization_level = level
        self._session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        names = [output.name for output in self._session.get_outputs()]
        return dict(zip(names, self._session.run(names, dict(feed)), strict=True))


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


def check_golden(case: GoldenCase, level: ort.GraphOptimizationLevel = OPTIMISED) -> None:
    model = load_model(case.model)
    exported = Exported(model, level)
    assert_standard(exported.proto)
    simulator = Session(model, mode="reference") if str(case) in FLOAT_ROUNDING else None
    for inputs, expected in case.samples:
        assert_same(exported.run(inputs), expected if simulator is None else simulator.run(inputs))


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


def test_every_operator_has_a_translation() -> None:
    assert set(TRANSLATIONS) == set(OPERATORS)


@pytest.mark.parametrize("level", [OPTIMISED, AS_WRITTEN], ids=["optimised", "as_written"])
@pytest.mark.parametrize("case", operator_cases(BUNDLED) + conversion_cases(BUNDLED), ids=str)
def test_bundled_golden_case(case: GoldenCase, level: ort.GraphOptimizationLevel) -> None:
    check_golden(case, level)


@pytest.mark.parametrize("op_type", OPERATORS)
@given(data=st.data())
def test_operator(op_type: str, data: st.DataObject) -> None:
    """Random attributes, extreme integers, sums beyond int32."""
    check_node(data.draw(STRATEGIES[op_type]))


@given(case=cases.standard_nodes())
def test_standard_operator_on_integers(case: NodeCase) -> None:
    check_node(case)


@pytest.mark.parametrize("march", MARCHES)
@given(case=graph_cases())
def test_generated_network(march: str, case: GraphCase) -> None:
    model = Stages(case.model, case.calibration, march).quantized
    exported = Exported(model)
    assert_standard(exported.proto)
    simulator = Session(model, mode="reference")
    for sample in case.samples:
        feed = {"x": sample[None]}
        assert_same(exported.run(feed), simulator.run(feed))


@pytest.mark.reference
def test_reference_cases(reference_dir: Path) -> None:
    golden = reference_dir / "golden"
    all_cases = operator_cases(golden) + conversion_cases(golden)
    assert len(all_cases) > 150
    for case in all_cases:
        check_golden(case)


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


@pytest.mark.parametrize("group", [1, 2])
def test_sums_that_float32_cannot_hold(group: int) -> None:
    """Input channels are split over several convolutions: found by no random case."""
    shape = (1, 2, 2, 600 * group)
    x = np.full(shape, -128, np.int8)
    rng = np.random.default_rng(0)
    weights = rng.integers(-128, 0, (4, 1, 1, 600)).astype(np.int8)
    kernel = np.tile(weights, (1, 3, 3, 1))
    constants = {1: kernel, 2: np.arange(4, dtype=np.int32), 3: np.zeros(4, np.int8)}
    attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "group": group, "output_bit": 32}
    samples = np.stack([x, rng.integers(-128, 128, shape).astype(np.int8)])
    check_node(NodeCase("HzSQuantizedConv", {0: samples}, attributes, constants))
