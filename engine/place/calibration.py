"""``HzCalibration`` nodes on every tensor that is quantised (reference/calibration.md 2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from engine.chips import Chip, ChipFamily
from engine.errors import ConfigError
from engine.facts.chains import chains
from engine.facts.devices import asked_late, on_bpu, refused_late
from engine.facts.moves import keeps_scale, moved_from
from engine.graph.scales import ScaleSource, scale_source, set_scale_source
from engine.ir import (
    ACTIVATION_QUANT_ATTRS,
    CALIBRATION_OP,
    HORIZON_DOMAIN,
    MARK_RULE,
    WEIGHT_QUANT_ATTRS,
    attribute,
    constant_of,
    is_calibration,
    mark,
)
from engine.ops.core.base import FloatRule
from engine.ops.core.float_nodes import given
from engine.ops.registry import rule_for
from engine.place.options import INT8
from engine.place.scales import mark_scales, source_of_function
from engine.rulebook.book import BOOK, Book
from engine.rulebook.calibrated import Calibrate, Calibrated, Input, OfCpu, OutputRead, Result
from engine.rulebook.marks import note
from engine.rulebook.name import NamedPart, NameSite, Naming
from engine.rulebook.rule import Table
from engine.rulebook.scale import tensor_name
from engine.rulebook.width_sites import Chained

Attributes = Mapping[str, int | str]
"""Attributes of an ``HzCalibration`` that has no thresholds yet."""


def insert_calibration(
    model: ir.Model,
    march: Chip,
    types: Mapping[ir.Value, str],
    output_type: str | None,
    asked: Collection[str] = (),
    book: Book = BOOK,
    names: Naming | None = None,
) -> None:
    """An ``HzCalibration`` on every tensor that the BPU reads, and on results that do not stay in int32.

    Args:
        model: changed in place.
        march: the BPU.
        types: of tensors that are not int8.
        output_type: what is asked of all outputs.
        asked: names of the tensors of which int16 is asked.
        book: the rules.
        names: gives the names; by the rules of ``book`` if there is none.
    """
    rules = _Rules(book, march.family, {}, {}, names or Naming(march.family, book.names), {})
    inserted: dict[ir.Value, ir.Value] = {}
    for chain in _separated(chains(model, march), types, rules):
        rule = rule_for(chain[0])
        if rule is None:
            continue
        for index, axis in rule.weights(chain[0]).items():
            calibrate_weight(chain[0], index, axis, rules.names)
        for node, index in _activation_inputs(chain, rule):
            _calibrate_input(node, index, types, inserted, rules)
    for node in model.graph:
        rule = rule_for(node)
        if rule is not None and not is_calibration(node) and refused_late(node):
            for index in rule.activations(node):
                _calibrate_input(node, index, types, inserted, rules)
    for value, calibrated in inserted.items():
        _let_cpu_read(model, value, calibrated, rules)
    dropped = _let_functions_read(model, rules)
    for value, left_out in rules.left_out.items():
        producer = value.producer()
        if producer is not None and value not in inserted:
            note(producer, left_out)
    for value, apart in rules.apart.items():
        for calibration in _calibrations(value):
            note(calibration, apart)
    for chain in chains(model, march):
        if chain[-1].outputs[0] not in dropped:
            _calibrate_result(model, Result(chain, march, types, output_type), rules)
    _leave_out(model, book.before_scales, rules.family)
    mark_scales(model, march, asked, book, rules.twice)
    for node, twice in rules.twice.items():
        _calibrate_before(model, node, twice, rules.names)
    _leave_out(model, book.after_scales, rules.family)
    _calibrate_for_cpu(model, rules)
    for node in filter(is_calibration, model.graph):
        for name_rule in rules.names.rules(node):
            note(node, name_rule)


class _Rules(NamedTuple):
    """The rules, the chips that they are for, which left a calibration out, or cut a sum off behind it; names.

    ``twice``: calibrations of what is calibrated twice, by which rule.
    """

    book: Book
    family: ChipFamily
    left_out: dict[ir.Value, str]
    apart: dict[ir.Value, str]
    names: Naming
    twice: dict[ir.Node, str]


def _leave_out(model: ir.Model, table: Table[Calibrated, Calibrate], family: ChipFamily) -> None:
    """Remove the calibrations that ``table`` leaves out."""
    for node in [node for node in model.graph if is_calibration(node)]:
        value, calibrated = node.inputs[0], node.outputs[0]
        producer = None if value is None else value.producer()
        if value is None or producer is None or calibrated.is_graph_output():
            continue
        site = Calibrated(producer, [usage.node for usage in calibrated.uses()], attribute(node, "qtype", INT8))
        rule = table.decide(site, family)
        if rule is not None:
            note(producer, rule.id)
            calibrated.replace_all_uses_with(value)
            model.graph.remove(node, safe=True)


def _separated(found: Sequence[list[ir.Node]], types: Mapping[ir.Value, str], rules: _Rules) -> list[list[ir.Node]]:
    """``found`` cut in front of sums that the rules keep apart from their convolution."""
    result = []
    for chain in found:
        cut = len(chain)
        for index in range(1, len(chain)):
            rule = rules.book.widths.sums.decide(Chained(chain, index, types), rules.family)
            if rule is not None:
                rules.apart[chain[index - 1].outputs[0]] = rule.id
                cut = index
                break
        result += [chain[:cut], *([node] for node in chain[cut:])]
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
    node: ir.Node, index: int, types: Mapping[ir.Value, str], inserted: dict[ir.Value, ir.Value], rules: _Rules
) -> None:
    """Let ``node`` read the calibrated form of input ``index``, where the rules calibrate it."""
    value = node.inputs[index]
    if value is None or is_calibration(value.producer()):
        return
    site = Input(value, node, types)
    rule = rules.book.inputs.decide(site, rules.family)
    if rule is None or rule.then is Calibrate.NO:
        if rule is not None:
            rules.left_out.setdefault(value, rule.id)
        return
    if value not in inserted:
        attributes = _of_activation(types.get(value, INT8))
        inserted[value] = _insert(node, value, attributes, rules.names, rule.id)
        _fix_constant(value, inserted[value], rules)
    node.replace_input_with(index, inserted[value])


def _fix_constant(value: ir.Value, calibrated: ir.Value, rules: _Rules) -> None:
    """Let a constant operand have the threshold that the rules fix."""
    array, calibration = constant_of(value), calibrated.producer()
    rule = rules.book.constants.decide(value, rules.family)
    if array is not None and calibration is not None and rule is not None:
        threshold = float(np.max(np.abs(array), initial=0.0)) or 1.0
        set_scale_source(calibration, ScaleSource(fixed=threshold, rules=(rule.id,)))


def calibrate_weight(node: ir.Node, index: int, axis: int, names: Naming) -> None:
    """Let ``node`` read the calibrated form of the weight that is its input ``index``.

    Args:
        node: an operator with weights.
        index: of the input.
        axis: output channels of the weight.
        names: gives the name of a new calibration.
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
    node.replace_input_with(index, shared[0] if shared else _insert(node, value, attributes, names))


def _calibrations(value: ir.Value) -> list[ir.Node]:
    """The calibration nodes that ``value`` has already."""
    return [usage.node for usage in value.uses() if is_calibration(usage.node)]


def _let_cpu_read(model: ir.Model, value: ir.Value, calibrated: ir.Value, rules: _Rules) -> None:
    """What is calibrated is read so by CPU nodes too, and by graph outputs where the BPU, or an operator
    that it has, computes it.

    In the calibrated models of 40 networks no node reads a tensor beside its calibration (11,700 inputs do not).
    """
    producer, calibration = value.producer(), calibrated.producer()
    if producer is None or calibration is None:
        return
    readers = [usage for usage in value.uses() if not is_calibration(usage.node) and not on_bpu(usage.node)]
    for usage in readers:
        usage.node.replace_input_with(usage.idx, calibrated)
    if readers:
        model.graph.remove(calibration)
        model.graph.insert_after(producer, calibration)
    if not value.is_graph_output():
        return
    site = OutputRead(producer, [usage.node for usage in calibrated.uses()])
    rule = rules.book.outputs_read.decide(site, rules.family)
    has_operator = rule is not None and rule_for(producer) is not None
    if not (on_bpu(producer) or asked_late(producer) or has_operator):
        return
    if rule is not None:
        note(calibration, rule.id)
    if rule is not None and rule.then is Calibrate.NO:
        return
    name, names = str(value.name), rules.names
    is_read = rule is not None
    value.name = names.of(NameSite(NamedPart.BEFORE, tensor=name, is_computed_with=is_read))
    calibrated.name = names.of(NameSite(NamedPart.CALIBRATED, tensor=name, is_output=True))
    outputs = model.graph.outputs
    outputs[outputs.index(value)] = calibrated
    calibration.name = names.of(NameSite(NamedPart.CALIBRATION, tensor=name if is_read else value.name))
    if rule is not None and rule.then is Calibrate.TWICE:
        rules.twice[calibration] = rule.id


def _let_functions_read(model: ir.Model, rules: _Rules) -> set[ir.Value]:
    """Let nodes on the CPU read what they read as it is, where the rules say so.

    Returns:
        what is not calibrated since, as nothing else reads its calibrated form.
    """
    dropped = set()
    for node in tuple(model.graph):
        calibrated = node.inputs[0] if node.inputs else None
        calibration = None if calibrated is None or on_bpu(node) or is_calibration(node) else calibrated.producer()
        if calibrated is None or calibration is None or not is_calibration(calibration):
            continue
        rule = rules.book.read_by_cpu.decide(OfCpu(calibrated, node), rules.family)
        if rule is None or rule.then is not Calibrate.NO:
            continue
        note(node, rule.id)
        value = given(calibration, 0)
        node.replace_input_with(0, value)
        if not calibrated.uses() and not calibrated.is_graph_output():
            model.graph.remove(calibration, safe=True)
            dropped.add(value)
    return dropped


def _calibrate_before(model: ir.Model, calibration: ir.Node, rule: str, names: Naming) -> None:
    """Let what ``calibration`` reads be calibrated before it, by the function that gives it."""
    value = given(calibration, 0)
    name, producer = str(value.name), value.producer()
    if producer is None:
        return
    own = names.of(NameSite(NamedPart.CALIBRATION, tensor=name))
    attributes = _of_activation(attribute(calibration, "qtype", INT8))
    first = _calibration_node(value, attributes, own, names.of(NameSite(NamedPart.CALIBRATED, tensor=name)))
    model.graph.insert_after(producer, first)
    set_scale_source(first, replace(source_of_function(producer), rules=(rule,)))
    mark(first, MARK_RULE, rule)
    calibration.replace_input_with(0, first.outputs[0])


def _insert(
    before: ir.Node, value: ir.Value, attributes: Attributes, names: Naming, rule: str | None = None
) -> ir.Value:
    """An ``HzCalibration`` of ``value`` in front of ``before``; its output."""
    number, tensor = len(_calibrations(value)), str(value.name)
    calibrated = names.of(NameSite(NamedPart.CALIBRATED, tensor=tensor, number=number))
    node = _calibration_node(
        value, attributes, names.of(NameSite(NamedPart.CALIBRATION, tensor=tensor, number=number)), calibrated
    )
    mark(node, MARK_RULE, rule)
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


def _calibration_node(value: ir.Value, attributes: Attributes, name: str, output: str) -> ir.Node:
    """An ``HzCalibration`` of ``value``, in no graph yet."""
    result = ir.Value(name=output, type=value.type, shape=value.shape)
    return ir.node(CALIBRATION_OP, [value], attributes, domain=HORIZON_DOMAIN, outputs=[result], name=name)


def _calibrate_result(model: ir.Model, site: Result, rules: _Rules) -> None:
    """Calibrate a result that only float consumers read, where the rules do."""
    rule = rules.book.results.decide(site, rules.family)
    if rule is None or rule.then is Calibrate.ALREADY or rule_for(site.chain[0]) is None:
        return
    if rule.then is Calibrate.NO:
        note(site.chain[-1], rule.id)
        return
    _insert_behind(model, site.value, _of_activation(site.requested or INT8), rules.names, rule.id)


def _calibrate_for_cpu(model: ir.Model, rules: _Rules) -> None:
    """Let nodes on the CPU read the calibrated form of what is moved, where the rules calibrate it: at its scale."""
    made: dict[ir.Value, ir.Value] = {}
    for node in tuple(model.graph):
        if on_bpu(node) or is_calibration(node):
            continue
        for index, value in enumerate(node.inputs):
            rule = None if value is None else rules.book.for_cpu.decide(OfCpu(value, node), rules.family)
            first = None if value is None else moved_from(value, keeps_scale).producer()
            if value is None or rule is None or first is None or not is_calibration(first):
                continue
            if value not in made:
                attributes = _of_activation(attribute(first, "qtype", INT8))
                made[value] = _insert(node, value, attributes, rules.names, rule.id)
                calibration, source = made[value].producer(), scale_source(first)
                if calibration is not None:
                    of = source.of or tensor_name(first.inputs[0])
                    set_scale_source(calibration, replace(source, of=of, rules=(*source.rules, rule.id)))
            node.replace_input_with(index, made[value])


def _insert_behind(model: ir.Model, value: ir.Value, attributes: Attributes, names: Naming, rule: str) -> None:
    """Let every reader of ``value``, the graph's outputs too, read its calibrated form."""
    name = str(value.name)
    producer = value.producer()
    if producer is None:
        return
    is_output = value.is_graph_output()
    if is_output:
        value.name = names.of(NameSite(NamedPart.BEFORE, tensor=name))
    calibrated = names.of(NameSite(NamedPart.CALIBRATED, tensor=name, is_output=is_output))
    own = names.of(NameSite(NamedPart.CALIBRATION, tensor=str(value.name)))
    node = _calibration_node(value, attributes, own, calibrated)
    mark(node, MARK_RULE, rule)
    value.replace_all_uses_with(node.outputs[0], replace_graph_outputs=True)
    node.replace_input_with(0, value)
    model.graph.insert_after(producer, node)
