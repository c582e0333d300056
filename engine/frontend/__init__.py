"""From model files to the graph that the optimiser takes: parsing, colour formats, preprocessing."""

from __future__ import annotations

import onnx_ir as ir

from engine.config import Config, InputSpec
from engine.frontend.onnx import input_names, load

__all__ = ["parse"]


def parse(config: Config) -> tuple[ir.Model, tuple[InputSpec, ...]]:
    """Read the model of a conversion.

    Returns:
        The source model and what each of its inputs is, ready for :func:`engine.frontend.preprocess.insert`.

    Raises:
        ConfigError: the inputs that ``config`` describes are not those of the model.
        ModelError: see :func:`engine.frontend.onnx.load`.
        UnsupportedError: likewise.
    """
    specs = config.input_specs(input_names(config.onnx_model))
    shapes = {spec.name: spec.shape for spec in specs if spec.shape is not None}
    return load(config.onnx_model, shapes), specs
