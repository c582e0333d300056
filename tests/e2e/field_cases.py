"""Small networks made after public reports of users (docs/evidence/field.md), converted as their users would."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import yaml

from engine.config import load_config
from engine.convert import ConversionResult, convert

FOLDER = Path(__file__).resolve().parent / "field"
SAMPLES = 4


def prepare(tmp_path: Path, network: str | Path, *, low: float = -2.0, high: float = 2.0, **parameters: Any) -> Path:
    """The YAML file of a conversion of ``network``, whose calibration data are uniform, seed 0.

    Args:
        tmp_path: where network, data and YAML go.
        network: file below :data:`FOLDER`.
        low, high: range of the data.
        parameters: of any group of the YAML file, ``{group}__{name}``.
    """
    model = onnx.load(FOLDER / network)
    shutil.copyfile(FOLDER / network, tmp_path / "net.onnx")
    constants = {value.name for value in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    rng = np.random.default_rng(0)
    for value in inputs:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        (tmp_path / f"data_{value.name}").mkdir()
        for index in range(SAMPLES):
            sample = rng.uniform(low, high, shape).astype(np.float32)
            np.save(tmp_path / f"data_{value.name}" / f"{index}.npy", sample)

    def each(text: str) -> str:
        return ";".join([text] * len(inputs))

    groups: dict[str, dict[str, Any]] = {
        "model_parameters": {
            "onnx_model": str(tmp_path / "net.onnx"),
            "march": "bayes-e",
            "working_dir": str(tmp_path / "out"),
            "output_model_file_prefix": "net",
        },
        "input_parameters": {
            "input_name": ";".join(value.name for value in inputs),
            "input_type_rt": each("featuremap"),
            "input_type_train": each("featuremap"),
            "input_layout_train": each("NCHW"),
            "norm_type": each("no_preprocess"),
        },
        "calibration_parameters": {
            "cal_data_dir": ";".join(str(tmp_path / f"data_{value.name}") for value in inputs),
            "calibration_type": "max",
        },
        "compiler_parameters": {"optimize_level": "O0"},
    }
    for name, value in parameters.items():
        group, key = name.split("__")
        groups[f"{group}_parameters"][key] = value
    path = tmp_path / "net.yaml"
    path.write_text(yaml.safe_dump(groups), encoding="utf-8")
    return path


def converted(tmp_path: Path, network: str | Path, **options: Any) -> ConversionResult:
    """The conversion of ``network``; options are those of :func:`prepare`."""
    return convert(load_config(prepare(tmp_path, network, **options)))


def worst_cosine(result: ConversionResult) -> float:
    """The least similarity of an output of the integer model to the float one."""
    return min(row.distance.cosine for row in result.integer_outputs)


def worst_error(result: ConversionResult) -> float:
    """The largest error of an output of the integer model."""
    return max(row.distance.chebyshev for row in result.integer_outputs)


def on_cpu(result: ConversionResult) -> set[str]:
    """Operators that run on the CPU."""
    return {row.type for row in result.nodes if row.on != "BPU"}
