"""Golden conversions: what the original toolchain wrote for one small network, stage by stage, with samples."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from engine.config import Config, load_config
from engine.ir import MARK_INPUTS, calibration_nodes, load_model
from tests.golden_cases import GoldenCase


@dataclass(frozen=True)
class Conversion:
    """One golden conversion.

    Attributes:
        folder: where its files are.
        name: what they are called.
    """

    folder: Path
    name: str

    @property
    def config(self) -> Config:
        return load_config(self.folder / f"{self.name}.yaml")

    @property
    def calibrated(self) -> ir.Model:
        """The original's calibrated model, with the input specifications that ours carries and its files do not."""
        model = load_model(self.folder / f"{self.name}.calib.onnx")
        specs = self.config.input_specs([str(value.name) for value in model.graph.inputs])
        model.metadata_props[MARK_INPUTS] = json.dumps([spec.model_dump(mode="json") for spec in specs])
        return model

    @property
    def quantized(self) -> ir.Model:
        return load_model(self.folder / f"{self.name}.quant.onnx")

    @property
    def case(self) -> GoldenCase:
        return GoldenCase(self.folder / f"{self.name}.quant.onnx", self.folder / f"{self.name}.npz")


def conversions(reference: Path) -> Mapping[str, Conversion]:
    """All golden conversions by name."""
    folder = reference / "golden" / "conversions"
    names = sorted(path.name.removesuffix(".calib.onnx") for path in folder.glob("*.calib.onnx"))
    return {name: Conversion(folder, name) for name in names}


def without_calibration(model: ir.Model) -> ir.Model:
    """A copy of a calibrated model in which every reader sees the tensor itself: the optimised model it came from."""
    model = model.clone()
    for node in calibration_nodes(model):
        calibrated, tensor = node.outputs[0], node.inputs[0]
        if tensor is None:
            continue
        name, is_output = calibrated.name, calibrated.is_graph_output()
        calibrated.replace_all_uses_with(tensor, replace_graph_outputs=True)
        model.graph.remove(node, safe=True)
        if is_output:
            calibrated.name, tensor.name = f"{name}_removed", name
    return model
