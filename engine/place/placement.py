"""Who computes each node, BPU or CPU, and which tensors are quantised (OPERATORS.md, CALIBRATION.md 2)."""

from __future__ import annotations

import onnx_ir as ir

from engine.ir import HORIZON_DOMAIN, HORIZON_VERSION, MARK_MARCH, MARK_REASON
from engine.march import March, load
from engine.ops.registry import rule_for
from engine.place.calibration import insert_calibration
from engine.place.chains import on_bpu
from engine.place.devices import mark_placement, reason_for_cpu, wanted_on_bpu
from engine.place.options import INT16, Placement, PlacementOptions, Refusal
from engine.place.widths import check_types, tensor_types


def place(optimized: ir.Model, march: str, options: PlacementOptions | None = None) -> Placement:
    """Decide BPU or CPU per node and insert the calibration nodes.

    Args:
        optimized: model from :func:`engine.optimize.optimize`; not changed.
        march: ``bernoulli2``, ``bayes`` or ``bayes-e``.
        options: requests of the configuration.

    Raises:
        ConfigError: unknown march, or int16 on a march without it.
    """
    rules, options = load(march), options or PlacementOptions()
    check_types(rules, options)
    model = optimized.clone()
    unknown = _unknown_names(model, options)
    _decompose_requested(model, rules, options)
    refusals = [*mark_placement(model, rules, options), *_types_without_inputs(model, options)]
    refusals += _outputs_in_float(model, options)
    types, more = tensor_types(model, rules, options)
    insert_calibration(model, rules, types, options.output_type)
    model.opset_imports[HORIZON_DOMAIN] = HORIZON_VERSION
    model.metadata_props[MARK_MARCH] = march
    return Placement(model, (*unknown, *refusals, *more))


def _decompose_requested(model: ir.Model, march: March, options: PlacementOptions) -> None:
    """Replace operators that run on the BPU as several others, where the configuration asks for it."""
    wanted = wanted_on_bpu(options)
    for node in list(model.graph):
        rule = rule_for(node)
        if rule is None or str(node.name) not in wanted or reason_for_cpu(node, march, options, True) is not None:
            continue
        parts = rule.decompose(node)
        if parts is not None:
            ir.convenience.replace_nodes_and_values(model.graph, node, [node], parts, node.outputs, parts[-1].outputs)


def _unknown_names(model: ir.Model, options: PlacementOptions) -> list[Refusal]:
    """Requests for nodes that the optimised graph does not have."""
    known = {str(node.name) for node in model.graph}
    asked = {**dict.fromkeys(options.run_on_cpu, "run_on_cpu"), **dict.fromkeys(options.run_on_bpu, "run_on_bpu")}
    asked |= dict.fromkeys(options.node_info, "node_info")
    return [
        Refusal(name, request, "the optimised model has no such node")
        for name, request in sorted(asked.items())
        if name not in known
    ]


def _types_without_inputs(model: ir.Model, options: PlacementOptions) -> list[Refusal]:
    """Requests of int16 for nodes on the CPU, and for inputs that a node does not have or does not quantise so."""
    found = []
    for node in model.graph:
        wanted, rule = options.node_info.get(str(node.name)), rule_for(node)
        if wanted is None or INT16 not in (wanted.input_type, wanted.output_type, *wanted.input_types.values()):
            continue
        if rule is None or not on_bpu(node):
            reason = f"it runs on the CPU: {node.metadata_props.get(MARK_REASON)}"
            found.append(Refusal(str(node.name), INT16, reason))
            continue
        taken = rule.activations(node)
        for index, kind in sorted(wanted.input_types.items()):
            if kind == INT16 and index not in taken:
                reason = f"its quantised inputs are {', '.join(map(str, taken))}; weights are int8"
                found.append(Refusal(str(node.name), f"InputType{index}: int16", reason))
    return found


def _outputs_in_float(model: ir.Model, options: PlacementOptions) -> list[Refusal]:
    """Outputs that stay in float though a type is asked for all: their nodes run on the CPU."""
    if options.output_type is None:
        return []
    nodes = dict.fromkeys(node for value in model.graph.outputs if (node := value.producer()) is not None)
    request = f"set_model_output_{options.output_type}"
    return [
        Refusal(str(node.name), request, f"it runs on the CPU: {node.metadata_props.get(MARK_REASON)}")
        for node in nodes
        if not on_bpu(node)
    ]
