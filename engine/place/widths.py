"""Which tensors are int16: requests spread over tensors that must have one type (reference/operators.md, int16)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

import onnx_ir as ir

from engine.chips import Chip
from engine.errors import ConfigError
from engine.facts.chains import chains, joins
from engine.facts.devices import is_quantised, on_bpu
from engine.facts.moves import is_computed_with, is_exact_sum, is_passive, keeps_scale, moved_from, moved_to
from engine.graph import float_readers
from engine.ops.core.base import Tie
from engine.ops.registry import rule_for
from engine.place.options import INT8, INT16, PlacementOptions, Refusal


def check_types(march: Chip, options: PlacementOptions) -> None:
    wanted = [options.output_type]
    for types in options.node_info.values():
        wanted += [types.input_type, types.output_type, *types.input_types.values()]
    if INT16 in wanted and not march.int16:
        raise ConfigError(f"Unsupported datatype settings for march bernoulli/{march.name}: int16")


def tensor_types(model: ir.Model, march: Chip, options: PlacementOptions) -> tuple[dict[ir.Value, str], list[Refusal]]:
    """Type per activation tensor that is int16, or int8 on request, and requests that fell back to the other type."""
    network = _Network(model, march, options, chains(model, march))
    wanted = _requests(network, INT16)
    for chain, index in _sums(network.chains):
        result = chain[-1].outputs[0]
        inside = {key: None for node in chain[index - 1 : -1] for key in wanted.get(node.outputs[0], ())}
        if inside and result not in wanted:
            granted, _ = _granted(network, wanted)
            if not _reads_int16(chain[0], granted):
                wanted[result] = inside
    return _granted(network, wanted)


class _Network(NamedTuple):
    """What types are decided for."""

    model: ir.Model
    march: Chip
    options: PlacementOptions
    chains: Sequence[list[ir.Node]]


def _sums(chains: Sequence[list[ir.Node]]) -> list[tuple[list[ir.Node], int]]:
    """The chains that join a second tensor, and the place of the first sum in each, in graph order."""
    found = ((chain, next((i for i in range(1, len(chain)) if joins(chain[i])), 0)) for chain in chains)
    return [(chain, index) for chain, index in found if index]


def keeps_sum_apart(chain: Sequence[ir.Node], index: int, types: Mapping[ir.Value, str]) -> bool:
    """Whether the node at ``index`` of ``chain`` is a sum that int16 keeps apart from the head of the chain.

    It does where the head reads int16, or the sum reads it from outside the chain; a result in int16 does not. Asked
    of residual blocks with ``InputType`` of the convolution, the sum, both, and the convolution behind (18 conversions,
    ``tests/parity/wide_sums.py``). A request for a tensor inside the chain is one for its result where the head reads
    int8 (:func:`tensor_types`).
    """
    inside = {value for node in chain for value in node.outputs}
    outside = [value for value in chain[index].inputs if value is not None and value not in inside]
    return joins(chain[index]) and (
        _reads_int16(chain[0], types) or any(types.get(value) == INT16 for value in outside)
    )


def _reads_int16(head: ir.Node, types: Mapping[ir.Value, str]) -> bool:
    rule = rule_for(head)
    read = () if rule is None else (head.inputs[index] for index in rule.activations(head))
    return any(value is not None and types.get(value) == INT16 for value in read)


def _granted(
    network: _Network, wanted: Mapping[ir.Value, Mapping[tuple[str, str], None]]
) -> tuple[dict[ir.Value, str], list[Refusal]]:
    """Types and refusals where ``wanted`` are the requests for int16, per tensor."""
    model, march, options, found = network
    requests = {value: dict(askers) for value, askers in wanted.items()}
    refusals: dict[Refusal, None] = dict.fromkeys(_stay_in_int32(found, requests))
    if options.output_type == INT16:
        for node, value in ((value.producer(), value) for value in model.graph.outputs):
            if node is not None:
                requests.setdefault(value, {})[str(node.name), "set_model_output_int16"] = None
    refusals |= dict.fromkeys(_requantized(requests))
    direct = frozenset(requests)
    narrow = _requests(network, INT8)
    tails = _int16_tails(found, options.output_type) if march.int16 and options.output_type != INT8 else set()
    types: dict[ir.Value, str] = {}
    groups = _tied_groups(model)
    tables = [node for node in model.graph if _needs_wide_input(node)]
    _let_tables_read_int16(tables, groups, requests, tails)
    for group in groups:
        asked = [request for value in group for request in requests.get(value, ())]
        if not asked and (tails.isdisjoint(group) or not narrow.keys().isdisjoint(group)):
            continue
        askers = {name for name, _ in asked}
        lacking = (_no_int16(value, askers, is_asked=value in direct) for value in group)
        obstacle = next((text for text in lacking if text is not None), None)
        if obstacle is None:
            types.update(dict.fromkeys(group, INT16))
        else:
            reason = f"{obstacle}, it will be set back to int8"
            refusals |= dict.fromkeys(Refusal(name, request, reason) for name, request in sorted(set(asked)))
    _take_back_results(tables, groups, types)
    for value, names in narrow.items():
        if types.setdefault(value, INT8) == INT16:
            reason = f"tensor {value.name} is int16 because of its other neighbours"
            refusals |= dict.fromkeys(Refusal(name, request, reason) for name, request in names)
    return types, list(refusals)


def _requests(network: _Network, kind: str) -> dict[ir.Value, dict[tuple[str, str], None]]:
    """Node and request of all that ask for type ``kind``, per tensor; one for a chain's head is one for its result."""
    requests: dict[ir.Value, dict[tuple[str, str], None]] = {}
    results = {chain[0]: _own_result(chain) for chain in network.chains}
    for node in network.model.graph:
        types = network.options.node_info.get(str(node.name))
        rule = rule_for(node)
        if types is None or rule is None or not on_bpu(node):
            continue
        for index in rule.activations(node):
            value = node.inputs[index]
            if value is not None and types.input_types.get(index, types.input_type) == kind:
                requests.setdefault(value, {})[str(node.name), f"InputType{index}: {kind}"] = None
        if types.output_type == kind:
            requests.setdefault(results.get(node, node.outputs[0]), {})[str(node.name), f"OutputType: {kind}"] = None
    return requests


def _stay_in_int32(
    chains: Sequence[list[ir.Node]], requests: dict[ir.Value, dict[tuple[str, str], None]]
) -> list[Refusal]:
    """Take out of ``requests`` those for results that the CPU computes with alone: they stay in int32.

    A convolution in front of a Softmax in ``sknet_c`` shows it (provisional, 1 network); results that are outputs,
    moved or not, are int16 (golden conversion ``i16_matmul``, ``yolov8_nhwc_c``: moved once).
    """
    found = []
    for chain in chains:
        result, head = chain[-1].outputs[0], rule_for(chain[0])
        readers = float_readers(result)
        if head is None or not head.stays_int32(chain[0]) or chain[-1].op_type == "Clip" or not readers:
            continue
        if _is_moved_to_output(result) or any(is_quantised(reader) for reader in readers):
            continue
        reason = "only CPU nodes read its result, which stays int32"
        found += [Refusal(name, request, reason) for name, request in requests.pop(result, ())]
    return found


def _requantized(requests: dict[ir.Value, dict[tuple[str, str], None]]) -> list[Refusal]:
    """Take out of ``requests`` those of nodes without int16 whose tensor is requantised there: others may have it.

    The original keeps all but a Resize in int16 where all of an upsampling branch are asked for it, that one too
    (``int16_concat``, docs/evidence/field.md).
    """
    found = []
    for value, askers in list(requests.items()):
        producer = value.producer()
        sides = [(usage.node, f"input{usage.idx}") for usage in value.uses()]
        sides += [] if producer is None else [(producer, "output")]
        for node, where in sides:
            rule = rule_for(node)
            if rule is None or (node.name, _request_of(where)) not in askers:
                continue
            requantized = rule.requantized_to_int16 if where == "output" else rule.requantized_from_int16
            if requantized and len(askers) > 1:
                del askers[str(node.name), _request_of(where)]
                reason = f"{_lacking(node, where)}, it will be set back to int8"
                found.append(Refusal(str(node.name), _request_of(where), reason))
        if not askers:
            del requests[value]
    return found


def _request_of(where: str) -> str:
    """How a request for int16 at the side ``where`` of a node is named."""
    return "OutputType: int16" if where == "output" else f"InputType{where.removeprefix('input')}: int16"


def _is_moved_to_output(value: ir.Value) -> bool:
    """Whether ``value``, or what movements make of it on either device, is an output of the network."""
    return any(moved.is_graph_output() for moved in moved_to(value, is_passive))


def _int16_tails(chains: Sequence[list[ir.Node]], output_type: str | None) -> set[ir.Value]:
    """Requantised results that only float consumers read: int16 on a march that has it.

    So is what is moved from one (operators.csv: Sigmoid, Mul and Div of two and three dimensions). What is only moved
    from a convolution is its int32 sum, or int8 (there: the Gather of one channel, but not ReduceMax), unless int16 is
    asked of all outputs (``yolov8_decode_c``; provisional, 1 network). What is moved from a tensor that the BPU
    computes with as well is int8, as that is: one part of the uneven Split there is an output.
    Source: reference/operators.md, Partition.
    """
    tails: set[ir.Value] = set()
    heads = {value: rule_for(chain[0]) for chain in chains for value in chain[-1].outputs}
    for chain in chains:
        result, head, last = chain[-1].outputs[0], rule_for(chain[0]), rule_for(chain[-1])
        readers = [reader for value in chain[-1].outputs for reader in float_readers(value)]
        if head is None or last is None or any(is_quantised(reader) for reader in readers):
            continue
        if last.wide_results_of_wide_inputs and not _ends_here(readers):
            continue
        source = moved_from(result, _moves)
        if last.tie(chain[-1]) is Tie.OUTPUT_TAKES_INPUT and (
            _is_computed_with(source) or not _is_given_by_bpu(source)
        ):
            continue
        before = heads.get(moved_from(result, _moves_all))
        is_sum = is_exact_sum(result) or (before is not None and before.int32_output)
        if chain[-1].op_type == "Clip":
            tails |= _clipped_alike(chain[-1])
        elif not head.int32_output and last.int16_outputs and (output_type == INT16 or not is_sum):
            tails.add(result)
    return tails


def _ends_here(readers: Sequence[ir.Node]) -> bool:
    """Whether nothing that follows from ``readers``, which are on the CPU, is quantised."""
    seen = dict.fromkeys(readers)
    for node in (pending := list(seen)):
        following = [reader for value in node.outputs for reader in float_readers(value)]
        if any(map(is_quantised, following)):
            return False
        pending += [reader for reader in following if reader not in seen]
        seen |= dict.fromkeys(following)
    return True


def _moves(node: ir.Node) -> bool:
    """Whether ``node`` moves values on the BPU, or chooses among them."""
    return on_bpu(node) and keeps_scale(node)


def _is_given_by_bpu(value: ir.Value) -> bool:
    """Whether the BPU computes ``value``: what is moved from the CPU or an input at the end is int8."""
    producer = value.producer()
    return producer is not None and on_bpu(producer)


def _moves_all(node: ir.Node) -> bool:
    """Whether ``node`` moves all values on the BPU: it does not choose among them, as a maximum does."""
    rule = rule_for(node)
    return _moves(node) and rule is not None and rule.moves_sums


def _is_computed_with(value: ir.Value) -> bool:
    """Whether a quantised node reads ``value``, or what it is moved to, that does more than move it."""
    return is_computed_with(value, _has_operator, lambda node: is_passive(node) or keeps_scale(node))


def _has_operator(node: ir.Node) -> bool:
    return is_quantised(node) and rule_for(node) is not None


def _clipped_alike(clip: ir.Node) -> set[ir.Value]:
    """Results of ``clip`` and of the Clips that share a constant limit with it.

    Measured on ``convr6``, whose last Clip makes the maps between the convolutions int16 too; without a Clip at the end
    (``irb``, golden ``relu6``) they are int8.
    """
    alike = {usage.node for limit in clip.inputs[1:] if limit is not None for usage in limit.uses()}
    return {node.outputs[0] for node in (clip, *alike) if node.op_type == clip.op_type}


def _own_result(chain: Sequence[ir.Node]) -> ir.Value:
    """What the head of ``chain`` and its activation compute: the result of the chain, or the operand of its sum."""
    alone = [node for node in chain[1:] if not joins(node)]
    last = alone[0] if alone and chain[1] is alone[0] else chain[0]
    return last.outputs[0]


def _tied_groups(model: ir.Model) -> list[list[ir.Value]]:
    """Activation tensors that must have one type, as groups in graph order; one that is free is a group of its own."""
    group_of: dict[ir.Value, set[ir.Value]] = {}
    for node in model.graph:
        rule = rule_for(node)
        activations = [] if rule is None else [node.inputs[index] for index in rule.activations(node)]
        tied = on_bpu(node) and rule is not None and rule.tie(node) is not Tie.NONE and not rule.requantized_from_int16
        positions = () if rule is None else rule.index_outputs
        results = [value for index, value in enumerate(node.outputs) if index not in positions]
        members = [value for value in (*activations, *results) if value is not None]
        for value in members:
            group_of.setdefault(value, {value})
        alike = members if tied else _clipped_alike(node) if node.op_type == "Clip" and on_bpu(node) else ()
        if alike:
            merged = set().union(*(group_of.setdefault(value, {value}) for value in alike))
            group_of.update(dict.fromkeys(merged, merged))
    ordered: dict[int, list[ir.Value]] = {}
    for value, group in group_of.items():
        ordered.setdefault(id(group), []).append(value)
    return list(ordered.values())


def _needs_wide_input(node: ir.Node) -> bool:
    rule = rule_for(node)
    return rule is not None and rule.wide_results_of_wide_inputs and on_bpu(node)


_Groups = Sequence[Sequence[ir.Value]]


def _let_tables_read_int16(
    tables: Sequence[ir.Node],
    groups: _Groups,
    requests: dict[ir.Value, dict[tuple[str, str], None]],
    tails: set[ir.Value],
) -> None:
    """Ask for int16 where a table reads whose result is asked for in it, or is a tail.

    Not the other way round: with an int16 input that a convolution was asked for, 19 tables of ``yolov8_nhwc``,
    ``mobilenet_v3`` and ``activations_a`` have an int8 result.
    """
    group_of = {value: group for group in groups for value in group}
    known = -1
    while known != (known := sum(map(len, requests.values())) + len(tails)):
        for node in tables:
            source, group = node.inputs[0], group_of[node.outputs[0]]
            asked = [request for value in group for request in requests.get(value, ())]
            if source is not None and asked:
                requests.setdefault(source, {}).update(dict.fromkeys(asked))
            elif source is not None and not tails.isdisjoint(group):
                tails.add(source)


def _take_back_results(tables: Sequence[ir.Node], groups: _Groups, types: dict[ir.Value, str]) -> None:
    """Leave results of tables, and what is tied to them, in int8 where their input is."""
    group_of = {value: group for group in groups for value in group}
    known = -1
    while known != (known := len(types)):
        for node in tables:
            if types.get(node.outputs[0]) == INT16 and node.inputs[0] and types.get(node.inputs[0]) != INT16:
                for value in group_of[node.outputs[0]]:
                    types.pop(value, None)


def asked_for_int16(model: ir.Model, march: Chip, options: PlacementOptions) -> frozenset[str]:
    """Names of the tensors that a node which gives or reads them is asked to have in int16."""
    network = _Network(model, march, options, chains(model, march))
    return frozenset(str(value.name) for value in _requests(network, INT16))


def _no_int16(value: ir.Value, askers: Set[str], *, is_asked: bool) -> str | None:
    """Why ``value`` cannot be int16: a neighbour on the BPU has no int16 there.

    Args:
        value: activation tensor.
        askers: names of the nodes that ask for int16; the result of any other may be requantised to it.
        is_asked: whether one asks for this very tensor; else an input may be requantised to int8.
    """
    producer = value.producer()
    sides = [(usage.node, f"input{usage.idx}") for usage in value.uses()]
    sides += [] if producer is None else [(producer, "output")]
    for node, where in sides:
        rule = rule_for(node)
        if not on_bpu(node) or rule is None:
            continue
        if where == "output" and rule.requantized_to_int16 and node.name not in askers:
            continue
        if where != "output" and rule.requantized_from_int16 and not is_asked:
            continue
        if not (rule.int16_outputs if where == "output" else rule.int16_inputs):
            return _lacking(node, where)
    return None


def _lacking(node: ir.Node, where: str) -> str:
    return f"The {where} of Node(name:{node.name}, type:{node.op_type}) does not support data type: int16"
