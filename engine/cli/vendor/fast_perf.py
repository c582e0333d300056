"""``hb_mapper makertbin --fast-perf``: the configuration for the fastest model, which needs no data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import yaml

from engine.chips import HB_COMPILE_MARCHES
from engine.config import RemovableType
from engine.errors import ConfigError
from engine.frontend import load_network
from engine.ir import shape_of, write_atomically
from engine.terms import InputType, Layout

if TYPE_CHECKING:
    import onnx_ir as ir

FOLDER = Path(".fast_perf")
"""Where the configuration is left."""


def write_config(model: Path, prototxt: Path | None, march: str) -> Path:
    """Write the configuration for ``model``, ONNX or Caffe: fixed thresholds, all that can run on the BPU there, int8
    outputs, O3 (O2 where the march has no more), nodes at the ends removed, ``nv12`` where an input can be an image.

    Returns:
        ``.fast_perf/<model>_config.yaml``.

    Raises:
        ModelError: the model cannot be read.
        UnsupportedError: likewise.
        ConfigError: likewise.
    """
    if not model.is_file():
        raise ConfigError(f"--model {model}: no such file")
    source = load_network(model, prototxt=prototxt)
    level = "O2" if march in list(HB_COMPILE_MARCHES) else "O3"
    files = {"onnx_model": model} if prototxt is None else {"prototxt": prototxt, "caffe_model": model}
    content: dict[str, dict[str, Any]] = {
        "model_parameters": {
            **{key: str(path.resolve()) for key, path in files.items()},
            "march": march,
            "output_model_file_prefix": model.stem,
            "remove_node_type": ";".join(get_args(RemovableType)),
        },
        "input_parameters": _inputs(source),
        "calibration_parameters": {
            "calibration_type": "skip",
            "optimization": "run_fast;set_model_output_int8",
        },
        "compiler_parameters": {
            "compile_mode": "latency",
            "debug": True,
            "optimize_level": level,
        },
    }
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    return write_atomically(FOLDER / f"{model.stem}_config.yaml", text.encode())


def _inputs(source: ir.Model) -> dict[str, str]:
    """Parameters of all inputs: ``bgr`` fed as ``nv12`` for images of three channels and even size."""
    rows = []
    for value in source.graph.inputs:
        shape = shape_of(value)
        layout = _image_layout(shape)
        train, runtime = (
            (InputType.FEATUREMAP, InputType.FEATUREMAP) if layout is None else (InputType.BGR, InputType.NV12)
        )
        rows.append(
            {
                "input_name": str(value.name),
                "input_type_train": train.value,
                "input_layout_train": (layout or Layout.NCHW).value,
                "input_shape": "x".join(map(str, shape)),
                "norm_type": "no_preprocess",
                "input_type_rt": runtime.value,
            }
        )
    return {key: ";".join(row[key] for row in rows) for key in rows[0]}


def _image_layout(shape: tuple[int, ...]) -> Layout | None:
    """Layout of a three-channel image of even size; ``None`` for anything else."""
    for layout, channel, sides in ((Layout.NCHW, 1, shape[2:4]), (Layout.NHWC, 3, shape[1:3])):
        if len(shape) == 4 and shape[channel] == 3 and not any(side % 2 for side in sides):
            return layout
    return None
