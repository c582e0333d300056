"""Which tensors a model gives: cut at named nodes (``output_nodes``), or more of them (``layer_out_dump``)."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from engine.errors import ConfigError, hint


def cut(model: ir.Model, names: Sequence[str]) -> ir.Model:
    """A copy of ``model`` that ends with the outputs of the nodes ``names``, in this order.

    Raises:
        ConfigError: there is no such node, or an input is not needed any more.
    """
    model = model.clone()
    nodes = {str(node.name): node for node in model.graph}
    for name in names:
        if name not in nodes:
            raise ConfigError(f"model_parameters.output_nodes: the model has no node {name!r}{hint(name, nodes)}")
    model.graph.outputs[:] = [value for name in dict.fromkeys(names) for value in nodes[name].outputs if value.name]
    RemoveUnusedNodesPass()(model)
    unused = [str(value.name) for value in model.graph.inputs if not value.uses() and not value.is_graph_output()]
    if unused:
        raise ConfigError(f"model_parameters.output_nodes: {', '.join(names)} do not need input {', '.join(unused)}")
    return model


def with_outputs(model: ir.Model, tensors: Sequence[str]) -> ir.Model:
    """A copy of ``model`` that gives the named tensors as well, after its own outputs."""
    model = model.clone()
    own = {value.name for value in model.graph.outputs}
    values = {str(value.name): value for node in model.graph for value in node.outputs}
    model.graph.outputs.extend(values[name] for name in tensors if name in values and name not in own)
    return model
