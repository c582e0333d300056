"""Insert ``HzPreprocess``: colour conversion, mean and scale become the first operator of the model.

The node computes ``weight * (pixel - 128) + bias`` as a 1x1 convolution, where ``pixel`` has the run-time colour format
and the result the normalised format that the network was trained on (reference/arithmetic.md 2.8,
reference/calibration.md 5).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.config import InputSpec
from engine.errors import ConfigError, UnsupportedError, hint
from engine.frontend.colour import INPUT_OFFSET, ColourMatrix, conversion_matrix
from engine.ir import HORIZON_DOMAIN, HORIZON_VERSION, MARK_INPUTS, shape_of
from engine.ops.foreign.composite import PREPROCESS
from engine.terms import InputType, Layout, SpaceAndRange

PREFIX = "HZ_PREPROCESS_FOR_"


def insert(source: ir.Model, inputs: Sequence[InputSpec]) -> ir.Model:
    """Put one ``HzPreprocess`` behind every image input, directly in front of the first node that reads it.

    That is where the original has it: 8 of 8 networks of two and three images on bayes-e and bernoulli2, four drawn
    ones. Of two images that the same node reads first, the one that is named first comes first.

    Node and output are called ``HZ_PREPROCESS_FOR_<input>``, the initializers ``…_weight`` (float32, shape (C, 1, 1, 1)
    or (3, 3, 1, 1)) and ``…_bias`` (float32, shape (C,)). Feature maps stay as they are. The specs are kept in the
    model's metadata under ``hz.inputs``.

    Args:
        source: model from :func:`engine.frontend.onnx.load_onnx`; not changed.
        inputs: what each input is; inputs that are not named are feature maps.

    Raises:
        ConfigError: an unknown input; a type, channel count or size that does not fit the colour format; mean or scale
            of the wrong length.
        UnsupportedError: there is no conversion from the run-time to the training format.
    """
    model = source.clone()
    graph_inputs = {str(value.name): value for value in model.graph.inputs}
    places = {node: index for index, node in enumerate(model.graph)}
    for spec in inputs:
        if spec.name not in graph_inputs:
            raise ConfigError(
                f"input_name {spec.name!r} is not an input of the model; its inputs are {list(graph_inputs)}"
                f"{hint(spec.name, graph_inputs)}"
            )
        if spec.is_image:
            value = graph_inputs[spec.name]
            first = min(value.consumers(), key=places.__getitem__, default=model.graph[0])
            _insert_one(model.graph, first, value, spec)
    model.opset_imports[HORIZON_DOMAIN] = HORIZON_VERSION
    model.metadata_props[MARK_INPUTS] = json.dumps([spec.model_dump(mode="json") for spec in inputs])
    return model


def saved_inputs(model: ir.Model) -> tuple[InputSpec, ...]:
    """The specs that :func:`insert` kept in the model; empty for foreign models."""
    return tuple(InputSpec.model_validate(item) for item in json.loads(model.metadata_props.get(MARK_INPUTS, "[]")))


def _insert_one(graph: ir.Graph, first: ir.Node, value: ir.Value, spec: InputSpec) -> None:
    """Insert the node of ``spec`` before ``first`` and let the users of the input ``value`` read it instead."""
    channels = _check_shape(value, spec)
    matrix = conversion_matrix(spec.type_rt, spec.type_train, spec.space_and_range)
    weight, bias = coefficients(spec, matrix, channels)
    name = PREFIX + spec.name
    tensors = [_initializer(f"{name}_weight", weight), _initializer(f"{name}_bias", bias)]
    uses = tuple(value.uses())
    node = ir.node(
        PREPROCESS,
        [value, *tensors],
        {
            "data_format": spec.layout_train.value,
            "input_type": intermediate_type(spec),
            "channel_group": channels if matrix is None else 1,
        },
        domain=HORIZON_DOMAIN,
        outputs=[ir.Value(name=name, type=value.type, shape=value.shape)],
        name=name,
    )
    for user, index in uses:
        user.replace_input_with(index, node.outputs[0])
    for tensor in tensors:
        graph.register_initializer(tensor)
    graph.insert_before(first, node)


def _check_shape(value: ir.Value, spec: InputSpec) -> int:
    """The number of channels of the image input ``value``, checked against the format and the pixel rules."""
    shape = shape_of(value)
    if value.dtype != ir.DataType.FLOAT:
        raise ConfigError(
            f"input {spec.name!r}: an image must be float32 in the model, its input is {value.dtype}; let the model "
            "begin behind its Cast, or feed it as it is (input_type_train: featuremap)"
        )
    if len(shape) != 4:
        raise ConfigError(f"input {spec.name!r}: an image must have 4 dimensions, the model's input has shape {shape}")
    channels = shape[1 if spec.layout_train is Layout.NCHW else 3]
    expected = 1 if spec.type_train is InputType.GRAY else 3
    if channels != expected:
        raise ConfigError(
            f"input {spec.name!r}: input_type_train {spec.type_train.value!r} has {expected} channel(s), shape {shape} "
            f"in layout {spec.layout_train.value} has {channels}"
        )
    size = shape[2:] if spec.layout_train is Layout.NCHW else shape[1:3]
    if spec.type_rt is InputType.NV12 and any(side % 2 for side in size):
        raise ConfigError(
            f"input {spec.name!r}: input_type_rt {spec.type_rt.value!r} needs even height and width, the model's input "
            f"is {size[0]}x{size[1]}"
        )
    return channels


def coefficients(
    spec: InputSpec, matrix: ColourMatrix | None, channels: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Weight and bias of the ``HzPreprocess`` of one input, in float32 as the original computes them."""
    mean = _per_channel(spec.mean, channels, 0.0, spec.name, "mean_value")
    scale = _per_channel(spec.scale, channels, 1.0, spec.name, "scale_value")
    offset = np.float32(INPUT_OFFSET)
    if matrix is None:
        return scale.reshape(channels, 1, 1, 1), (offset - mean) * scale
    weight = matrix.matrix * scale[:, np.newaxis]
    bias = (matrix.matrix.sum(axis=1) * offset - (matrix.matrix * matrix.offset).sum(axis=1) - mean) * scale
    return weight.reshape(channels, channels, 1, 1), bias


def _per_channel(
    values: Sequence[float], channels: int, default: float, name: str, parameter: str
) -> NDArray[np.float32]:
    if len(values) not in (0, 1, channels):
        raise ConfigError(
            f"input {name!r}: {parameter} has {len(values)} values, allowed are 1 or {channels} (one per channel)"
        )
    return np.ascontiguousarray(np.broadcast_to(np.asarray(values or (default,), np.float32), (channels,)))


def intermediate_type(spec: InputSpec) -> str:
    """``input_type`` attribute: the run-time format after the hardware's part, 128 subtracted.

    Networks trained on yuv444 read the full range too: recorded on bayes, bayes-e and bernoulli2 with yuv444 and nv12
    (``tests/parity/recorded``).

    Raises:
        UnsupportedError: the run-time format cannot feed the training format, or has no such range.
    """
    match spec.type_rt:
        case InputType.RGB | InputType.BGR | InputType.GRAY:
            return f"{spec.type_rt.value.upper()}_128"
        case InputType.YUV444 | InputType.NV12 if spec.space_and_range is SpaceAndRange.BT601_VIDEO:
            if InputType.YUV444 in (spec.type_rt, spec.type_train):
                raise UnsupportedError(
                    f"input {spec.name!r}: input_space_and_range 'bt601_video' is for input_type_rt 'nv12' of networks "
                    f"trained on rgb or bgr, not for {spec.type_rt.value!r} of {spec.type_train.value!r}: "
                    "write regular"
                )
            return "YUV_BT601_VIDEO_RANGE_128"
        case InputType.YUV444 | InputType.NV12:
            return "YUV_BT601_FULL_RANGE_128"
    raise UnsupportedError(
        f"input {spec.name!r}: input_type_rt {spec.type_rt.value!r} cannot feed input_type_train "
        f"{spec.type_train.value!r}"
    )


def _initializer(name: str, array: NDArray[np.float32]) -> ir.Value:
    array = np.ascontiguousarray(array, np.float32)
    return ir.Value(
        name=name,
        type=ir.TensorType(ir.DataType.FLOAT),
        shape=ir.Shape(array.shape),
        const_value=ir.tensor(array, name=name),
    )
