"""The optimised graph is that of the original's calibrated files, node by node and tensor by tensor."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from engine.config import InputSpec, load_config
from engine.frontend import parse
from engine.frontend.onnx import load_onnx
from engine.frontend.preprocess import insert
from engine.ir import to_bytes
from engine.optimize import optimize
from tests.engine.optimize.equivalence import census

DIFFERENT = {
    "bpu_softmax3": "placement on the BPU decomposes the Softmax, after optimisation",
    "i16_matmul": "quantisation renames the output of a tail with int16 inputs",
}
"""Goldens whose calibrated graph later stages change."""

Row = tuple[str, str, str, list[str], list[str], dict[str, Any]]


def rows(model: onnx.ModelProto) -> list[Row]:
    """Nodes without ``HzCalibration``, whose outputs count as their inputs."""
    source = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type == "HzCalibration"}
    return [
        (
            node.domain,
            node.op_type,
            node.name,
            [source.get(name, name) for name in node.input],
            list(node.output),
            {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute},
        )
        for node in model.graph.node
        if node.op_type != "HzCalibration"
    ]


def golden_names(reference_dir: Path) -> list[str]:
    return sorted(path.stem for path in (reference_dir / "golden" / "conversions").glob("*.yaml"))


@pytest.mark.reference
def test_graphs_equal_the_originals(reference_dir: Path) -> None:
    folder = reference_dir / "golden" / "conversions"
    names = golden_names(reference_dir)
    assert names
    differing = []
    for name in names:
        config = load_config(folder / f"{name}.yaml")
        after = optimize(insert(*parse(config)), config.march.value)
        golden = onnx.load(folder / f"{name}.calib.onnx")
        expected = {item.name: numpy_helper.to_array(item) for item in golden.graph.initializer}
        actual = {key: value.const_value.numpy() for key, value in after.graph.initializers.items()}
        same = rows(ir.to_proto(after)) == rows(golden) and expected.keys() == actual.keys()
        if not same or any(not np.array_equal(expected[key], actual[key]) for key in expected):
            differing.append(name)
    assert differing == sorted(DIFFERENT)


@pytest.mark.reference
@pytest.mark.parametrize("march", ["bayes-e", "bayes", "bernoulli2"])
def test_efficientnet_lite0_has_the_measured_census(reference_dir: Path, march: str) -> None:
    path = reference_dir.parent / "models" / "efficientnet_lite0.onnx"
    if not path.is_file():
        pytest.skip(f"no model {path}")
    spec = InputSpec(
        name="data", type_train="rgb", type_rt="rgb", norm_type="data_mean_and_scale", mean=(127.0,), scale=(0.0078125,)
    )
    after = optimize(insert(load_onnx(path), [spec]), march)
    expected = Counter(HzPreprocess=1, Conv=50, Clip=33, Add=9, Reshape=1)
    expected += Counter(Conv=1) if march == "bernoulli2" else Counter(GlobalAveragePool=1)
    assert census(after) == dict(expected)
    assert to_bytes(optimize(after, march)) == to_bytes(after)
