"""Who computes each node, BPU or CPU, and which tensors are quantised (OPERATORS.md, CALIBRATION.md 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from engine.errors import ConfigError
from engine.ir import (
    ACTIVATION_QUANT_ATTRS,
    CALIBRATION_OP,
    HORIZON_DOMAIN,
    HORIZON_VERSION,
    MARK_FIXED,
    MARK_MARCH,
    MARK_ON,
    MARK_REASON,
    MARK_TIE,
    WEIGHT_QUANT_ATTRS,
    attribute,
    before_calibration,
    constant_of,
    is_calibration,
    mark,
    shape_of,
)
from engine.march import March, load
from engine.ops.base import MARK_QTYPE, FloatRule, Tie
from engine.ops.custom import REASON as CUSTOM_REASON
from engine.ops.custom import is_custom
from engine.ops.float_nodes import is_relu
from engine.ops.registry import rule_for
from engine.place.chains import BPU, CPU, chains, on_bpu

INT8, INT16 = "int8", "int16"


@dataclass(frozen=True)
class NodeTypes:
    """What ``node_info`` asks of one node.

    Attributes:
        on: ``BPU``, ``CPU`` or ``None`` for the tool's choice.
        input_type: ``int8`` or ``int16`` for all inputs; ``None`` for the default.
        input_types: type per input index, over ``input_type``.
        output_type: type of the output.
    """

    on: str | None = None
    input_type: str | None = None
    input_types: Mapping[int, str] = field(default_factory=dict)
    output_type: str | None = None


@dataclass(frozen=True)
class PlacementOptions:
    """What the configuration asks of the placement.

    Attributes:
        node_info: request per node name.
        run_on_cpu: names of nodes to compute in float.
        run_on_bpu: names of nodes to compute in integers where that is possible.
        output_type: ``int8`` or ``int16`` for all graph outputs; ``None`` for int32 tails.
    """

    node_info: Mapping[str, NodeTypes] = field(default_factory=dict)
    run_on_cpu: frozenset[str] = frozenset()
    run_on_bpu: frozenset[str] = frozenset()
    output_type: str | None = None


@dataclass(frozen=True)
class Refusal:
    """A request that could not be honoured.

    Attributes:
        node: name of the node that was asked for.
        request: what was asked.
        reason: why it stays as it is.
    """

    node: str
    request: str
    reason: str


@dataclass(frozen=True)
class Placement:
    """Result of :func:`place`.

    Attributes:
        model: the optimised graph with marks and ``HzCalibration`` nodes without thresholds.
        refusals: requests that could not be honoured.
    """

    model: ir.Model
    refusals: tuple[Refusal, ...]


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
    _check_types(rules, options)
    model = optimized.clone()
    unknown = _unknown_names(model, options)
    _decompose_requested(model, rules, options)
    refusals = mark_placement(model, rules, options)
    types, more = _tensor_types(model, rules, options)
    _insert_calibration(model, rules, types, options.output_type)
    model.opset_imports[HORIZON_DOMAIN] = HORIZON_VERSION
    model.metadata_props[MARK_MARCH] = march
    return Placement(model, (*unknown, *refusals, *more))


def _decompose_requested(model: ir.Model, march: March, options: PlacementOptions) -> None:
    """Replace operators that run on the BPU as several others, where the configuration asks for it."""
    wanted = _wanted_on_bpu(options)
    for node in list(model.graph):
        rule = rule_for(node)
        if rule is None or str(node.name) not in wanted or _reason_for_cpu(node, march, options, True) is not None:
            continue
        parts = rule.decompose(node)
        if parts is not None:
            ir.convenience.replace_nodes_and_values(model.graph, node, [node], parts, node.outputs, parts[-1].outputs)


def mark_placement(model: ir.Model, march: March, options: PlacementOptions | None = None) -> list[Refusal]:
    """Set the marks ``hz.on`` and ``hz.reason`` on every node of ``model``, in place; unhonoured requests."""
    options = options or PlacementOptions()
    wanted = _wanted_on_bpu(options)
    refusals = []
    for node in model.graph:
        if is_calibration(node):
            continue
        requested = str(node.name) in wanted
        reason = _reason_for_cpu(node, march, options, requested)
        _set(node, reason)
        if reason is not None and requested:
            refusals.append(Refusal(str(node.name), "ON: BPU", reason))
    _drop_tails(model, march, wanted)
    return refusals


def _wanted_on_bpu(options: PlacementOptions) -> set[str]:
    return {name for name, types in options.node_info.items() if types.on == BPU} | set(options.run_on_bpu)


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


def _reason_for_cpu(node: ir.Node, march: March, options: PlacementOptions, on_request: bool) -> str | None:
    """Why ``node`` runs on the CPU; ``None`` for the BPU."""
    name = str(node.name)
    requested = options.node_info.get(name)
    if name in options.run_on_cpu or (requested is not None and requested.on == CPU):
        return "run_on_cpu is set"
    if is_custom(node):
        return CUSTOM_REASON
    rule = rule_for(node)
    if rule is None or (node.op_type in march.cpu_operators and not _orders_pixels(node)):
        return f"{march.name} has no operator for {node.op_type}"
    if march.rank4_only and any(len(shape_of(value)) != 4 for value in node.outputs):
        return f"{march.name} computes tensors of rank 4"
    numbers = [value for index, value in enumerate(node.outputs) if index not in rule.index_outputs]
    if any(value.type is not None and value.dtype != ir.DataType.FLOAT for value in numbers):
        return "only float32 tensors are quantised"
    if rule.on_request and not on_request:
        return f"{node.op_type} runs on the BPU only if node_info or run_on_bpu asks for it"
    if _has_undefined_constant(node, rule):
        return "a constant operand is infinite or undefined: it has no threshold"
    return rule.refusal(node, march) or rule.late_refusal(node, march)


def _orders_pixels(node: ir.Node) -> bool:
    """Whether ``node`` gives an NHWC image the NCHW order: BPU tensors are NHWC anyway, nothing is moved."""
    image = None if node.op_type != "Transpose" or node.inputs[0] is None else node.inputs[0].producer()
    is_image = image is not None and image.op_type == "HzPreprocess" and attribute(image, "data_format") == "NHWC"
    return is_image and tuple(attribute(node, "perm", ())) == (0, 3, 1, 2)


def _has_undefined_constant(node: ir.Node, rule: FloatRule) -> bool:
    """Whether a constant that would be quantised is not finite."""
    values = [node.inputs[index] for index in (*rule.activations(node), *rule.weights(node))]
    arrays = [constant_of(before_calibration(value)) for value in values if value is not None]
    return any(array is not None and not np.all(np.isfinite(array)) for array in arrays)


def _set(node: ir.Node, reason: str | None) -> None:
    mark(node, MARK_ON, BPU if reason is None else CPU)
    mark(node, MARK_REASON, reason)


def _drop_tails(model: ir.Model, march: March, wanted: set[str]) -> None:
    """Operators behind the last convolution that would cost it its int32 output run on the CPU.

    These are passive operators, and the activation where the march cannot apply it to an int32 output.
    """
    heads = {chain[-1].outputs[0]: chain[0] for chain in chains(model, march)}
    for node in reversed(list(model.graph)):
        rule = rule_for(node)
        if is_calibration(node) or not on_bpu(node) or rule is None:
            continue
        if any(on_bpu(reader) for value in node.outputs for reader in _float_readers(value)):
            continue
        if rule.passive and str(node.name) not in wanted and _moves_accumulator(node, heads):
            _set(node, f"{node.op_type} is passive and no BPU node reads it")
        elif is_relu(node) and not march.tail_relu and _follows_convolution(node):
            _set(node, f"{march.name} has no {node.op_type} on an int32 output")


def _moves_accumulator(node: ir.Node, heads: Mapping[ir.Value, ir.Node]) -> bool:
    """Whether a passive ``node`` reads, directly or through others, what could stay in int32 or is float anyway."""
    rule = rule_for(node)
    for index in () if rule is None else rule.activations(node):
        value = node.inputs[index]
        head = None if value is None else heads.get(before_calibration(value))
        source = None if head is None else rule_for(head)
        if (
            head is None
            or source is None
            or source.int32_output
            or (source.passive and _moves_accumulator(head, heads))
        ):
            return True
    return False


def _follows_convolution(node: ir.Node) -> bool:
    """Whether ``node`` reads a convolution, or a sum that one may have absorbed."""
    value = node.inputs[0]
    producer = None if value is None else before_calibration(value).producer()
    rule = None if producer is None else rule_for(producer)
    return producer is not None and (producer.op_type == "Add" or (rule is not None and rule.int32_output))


def _float_readers(value: ir.Value) -> list[ir.Node]:
    """Nodes that read ``value``, seen through calibration nodes."""
    readers = []
    for usage in value.uses():
        if is_calibration(usage.node):
            readers += _float_readers(usage.node.outputs[0])
        else:
            readers.append(usage.node)
    return readers


def _check_types(march: March, options: PlacementOptions) -> None:
    wanted = [options.output_type]
    for types in options.node_info.values():
        wanted += [types.input_type, types.output_type, *types.input_types.values()]
    if INT16 in wanted and not march.int16:
        raise ConfigError(f"Unsupported datatype settings for march bernoulli/{march.name}: int16")


def _tensor_types(
    model: ir.Model, march: March, options: PlacementOptions
) -> tuple[dict[ir.Value, str], list[Refusal]]:
    """Quantised type per activation tensor that is not int8, and requests that fell back to int8."""
    requests = _int16_requests(model, march, options)
    tails = _int16_tails(model, march) if options.output_type is None else set()
    types: dict[ir.Value, str] = {}
    refusals = []
    for group in _tied_groups(model):
        names = sorted({name for value in group for name in requests.get(value, ())})
        if not names and tails.isdisjoint(group):
            continue
        obstacle = next((text for value in group if (text := _no_int16(value)) is not None), None)
        if obstacle is None:
            types.update(dict.fromkeys(group, INT16))
        else:
            refusals += [Refusal(name, INT16, obstacle) for name in names]
    return types, refusals


def _int16_requests(model: ir.Model, march: March, options: PlacementOptions) -> dict[ir.Value, set[str]]:
    """Names of the nodes that ask for int16, per tensor; a request for a chain's head is one for its result."""
    requests: dict[ir.Value, set[str]] = {}
    results = {chain[0]: _own_result(chain) for chain in chains(model, march)}
    for node in model.graph:
        types = options.node_info.get(str(node.name))
        rule = rule_for(node)
        if types is None or rule is None:
            continue
        for index in rule.activations(node):
            value = node.inputs[index]
            if value is not None and types.input_types.get(index, types.input_type) == INT16:
                requests.setdefault(value, set()).add(str(node.name))
        if types.output_type == INT16:
            requests.setdefault(results.get(node, node.outputs[0]), set()).add(str(node.name))
    if options.output_type == INT16:
        for value in model.graph.outputs:
            requests.setdefault(value, set()).add("set_model_output_int16")
    return requests


def _int16_tails(model: ir.Model, march: March) -> set[ir.Value]:
    """Requantised results that only float consumers read: int16 where the march has it (OPERATORS.md, Partition)."""
    tails: set[ir.Value] = set()
    for chain in chains(model, march) if march.int16 else []:
        result, head, last = chain[-1].outputs[0], rule_for(chain[0]), rule_for(chain[-1])
        if head is None or last is None or head.int32_output or not last.int16_outputs:
            continue
        if not any(on_bpu(reader) for reader in _float_readers(result)):
            tails.add(result)
    return tails


def _own_result(chain: Sequence[ir.Node]) -> ir.Value:
    """What the head of ``chain`` and its activation compute: the result of the chain, or the operand of its sum."""
    alone = [node for node in chain[1:] if not _joins(node)]
    last = alone[0] if alone and chain[1] is alone[0] else chain[0]
    return last.outputs[0]


def _joins(node: ir.Node) -> bool:
    """Whether ``node`` brings a second activation into a chain."""
    rule = rule_for(node)
    return rule is not None and len(rule.activations(node)) > 1


def _tied_groups(model: ir.Model) -> list[set[ir.Value]]:
    """Activation tensors that must have one type, as groups; a tensor that is free is a group of its own."""
    group_of: dict[ir.Value, set[ir.Value]] = {}
    for node in model.graph:
        rule = rule_for(node)
        activations = [] if rule is None else [node.inputs[index] for index in rule.activations(node)]
        tied = on_bpu(node) and rule is not None and (rule.one_width or rule.tie(node) is not Tie.NONE)
        for value in (*activations, node.outputs[0]):
            if value is not None:
                group_of.setdefault(value, {value})
        if tied:
            members = [value for value in (*activations, node.outputs[0]) if value is not None]
            merged = set().union(*(group_of[value] for value in members))
            group_of.update(dict.fromkeys(merged, merged))
    unique = {id(group): group for group in group_of.values()}
    return list(unique.values())


def _no_int16(value: ir.Value) -> str | None:
    """Why ``value`` cannot be int16: a neighbour on the BPU has no int16 there."""
    producer = value.producer()
    neighbours = [(usage.node, False) for usage in value.uses()]
    neighbours += [] if producer is None else [(producer, True)]
    for node, is_output in neighbours:
        rule = rule_for(node)
        if not on_bpu(node) or rule is None:
            continue
        if not (rule.int16_outputs if is_output else rule.int16_inputs):
            where = "output" if is_output else "input"
            return f"The {where} of Node(name:{node.name}, type:{node.op_type}) does not support data type: int16"
    return None


def _insert_calibration(model: ir.Model, march: March, types: Mapping[ir.Value, str], output_type: str | None) -> None:
    """An ``HzCalibration`` on every tensor that the BPU reads, and on results that do not stay in int32."""
    inserted: dict[ir.Value, ir.Value] = {}
    for chain in _separated(chains(model, march), types):
        rule = rule_for(chain[0])
        if rule is None:
            continue
        for index, axis in rule.weights(chain[0]).items():
            _calibrate_weight(chain[0], index, axis)
        for node, index in _activation_inputs(chain, rule):
            _calibrate_input(node, index, types, inserted)
    for node in model.graph:
        rule = rule_for(node)
        if rule is not None and not is_calibration(node) and _refused_late(node, rule, march):
            for index in rule.activations(node):
                _calibrate_input(node, index, types, inserted)
    for value, calibrated in inserted.items():
        _let_cpu_read(model, value, calibrated)
    for chain in chains(model, march):
        _calibrate_result(model, chain, types, output_type)
    _mark_thresholds(model)


def _refused_late(node: ir.Node, rule: FloatRule, march: March) -> bool:
    reason = node.metadata_props.get(MARK_REASON)
    return reason is not None and reason == rule.late_refusal(node, march)


def _separated(found: Sequence[list[ir.Node]], types: Mapping[ir.Value, str]) -> list[list[ir.Node]]:
    """``found`` cut where int16 keeps a sum apart from its convolution."""
    result = []
    for chain in found:
        cut = next(
            (
                index
                for index, node in enumerate(chain)
                if _joins(node) and any(value in types for value in (*node.inputs, node.outputs[0]) if value)
            ),
            None,
        )
        parts = [chain] if cut is None else [chain[:cut], *([node] for node in chain[cut:])]
        result += [part for part in parts if part]
    return result


def _activation_inputs(chain: Sequence[ir.Node], rule: FloatRule) -> list[tuple[ir.Node, int]]:
    """Activation inputs of a chain: the head's, and operands of absorbed nodes from outside."""
    inside = {value for node in chain for value in node.outputs}
    found = [(chain[0], index) for index in rule.activations(chain[0])]
    for node in chain[1:]:
        absorbed = rule_for(node)
        indices = () if absorbed is None else absorbed.activations(node)
        found += [(node, index) for index in indices if node.inputs[index] not in inside]
    return found


def _calibrate_input(
    node: ir.Node, index: int, types: Mapping[ir.Value, str], inserted: dict[ir.Value, ir.Value]
) -> None:
    """Let ``node`` read the calibrated form of input ``index``."""
    value = node.inputs[index]
    if value is None or is_calibration(value.producer()):
        return
    decided = _decided_type(value)
    if decided == "none":
        return
    if value not in inserted:
        qtype = decided or types.get(value, INT8)
        attributes = {"quant_attrs": ACTIVATION_QUANT_ATTRS, "qtype": qtype, "constant": 1}
        inserted[value] = _insert(node, value, {**attributes, "switch": "ON"})
        _fix_constant(value, inserted[value])
    node.replace_input_with(index, inserted[value])


def _fix_constant(value: ir.Value, calibrated: ir.Value) -> None:
    """The threshold of a constant operand is its largest magnitude; that of zeros is 1."""
    array, calibration = constant_of(value), calibrated.producer()
    if array is not None and calibration is not None:
        mark(calibration, MARK_FIXED, repr(float(np.max(np.abs(array), initial=0.0)) or 1.0))


def _decided_type(value: ir.Value) -> str | None:
    """Type that a decomposition gave to ``value``."""
    producer = value.producer()
    return None if producer is None else producer.metadata_props.get(MARK_QTYPE)


def _calibrate_weight(node: ir.Node, index: int, axis: int) -> None:
    value = node.inputs[index]
    if value is None or is_calibration(value.producer()):
        return
    attributes = {"quant_attrs": WEIGHT_QUANT_ATTRS, "switch": "ON", "qtype": INT8, "constant": 1}
    attributes |= {"group": attribute(node, "group", 1), "axis": axis}
    shared = [
        other.outputs[0]
        for other in _calibrations(value)
        if all(attribute(other, key) == item for key, item in attributes.items())
    ]
    node.replace_input_with(index, shared[0] if shared else _insert(node, value, attributes))


def _calibrations(value: ir.Value) -> list[ir.Node]:
    """The calibration nodes that ``value`` has already."""
    return [usage.node for usage in value.uses() if is_calibration(usage.node)]


def _let_cpu_read(model: ir.Model, value: ir.Value, calibrated: ir.Value) -> None:
    """A tensor that the BPU computes in integers is read in that precision by CPU nodes and graph outputs too."""
    producer = value.producer()
    if producer is None or not on_bpu(producer):
        return
    readers = [usage for usage in value.uses() if not is_calibration(usage.node) and not on_bpu(usage.node)]
    for usage in readers:
        usage.node.replace_input_with(usage.idx, calibrated)
    calibration = calibrated.producer()
    if readers and calibration is not None:
        model.graph.remove(calibration)
        model.graph.insert_after(producer, calibration)
    if value.is_graph_output():
        name = value.name
        value.name, calibrated.name = f"{name}_before", name
        outputs = model.graph.outputs
        outputs[outputs.index(value)] = calibrated
        if calibration is not None:
            calibration.name = f"{value.name}_HzCalibration"


def _insert(before: ir.Node, value: ir.Value, attributes: Mapping[str, object]) -> ir.Value:
    """An ``HzCalibration`` of ``value`` in front of ``before``; its output."""
    suffix = f"_{len(others)}" if (others := _calibrations(value)) else ""
    result = ir.Value(name=f"{value.name}_calibrated{suffix}", type=value.type, shape=value.shape)
    node = ir.node(
        CALIBRATION_OP,
        [value],
        dict(attributes),  # type: ignore[arg-type]
        domain=HORIZON_DOMAIN,
        outputs=[result],
        name=f"{value.name}_HzCalibration{suffix}",
    )
    graph = before.graph
    if not isinstance(graph, ir.Graph):
        raise ConfigError(f"node {before.name} is not part of a graph")
    producer = value.producer()
    if producer is not None:
        graph.insert_after(producer, node)
    else:
        graph.insert_before(before if value.is_initializer() else graph[0], node)
    return result


def _calibrate_result(
    model: ir.Model, chain: Sequence[ir.Node], types: Mapping[ir.Value, str], output_type: str | None
) -> None:
    """Calibrate a result that only float consumers read, unless it is the int32 accumulator of a convolution."""
    result = chain[-1].outputs[0]
    if any(is_calibration(usage.node) for usage in result.uses()):
        return
    if result.type is not None and result.dtype != ir.DataType.FLOAT:
        return
    rule = rule_for(chain[0])
    clipped = chain[-1].op_type == "Clip"
    requested = types.get(result, output_type if result.is_graph_output() else None)
    if rule is None or (requested is None and not clipped and _needs_no_scale(chain[-1], rule)):
        return
    qtype = requested or (INT16 if clipped else INT8)
    attributes = {"quant_attrs": ACTIVATION_QUANT_ATTRS, "qtype": qtype, "constant": 1, "switch": "ON"}
    _insert_behind(model, result, attributes)


def _needs_no_scale(last: ir.Node, head: FloatRule) -> bool:
    """Whether a result has a scale without a calibration: an accumulator's, or that of what it moves."""
    rule = rule_for(last)
    return head.int32_output or (rule is not None and rule.tie(last) is Tie.OUTPUT_TAKES_INPUT)


def _insert_behind(model: ir.Model, value: ir.Value, attributes: Mapping[str, object]) -> None:
    """Let every reader of ``value``, the graph's outputs too, read its calibrated form.

    A graph output keeps its name: the tensor before it is called ``<name>_before``.
    """
    name = str(value.name)
    producer = value.producer()
    if producer is None:
        return
    is_output = value.is_graph_output()
    if is_output:
        value.name = f"{name}_before"
    result = ir.Value(name=name if is_output else f"{name}_calibrated", type=value.type, shape=value.shape)
    node = ir.node(
        CALIBRATION_OP,
        [value],
        dict(attributes),  # type: ignore[arg-type]
        domain=HORIZON_DOMAIN,
        outputs=[result],
        name=f"{value.name}_HzCalibration",
    )
    value.replace_all_uses_with(result, replace_graph_outputs=True)
    node.replace_input_with(0, value)
    model.graph.insert_after(producer, node)


def _mark_thresholds(model: ir.Model) -> None:
    """Marks ``hz.tie`` and ``hz.fixed`` on the calibration nodes of tensors whose threshold is not their own."""
    ties: dict[str, str] = {}
    calibrations = {_tensor_name(node.inputs[0]): node for node in model.graph if is_calibration(node)}
    for node in model.graph:
        rule = rule_for(node)
        if is_calibration(node) or not on_bpu(node) or rule is None:
            continue
        names = [_tensor_name(node.inputs[index]) for index in rule.activations(node)]
        output = str(node.outputs[0].name)
        match rule.tie(node):
            case Tie.OUTPUT_TAKES_INPUT:
                _tie(ties, output, names[0])
            case Tie.INPUTS_TAKE_OUTPUT if rule.int16_ties or not _is_int16(calibrations.get(output)):
                for name in names:
                    _tie(ties, name, output)
    for node in model.graph:
        _fix_thresholds(node, calibrations, ties)
    for name in ties:
        root = _root(ties, name)
        if name in calibrations and root in calibrations:
            mark(calibrations[name], MARK_TIE, root)
            mark(calibrations[name], MARK_FIXED, calibrations[root].metadata_props.get(MARK_FIXED))


def _is_int16(calibration: ir.Node | None) -> bool:
    return calibration is not None and attribute(calibration, "qtype") == INT16


def _tensor_name(value: ir.Value | None) -> str:
    return "" if value is None else str(before_calibration(value).name)


def _root(ties: Mapping[str, str], name: str) -> str:
    while name in ties:
        name = ties[name]
    return name


def _tie(ties: dict[str, str], name: str, to: str) -> None:
    """``name`` takes the threshold of ``to``, unless it has been tied already or ``to`` follows ``name``."""
    if name not in ties and _root(ties, to) != name:
        ties[name] = to


def _fix_thresholds(node: ir.Node, calibrations: Mapping[str, ir.Node], ties: Mapping[str, str]) -> None:
    """Thresholds that an operator fixes, on tensors that nothing else has a say in."""
    rule = rule_for(node)
    if is_calibration(node) or not on_bpu(node) or rule is None:
        return
    source, result = _tensor_name(node.inputs[0]), str(node.outputs[0].name)
    for name, alone in ((source, True), (result, False)):
        calibration = calibrations.get(name)
        if calibration is None or name in ties or (alone and len(list(calibration.outputs[0].uses())) > 1):
            continue
        thresholds = rule.fixed_thresholds(node, attribute(calibration, "qtype"))
        fixed = thresholds[0 if name == source else 1]
        decided = node.metadata_props.get(MARK_FIXED) if name == result else None
        if fixed is not None or decided is not None:
            mark(calibration, MARK_FIXED, decided or repr(fixed))
