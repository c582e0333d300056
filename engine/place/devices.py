"""BPU or CPU for every node, with the reason for the CPU: the steps of :mod:`engine.rulebook.device`, one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace

import onnx_ir as ir

from engine.chips import Chip
from engine.facts.chains import chains
from engine.facts.devices import on_bpu
from engine.ir import MARK_FLOATS, MARK_LATE, MARK_MARCH, MARK_ON, MARK_RULE, calibration_of, is_calibration, mark
from engine.ops.core.reasons import Code, Reason, because, sentence_of, set_reason
from engine.optimize.pooling import average_in_steps
from engine.place.options import PlacementOptions, Refusal
from engine.rulebook.book import BOOK, Book
from engine.rulebook.device import LEAVING_LAST, OPERATORS, DeviceStep
from engine.rulebook.device_sites import DeviceSite, On, Place
from engine.rulebook.rule import Rule
from engine.terms import Device


@dataclass(frozen=True)
class _Asked:
    """Names of the nodes that are asked for on either device."""

    on_bpu: Set[str]
    on_cpu: Set[str]
    typed: bool
    typed_nodes: Set[str]
    wide_results: Set[str]

    @classmethod
    def of(cls, options: PlacementOptions) -> _Asked:
        typed = {name for name, types in options.node_info.items() if types.input_type or types.output_type}
        wide = {name for name, types in options.node_info.items() if types.output_type == "int16"}
        return cls(wanted_on_bpu(options), asked_on_cpu(options), options.output_type is not None, typed, wide)

    def site(self, node: ir.Node, march: Chip) -> DeviceSite:
        return DeviceSite(node, march, self.on_bpu, self.on_cpu, self.typed, self.typed_nodes, self.wide_results)


def mark_placement(
    model: ir.Model, march: Chip, options: PlacementOptions | None = None, book: Book = BOOK
) -> list[Refusal]:
    """Set the marks ``hz.on``, ``hz.reason`` and ``hz.rule`` on every node of ``model``, in place.

    Args:
        model: an optimised model.
        march: its BPU.
        options: what is asked for.
        book: the rules.

    Returns:
        Requests for the BPU that could not be honoured.
    """
    asked = _Asked.of(options or PlacementOptions())
    nodes = [node for node in model.graph if not is_calibration(node)]
    refused: set[ir.Node] = set()
    for step in book.devices:
        if step.settled:
            refused |= {node for node in nodes if node.op_type not in LEAVING_LAST and _settle(node)}
        for site in _sites(model, march, nodes, step, asked):
            if step.settled and _settle(site.node):
                refused.add(site.node)
            rule = step.table.decide(site, march.family) if step.everywhere or on_bpu(site.node) else None
            if rule is not None and rule.then.on is not On.UNCHANGED:
                _set(site, rule, settled=step.settled)
        if step.everywhere:
            refused = {node for node in nodes if not on_bpu(node)}
    found = [node for node in nodes if node in refused and str(node.name) in asked.on_bpu]
    return [Refusal(str(node.name), "ON: BPU", sentence_of(node)) for node in found]


def place_recorded(calibrated: ir.Model, march: Chip) -> None:
    """Set the marks that ``calibrated`` lacks where the original wrote it, in place: a file of ours has them.

    A GlobalAveragePool that the original quantised for a march that averages by convolutions is taken in steps.
    """
    if MARK_MARCH in calibrated.metadata_props:
        return
    if march.graph.global_pooling_as_conv:
        for node in calibrated.graph:
            if node.op_type == "GlobalAveragePool" and calibration_of(node.inputs[0]) is not None:
                average_in_steps(node)
    mark_placement(calibrated, march)


def wanted_on_bpu(options: PlacementOptions) -> set[str]:
    """Names of the nodes that the configuration sends to the BPU."""
    return {name for name, types in options.node_info.items() if types.on == Device.BPU} | set(options.run_on_bpu)


def asked_on_cpu(options: PlacementOptions) -> set[str]:
    """Names of the nodes that the configuration sends to the CPU."""
    return {name for name, types in options.node_info.items() if types.on == Device.CPU} | set(options.run_on_cpu)


def reason_for_cpu(node: ir.Node, march: Chip, options: PlacementOptions, on_request: bool) -> Reason | None:
    """Why ``node`` itself runs on the CPU; ``None`` for the BPU.

    Args:
        node: of an optimised model.
        march: its BPU.
        options: what is asked for.
        on_request: whether the node is asked for on the BPU.
    """
    if str(node.name) in asked_on_cpu(options):
        return because(Code.ASKED_FOR)
    site = DeviceSite(node, march, {str(node.name)} if on_request else frozenset())
    rule = OPERATORS.decide(site, march.family)
    return None if rule is None else rule.then.reason(site)


def _sites(model: ir.Model, march: Chip, nodes: list[ir.Node], step: DeviceStep, asked: _Asked) -> Iterator[DeviceSite]:
    """The nodes in the order of ``step``, with what its rules may know; chains are those that it begins with."""
    found = chains(model, march) if step.chains else []
    heads: Mapping[ir.Value, ir.Node] = {value: chain[0] for chain in found for value in chain[-1].outputs}
    for node in reversed(nodes) if step.backwards else nodes:
        yield replace(asked.site(node, march), heads=heads)


def _settle(node: ir.Node) -> bool:
    """Let ``node`` leave the BPU if it is refused late; whether it does."""
    leaves = on_bpu(node) and MARK_LATE in node.metadata_props
    if leaves:
        mark(node, MARK_ON, Device.CPU)
    return leaves


def _set(site: DeviceSite, rule: Rule[DeviceSite, Place], *, settled: bool) -> None:
    """Let the node of ``site`` be where ``rule`` says; what is refused late stays on the BPU until that is settled."""
    place, late = rule.then, rule.then.on is On.LATE
    mark(site.node, MARK_ON, Device.CPU if place.on is On.CPU or (late and settled) else Device.BPU)
    mark(site.node, MARK_LATE, "1" if late else None)
    mark(site.node, MARK_FLOATS, "1" if place.on is On.FLOATS else None)
    mark(site.node, MARK_RULE, rule.id)
    set_reason(site.node, place.reason(site))
