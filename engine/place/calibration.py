"""``HzCalibration`` nodes on every tensor that is quantised (reference/calibration.md 2)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from engine.errors import ConfigError
from engine.ir import (
    ACTIVATION_QUANT_ATTRS,
    CALIBRATION_OP,
    HORIZON_DOMAIN,
    MARK_FIXED,
    WEIGHT_QUANT_ATTRS,
    attribute,
    before_calibration,
    constant_of,
    is_calibration,
    mark,
)
from engine.march import March
from engine.ops.core.base import MARK_QTYPE, FloatRule, Tie
from engine.ops.core.float_nodes import given, is_relu
from engine.ops.registry import rule_for
from engine.place.chains import chains, float_readers, is_exact_sum, joins, on_bpu
from engine.place.devices import refused_late
from engine.place.options import INT8, INT16
from engine.place.ties import mark_thresholds

Attributes = Mapping[str, int | str]
"""Of an ``HzCalibration`` that has no thresholds yet."""


def insert_calibration(
    model: ir.Model,
    march: March,
    types: Mapping[ir.Value, str],
    output_type: str | None,
    asked: Collection[str] = (),
) -> None:
    """An ``HzCalibration`` on every tensor that the BPU reads, and on results that do not stay in int32.

    Args:
        model: changed in place.
        march: the BPU.
        types: of tensors that are not int8.
        output_type: what is asked of all outputs.
        asked: names of the tensors of which int16 is asked.
    """
    inserted: dict[ir.Value, ir.Value] = {}
    for chain in _separated(chains(model, march), types):
        rule = rule_for(chain[0])
        if rule is None:
            continue
        for index, axis in rule.weights(chain[0]).items():
            calibrate_weight(chain[0], index, axis)
        for node, index in _activation_inputs(chain, rule):
            _calibrate_input(node, index, types, inserted)
    for node in model.graph:
        rule = rule_for(node)
        if rule is not None and not is_calibration(node) and refused_late(node):
            for index in rule.activations(node):
                _calibrate_input(node, index, types, inserted)
    for value, calibrated in inserted.items():
        _let_cpu_read(model, value, calibrated)
    for chain in chains(model, march):
        _calibrate_result(model, march, chain, types, output_type)
    _leave_out_before_movements(model, _computes_floats)
    mark_thresholds(model, asked)
    _leave_out_before_movements(model, _moves_integers)


_MOVEMENTS_LEFT_OUT_BEFORE = frozenset({"Reshape", "Transpose", "Slice", "Gather", "Pad"})
"""Movements in front of which a calibration may be left out."""


def _leave_out_before_movements(model: ir.Model, may_leave_out: Callable[[ir.Node, Sequence[ir.Node]], bool]) -> None:
    """Remove the calibration of what only such movements read and where ``may_leave_out`` says so.

    Args:
        model: changed in place.
        may_leave_out: given what computes a tensor, and its readers.
    """
    for node in [node for node in model.graph if is_calibration(node)]:
        value, calibrated = node.inputs[0], node.outputs[0]
        producer = None if value is None else value.producer()
        if value is None or producer is None or calibrated.is_graph_output():
            continue
        readers = [usage.node for usage in calibrated.uses()]
        only_moved = all(reader.op_type in _MOVEMENTS_LEFT_OUT_BEFORE for reader in readers)
        if (only_moved and may_leave_out(producer, readers)) or _is_beside_what_is_only_moved(producer):
            calibrated.replace_all_uses_with(value)
            model.graph.remove(node, safe=True)


def _is_beside_what_is_only_moved(split: ir.Node) -> bool:
    """Whether ``split`` is a Split one result of which only movements read: none of its results is calibrated then.

    As queries, keys and values of ``yolo11``, where a Transpose reads the first and a MatMul the others, also on the
    CPU; all are of the 53 other Splits of maps in four networks (provisional, 1 network).
    """
    if split.op_type != "Split" or not is_calibration(given(split, 0).producer()):
        return False
    readers = [float_readers(value) for value in split.outputs]
    return any(each and all(node.op_type in _MOVEMENTS_LEFT_OUT_BEFORE for node in each) for each in readers)


def _computes_floats(producer: ir.Node, readers: Sequence[ir.Node]) -> bool:
    """Whether ``producer`` runs on the CPU: its result is quantised as the first calibrated tensor behind ``readers``.

    All 6 in ``sknet``, ``yolo11`` and ``yolov8_decode`` are.
    """
    return not on_bpu(producer) and not refused_late(producer) and all(map(on_bpu, readers))


def _moves_integers(producer: ir.Node, readers: Sequence[ir.Node]) -> bool:
    """Whether ``producer`` moves what is quantised: its result has the scale of that.

    No tensor between movements is calibrated by the original, of 440 in 12 networks, nor are 10 in ``swin``, ``detr``
    and ``mobilevit`` that the CPU moves for movements which end there after the calibration; before a Split (11
    tensors), a MaxPool (3) or a Concat all are.
    """
    return _moves(producer) and all(on_bpu(each) or refused_late(each) for each in readers)


def _separated(found: Sequence[list[ir.Node]], types: Mapping[ir.Value, str]) -> list[list[ir.Node]]:
    """``found`` cut where int16 keeps a sum apart from its convolution."""
    result = []
    for chain in found:
        cut = next(
            (
                index
                for index, node in enumerate(chain)
                if joins(node) and INT16 in [types.get(value) for value in (*node.inputs, node.outputs[0]) if value]
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
    if decided == "none" or (value not in types and is_exact_sum(value)):
        return
    if value not in inserted:
        qtype = decided or types.get(value, INT8)
        inserted[value] = _insert(node, value, _of_activation(qtype))
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


def calibrate_weight(node: ir.Node, index: int, axis: int) -> None:
    """Let ``node`` read the calibrated form of the weight that is its input ``index``.

    Args:
        node: an operator with weights.
        index: of the input.
        axis: output channels of the weight.
    """
    value = node.inputs[index]
    if value is None or is_calibration(value.producer()):
        return
    attributes: dict[str, int | str] = {"quant_attrs": WEIGHT_QUANT_ATTRS, "switch": "ON", "qtype": INT8, "constant": 1}
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
    """What is calibrated is read so by CPU nodes too, and, where the BPU computes it, by graph outputs.

    In the calibrated models of 40 networks no node reads a tensor beside its calibration (11,700 inputs do not).
    """
    producer = value.producer()
    if producer is None:
        return
    readers = [usage for usage in value.uses() if not is_calibration(usage.node) and not on_bpu(usage.node)]
    for usage in readers:
        usage.node.replace_input_with(usage.idx, calibrated)
    calibration = calibrated.producer()
    if readers and calibration is not None:
        model.graph.remove(calibration)
        model.graph.insert_after(producer, calibration)
    if value.is_graph_output() and on_bpu(producer):
        name = value.name
        value.name, calibrated.name = f"{name}_before", name
        outputs = model.graph.outputs
        outputs[outputs.index(value)] = calibrated
        if calibration is not None:
            calibration.name = f"{value.name}_HzCalibration"


def _insert(before: ir.Node, value: ir.Value, attributes: Attributes) -> ir.Value:
    """An ``HzCalibration`` of ``value`` in front of ``before``; its output."""
    suffix = f"_{len(others)}" if (others := _calibrations(value)) else ""
    node = _calibration_node(value, attributes, f"{value.name}_calibrated{suffix}", suffix)
    graph = before.graph
    if not isinstance(graph, ir.Graph):
        raise ConfigError(f"node {before.name} is not part of a graph")
    producer = value.producer()
    if producer is not None:
        graph.insert_after(producer, node)
    else:
        graph.insert_before(before if value.is_initializer() else graph[0], node)
    return node.outputs[0]


def _of_activation(qtype: str) -> Attributes:
    return {"quant_attrs": ACTIVATION_QUANT_ATTRS, "qtype": qtype, "constant": 1, "switch": "ON"}


def _calibration_node(value: ir.Value, attributes: Attributes, output: str, suffix: str = "") -> ir.Node:
    """An ``HzCalibration`` of ``value``, in no graph yet."""
    result = ir.Value(name=output, type=value.type, shape=value.shape)
    name = f"{value.name}_HzCalibration{suffix}"
    return ir.node(CALIBRATION_OP, [value], attributes, domain=HORIZON_DOMAIN, outputs=[result], name=name)


def _calibrate_result(
    model: ir.Model, march: March, chain: Sequence[ir.Node], types: Mapping[ir.Value, str], output_type: str | None
) -> None:
    """Calibrate a result that only float consumers read, unless it is the int32 accumulator of a convolution."""
    result = chain[-1].outputs[0]
    if any(is_calibration(usage.node) for usage in result.uses()):
        return
    if result.type is not None and result.dtype != ir.DataType.FLOAT:
        return
    rule = rule_for(chain[0])
    clipped = chain[-1].op_type == "Clip"
    if _moves_calibrated(chain[-1]):
        return
    # ``types`` holds the outputs that were granted int16; refused ones are int8.
    requested = types.get(result, INT8 if output_type is not None and result.is_graph_output() else None)
    if rule is None or (requested is None and not clipped and _needs_no_scale(chain, rule, march)):
        return
    qtype = requested or (INT16 if clipped and march.int16 else INT8)
    _insert_behind(model, result, _of_activation(qtype))


def _moves_calibrated(node: ir.Node) -> bool:
    """Whether ``node`` moves what the BPU computes and is calibrated: its result has the scale of that.

    No output of a recorded network that is moved so is calibrated again: 11 in ``detr``, ``efficientnet``, ``sknet``,
    ``vit_timm`` and ``yolov8_nhwc``, all int16. What the CPU computes has the calibration behind the movements.
    """
    if not _moves(node) or not is_calibration(given(node, 0).producer()):
        return False
    before: ir.Node | None = node
    while before is not None and on_bpu(before) and _moves(before):
        before = before_calibration(given(before, 0)).producer()
    return before is None or on_bpu(before)


def _moves(node: ir.Node) -> bool:
    rule = rule_for(node)
    return rule is not None and rule.tie(node) is Tie.OUTPUT_TAKES_INPUT


def _needs_no_scale(chain: Sequence[ir.Node], head: FloatRule, march: March) -> bool:
    """Whether a result has a scale without a calibration: an accumulator's, or that of what it moves."""
    rule = rule_for(chain[-1])
    if is_exact_sum(chain[-1].outputs[0]):
        return True
    stays_int32 = head.stays_int32(chain[0]) and (march.tail_relu or not any(is_relu(node) for node in chain[1:]))
    return stays_int32 or (rule is not None and rule.tie(chain[-1]) is Tie.OUTPUT_TAKES_INPUT)


def _insert_behind(model: ir.Model, value: ir.Value, attributes: Attributes) -> None:
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
    node = _calibration_node(value, attributes, name if is_output else f"{name}_calibrated")
    value.replace_all_uses_with(node.outputs[0], replace_graph_outputs=True)
    node.replace_input_with(0, value)
    model.graph.insert_after(producer, node)
