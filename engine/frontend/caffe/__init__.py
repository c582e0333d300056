"""Caffe 1.0 networks (``.prototxt`` and ``.caffemodel``) to source models of Caffe's exact arithmetic at test time."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import RemoveUnusedNodesPass

from engine.errors import ModelError, PtqlabError, UnsupportedError, hint
from engine.frontend.caffe import arithmetic, arrangement, elementary
from engine.frontend.caffe.graph import Graph
from engine.frontend.caffe.pooling import pooling, spatial_pyramid
from engine.frontend.caffe.reader import CaffeLayer, CaffeNetwork, read_blobs, read_prototxt
from engine.frontend.onnx import finish, fix_input_shapes

__all__ = ["CONVERTERS", "input_names", "load_caffe"]

OPSET = 13
IR_VERSION = 8

Converter = Callable[[Graph, CaffeLayer, Sequence[ir.Value]], list[ir.Value]]

CONVERTERS: Mapping[str, Converter] = MappingProxyType(
    {
        "AbsVal": elementary.absolute,
        "ArgMax": arrangement.arg_max,
        "Axpy": elementary.axpy,
        "BNLL": elementary.softplus,
        "BatchNorm": arithmetic.batch_norm,
        "Bias": elementary.bias,
        "Clip": elementary.clip,
        "Concat": arrangement.concat,
        "Convolution": arithmetic.convolution,
        "Crop": arrangement.crop,
        "Deconvolution": arithmetic.deconvolution,
        "Dropout": arrangement.identity,
        "ELU": elementary.elu,
        "Eltwise": arithmetic.eltwise,
        "Exp": elementary.exponential,
        "Flatten": arrangement.flatten,
        "InnerProduct": arithmetic.inner_product,
        "Interp": arrangement.interp,
        "LRN": arithmetic.lrn,
        "Log": elementary.logarithm,
        "MVN": elementary.mean_variance,
        "Normalize": elementary.normalize,
        "PReLU": arithmetic.prelu,
        "Permute": arrangement.permute,
        "Pooling": pooling,
        "Power": arithmetic.power,
        "ReLU": arithmetic.relu,
        "ReLU6": arithmetic.relu6,
        "Reduction": elementary.reduction,
        "Reshape": arrangement.reshape,
        "SPP": spatial_pyramid,
        "Scale": arithmetic.scale,
        "Sigmoid": arithmetic.sigmoid,
        "Slice": arrangement.slice_,
        "Softmax": arithmetic.softmax,
        "Split": arrangement.identity,
        "Swish": elementary.swish,
        "TanH": arithmetic.tanh,
        "Threshold": elementary.threshold,
        "Tile": elementary.tile,
        "Upsample": arrangement.upsample,
    }
)
"""Layer types beside ``Input`` and ``Data``, and what makes ONNX nodes of them."""


def load_caffe(
    prototxt: str | os.PathLike[str],
    caffemodel: str | os.PathLike[str],
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    resize: bool = False,
) -> ir.Model:
    """Read a Caffe network as a source model.

    The main node of a layer has the layer's name; a tensor that several layers write in place has Caffe's name after
    the last of them. Outputs are the tops that no layer reads.

    Args:
        prototxt: structure of the network; older ``layers`` and ``input_dim`` are read as well.
        caffemodel: its weights.
        input_shapes: shape per input name, for inputs of ``Data`` layers, whose shape is in no file.
        resize: whether ``input_shapes`` may also replace the shapes of the prototxt.

    Returns:
        A model as :func:`engine.frontend.onnx.load_onnx` gives it.

    Raises:
        ModelError: a file is missing or damaged, or a layer breaks Caffe's rules.
        UnsupportedError: a type of layer, or a setting of one, is not supported.
        ConfigError: ``input_shapes`` names an unknown input or contradicts the file.
    """
    prototxt = Path(prototxt)
    network = read_prototxt(prototxt)
    for layer in network.layers:
        if layer.type not in CONVERTERS:
            raise UnsupportedError(
                f"{prototxt}: ValueError: Not support {layer}; supported types are Input, Data, {', '.join(CONVERTERS)}"
                f"{hint(layer.type, CONVERTERS)}"
            )
    blobs = read_blobs(caffemodel)
    inputs = _inputs(network, input_shapes or {}, prototxt, resize)
    try:
        model = _convert(network, inputs, blobs)
    except PtqlabError as error:
        raise type(error)(f"{prototxt}: {error}") from error
    return finish(model, prototxt)


def input_names(prototxt: str | os.PathLike[str]) -> tuple[str, ...]:
    """Names of the inputs of a network."""
    return tuple(read_prototxt(prototxt).inputs)


def _inputs(
    network: CaffeNetwork, input_shapes: Mapping[str, Sequence[int]], prototxt: Path, resize: bool
) -> dict[str, ir.Value]:
    """The inputs of static shape."""
    values = [
        ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=None if shape is None else ir.Shape(shape))
        for name, shape in network.inputs.items()
    ]
    graph = ir.Graph(values, [], nodes=[])
    fix_input_shapes(ir.Model(graph, ir_version=IR_VERSION), input_shapes, prototxt, resize=resize)
    graph.inputs.clear()
    return dict(zip(network.inputs, values, strict=True))


def _convert(
    network: CaffeNetwork, inputs: Mapping[str, ir.Value], blobs: Mapping[str, tuple[NDArray[np.float32], ...]]
) -> ir.Model:
    """All layers as one graph, in the order of the file."""
    last_writer = {top: index for index, layer in enumerate(network.layers) for top in layer.tops}
    current = dict(inputs)
    unread = dict.fromkeys(inputs)
    graph = Graph(reserved=[*inputs, *last_writer])
    for index, layer in enumerate(network.layers):
        for bottom in layer.bottoms:
            if bottom not in current:
                raise ModelError(
                    f"{layer}: its bottom {bottom!r} is the top of no layer before it{hint(bottom, current)}"
                )
            unread.pop(bottom, None)
        if not layer.tops or not layer.bottoms:
            raise ModelError(f"{layer}: it needs a bottom and a top")
        layer = replace(layer, blobs=blobs.get(layer.name, ()))
        results = CONVERTERS[layer.type](graph, layer, [current[bottom] for bottom in layer.bottoms])
        if len(results) != len(layer.tops):
            raise ModelError(f"{layer}: {len(layer.tops)} tops, it has {len(results)}")
        for top, result in zip(layer.tops, results, strict=True):
            if last_writer[top] == index and top not in inputs:
                result.name = top
            current[top] = result
            unread[top] = None
    outputs = [current[top] for top in unread if top not in inputs or current[top] is not inputs[top]]
    if not outputs:
        raise ModelError("the network has no output")
    return _model(network.name, list(inputs.values()), outputs, graph)


def _model(name: str, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value], graph: Graph) -> ir.Model:
    built = ir.Graph(
        inputs,
        outputs,
        nodes=graph.nodes,
        initializers=graph.initializers,
        name=name,
        opset_imports={"": OPSET},
    )
    model = ir.Model(built, ir_version=IR_VERSION, producer_name="ptqlab")
    RemoveUnusedNodesPass()(model)
    return model
