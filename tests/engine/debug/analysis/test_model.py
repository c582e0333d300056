"""A calibrated model as the debugger sees it."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import pytest

from engine.debug.analysis.model import DebugModel, NodeType
from engine.errors import ConfigError, ModelError
from engine.ir import calibration_nodes, read_calibration, save_model, shape_of, to_bytes
from tests.engine.calibrate.models import add_calibration, calibrated_residual, residual
from tests.engine.debug.models import in_variant


def small(**attributes: object) -> ir.Model:
    """``x`` and ``w0`` calibrated."""
    model = residual()
    add_calibration(model, "x", **{"thresholds": [1.0], "scales": [0.1], **attributes})
    add_calibration(model, "w0", thresholds=[1.0] * 4, scales=[0.1] * 4)
    return model


def test_kinds_of_nodes() -> None:
    model = DebugModel(small())
    assert [model.kind(name) for name in ("conv0", "x_HzCalibration", "w0_HzCalibration")] == [
        *list(NodeType)[:1],
        NodeType.ACTIVATION,
        NodeType.WEIGHT,
    ]
    assert model.of_kind(NodeType.NODE) == ("conv0",)
    assert model.of_kind(NodeType.WEIGHT) == ("w0_HzCalibration",)
    assert model.groups == {"conv0": model.all}
    assert model.outputs == ("y",)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("conv9", "did you mean 'conv"),
        ("x_HzCalibratio", "did you mean 'x_HzCalibration'"),
        ("zzz", "does not quantise$"),
    ],
)
def test_unknown_names_have_a_hint(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DebugModel(small()).kind(name)


def test_what_is_off_or_has_no_thresholds_does_not_quantise() -> None:
    model = DebugModel(small(switch="OFF"))
    assert set(model.calibrations) == {"w0_HzCalibration"}
    with pytest.raises(ConfigError, match="or does not quantise"):
        model.kind("x_HzCalibration")
    with pytest.raises(ModelError, match="has no HzCalibration node with thresholds; give a calibrated model"):
        DebugModel(residual())


def test_variants_by_names() -> None:
    model = DebugModel(small())
    both = frozenset({"x_HzCalibration", "w0_HzCalibration"})
    assert model.variant(["weight"]) == {"w0_HzCalibration"}
    assert model.variant(["activation", "weight"]) == model.variant(["conv0"]) == both
    assert model.variant(["relu0"]) == frozenset()
    switched = {
        node.name: read_calibration(node).switch for node in calibration_nodes(in_variant(model, {"x_HzCalibration"}))
    }
    assert switched == {"x_HzCalibration": "ON", "w0_HzCalibration": "OFF"}


def test_results_of_regular_nodes_only() -> None:
    model = DebugModel(small())
    assert model.output_of("relu0") == "r0"
    with pytest.raises(ConfigError, match="is a calibration node; a regular node is needed"):
        model.output_of("x_HzCalibration")


def test_models_in_memory_and_files(tmp_path: Path) -> None:
    given = calibrated_residual()
    before = to_bytes(given)
    path = save_model(given, tmp_path / "net_calibrated.onnx")
    names = [DebugModel(each).name for each in (given, ir.to_proto(given), path, str(path))]
    assert names == ["g", "g", "net_calibrated", "net_calibrated"]
    assert to_bytes(given) == before
    with pytest.raises(ModelError, match="model_or_file is a list; give a calibrated model or its file"):
        DebugModel([path])


def test_shapes_that_a_file_does_not_state_are_completed() -> None:
    given = calibrated_residual()
    for node in given.graph:
        for value in node.outputs:
            if not value.is_graph_output():
                value.shape = None
    model = DebugModel(given)
    assert shape_of(model.nodes["conv1"].outputs[0]) == (1, 4, 6, 5)
    assert all(shape_of(value) for node in model.model.graph for value in node.outputs)
