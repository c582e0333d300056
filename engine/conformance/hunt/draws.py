"""One draw of a hunt: a network, how it is to be converted, calibration data, and the files of all that."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import yaml
from numpy.typing import NDArray

from engine.chips import ChipFamily, March, load_chip
from engine.conformance.hunt.grammar.networks import draw_network
from engine.ir import write_atomically
from engine.terms import CalibrationType, Device, InputType, NormType, OptimizeLevel

Data = Mapping[str, NDArray[np.float32]]
"""Calibration samples by input, shape (samples, ...)."""

PLAIN = "plain"
"""The option of a draw that has nothing but a march and a method."""
_INT16_OPTIMIZATIONS = ("set_Conv_input_int16", "set_model_output_int16", "set_all_nodes_int16", "set_Add_input_int16")
_REMOVABLE = ("Dequantize", "Quantize", "Transpose", "Quantize;Transpose;Dequantize", "Reshape", "Softmax", "Cast")
_COLOURS = {3: (InputType.RGB, InputType.BGR, InputType.YUV444), 1: (InputType.GRAY,)}
_RECURRENT = frozenset({"LSTM", "GRU"})


@dataclass(frozen=True)
class Draw:
    """What is converted with both toolchains.

    Attributes:
        name: of the case.
        model: the float network.
        data: calibration data.
        march: BPU architecture.
        options: what is counted by option: the method, and ``percentile``, ``int16``, ``image`` and the like.
        blocks: what is counted by block.
        parameters: the groups of the configuration, but paths.
    """

    name: str
    model: onnx.ModelProto = field(repr=False)
    data: Data = field(repr=False)
    march: March
    options: tuple[str, ...]
    blocks: tuple[str, ...]
    parameters: Mapping[str, Mapping[str, Any]]


def draw(seed: int, index: int, marches: Sequence[March]) -> Draw:
    """The draw number ``index`` of a hunt with ``seed``: the same wherever it is drawn.

    Args:
        seed: of the hunt.
        index: of the draw.
        marches: one of them is drawn.
    """
    net = draw_network(seed, index)
    model = net.model()
    rng = random.Random(f"options-{seed}-{index}")
    chosen = draw_options(rng, model, marches)
    return Draw(
        name=f"draw_{seed}_{index}",
        model=model,
        data=_data(net.data(), chosen),
        march=chosen.march,
        options=chosen.labels,
        blocks=tuple(dict.fromkeys(net.blocks)),
        parameters=chosen.parameters,
    )


def write_draw(item: Draw, to: Path) -> Path:
    """Write ``item`` to the folder ``to``: network, data and configuration; the path of the last.

    ``to/NAME.yaml``, ``to/net.onnx`` and ``to/cal_INDEX/SAMPLE.bin``, float32.
    """
    to.mkdir(parents=True, exist_ok=True)
    write_atomically(to / "net.onnx", item.model.SerializeToString())
    for index, samples in enumerate(item.data.values()):
        folder = to / f"cal_{index}"
        folder.mkdir(exist_ok=True)
        for number, sample in enumerate(samples):
            write_atomically(folder / f"{number}.bin", np.asarray(sample, np.float32).tobytes())
    parameters = {name: dict(group) for name, group in item.parameters.items()}
    parameters["model_parameters"] |= {
        "onnx_model": "./net.onnx",
        "march": item.march.value,
        "output_model_file_prefix": item.name,
        "working_dir": "./out",
    }
    count = len(item.data)
    parameters["calibration_parameters"] |= {
        "cal_data_dir": ";".join(f"./cal_{index}" for index in range(count)),
        "cal_data_type": ";".join(["float32"] * count),
    }
    path = to / f"{item.name}.yaml"
    write_atomically(path, yaml.safe_dump(parameters, sort_keys=False).encode())
    return path


# -- options ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """How a network is converted.

    Attributes:
        march: BPU architecture.
        labels: see :attr:`Draw.options`.
        parameters: see :attr:`Draw.parameters`.
        images: inputs that are pixels.
    """

    march: March
    labels: tuple[str, ...]
    parameters: Mapping[str, Mapping[str, Any]]
    images: frozenset[str]


def draw_options(
    rng: random.Random, model: onnx.ModelProto, marches: Sequence[March], *, images: bool = True
) -> Options:
    """How ``model`` is converted: in half of the draws nothing but a march and a method is chosen.

    Args:
        rng: draws.
        model: the float network.
        marches: one of them is drawn.
        images: whether inputs of one or three channels may be pixels.
    """
    march = rng.choice(list(marches))
    kind = rng.choices(("max", "kl", "mix", "default"), (40, 25, 12, 23))[0]
    calibration: dict[str, Any] = {"calibration_type": kind}
    labels, optimization, parameters = [kind], [], _model_parameters(rng, model, march)
    labels += parameters.pop("labels")
    if rng.random() < 0.5:
        if kind == "max" and rng.random() < 0.35:
            calibration["max_percentile"] = rng.choice((0.9999, 0.999, 0.99))
            labels.append("percentile")
        if kind in ("max", "kl") and rng.random() < 0.3:
            calibration["per_channel"] = True
            labels.append("per_channel")
        if kind in ("max", "kl") and rng.random() < 0.2:
            optimization.append("asymmetric")
        if kind in ("max", "kl") and rng.random() < 0.15:
            optimization.append("bias_correction")
        if load_chip(march).int16 and rng.random() < 0.15:
            optimization.append(rng.choice(_INT16_OPTIMIZATIONS))
        if rng.random() < 0.08:
            optimization.append("set_model_output_int8")
        labels += sorted({"int16" if each.endswith("int16") else each for each in optimization})
        if "set_model_output_int8" in optimization:
            optimization = [each for each in optimization if each != "set_model_output_int16"]
        labels += _devices(rng, model, calibration)
    if optimization:
        calibration["optimization"] = ";".join(optimization)
    inputs, pixels = _inputs(rng, model, march, images)
    labels += sorted({each for each in inputs["input_type_rt"].split(";") if each != InputType.FEATUREMAP.value})
    groups = {
        "model_parameters": parameters,
        "input_parameters": inputs,
        "calibration_parameters": calibration,
        "compiler_parameters": {
            "compile_mode": "latency",
            "debug": False,
            "optimize_level": _level(rng, model).value,
        },
    }
    return Options(march, tuple(dict.fromkeys([*labels, *([PLAIN] if len(labels) == 1 else [])])), groups, pixels)


def _model_parameters(rng: random.Random, model: onnx.ModelProto, march: March) -> dict[str, Any]:
    """``remove_node_*`` and ``node_info``, and the labels of both."""
    found: dict[str, Any] = {"labels": []}
    if rng.random() < 0.08:
        found["remove_node_type"] = rng.choice(_REMOVABLE)
        found["labels"].append("remove_node_type")
    if load_chip(march).int16 and rng.random() < 0.08:
        nodes = [node.name for node in model.graph.node if node.op_type in ("Conv", "Add", "Mul", "MatMul", "Concat")]
        if nodes:
            name = rng.choice(nodes)
            found["node_info"] = {name: {"ON": Device.BPU.value, "InputType": "int16", "OutputType": "int16"}}
            found["labels"].append("int16 node")
    return found


def _devices(rng: random.Random, model: onnx.ModelProto, calibration: dict[str, Any]) -> list[str]:
    """A node that is asked to run elsewhere."""
    names = [node.name for node in model.graph.node if node.op_type not in _RECURRENT]
    if names and rng.random() < 0.12:
        calibration["run_on_cpu"] = rng.choice(names)
        return ["run_on_cpu"]
    special = [node.name for node in model.graph.node if node.op_type in ("Softmax", "ReduceMean", "MatMul", "Sigmoid")]
    if special and rng.random() < 0.12:
        calibration["run_on_bpu"] = rng.choice(special)
        return ["run_on_bpu"]
    return []


def _inputs(
    rng: random.Random, model: onnx.ModelProto, march: March, images: bool
) -> tuple[dict[str, str], frozenset[str]]:
    """``input_parameters``, and the inputs that are pixels: most of those with one or three channels."""
    rows: list[dict[str, str]] = []
    pixels = set()
    for value in model.graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        row = {
            "input_name": value.name,
            "input_type_train": InputType.FEATUREMAP.value,
            "input_type_rt": InputType.FEATUREMAP.value,
            "input_layout_train": "NCHW",
            "input_layout_rt": "NCHW",
            "norm_type": NormType.NONE.value,
            "mean_value": "None",
            "scale_value": "None",
        }
        if images and len(shape) == 4 and shape[1] in _COLOURS and rng.random() < 0.8:
            pixels.add(value.name)
            row |= _image(rng, shape, march)
        rows.append(row)
    joined = {key: ";".join(row[key] for row in rows) for key in rows[0]}
    for key in ("mean_value", "scale_value"):
        if all(row[key] == "None" for row in rows):
            del joined[key]
    return joined, frozenset(pixels)


def _image(rng: random.Random, shape: Sequence[int], march: March) -> dict[str, str]:
    """What distinguishes an input of pixels."""
    trained = rng.choice(_COLOURS[shape[1]])
    runs = [trained]
    if shape[1] == 3:
        even = shape[2] % 2 == shape[3] % 2 == 0
        runs = [trained, *([InputType.NV12] * 3 + [InputType.YUV444] if even else [])]
        runs += [InputType.RGB, InputType.BGR] if trained is not InputType.YUV444 else []
    run = rng.choice(runs)
    layout = rng.choice(("NHWC", "NCHW"))
    if load_chip(march).family is ChipFamily.BERNOULLI and run is InputType.YUV444:
        layout = "NHWC"
    norm = rng.choice((NormType.MEAN_AND_SCALE, NormType.MEAN_AND_SCALE, NormType.SCALE))
    many = shape[1] == 3 and rng.random() < 0.5
    return {
        "input_type_train": trained.value,
        "input_type_rt": run.value,
        "input_layout_rt": layout,
        "norm_type": norm.value,
        "mean_value": ("123.675 116.28 103.53" if many else "128.0") if norm.has_mean else "None",
        "scale_value": "0.01712475 0.017507 0.01742919" if many else str(rng.choice((0.0078125, 0.00392157))),
    }


def _level(rng: random.Random, model: onnx.ModelProto) -> OptimizeLevel:
    """O0 for recurrent networks and large ones, which the original's compiler takes minutes for above it."""
    large = len(model.graph.node) > 60 or any(node.op_type in _RECURRENT for node in model.graph.node)
    return OptimizeLevel.O0 if large or rng.random() < 0.5 else OptimizeLevel.O2


def _data(data: Data, options: Options) -> Data:
    """Pixels in place of normal numbers for images: smooth gradients with noise, float32, 0 to 255."""
    found = {}
    for index, (name, samples) in enumerate(data.items()):
        if name not in options.images:
            found[name] = samples
            continue
        rng = np.random.default_rng([index, *samples.shape])
        rows, columns = np.indices(samples.shape[-2:]) / np.array(samples.shape[-2:])[:, None, None]
        slopes = rng.normal(0, 80, (2, *samples.shape[:-2], 1, 1))
        pixels = 128 + slopes[0] * (rows - 0.5) + slopes[1] * (columns - 0.5) + 30 * samples
        found[name] = np.clip(np.round(pixels), 0, 255).astype(np.float32)
    return found


METHODS = tuple(kind.value for kind in CalibrationType if kind.needs_data)
"""Labels of methods, one of which every draw has."""
