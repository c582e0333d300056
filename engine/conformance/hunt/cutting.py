"""Parts of a float network as networks of their own, with what their inputs are on the calibration data."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray
from onnx import TensorProto, ValueInfoProto, helper

from engine.conformance.hunt.draws import Data, Draw
from engine.simulate import Session
from engine.terms import InputType

NAMED_NODES = ("run_on_cpu", "run_on_bpu", "remove_node_name")
"""Parameters that name nodes of the network."""
_PER_INPUT = ("calibration_parameters", "model_parameters", "compiler_parameters")


def cut_out(item: Draw, names: Collection[str]) -> Draw | None:
    """``item`` with the nodes called ``names`` alone.

    What they read of others becomes an input, with the values that it has on the calibration data; what others read of
    them becomes an output. None where there is no such network: an input would be no float32 tensor of rank 2 or more,
    or nothing would be computed.
    """
    graph = item.model.graph
    nodes = [node for node in graph.node if node.name in names]
    made = {name for node in nodes for name in node.output if name}
    read = {name for node in nodes for name in node.input if name}
    elsewhere = {name for node in graph.node if node.name not in names for name in node.input}
    constants = [each for each in graph.initializer if each.name in read]
    known = {each.name for each in graph.initializer}
    types = _types(item.model)
    borders = [name for name in types if name in read - made - known]
    results = [each.name for each in graph.output]
    ends = [name for node in nodes for name in node.output if name and (name in elsewhere or name in results)]
    ends = ends or [name for node in nodes for name in node.output if name and name not in read]
    if not nodes or not borders or not ends or read - made - known - set(borders):
        return None
    if any(not _may_enter(types[name]) for name in borders) or any(name not in types for name in ends):
        return None
    inputs = [types[name] for name in borders]
    outputs = [types[name] for name in dict.fromkeys(ends)]
    made_graph = helper.make_graph(nodes, graph.name, inputs, outputs, constants)
    made_graph.value_info.extend(each for each in graph.value_info if each.name in made)
    model = helper.make_model(made_graph, opset_imports=list(item.model.opset_import), ir_version=item.model.ir_version)
    data = tensors(item, borders)
    if not all(np.isfinite(values).all() for values in data.values()):
        return None
    return with_model(item, model, data)


def with_model(item: Draw, model: onnx.ModelProto, data: Data) -> Draw:
    """``item`` with another network: parameters of inputs and nodes that are gone are left out."""
    names = {node.name for node in model.graph.node}
    parameters = {name: dict(group) for name, group in item.parameters.items()}
    parameters["input_parameters"] = _input_parameters(item, list(data))
    info = parameters["model_parameters"].get("node_info", {})
    parameters["model_parameters"]["node_info"] = {name: value for name, value in info.items() if name in names}
    for group in _PER_INPUT:
        for key in NAMED_NODES:
            wanted = str(parameters[group].get(key, ""))
            kept = [name for name in wanted.split(";") if name in names]
            if wanted and not kept:
                del parameters[group][key]
            elif wanted:
                parameters[group][key] = ";".join(kept)
    if not parameters["model_parameters"]["node_info"]:
        del parameters["model_parameters"]["node_info"]
    return replace(item, model=model, data=data, parameters=parameters)


def tensors(item: Draw, names: Sequence[str]) -> Data:
    """Values of tensors on all calibration samples: shape (samples, ...) each."""
    found = {name: item.data[name] for name in names if name in item.data}
    wanted = [name for name in names if name not in found]
    if not wanted:
        return {name: found[name] for name in names}
    model = onnx.ModelProto()
    model.CopyFrom(item.model)
    types = _types(item.model)
    del model.graph.output[:]
    model.graph.output.extend(types[name] for name in wanted)
    session = Session(ir.from_proto(model), threads=1)
    count = min(len(samples) for samples in item.data.values())
    runs = [
        session.run({name: _fed(item, name, samples[index]) for name, samples in item.data.items()})
        for index in range(count)
    ]
    found |= {name: np.stack([run[name] for run in runs]).astype(np.float32) for name in wanted}
    return {name: found[name] for name in names}


def _fed(item: Draw, name: str, sample: NDArray[np.float32]) -> NDArray[np.float32]:
    """A sample as the float network takes it: pixels are normalised by the conversion, here roughly."""
    position = list(item.data).index(name)
    kinds = item.parameters["input_parameters"]["input_type_train"].split(";")
    return sample if kinds[position] == InputType.FEATUREMAP.value else (sample - 128) / np.float32(64)


def _input_parameters(item: Draw, names: Sequence[str]) -> dict[str, Any]:
    """The group for inputs called ``names``: those that ``item`` has keep their parameters, others are numbers."""
    given = {key: str(value).split(";") for key, value in item.parameters["input_parameters"].items()}
    before = list(item.data)
    plain = {
        "input_type_train": InputType.FEATUREMAP.value,
        "input_type_rt": InputType.FEATUREMAP.value,
        "input_layout_train": "NCHW",
        "input_layout_rt": "NCHW",
        "norm_type": "no_preprocess",
        "mean_value": "None",
        "scale_value": "None",
    }
    columns = {
        key: [
            given[key][before.index(name)] if name in before and key in given else plain.get(key, name)
            for name in names
        ]
        for key in ("input_name", *plain)
    }
    columns["input_name"] = list(names)
    return {
        key: ";".join(values)
        for key, values in columns.items()
        if key not in ("mean_value", "scale_value") or set(values) != {"None"}
    }


def _types(model: onnx.ModelProto) -> Mapping[str, ValueInfoProto]:
    graph = model.graph
    return {each.name: each for each in (*graph.input, *graph.value_info, *graph.output)}


def _may_enter(value: ValueInfoProto) -> bool:
    kind = value.type.tensor_type
    dims = [dim.dim_value for dim in kind.shape.dim]
    return bool(kind.elem_type == TensorProto.FLOAT and len(dims) >= 2 and min(dims) > 0)
