"""What is shipped is read as what it was made from: random networks, shipped and converted again with ``load``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.calibrate import CalibrationOptions
from engine.config import load_config, parse_config
from engine.convert import conversion
from engine.convert.items import CALIBRATED, QUANTIZED
from engine.ship import Shipment, Verification, ship, verify, write
from engine.ship.folder import CONFIGURATION
from engine.toolchain.tool import find_toolchain
from tests.strategies.deployed import DeployedCase, deployed_cases
from tests.strategies.graphs import GraphCase, graph_cases
from tests.strategies.images import ImageCase, image_cases

MARCHES = st.sampled_from(("bayes-e", "bayes", "bernoulli2"))
FEWER = settings(max_examples=max(3, settings.default.max_examples // 10), deadline=None)
"""Two conversions of a network take several times as long as what other properties draw."""
SOME = settings(max_examples=int(os.environ.get("PTQLAB_ORIGINAL_EXAMPLES", "20")), deadline=None)
"""Networks that the original is asked of: some seconds each."""


def of_features(
    model: onnx.ModelProto, data: Mapping[str, NDArray[np.float32]], options: CalibrationOptions, march: str, to: Path
) -> Shipment:
    """The shipment of a network of feature maps; ``data``: shape (samples x batch, ...) by input."""
    inputs = {value.name: value.type.tensor_type.shape.dim for value in model.graph.input}
    for name, dims in inputs.items():
        batch = dims[0].dim_value
        (to / name).mkdir(parents=True)
        for index in range(len(data[name]) // batch):
            data[name][index * batch : (index + 1) * batch].tofile(to / name / f"{index}.bin")
    each = ["featuremap"] * len(inputs)
    content: dict[str, dict[str, Any]] = {
        "input_parameters": {
            "input_name": ";".join(inputs),
            "input_type_train": ";".join(each),
            "input_layout_train": ";".join(["NCHW"] * len(inputs)),
            "input_type_rt": ";".join(each),
        },
        "calibration_parameters": {
            "cal_data_dir": ";".join(str(to / name) for name in inputs),
            "cal_data_type": ";".join(["float32"] * len(inputs)),
            "calibration_type": options.calibration_type.value,
            "max_percentile": options.max_percentile,
            "per_channel": options.per_channel,
            "optimization": "asymmetric" if options.asymmetric else "",
        },
    }
    return shipment_of(model, content, march, to)


def of_image(case: ImageCase, march: str, to: Path) -> Shipment:
    """The shipment of a network that a camera feeds."""
    spec = case.spec
    (to / "x").mkdir(parents=True)
    for index, pixels in enumerate(case.pixels):
        pixels.transpose(2, 0, 1).astype(np.float32).tofile(to / "x" / f"{index}.bin")
    content: dict[str, dict[str, Any]] = {
        "input_parameters": {
            "input_type_train": spec.type_train.value,
            "input_layout_train": "NCHW",
            "input_type_rt": spec.type_rt.value,
            "input_layout_rt": "NHWC",
            "norm_type": spec.norm_type.value,
            **({"mean_value": " ".join(map(str, spec.mean))} if spec.mean else {}),
            **({"scale_value": " ".join(map(str, spec.scale))} if spec.scale else {}),
        },
        "calibration_parameters": {
            "cal_data_dir": str(to / "x"),
            "cal_data_type": "float32",
            "calibration_type": "max",
        },
    }
    return shipment_of(case.model, content, march, to)


def shipment_of(model: onnx.ModelProto, content: dict[str, dict[str, Any]], march: str, to: Path) -> Shipment:
    onnx.save(model, to / "m.onnx")
    parameters = {"onnx_model": str(to / "m.onnx"), "march": march, "output_model_file_prefix": "m"}
    return ship(parse_config({"model_parameters": parameters, **content}))


def converted_again(shipment: Shipment, to: Path) -> Verification:
    """By our own engine."""
    write(shipment, to / "ship")
    run = conversion(load_config(to / "ship" / CONFIGURATION))
    return verify(to / "ship", run[QUANTIZED], run[CALIBRATED])


def built(shipment: Shipment, to: Path) -> Verification:
    """By the original."""
    tool = find_toolchain(None)
    assert tool is not None
    write(shipment, to / "ship")
    found = tool.convert(to / "ship" / CONFIGURATION, to / "ship" / "model_output")
    assert "quantized" in found.models, found.failure
    return verify(to / "ship", found.models["quantized"])


@FEWER
@given(case=graph_cases(), march=MARCHES)
def test_graphs_come_back_as_they_were(case: GraphCase, march: str) -> None:
    with TemporaryDirectory() as folder:
        shipment = of_features(case.model, {"x": case.calibration}, CalibrationOptions(), march, Path(folder))
        found = converted_again(shipment, Path(folder))
    assert found.equal, (found.first, case.blocks)


@FEWER
@given(case=image_cases(), march=MARCHES)
def test_networks_of_images_come_back_as_they_were(case: ImageCase, march: str) -> None:
    with TemporaryDirectory() as folder:
        shipment = of_image(case, march, Path(folder))
        found = converted_again(shipment, Path(folder))
    assert found.equal, (found.first, case.blocks)


@FEWER
@given(case=deployed_cases(), march=MARCHES)
def test_networks_of_deployed_forms_come_back_as_they_were(case: DeployedCase, march: str) -> None:
    with TemporaryDirectory() as folder:
        shipment = of_features(case.model, case.calibration, case.options, march, Path(folder))
        found = converted_again(shipment, Path(folder))
    assert found.equal, (found.first, case.blocks)


@pytest.mark.original
@SOME
@given(case=graph_cases(), march=MARCHES)
def test_the_original_builds_graphs_as_they_were(case: GraphCase, march: str) -> None:
    with TemporaryDirectory() as folder:
        shipment = of_features(case.model, {"x": case.calibration}, CalibrationOptions(), march, Path(folder))
        found = built(shipment, Path(folder))
    assert found.equal, (found.first, case.blocks)
