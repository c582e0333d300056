"""Small conversions that the original was asked to build from their ship folders: ``python -m tests.parity.ships``.

That ships each of :data:`CASES`, has the toolchain that ``PTQLAB_HB_MAPPER`` names build it, and keeps beside this
file, in ``recorded/ships``, the network that was shipped and the quantised model that the original made of it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import yaml
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from engine.config import load_config
from engine.ship import Verification, ship, verify, write
from engine.ship.folder import CONFIGURATION, NETWORK
from engine.toolchain.tool import Toolchain, find_toolchain
from tests.engine.conformance.models import write_network, write_two_inputs

RECORDED = Path(__file__).parent / "recorded" / "ships"
OWN_OPTIONS = "mse_thresholds;adaptive_rounding;mean_bias_correction;integer_bias_correction;cross_layer_equalization"


@dataclass(frozen=True)
class ShipCase:
    """One configuration.

    Attributes:
        march: BPU architecture.
        changes: parameters that differ from the network's own, by group.
        source: writes network, data and configuration.
    """

    march: str = "bayes-e"
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    source: Callable[[Path], Path] = write_network

    def write(self, folder: Path) -> Path:
        """The configuration file, with what it names beside it."""
        path = self.source(folder)
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        content["model_parameters"]["march"] = self.march
        content["compiler_parameters"]["optimize_level"] = "O0"
        for group, values in self.changes.items():
            content[group].update(values)
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path


def _input(**values: Any) -> Mapping[str, Mapping[str, Any]]:
    return {"input_parameters": values}


def _calibration(**values: Any) -> Mapping[str, Mapping[str, Any]]:
    return {"calibration_parameters": values}


def _model(**values: Any) -> Mapping[str, Mapping[str, Any]]:
    return {"model_parameters": values}


def write_gray(folder: Path) -> Path:
    """The network of :func:`write_network` in one channel."""
    path = write_network(folder)
    model = onnx.load(folder / "net.onnx")
    weight = numpy_helper.to_array(model.graph.initializer[0])[:, :1]
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(weight), "w0"))
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1
    onnx.save(model, folder / "net.onnx")
    for data in (folder / "data").iterdir():
        np.fromfile(data, np.float32)[: 16 * 16].tofile(data)
    return path


def _write_behind(folder: Path, nodes: Sequence[onnx.NodeProto], outputs: Mapping[str, int]) -> Path:
    """The network of :func:`write_network` whose pooling is replaced by ``nodes``, which read ``r0`` or ``c1``."""
    path = write_network(folder)
    model = onnx.load(folder / "net.onnx")
    del model.graph.node[-1], model.graph.output[:]
    model.graph.node.extend(nodes)
    model.graph.output.extend(helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items())
    for name, array in _CONSTANTS.items():
        if any(name in node.input for node in model.graph.node):
            model.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.save(onnx.shape_inference.infer_shapes(model), folder / "net.onnx")
    return path


_CONSTANTS: Mapping[str, NDArray[Any]] = {
    "widths": np.array([0, 0, 0, 0, 0, 2, 0, 0], np.int64),
    "zero": np.zeros((), np.float32),
    "classes": np.array([1, 10], np.int64),
}


def write_padded_channels(folder: Path) -> Path:
    """A shortcut that is pooled and gets channels of zeros, added to what has other thresholds."""
    return _write_behind(
        folder,
        [
            helper.make_node("MaxPool", ["r0"], ["m"], "shrink", kernel_shape=[1, 1]),
            helper.make_node("Pad", ["m", "widths", "zero"], ["p"], "widen", mode="constant"),
            helper.make_node("Add", ["c1", "p"], ["s"], "sum"),
            helper.make_node("Relu", ["s"], ["scores"], "sum_relu"),
        ],
        {"scores": TensorProto.FLOAT},
    )


def write_argmax(folder: Path) -> Path:
    """Positions of the largest channel."""
    nodes = [helper.make_node("ArgMax", ["c1"], ["classes_found"], "found", axis=1, keepdims=0)]
    return _write_behind(folder, nodes, {"classes_found": TensorProto.INT64})


def write_classes(folder: Path) -> Path:
    """Probabilities of pooled classes."""
    return _write_behind(
        folder,
        [
            helper.make_node("GlobalAveragePool", ["c1"], ["g"], "pool"),
            helper.make_node("Reshape", ["g", "classes"], ["r"], "flat"),
            helper.make_node("Softmax", ["r"], ["scores"], "probabilities", axis=1),
        ],
        {"scores": TensorProto.FLOAT},
    )


def write_norm(folder: Path) -> Path:
    """The length of every channel, which the CPU computes, and its root, which the BPU does."""
    nodes = [helper.make_node("ReduceL2", ["c1"], ["scores"], "length", axes=[2, 3], keepdims=1)]
    return _write_behind(folder, nodes, {"scores": TensorProto.FLOAT})


CASES: Mapping[str, ShipCase] = {
    "max": ShipCase(),
    "max_bayes": ShipCase("bayes"),
    "max_bernoulli2": ShipCase("bernoulli2"),
    "kl": ShipCase(changes=_calibration(calibration_type="kl")),
    "own_options": ShipCase(changes=_calibration(optimization=OWN_OPTIONS)),
    "own_options_bernoulli2": ShipCase("bernoulli2", _calibration(optimization=OWN_OPTIONS)),
    "asymmetric": ShipCase(changes=_calibration(optimization=f"asymmetric;{OWN_OPTIONS}")),
    "per_channel": ShipCase(changes=_calibration(per_channel=True)),
    "int16": ShipCase(changes=_model(node_info={"second": {"ON": "BPU", "InputType": "int16"}})),
    "int16_output": ShipCase(changes=_calibration(optimization="set_model_output_int16")),
    "int8_output": ShipCase(changes=_calibration(optimization="set_model_output_int8")),
    "run_on_cpu": ShipCase(changes=_calibration(run_on_cpu="pool")),
    "output_nodes": ShipCase(changes=_model(output_nodes="first_relu")),
    "remove_node_type": ShipCase(changes=_model(remove_node_type="Quantize;Dequantize;Transpose")),
    "nv12": ShipCase(changes=_input(input_type_rt="nv12")),
    "nv12_video": ShipCase(changes=_input(input_type_rt="nv12", input_space_and_range="bt601_video")),
    "yuv444": ShipCase(changes=_input(input_type_rt="yuv444", input_layout_rt="NHWC")),
    "bgr": ShipCase(changes=_input(input_type_train="bgr")),
    "gray": ShipCase(changes=_input(input_type_train="gray", input_type_rt="gray"), source=write_gray),
    "no_preprocess": ShipCase(changes=_input(norm_type="no_preprocess", scale_value=None)),
    "two_inputs": ShipCase(source=write_two_inputs),
    "padded_channels": ShipCase(changes=_calibration(max_percentile=0.98), source=write_padded_channels),
    "argmax": ShipCase(source=write_argmax),
    "classes": ShipCase("bayes", source=write_classes),
    "norm": ShipCase(source=write_norm),
    "norm_bernoulli2": ShipCase("bernoulli2", source=write_norm),
}


def built(config: Path, folder: Path, tool: Toolchain) -> tuple[Path, Verification]:
    """The quantised model that the original makes of the ship folder of ``config``, and how it compares."""
    write(ship(load_config(config)), folder)
    found = tool.convert(folder / CONFIGURATION, folder / "model_output")
    if "quantized" not in found.models:
        raise RuntimeError(found.failure)
    return found.models["quantized"], verify(folder, found.models["quantized"])


def main() -> None:
    """Record every case that is named, or all."""
    tool = find_toolchain(None, time_limit=300)
    if tool is None:
        sys.exit("PTQLAB_HB_MAPPER is not set")
    for name in sys.argv[1:] or CASES:
        with TemporaryDirectory() as work:
            try:
                quantized, found = built(CASES[name].write(Path(work)), Path(work) / "ship", tool)
            except Exception as error:  # noqa: BLE001 - the other cases are recorded all the same
                sys.stdout.write(f"{name} {type(error).__name__} {error}\n")
                continue
            to = RECORDED / name
            to.mkdir(parents=True, exist_ok=True)
            for source, kept in ((Path(work) / "ship" / NETWORK, NETWORK), (quantized, "quantized.onnx")):
                shutil.copyfile(source, to / kept)
            shutil.copyfile(Path(work) / "ship" / CONFIGURATION, to / CONFIGURATION)
        sys.stdout.write(f"{name} {found}\n")


if __name__ == "__main__":
    main()
