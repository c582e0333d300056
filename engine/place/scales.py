"""What every threshold follows from: the constraints of :mod:`engine.rulebook.scale`, solved."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import onnx_ir as ir

from engine.chips import Chip
from engine.facts.devices import refused_late
from engine.facts.moves import moved_alone
from engine.graph.scales import Gate, Gated, ScaleSource, Term, scale_source, set_scale_source
from engine.ir import constant_of, is_calibration
from engine.ops.core.base import Tie
from engine.ops.registry import rule_for
from engine.rulebook.book import BOOK, Book
from engine.rulebook.scale import MeasuredTensor, ScaleSite, activations, is_placed, tensor_name
from engine.rulebook.solve import Scales

_PERMUTATIONS = ("Reshape", "Transpose")


def mark_scales(model: ir.Model, march: Chip, asked: Collection[str] = (), book: Book = BOOK) -> None:
    """Write on every calibration node what its threshold follows from, where that is not the tensor's own values.

    Args:
        model: with calibration nodes; changed in place.
        march: its BPU.
        asked: names of the tensors of which int16 is asked.
        book: the rules.
    """
    calibrations = {tensor_name(node.inputs[0]): node for node in model.graph if is_calibration(node)}
    family = march.family
    scales = Scales(_computed_with(model))
    gathered = _first_gathered(model)
    for step in book.scales:
        nodes = list(model.graph)
        for node in reversed(nodes) if step.backwards else nodes:
            if is_calibration(node):
                continue
            site = ScaleSite(node, calibrations, asked, gathered)
            rule = step.table.decide(site, family)
            if rule is not None:
                for constraint in list(rule.then(site)):
                    scales.add(constraint, rule.id)
    roots = _calibrated_roots(scales, calibrations)
    sources = {name: _own_source(name, scales, calibrations) for name in calibrations}
    for name, root in roots.items():
        if root != name:
            sources[name] = replace(sources[root], of=root, rules=scales.rules(name))
    for name, root in roots.items():
        last = _moved_last(calibrations[root].inputs[0])
        follows = last in calibrations and last != root and scales.root(last) == scales.root(root)
        measured = MeasuredTensor(calibrations[root], last, follows)
        values, margin = book.values.decide(measured, family), book.margins.decide(measured, family)
        if values is not None:
            sources[name] = replace(sources[name], values=last, rules=(*sources[name].rules, values.id))
        if margin is not None:
            sources[name] = replace(sources[name], factor=margin.then, rules=(*sources[name].rules, margin.id))
    for name, gated in scales.gated.items():
        head = _first_of(scales.root(gated.of), roots, scales)
        if head is None:
            continue
        source = replace(_gated(head, sources[head], gated.gate), rules=(*scales.rules(name), *sources[head].rules))
        for member in (each for each, root in roots.items() if root == name):
            sources[member] = source if member == name else replace(source, of=name, rules=scales.rules(member))
    for name, operands in scales.largest.items():
        heads = dict.fromkeys(scales.root(operand) for operand in operands)
        first = [each for head in heads if (each := _first_of(head, roots, scales)) is not None]
        sources[name] = replace(sources[name], largest=tuple(_threshold_of(each, sources[each]) for each in first))
    for name, source in sources.items():
        set_scale_source(calibrations[name], source)


def _own_source(name: str, scales: Scales, calibrations: Mapping[str, ir.Node]) -> ScaleSource:
    """Source of the scale of a tensor that takes no other's; a constant's threshold is fixed already."""
    calibration = calibrations[name]
    if name not in scales.fixed and constant_of(calibration.inputs[0]) is not None:
        return ScaleSource(fixed=scale_source(calibration).fixed, rules=scale_source(calibration).rules)
    return ScaleSource(fixed=scales.fixed.get(name), rules=scales.rules(name))


def _gated(head: str, source: ScaleSource, gate: Gate) -> ScaleSource:
    """Source of the scale of a tensor whose threshold is ``gate`` of that of ``head``, which ``source`` tells."""
    match _threshold_of(head, source):
        case float(threshold):
            return ScaleSource(fixed=gate(threshold))
        case Gated(of, gates):
            return ScaleSource(largest=(Gated(of, (*gates, gate)),))
        case tensor:
            return ScaleSource(largest=(Gated(tensor, (gate,)),))


def _calibrated_roots(scales: Scales, calibrations: Mapping[str, ir.Node]) -> dict[str, str]:
    """The calibrated tensor whose scale each has.

    What the CPU computes and only movements read is quantised as the first calibrated tensor behind.
    """
    first: dict[str, str] = {}
    found = {}
    for name in calibrations:
        root = scales.root(name)
        found[name] = root if root in calibrations else first.setdefault(root, name)
    return found


def _first_of(head: str, roots: Mapping[str, str], scales: Scales) -> str | None:
    """The calibrated tensor that has the scale of ``head``; None where none has."""
    if head in roots:
        return head
    return next((root for name, root in roots.items() if scales.root(name) == head), None)


def _threshold_of(name: str, source: ScaleSource) -> Term:
    """The threshold of a tensor where it is fixed or follows from another, else the tensor whose values give it."""
    return source.gated or source.values or name if source.fixed is None else source.fixed


def _first_gathered(model: ir.Model) -> dict[str, str]:
    """What the first Gather that left the BPU late makes of each tensor."""
    found: dict[str, str] = {}
    for node in model.graph:
        if node.op_type == "Gather" and refused_late(node):
            found.setdefault(tensor_name(node.inputs[0]), str(node.outputs[0].name))
    return found


def _computed_with(model: ir.Model) -> set[str]:
    """Tensors that an operator reads which does more than move them."""
    found: set[str] = set()
    for node in filter(is_placed, model.graph):
        rule = rule_for(node)
        if rule is not None and rule.tie(node) is Tie.NONE:
            found |= set(activations(node, rule))
    return found


def _moved_last(value: ir.Value | None) -> str:
    """What the last Reshape or Transpose behind ``value`` gives; its own name where nothing moves it whole.

    Those values give the threshold: ``swin`` (products in front of a Reshape to windows, windows in front of a
    Transpose) and ``crnn_gru`` (a Transpose to steps behind a MaxPool) show it.
    """
    if value is None:
        return ""
    first, *moved = moved_alone(value, lambda node: node.op_type in (*_PERMUTATIONS, "MaxPool"))
    names = [str(each.name) for each in moved if (node := each.producer()) is not None and node.op_type != "MaxPool"]
    return names[-1] if names else tensor_name(first)
