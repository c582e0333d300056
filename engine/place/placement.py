"""The device of each node, BPU or CPU, and which tensors are quantised.

Source: reference/operators.md, reference/calibration.md 2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import onnx_ir as ir

from engine.chips import ChipFamily, load_chip
from engine.errors import hint
from engine.facts.devices import on_bpu
from engine.graph import sole_reader
from engine.ir import (
    HORIZON_DOMAIN,
    HORIZON_VERSION,
    MARK_MADE,
    MARK_MARCH,
    MARK_PART_OF,
    decline,
    is_calibration,
    mark,
)
from engine.ops.core.element_functions import FUNCTIONS
from engine.ops.core.float_nodes import given
from engine.ops.core.reasons import sentence_of
from engine.ops.registry import rule_for
from engine.optimize.constants import LiftConstants
from engine.optimize.dense import GEMMS, MARK_PRODUCT
from engine.optimize.sink_parts import SinkReshapeBehindSoftmax
from engine.place.calibration import insert_calibration
from engine.place.devices import mark_placement, reason_for_cpu, wanted_on_bpu
from engine.place.options import INT16, NodeTypes, Placement, PlacementOptions, Refusal
from engine.place.sums import calibrate_convolved
from engine.place.widths import check_types, tensor_types
from engine.rulebook.book import BOOK, Book
from engine.rulebook.integers import ARITHMETIC
from engine.rulebook.marks import note
from engine.rulebook.name import Naming
from engine.rulebook.width_requests import Asked, lacking
from engine.terms import Compatibility


def place(
    optimized: ir.Model,
    march: str,
    options: PlacementOptions | None = None,
    book: Book = BOOK,
    names: Naming | None = None,
) -> Placement:
    """Decide BPU or CPU per node and insert the calibration nodes.

    Args:
        optimized: model from :func:`engine.optimize.optimize`; not changed. Its tensors can be calibrated on data where
            it comes through :func:`decomposed`.
        march: ``bernoulli2``, ``bayes`` or ``bayes-e``.
        options: requests of the configuration.
        book: the rules that decide.
        names: gives the names, and knows afterwards by which rules; by those of ``book`` if there is none.

    Raises:
        ConfigError: unknown march, or int16 on a march without it.
    """
    rules, options = load_chip(march), options or PlacementOptions()
    check_types(rules, options)
    model = decomposed(optimized, march, options)
    unknown = _unknown_names(model, options)
    options = _for_parts(model, options)
    refusals = [*mark_placement(model, rules, options, book), *_types_without_inputs(model, options)]
    refusals += _outputs_in_float(model, options)
    widths = tensor_types(model, rules, options, book)
    insert_calibration(model, rules, widths.types, options.output_type, widths.asked, book, names)
    calibrate_convolved(model, rules, names or Naming(rules.family, book.names))
    _note_widths(widths.rules)
    _note_arithmetic(model, rules.family, options.compatibility)
    model.opset_imports[HORIZON_DOMAIN] = HORIZON_VERSION
    model.metadata_props[MARK_MARCH] = march
    return Placement(model, (*unknown, *refusals, *widths.refusals))


def _note_widths(rules: Mapping[ir.Value, Iterable[str]]) -> None:
    """Note on calibrations, or else on what gives a tensor, which rules decided its type."""
    for value, decided in rules.items():
        calibrations = [usage.node for usage in value.uses() if is_calibration(usage.node)]
        producer = value.producer()
        for node in calibrations or ([] if producer is None else [producer]):
            for rule in decided:
                note(node, rule)


def _note_arithmetic(model: ir.Model, family: ChipFamily, compatibility: Compatibility) -> None:
    """Note on the nodes of ``model`` which rule decides what their integers are, or is not followed."""
    for node in model.graph:
        rule = ARITHMETIC.decide(node, family)
        if rule is not None:
            (note if rule.imitated(compatibility) else decline)(node, rule.id)


def decomposed(optimized: ir.Model, march: str, options: PlacementOptions) -> ir.Model:
    """A copy of ``optimized`` with several nodes for each that runs on the BPU as several; the same function in float.

    Args:
        optimized: model from :func:`engine.optimize.optimize`; one that was decomposed before stays as it is.
        march: ``bernoulli2``, ``bayes`` or ``bayes-e``.
        options: requests of the configuration: such nodes run on the BPU only where these ask for it.
    """
    model, rules, wanted = optimized.clone(), load_chip(march), wanted_on_bpu(options)
    for node in [_behind_its_reshape(node) if str(node.name) in wanted else node for node in list(model.graph)]:
        rule = rule_for(node)
        if rule is None or str(node.name) not in wanted or reason_for_cpu(node, rules, options, True) is not None:
            continue
        types = options.node_info.get(str(node.name), NodeTypes())
        parts = rule.decompose(node, INT16 in (types.input_type, *types.input_types.values()))
        if parts is not None:
            for part in parts:
                mark(part, MARK_PART_OF, str(node.name))
            ir.convenience.replace_nodes_and_values(model.graph, node, [node], parts, node.outputs, parts[-1].outputs)
    LiftConstants()(model)
    return model


def _behind_its_reshape(node: ir.Node) -> ir.Node:
    """``node``, or what it becomes: a Softmax of classes that a ``Gemm`` or ``MatMul`` gives, behind their Reshape.

    That goes behind it as long as nothing asks for the Softmax on the BPU, which the original takes apart before it
    makes a convolution of the product (4 of 4 on bayes-e in int8, 4 in int16); behind a Flatten or Reshape of the
    network it is one of a map (3 of 3).
    """
    reshape = sole_reader(node.outputs[0], once=True) if node.op_type == "Softmax" else None
    source, graph = node.inputs[0] if reshape is not None else None, node.graph
    if reshape is None or reshape.op_type != "Reshape" or source is None or not isinstance(graph, ir.Graph):
        return node
    if node.metadata_props.get(MARK_MADE) != SinkReshapeBehindSoftmax.__name__ or not _is_of_product(source):
        return node
    result = reshape.outputs[0]
    values = [ir.Value(name=name, type=result.type, shape=result.shape) for name in (node.outputs[0].name, result.name)]
    first = ir.Node("", "Reshape", [source, *reshape.inputs[1:]], outputs=values[:1], name=reshape.name)
    then = ir.Node("", "Softmax", values[:1], node.attributes.values(), outputs=values[1:], name=node.name)
    ir.convenience.replace_nodes_and_values(graph, node, [node, reshape], [first, then], [result], values[1:])
    return then


def _is_of_product(value: ir.Value) -> bool:
    """Whether a product with a matrix gives ``value``, or what functions of one operand make it of."""
    node = value.producer()
    while node is not None and node.op_type in FUNCTIONS and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    made = "" if node is None else node.metadata_props.get(MARK_MADE, "")
    return node is not None and (MARK_PRODUCT in node.metadata_props or made in GEMMS)


def _for_parts(model: ir.Model, options: PlacementOptions) -> PlacementOptions:
    """``options`` with what is asked of a decomposed node asked of its parts.

    A type of its input is that of all that the parts read (published logs of YOLOv10n, YOLO11n and YOLO11n-pose: all
    six of a Softmax, int16), a type of its output that of the last one's.
    """
    requests = dict(options.node_info)
    for node in model.graph:
        types = options.node_info.get(_asked_as(node))
        if types is None or MARK_PART_OF not in node.metadata_props:
            continue
        gives = all(_asked_as(usage.node) != _asked_as(node) for value in node.outputs for usage in value.uses())
        requests[str(node.name)] = NodeTypes(
            input_type=types.input_types.get(0, types.input_type),
            output_type=types.output_type if gives else None,
        )
    return replace(options, node_info=requests)


def _asked_as(node: ir.Node) -> str:
    """The name by which a configuration knows ``node``: its own, or that of the node that it is a part of."""
    return str(node.metadata_props.get(MARK_PART_OF, node.name))


def _unknown_names(model: ir.Model, options: PlacementOptions) -> list[Refusal]:
    """Requests for nodes that the optimised graph does not have."""
    known = dict.fromkeys(name for node in model.graph for name in (str(node.name), _asked_as(node)))
    asked = {**dict.fromkeys(options.run_on_cpu, "run_on_cpu"), **dict.fromkeys(options.run_on_bpu, "run_on_bpu")}
    asked |= dict.fromkeys(options.node_info, "node_info")
    return [
        Refusal(name, request, f"the optimised model has no such node{_said_of(name, known)}")
        for name, request in sorted(asked.items())
        if name not in known
    ]


def _said_of(name: str, known: Collection[str]) -> str:
    """What ``name`` may be, as the end of a message: several nodes, or a name near it; empty for a merged one."""
    parts = [other for other in known if other.startswith(f"{name}_")]
    return f"; it is computed by {', '.join(parts)}" if parts else hint(name, known)


def _types_without_inputs(model: ir.Model, options: PlacementOptions) -> list[Refusal]:
    """Requests of int16 for nodes on the CPU or without it, and for inputs that are none, or not quantised so."""
    found = []
    for node in model.graph:
        wanted, rule = options.node_info.get(str(node.name)), rule_for(node)
        if rule is not None and on_bpu(node) and node.name in options.without_int16:
            sides = [Asked(given(node, index), node, f"input{index}", ()) for index in rule.activations(node)]
            found += [Refusal(*side.request, lacking(side)) for side in sides]
        if wanted is None or INT16 not in (wanted.input_type, wanted.output_type, *wanted.input_types.values()):
            continue
        if rule is None or not on_bpu(node):
            reason = f"it runs on the CPU: {sentence_of(node)}"
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
        Refusal(str(node.name), request, f"it runs on the CPU: {sentence_of(node)}")
        for node in nodes
        if not on_bpu(node)
    ]
