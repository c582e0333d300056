"""Changes to the structure of a model: attributes, constants, shapes, operators, edges. The bytes stay a model."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, helper, numpy_helper

_INTEGERS = (-3, -1, 0, 1, 2, 3, 7, 100)
_FLOATS = (0.0, -1.0, 0.5, 1e30, float("nan"), float("inf"))
_STRINGS = (b"", b"linear", b"nearest", b"cubic", b"reflect", b"edge", b"SAME_UPPER", b"CRD", b"align_corners", b"none")
_OPERATORS = (
    *("Add", "ArgMax", "Cast", "Clip", "Concat", "Conv", "Dropout", "Exp", "Flatten", "Gather", "GlobalAveragePool"),
    *("HardSwish", "Identity", "LayerNormalization", "MatMul", "MaxPool", "Mul", "Neg", "PRelu", "Pad", "ReduceMean"),
    *("Relu", "Reshape", "Resize", "Sigmoid", "Slice", "Softmax", "Split", "Squeeze", "Transpose"),
)

Change = Callable[[ModelProto, random.Random], None]


def changed(model: ModelProto, rng: random.Random) -> ModelProto:
    """A copy of ``model`` with one to three changes."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for _ in range(rng.randint(1, 3)):
        rng.choice(_CHANGES)(copy, rng)
    return copy


def _attribute(model: ModelProto, rng: random.Random) -> None:
    attributes = [attribute for node in model.graph.node for attribute in node.attribute]
    if not attributes:
        return
    chosen = rng.choice(attributes)
    match chosen.type:
        case AttributeProto.INT:
            chosen.i = rng.choice((*_INTEGERS, chosen.i + 1, chosen.i - 1))
        case AttributeProto.INTS if chosen.ints:
            index = rng.randrange(len(chosen.ints))
            if rng.random() < 0.7:
                chosen.ints[index] = rng.choice((*_INTEGERS, chosen.ints[index] + 1))
            elif rng.random() < 0.5:
                del chosen.ints[index]
            else:
                chosen.ints.append(1)
        case AttributeProto.FLOAT:
            chosen.f = rng.choice(_FLOATS)
        case AttributeProto.STRING:
            chosen.s = rng.choice(_STRINGS)


def _constant(model: ModelProto, rng: random.Random) -> None:
    if not model.graph.initializer:
        return
    chosen = rng.choice(model.graph.initializer)
    array, way = numpy_helper.to_array(chosen), rng.random()
    if array.ndim and way < 0.5:
        axis = rng.randrange(array.ndim)
        longer = np.concatenate([array, array], axis)
        array = longer if rng.random() < 0.5 else array.take(range(max(0, array.shape[axis] - 1)), axis)
    elif array.size and way < 0.7:
        array = array.copy()
        array.flat[rng.randrange(array.size)] = rng.choice(_INTEGERS)
    elif way < 0.85 or array.dtype.kind != "f":
        array = array.reshape(1, -1) if array.ndim == 1 else array.reshape(-1)
    else:
        array = array * np.float32(rng.choice(_FLOATS))
    chosen.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), chosen.name))


def _input_shape(model: ModelProto, rng: random.Random) -> None:
    dims = rng.choice(model.graph.input).type.tensor_type.shape.dim
    if not dims:
        return
    index, way = rng.randrange(len(dims)), rng.random()
    if way < 0.7:
        dims[index].dim_value = rng.choice((1, 2, 3, 5, 17, dims[index].dim_value + 1, dims[index].dim_value * 2))
    elif way < 0.85:
        del dims[index]
    else:
        dims.add().dim_value = rng.choice((1, 2, 3))
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]


def _operator(model: ModelProto, rng: random.Random) -> None:
    rng.choice(model.graph.node).op_type = rng.choice(_OPERATORS)


def _edge(model: ModelProto, rng: random.Random) -> None:
    graph, node = model.graph, rng.choice(model.graph.node)
    names = [value.name for value in (*graph.initializer, *graph.input)]
    names += [name for other in graph.node for name in other.output]
    way = rng.random()
    if node.input and way < 0.6:
        node.input[rng.randrange(len(node.input))] = rng.choice(names)
    elif node.input and way < 0.8:
        del node.input[rng.randrange(len(node.input))]
    else:
        node.input.append(rng.choice(names))


def _output(model: ModelProto, rng: random.Random) -> None:
    names = [name for node in model.graph.node for name in node.output if name]
    model.graph.output.append(helper.make_tensor_value_info(rng.choice(names), onnx.TensorProto.FLOAT, None))


def _opset(model: ModelProto, rng: random.Random) -> None:
    model.opset_import[0].version = rng.randint(9, 19)


_CHANGES: tuple[Change, ...] = (*(_attribute, _constant) * 3, *(_input_shape, _operator, _edge) * 2, _output, _opset)
