"""``net.yaml``: what the toolchain reads, without calibration data."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from engine.config import load_config
from engine.ship.configuration import configuration_text
from engine.terms import CalibrationType, InputType, Layout
from tests.engine.ship.conftest import Shipped


def test_it_is_read_as_what_it_was_made_from(shipped: Shipped) -> None:
    read, given = load_config(shipped.folder / "net.yaml"), shipped.shipment.config
    assert read.march is given.march
    assert read.onnx_model == shipped.folder / "net.onnx"
    assert read.calibration_parameters.calibration_type is CalibrationType.LOAD
    assert not read.calibration_parameters.cal_data_dir
    assert read.input_specs(["image"]) == shipped.shipment.specs
    assert read.compiler_parameters == given.compiler_parameters


def test_what_is_taken_off_the_ends_is_said(shipped: Shipped) -> None:
    config = shipped.shipment.config
    parameters = config.model_parameters.model_copy(update={"remove_node_type": ("Quantize", "Transpose")})
    changed = replace(shipped.shipment, config=config.model_copy(update={"model_parameters": parameters}))
    assert yaml.safe_load(configuration_text(changed))["model_parameters"]["remove_node_type"] == "Quantize;Transpose"


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (InputType.FEATUREMAP, None, "NCHW"),
        (InputType.RGB, None, "NHWC"),
        (InputType.RGB, Layout.NCHW, "NCHW"),
        (InputType.NV12, None, None),
    ],
)
def test_a_layout_is_said_of_all_but_nv12(
    shipped: Shipped, kind: InputType, given: Layout | None, said: str | None
) -> None:
    """1.24.3 refuses a feature map without: "Input_layout_rt missing"."""
    (spec,) = shipped.shipment.specs
    changed = replace(shipped.shipment, specs=(spec.model_copy(update={"type_rt": kind, "layout_rt": given}),))
    assert yaml.safe_load(configuration_text(changed))["input_parameters"].get("input_layout_rt") == said
