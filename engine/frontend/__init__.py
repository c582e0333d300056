"""From model files to the graph that the optimiser takes: parsing, colour formats, preprocessing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx_ir as ir

from engine.config import Config, InputSpec
from engine.frontend import caffe, onnx

__all__ = ["load", "parse"]


def parse(config: Config) -> tuple[ir.Model, tuple[InputSpec, ...]]:
    """Read the model of a conversion, ONNX or Caffe.

    Returns:
        The source model and what each of its inputs is, ready for :func:`engine.frontend.preprocess.insert`.

    Raises:
        ConfigError: the inputs that ``config`` describes are not those of the model, or it names no model.
        ModelError: see :func:`load`.
        UnsupportedError: likewise.
    """
    model, prototxt = config.float_model, config.model_parameters.prototxt
    names = onnx.input_names(model) if prototxt is None else caffe.input_names(prototxt)
    specs = config.input_specs(names)
    return load(model, {spec.name: spec.shape for spec in specs if spec.shape is not None}, prototxt=prototxt), specs


def load(
    model: Path,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    prototxt: Path | None = None,
    resize: bool = False,
) -> ir.Model:
    """Read a float model as a source model.

    Args:
        model: the ``.onnx`` file, or the ``.caffemodel`` of ``prototxt``.
        input_shapes: shape per input name, for inputs that the files leave dynamic.
        prototxt: structure of a Caffe model.
        resize: whether ``input_shapes`` may also replace dimensions that the files give.

    Raises:
        ModelError: see :func:`engine.frontend.onnx.load` and :func:`engine.frontend.caffe.load`.
        UnsupportedError: likewise.
        ConfigError: likewise.
    """
    if prototxt is None:
        return onnx.load(model, input_shapes, resize=resize)
    return caffe.load(prototxt, model, input_shapes, resize=resize)
