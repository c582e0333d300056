"""From model files to the graph that the optimiser takes: parsing, colour formats, preprocessing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from pathlib import Path

import onnx_ir as ir

from engine.config import Config, InputSpec
from engine.errors import ConfigError, hint
from engine.frontend import onnx
from engine.frontend.outputs import cut
from engine.frontend.prepared import preprocessed_inputs
from engine.ir import shape_of
from engine.ops.foreign.custom_registry import load_files
from engine.terms import Layout

__all__ = ["load_custom_operators", "load_network", "parse"]

RESIZER_PIXELS = 18432
"""Height times width that an input from the resizer must stay below."""


def parse(config: Config) -> tuple[ir.Model, tuple[InputSpec, ...]]:
    """Read the model of a conversion, ONNX or Caffe; the Python files of ``custom_op`` are executed before.

    Returns:
        The source model and what each of its inputs is, ready for :func:`engine.frontend.preprocess.insert`.

    Raises:
        ConfigError: the inputs that ``config`` describes are not those of the model, or it names no model.
        ModelError: see :func:`load`.
        UnsupportedError: likewise.
    """
    load_custom_operators(config)
    model, prototxt = config.float_model, config.model_parameters.prototxt
    if prototxt is None:
        read = onnx.read_onnx(model)
        fixed = config.input_parameters.fixed_inputs
        constants = {*fixed, *onnx.empty_inputs(read)}
        _check_constants(config, constants)
        specs = config.input_specs([name for name in onnx.input_names(read) if name not in constants])
        ends = config.model_parameters.output_nodes
        source = onnx.to_source(read, model, _given_shapes(specs), fixed=fixed, ends=ends)
    else:
        from engine.frontend import caffe  # ten modules that ONNX files do not need

        specs = config.input_specs(caffe.input_names(prototxt))
        source = caffe.load_caffe(prototxt, model, _given_shapes(specs))
        if config.model_parameters.output_nodes:
            source = cut(source, config.model_parameters.output_nodes)
    _check_preprocessed(source, specs)
    _check_batch(config.input_parameters.input_batch, source)
    _check_input_sources(config, source, specs)
    return source, specs


def _given_shapes(specs: Sequence[InputSpec]) -> Mapping[str, tuple[int, ...]]:
    return {spec.name: spec.shape for spec in specs if spec.shape is not None}


def load_custom_operators(config: Config) -> None:
    """Execute the files of ``custom_op``.

    Raises:
        ConfigError: one is missing, lies outside ``custom_op_dir``, or fails.
    """
    custom = config.custom_op
    if custom is not None and custom.custom_op_dir is not None:
        load_files(custom.op_register_files, custom.custom_op_dir)


def _check_constants(config: Config, constants: Collection[str]) -> None:
    """Inputs that become constants are none of the converted model."""
    for name in config.input_parameters.input_name:
        if name in constants:
            why = "is fixed" if name in config.input_parameters.fixed_inputs else "has no elements"
            raise ConfigError(
                f"input_parameters.input_name: {name!r} {why}, so the converted model does not take it: leave it out "
                "of input_parameters and of cal_data_dir"
            )


def _check_batch(batch: int, source: ir.Model) -> None:
    """``input_batch`` above 1 needs a model for one sample; the model's file may contradict it."""
    shapes = {str(value.name): shape_of(value) for value in source.graph.inputs}
    for name, shape in shapes.items() if batch > 1 else ():
        if not shape or shape[0] != 1:
            raise ConfigError(
                f"input_parameters.input_batch {batch}: input {name!r} has shape {list(shape)}, the first dimension of "
                "every input must be 1"
            )


def _check_preprocessed(source: ir.Model, specs: Sequence[InputSpec]) -> None:
    """An input whose ``HzPreprocess`` was taken out of the file gets the one that the configuration describes."""
    images = {spec.name for spec in specs if spec.is_image}
    missing = [name for name in preprocessed_inputs(source) if name not in images]
    if missing:
        raise ConfigError(
            f"input_parameters: the model brings HzPreprocess for {', '.join(missing)}: give input_type_train, "
            "mean_value and scale_value of the images that it was converted for, not featuremap"
        )


def _check_input_sources(config: Config, source: ir.Model, specs: Sequence[InputSpec]) -> None:
    """``input_source`` names inputs, and the resizer is for small ones."""
    shapes = {str(value.name): shape_of(value) for value in source.graph.inputs}
    layouts = {spec.name: spec.layout_train for spec in specs}
    for name, origin in config.compiler_parameters.input_source.items():
        if name not in shapes:
            raise ConfigError(
                f"compiler_parameters.input_source: {name!r} is not an input of the model; allowed are {list(shapes)}"
                f"{hint(name, shapes)}"
            )
        sides = shapes[name][2:4] if layouts[name] is Layout.NCHW else shapes[name][1:3]
        if origin == "resizer" and prod(sides) >= RESIZER_PIXELS:
            raise ConfigError(
                f"compiler_parameters.input_source: {name!r} has {prod(sides)} pixels, of a resizer less than "
                f"{RESIZER_PIXELS} are possible"
            )


def load_network(
    model: Path,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    prototxt: Path | None = None,
    resize: bool = False,
    fixed: Mapping[str, Sequence[float]] | None = None,
) -> ir.Model:
    """Read a float model as a source model.

    Args:
        model: the ``.onnx`` file, or the ``.caffemodel`` of ``prototxt``.
        input_shapes: shape per input name, for inputs that the files leave dynamic.
        prototxt: structure of a Caffe model.
        resize: whether ``input_shapes`` may also replace dimensions that the files give.
        fixed: values of inputs that are settings, by name; only of ONNX models.

    Raises:
        ModelError: see :func:`engine.frontend.onnx.load_onnx` and :func:`engine.frontend.caffe.load_caffe`.
        UnsupportedError: likewise.
        ConfigError: likewise.
    """
    if prototxt is None:
        return onnx.load_onnx(model, input_shapes, resize=resize, fixed=fixed)
    from engine.frontend import caffe

    return caffe.load_caffe(prototxt, model, input_shapes, resize=resize)
