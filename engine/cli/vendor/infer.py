"""``hb_mapper infer``: a model of a conversion on data like those for calibration, its outputs as files."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.data.sources import default_raw_type
from engine.cli.inputs import layout_of, read_trained
from engine.compile import CompiledModel
from engine.compile.pack import is_compiled, open_single
from engine.compile.removal import dequantized
from engine.config import Config, InputSpec, load_config
from engine.errors import ConfigError
from engine.frontend import load_custom_operators
from engine.ir import file_names, write_atomically
from engine.simulate import Session, TensorInfo
from engine.terms import Layout


@dataclass(frozen=True)
class InferRequest:
    """What the command is given.

    Attributes:
        config: the YAML file of the conversion.
        model: ``.onnx`` of any stage from original_float on, or ``.bin``.
        caffe: whether the float model was a Caffe model.
        files: data by input name.
        layout: what that of the model's image inputs must be; ``None`` for any.
        folder: where outputs go.
    """

    config: Path
    model: Path
    caffe: bool
    files: Mapping[str, Path]
    layout: Layout | None
    folder: Path


def run_infer(request: InferRequest, logger: logging.Logger) -> None:
    """Run the model and write ``<output>_float.bin`` per output, ``<output>_<type>.bin`` where it holds integers.

    Outputs of a ``.bin`` whose Dequantize nodes were removed are dequantised.

    Raises:
        ConfigError: configuration, names of inputs and model do not belong together.
        InferenceError: a file does not fit its input.
    """
    config = load_config(request.config)
    _ = config.caffe_model if request.caffe else config.onnx_model
    load_custom_operators(config)
    compiled = open_single(request.model) if is_compiled(request.model) else None
    session = Session(request.model if compiled is None else compiled.executable)
    feed = _read(session, config, request)
    outputs = _run(session, compiled, feed)
    names = file_names(outputs)
    for name, array in outputs.items():
        kind = "float" if array.dtype == np.float32 else array.dtype.name
        path = write_atomically(request.folder / f"{names[name]}_{kind}.bin", array.tobytes())
        logger.info("Output %s: %s %s, saved: %s", name, array.dtype.name, list(array.shape), path)
    logger.info("End hb_mapper infer.")


def _read(session: Session, config: Config, request: InferRequest) -> dict[str, NDArray[Any]]:
    """The inputs of the session, from the files."""
    names = [info.name for info in session.inputs]
    if set(request.files) != set(names):
        raise ConfigError(f"--image-file names {sorted(request.files)}, the inputs of {request.model} are {names}")
    calibration = config.calibration_parameters
    specs = config.input_specs(names)
    raw_types = {
        spec.name: (calibration.cal_data_type[index] if calibration.cal_data_type else None)
        or default_raw_type(spec, calibration.cal_data_dir[index] if calibration.cal_data_dir else Path())
        for index, spec in enumerate(specs)
    }
    by_name = {spec.name: spec for spec in specs}
    for info in session.inputs:
        _check_layout(info, by_name[info.name], request.layout)
    return {
        info.name: read_trained(session, info, by_name[info.name], request.files[info.name], raw_types[info.name])
        for info in session.inputs
    }


def _check_layout(info: TensorInfo, spec: InputSpec, wanted: Layout | None) -> None:
    """Refuse a layout that contradicts the shape of an image input."""
    found = layout_of(info, spec) if spec.is_image else None
    if wanted is not None and found not in (None, wanted):
        raise ConfigError(
            f"--input-layout {wanted}: input {info.name} has shape {list(info.shape)}, which is {found}; leave it out, "
            f"the layout of the files is that of input_layout_train ({spec.layout_train})"
        )


def _run(session: Session, compiled: CompiledModel | None, feed: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    results = session.run(feed)
    return results if compiled is None else dequantized(compiled, results)
