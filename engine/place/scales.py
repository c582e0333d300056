"""What every threshold follows from: the constraints of :mod:`engine.rulebook.scale`, solved."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import onnx_ir as ir

from engine.chips import Chip
from engine.facts.devices import is_asked_for, is_quantised, refused_late
from engine.facts.moves import first_wanted, is_wanted, moved_from
from engine.graph.scales import OWN, Gate, Gated, ScaleSource, Term, scale_source, set_scale_source
from engine.ir import attribute, before_calibration, constant_of, is_calibration
from engine.ops.core.base import Tie
from engine.ops.core.float_nodes import given
from engine.ops.core.gates import behind_gates
from engine.ops.registry import rule_for
from engine.rulebook.book import BOOK, Book
from engine.rulebook.calibrated import CONVOLUTIONS, INT16
from engine.rulebook.scale import (
    ScaleSite,
    activations,
    is_moving,
    is_placed,
    keeps_threshold,
    tensor_name,
    unasked_gate_of,
)
from engine.rulebook.solve import Scales
from engine.rulebook.width_sites import is_table


def mark_scales(
    model: ir.Model, march: Chip, asked: Collection[str] = (), book: Book = BOOK, twice: Collection[ir.Node] = ()
) -> None:
    """Write on every calibration node what its threshold follows from, where that is not the tensor's own values.

    Args:
        model: with calibration nodes; changed in place.
        march: its BPU.
        asked: names of the tensors of which int16 is asked.
        book: the rules.
        twice: calibrations of what is calibrated by its function before: they have the scale of its values.
    """
    calibrations = {tensor_name(node.inputs[0]): node for node in model.graph if is_calibration(node)}
    family = march.family
    values = {name: before_calibration(node.outputs[0]) for name, node in calibrations.items()}
    waiting = {name for name, value in values.items() if not is_wanted(value)}
    again = {tensor_name(node.inputs[0]) for node in twice}
    first = ScaleSite(model.graph[0], calibrations, asked, waiting=waiting, again=again)
    pinned = {site.result for site in (replace(first, node=node) for node in model.graph) if _is_pinned(site)}
    leads = _leads(model, first, pinned)
    scales = Scales(_computed_with(model), pinned)
    for step in book.scales:
        nodes = list(model.graph)
        for node in reversed(nodes) if step.backwards else nodes:
            if is_calibration(node):
                continue
            site = ScaleSite(node, calibrations, asked, leads, waiting, again)
            rule = step.table.decide(site, family)
            if rule is not None:
                for constraint in list(rule.then(site)):
                    scales.add(constraint, rule.id)
    roots = _calibrated_roots(scales, calibrations)
    sources = {name: _own_source(name, scales, calibrations) for name in calibrations}
    for name, of in scales.measured.items():
        sources[name] = ScaleSource(of=of, rules=scales.rules(name))
    for name, root in roots.items():
        if root != name:
            sources[name] = replace(sources[root], of=sources[root].of or root, rules=scales.rules(name))
    for name, gated in scales.gated.items():
        head = _first_of(scales.root(gated.of), roots, scales)
        if head is None:
            continue
        source = replace(_gated(head, sources[head], gated.gate), rules=(*scales.rules(name), *sources[head].rules))
        for member in (each for each, root in roots.items() if root == name):
            sources[member] = source if member == name else replace(source, of=name, rules=scales.rules(member))
    for name in (each for each in calibrations if each in scales.largest):  # in the order of the graph
        heads = {scales.root(operand): operand for operand in reversed(scales.largest[name])}
        found = {each: heads[head] for head in reversed(heads) if (each := _first_of(head, roots, scales)) is not None}
        terms: tuple[Term, ...] = ()
        for each, operand in found.items():
            terms += _terms_of(each, sources) if pinned.isdisjoint((operand, each)) else (each,)
        for member in (each for each, root in roots.items() if root == name):
            sources[member] = replace(sources[member], largest=terms)
    for name, root in roots.items():
        margin = book.margins.decide(calibrations[name], family) if name == root else None
        if margin is not None:
            fixed = sources[name].fixed
            more = {"margin": margin.then} if fixed is None else {"fixed": margin.then.of(fixed)}
            sources[name] = replace(sources[name], **more, rules=(*sources[name].rules, margin.id))
    for name, source in sources.items():
        set_scale_source(calibrations[name], source)


def source_of_function(node: ir.Node) -> ScaleSource:
    """What the threshold of the result of ``node`` follows from that is the function of that of its input."""
    head = given(node, 0).producer()
    rule = rule_for(node)
    gate = None if rule is None else rule.gate(node)
    if head is None or gate is None or not is_calibration(head):
        return OWN
    return _gated(tensor_name(head.inputs[0]), scale_source(head), gate)


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
            return ScaleSource(fixed=behind_gates((gate,), threshold))
        case Gated(of, gates):
            return ScaleSource(largest=(Gated(of, (*gates, gate)),))
        case tensor:
            return ScaleSource(largest=(Gated(tensor, (gate,)),))


def _calibrated_roots(scales: Scales, calibrations: Mapping[str, ir.Node]) -> dict[str, str]:
    """The calibrated tensor whose scale each has.

    What the CPU computes and only movements read is quantised as each calibrated tensor behind it: two slices of a
    Softmax have two thresholds (5 of 5 asked, on bayes-e and bernoulli2).
    """
    return {name: next(each for each in reversed(scales.path(name)) if each in calibrations) for name in calibrations}


def _first_of(head: str, roots: Mapping[str, str], scales: Scales) -> str | None:
    """The calibrated tensor that has the scale of ``head``; None where none has."""
    if head in roots:
        return head
    return next((root for name, root in roots.items() if scales.root(name) == head), None)


def _threshold_of(name: str, source: ScaleSource) -> Term:
    """The threshold of a tensor where it is fixed or follows from another, else the tensor whose values give it."""
    return source.gated or source.of or name if source.fixed is None else source.fixed


def _terms_of(name: str, sources: Mapping[str, ScaleSource]) -> tuple[Term, ...]:
    """What the threshold of a tensor is the largest of: of several where that of others joined before it is."""
    source = sources[name]
    return (_threshold_of(name, source),) if source.largest is None or source.gated else source.largest


def _is_pinned(site: ScaleSite) -> bool:
    """Whether the threshold of the result follows from that of the input by a function and by nothing that reads it.

    The int8 result of a table that reads int16 has its own (26 of 26 in front of a Resize, 13 functions, bayes-e).
    """
    gate = unasked_gate_of(site)
    return gate is not None or keeps_threshold(site) or _is_narrowed(site)


def _is_narrowed(site: ScaleSite) -> bool:
    """Whether a table makes an int8 tensor of an int16 one."""
    read, given_ = site.calibrations.get(site.source), site.calibrations.get(site.result)
    if read is None or given_ is None or not is_table(site.node):
        return False
    return bool(attribute(read, "qtype") == INT16) and bool(attribute(given_, "qtype") != INT16)


def _leads(model: ir.Model, site: ScaleSite, pinned: Collection[str]) -> dict[str, str]:
    """What is first wanted in integers of each tensor that is only moved, and the name of that tensor."""
    order = {node: index for index, node in enumerate(model.graph)}
    moving = [node for node in model.graph if is_placed(node) and node.inputs[0] is not None]
    heads = dict.fromkeys(moved_from(before_calibration(given(node, 0)), _moves) for node in moving)
    heads = {head: None for head in heads if not _is_padded_of_wanted(head, site)}
    found: dict[str, str] = {}
    for head in heads:
        wanted = first_wanted(head, order)
        if wanted is not None and str(wanted.name) in site.calibrations and not _has_its_own(head, site, pinned):
            found[str(wanted.name)] = str(head.name)
    return found


def _moves(node: ir.Node) -> bool:
    return is_calibration(node) or is_moving(node)


def _is_padded_of_wanted(head: ir.Value, site: ScaleSite) -> bool:
    """Whether a Pad gives ``head``, of what something else wants in integers: windows of EfficientViT (7 asked)."""
    pad = head.producer()
    if pad is None or pad.op_type != "Pad" or not is_placed(pad):
        return False
    source = str(moved_from(before_calibration(given(pad, 0)), _moves).name)
    return source in site.calibrations and source not in site.waiting


def _has_its_own(head: ir.Value, site: ScaleSite, pinned: Collection[str]) -> bool:
    """Whether the threshold of ``head`` is its own, decided, or follows from another."""
    node, calibration = head.producer(), site.calibrations.get(str(head.name))
    if head.is_initializer() or str(head.name) in pinned:
        return True
    if node is not None and calibration is None and not is_quantised(node):
        return True
    if node is None or calibration is None:
        return False
    reads = node.inputs[0]
    by_table = is_table(node) and reads is not None and str(before_calibration(reads).name) in site.calibrations
    is_wide = by_table and attribute(calibration, "qtype") == INT16
    source = scale_source(node)
    return is_wide or (source != OWN and source.fixed is None)


def _computed_with(model: ir.Model) -> set[str]:
    """Tensors that an operator reads which does more than move them; a convolution on the CPU counts (1 drawn) unless
    it is asked for there (3 of 3, on three marches), and what left the BPU late (5 of 5: products, quotients and a sum
    with a number per channel at the end).
    """
    found: set[str] = set()
    for node in model.graph:
        counts = is_placed(node) or refused_late(node) or (node.op_type in CONVOLUTIONS and not is_asked_for(node))
        rule = rule_for(node) if counts else None
        if rule is not None and rule.tie(node) is Tie.NONE:
            found |= set(activations(node, rule))
    return found
