"""Which tensors are int16: requests and ends by :mod:`engine.rulebook.width`, spread over tensors of one type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

import onnx_ir as ir

from engine.chips import Chip
from engine.errors import ConfigError
from engine.facts.chains import chains, joins
from engine.facts.devices import is_quantised, on_bpu
from engine.facts.moves import is_exact_sum, joined_with, keeps_scale, moved_from
from engine.graph import float_readers, sole_reader
from engine.ir import MARK_SUMMAND, mark
from engine.ops.registry import rule_for
from engine.place.options import INT8, INT16, NodeTypes, PlacementOptions, Refusal
from engine.rulebook.book import BOOK, Book
from engine.rulebook.width_ends import ASKED_ON_BPU
from engine.rulebook.width_requests import IGNORED, Narrowing, lacking, neighbours_of, refused_int8, refused_int16
from engine.rulebook.width_sites import (
    Chained,
    Width,
    is_accumulator_at_end,
    is_moved_in_int8,
    is_read_by_floats,
    is_table,
    joins_operands,
)
from engine.rulebook.width_ties import TableNode, TiedTensors, Tying, clipped_alike, members_of
from engine.terms import Device

Requests = dict[ir.Value, dict[tuple[str, str], None]]
"""Name of the node and how it asks for a type, per tensor."""
Decided = dict[ir.Value, dict[str, None]]
"""Ids of the rules that decided the type of a tensor, in order."""


class Widths(NamedTuple):
    """Types of tensors, and why they are so.

    Attributes:
        types: per activation tensor that is int16, or int8 on request.
        refusals: requests that fell back to the other type.
        rules: ids of the rules that decided, per tensor.
        asked: names of the tensors that a node which gives or reads them, but no Conv or MatMul that gives them, is
            asked by name to have in int16, and of the operands of a Concat of which a type is asked by name.
    """

    types: Mapping[ir.Value, str]
    refusals: Sequence[Refusal]
    rules: Mapping[ir.Value, Iterable[str]]
    asked: frozenset[str]


def check_types(march: Chip, options: PlacementOptions) -> None:
    wanted = [options.output_type]
    for types in options.node_info.values():
        wanted += [types.input_type, types.output_type, *types.input_types.values()]
    if INT16 in wanted and not march.int16:
        raise ConfigError(f"Unsupported datatype settings for march bernoulli/{march.name}: int16")


def tensor_types(model: ir.Model, march: Chip, options: PlacementOptions, book: Book = BOOK) -> Widths:
    """The types of the activation tensors of ``model``, whose nodes have their devices; sums are marked."""
    found = chains(model, march)
    network = _Network(model, march, options, found, found, book)
    if _let_asked_take_sums(network):
        found = chains(model, march)
        network = network._replace(chains=found, computed=found)
    widths = _types(network)
    apart = list(_with_activations_apart(network, widths.types))
    return widths if apart == list(found) else _types(network._replace(computed=apart))


def _let_asked_take_sums(network: _Network) -> bool:
    """Let the first operand of which int16 is asked compute a sum of two convolutions; whether any does that now.

    24 sums, of which operands and results were asked in every way, behind a Tanh and a convolution.
    """
    given_by = {chain[-1].outputs[0]: chain for chain in network.chains}
    taken = {node: chain for chain in network.chains for node in chain[1:] if joins(node)}
    first: dict[ir.Node, ir.Value] = {}
    for value in _requests(network, INT16, {}):
        consumer = sole_reader(value)
        if consumer is not None and consumer in taken:
            first.setdefault(consumer, value)
    found = False
    for node, value in first.items():
        chain = given_by.get(value)
        rule = None if chain is None else rule_for(chain[0])
        if chain is not None and rule is not None and rule.absorbs(chain, node, network.march):
            mark(node, MARK_SUMMAND, str(list(node.inputs).index(value)))
            found = True
    return found


def _with_activations_apart(network: _Network, types: Mapping[ir.Value, str]) -> Iterator[list[ir.Node]]:
    """The chains, those whose sum is computed apart cut around it if an activation follows, which is a table then.

    So int16 that is asked of what that reads is asked of the sum (the last block of a ResNet: 2 of 2).
    """
    sums = {id(chain): index for chain, index in _sums(network.chains)}
    for chain in network.chains:
        index = sums.get(id(chain), 0)
        rule = None
        if 0 < index < len(chain) - 1:
            rule = network.book.widths.sums.decide(Chained(chain, index, types), network.march.family)
        yield from [chain] if rule is None else [chain[:index], [chain[index]], chain[index + 1 :]]


def _types(network: _Network) -> Widths:
    """The types with the chains of ``network``."""
    model, march, options, book = network.model, network.march, network.options, network.book
    decided: Decided = {}
    wanted = _requests(network, INT16, decided)
    named = {name: types for name, types in options.node_info.items() if types.by_name}
    typed = {name for name, types in named.items() if types.input_type or types.output_type}
    joined = [node for node in model.graph if str(node.name) in typed and joins_operands(node)]
    multiplied = (each for each in network.chains if each[0].op_type in _MULTIPLIED and not any(map(joins, each)))
    own = {value: chain for chain in multiplied for value in chain[-1].outputs}
    by_name = [
        value
        for value, askers in wanted.items()
        if not named.keys() & {name for name, _ in askers} <= {str(node.name) for node in own.get(value, ())}
    ]
    asked = frozenset(str(v.name) for v in (*by_name, *(v for node in joined for v in node.inputs if v is not None)))
    inside = {
        node.outputs[0]: (chain, index)
        for chain, index in _sums(network.chains)
        for node in chain[index - 1 : -1]
        if chain[-1].outputs[0] not in wanted
    }
    told: Requests = {}
    for value, keys in wanted.items():
        if value in inside:
            site = Chained(*inside[value], _granted(network, told, {}).types)
            rule = book.widths.of_sums.decide(site, march.family)
            if rule is not None:
                told.setdefault(rule.then(site), {}).update(keys)
                _note(decided, rule.then(site), rule.id)
        told.setdefault(value, {}).update(keys)
    return _granted(network, told, decided)._replace(asked=asked)


class _Network(NamedTuple):
    """What types are decided for, and by which rules; ``computed``: the chains without sums that are apart."""

    model: ir.Model
    march: Chip
    options: PlacementOptions
    chains: Sequence[list[ir.Node]]
    computed: Sequence[list[ir.Node]]
    book: Book

    @property
    def heads(self) -> dict[ir.Value, ir.Node]:
        """The first node of the chain that gives a tensor."""
        return {value: chain[0] for chain in self.computed for value in chain[-1].outputs}


_MULTIPLIED = ("Conv", "MatMul")
"""Operators whose result takes the scale of a Concat also where int16 is asked of them (36 branches with ``max`` and
``kl``, 4 of MatMuls; not of sums, products, ConvTransposes, MaxPools and functions, 18)."""


def _note(decided: Decided, value: ir.Value, *rules: str) -> None:
    decided.setdefault(value, {}).update(dict.fromkeys(rules))


def _sums(found: Sequence[list[ir.Node]]) -> list[tuple[list[ir.Node], int]]:
    """The chains that join a second tensor, and the place of the first sum in each, in graph order."""
    first = ((chain, next((i for i in range(1, len(chain)) if joins(chain[i])), 0)) for chain in found)
    return [(chain, index) for chain, index in first if index]


def _requests(network: _Network, kind: str, decided: Decided) -> Requests:
    """All requests for type ``kind``, of nodes on the CPU too that are not sent there by name.

    So a convolution of one dimension on the CPU has int16 tensors beside it (21 of 25 branches on bayes-e with
    ``node_info``, 15 with ``set_Conv_input_int16``, 15 with ``set_all_nodes_int16`` on bayes), but for a mean over the
    map that it reads as an int32 sum.
    """
    requests: Requests = {}
    inside = {
        node.outputs[0]: Chained(chain, index) for chain in network.computed for index, node in enumerate(chain[:-1])
    }
    for node in network.model.graph:
        types = network.options.node_info.get(str(node.name))
        rule = rule_for(node)
        if types is None or rule is None or _is_sent_to_cpu(node, types, network.options):
            continue
        for index in rule.activations(node):
            value = node.inputs[index]
            if value is None or (not on_bpu(node) and is_exact_sum(value)):
                continue
            if types.input_types.get(index, types.input_type) == kind:
                meant = _meant(value, inside, network, decided)
                requests.setdefault(meant, {})[str(node.name), f"InputType{index}: {kind}"] = None
        if types.output_type == kind:
            meant = _meant(_with_activation(node, network.march), inside, network, decided)
            requests.setdefault(meant, {})[str(node.name), f"OutputType: {kind}"] = None
    return requests


def _is_sent_to_cpu(node: ir.Node, types: NodeTypes, options: PlacementOptions) -> bool:
    """Whether the configuration sends ``node`` to the CPU, where types that are asked of it are not known to hold."""
    return not on_bpu(node) and (types.on == Device.CPU or str(node.name) in options.run_on_cpu)


def _with_activation(node: ir.Node, march: Chip) -> ir.Value:
    """What ``node`` gives; on the CPU what the activation does that would be one with it (9 of 9 on bayes-e)."""
    value, rule = node.outputs[0], rule_for(node)
    readers = float_readers(value)
    if on_bpu(node) or rule is None or len(readers) != 1 or joins(readers[0]):
        return value
    return readers[0].outputs[0] if rule.absorbs([node], readers[0], march) else value


def _meant(value: ir.Value, inside: Mapping[ir.Value, Chained], network: _Network, decided: Decided) -> ir.Value:
    """The tensor that is asked for where ``value`` is; ``inside``: tensors within chains."""
    while (site := inside.get(value)) is not None:
        rule = network.book.widths.of_heads.decide(site, network.march.family)
        if rule is None:
            break
        value = rule.then(site)
        _note(decided, value, rule.id)
    return value


_Narrowed = dict[ir.Value, dict[tuple[str, str], Narrowing]]
"""Requests for int8, and what becomes of each."""


def _narrowed(network: _Network, decided: Decided) -> _Narrowed:
    """All requests for int8."""
    found: _Narrowed = {}
    sites = {str(node.name): Chained(chain) for chain in network.chains for node in chain}
    for value, askers in _requests(network, INT8, decided).items():
        for request in askers:
            site = sites.get(request[0])  # none of a node that the BPU does not compute
            rule = None if site is None else network.book.widths.narrow.decide(site, network.march.family)
            if rule is not None:
                found.setdefault(value, {})[request] = rule.then
                _note(decided, value, rule.id)
    return found


def _with_their_type(groups: _Groups, values: Set[ir.Value]) -> set[ir.Value]:
    """``values``, and all that must have their type."""
    return {value for group in groups if not values.isdisjoint(group) for value in group}


def _granted(network: _Network, wanted: Mapping[ir.Value, Mapping[tuple[str, str], None]], before: Decided) -> Widths:
    """What becomes of the requests ``wanted`` for int16, and of the ends."""
    rules, family = network.book.widths, network.march.family
    decided = {value: dict(each) for value, each in before.items()}
    requests = {value: dict(askers) for value, askers in wanted.items()}
    refusals = dict.fromkeys(_refused_alone(network, requests, decided))
    narrowed = _narrowed(network, decided)
    refusals |= dict.fromkeys(_refused_for_others(network, requests, decided))
    refused, because_of = _refused_directly(network, requests, decided)
    refusals |= because_of
    refused |= wanted.keys() - requests.keys()
    groups, ties = _tied_groups(network, refused, narrowed)
    firm = _with_their_type(groups, {value for value, asked in narrowed.items() if Narrowing.FIRM in asked.values()})
    for value in [value for value in requests if value in firm]:
        refusals |= dict.fromkeys(Refusal(*request, refused_int16(value)) for request in requests.pop(value))
    kept = {value for value, asked in narrowed.items() if set(asked.values()) != {Narrowing.NOTHING}}
    asked_int8 = _with_their_type(groups, kept)
    ends, other_ends = _ends(network, asked_int8)
    _ask_outputs(network, requests, other_ends.keys())
    refusals |= dict.fromkeys(_refused_for_others(network, requests, decided))
    _let_tables_read_int16(network, groups, requests, ends, asked_int8)
    refusals |= _refused_directly(network, requests, decided)[1]
    for value in _refused_directly(network, {value: {} for value in ends}, decided)[0]:
        del ends[value]
    types: dict[ir.Value, str] = {}
    for group in groups:
        asked = [request for value in group for request in requests.get(value, ())]
        at_end = [ends[value] for value in group if value in ends]
        rectified = [value for value in group if _is_rectified_for_int8(network, value)]
        rule = rules.groups.decide(TiedTensors(bool(asked), bool(at_end), bool(rectified)), family)
        if rule is None:
            continue
        because = [rule.id] if asked else [*at_end, rule.id]
        because += dict.fromkeys(ties[value] for value in group if value in ties and len(group) > 1)
        is_held = rule.then is Width.INT8 or any(value in refused and is_moved_in_int8(value) for value in group)
        width = INT8 if is_held else INT16
        if rule.then is Width.INT8:
            refusals |= dict.fromkeys(Refusal(*request, refused_int16(rectified[0])) for request in asked)
        types |= dict.fromkeys(group if width == INT16 else (), INT16)
        for value in group:
            _note(decided, value, *because)
    _follow(network, groups, types, wanted.keys() - firm, decided)
    _end_sums_apart(network, types, asked_int8, decided)
    in_int32 = {chain[-1].outputs[0] for chain in network.chains if is_accumulator_at_end(chain)}
    for value, each in narrowed.items():
        if types.get(value) == INT16:
            refusals |= dict.fromkeys(Refusal(*request, refused_int8(value)) for request in each)
        elif value in kept:
            types[value] = INT8
        elif value in in_int32:
            refusals |= dict.fromkeys(Refusal(*request, IGNORED) for request in each)
    for value, left in other_ends.items():
        if value not in types:
            _note(decided, value, left)
            if left == ASKED_ON_BPU and is_exact_sum(value):
                types[moved_from(value, lambda node: on_bpu(node) and keeps_scale(node))] = INT8
    return Widths(types, list(refusals), decided, frozenset())


def _refused_alone(network: _Network, requests: Requests, decided: Decided) -> list[Refusal]:
    """Take out of ``requests`` those for results that are refused at once."""
    found = []
    for chain in network.chains:
        site = Chained(chain, output_type=network.options.output_type)
        rule = None
        if site.result in requests:
            rule = network.book.widths.cpu_alone.decide(site, network.march.family)
        if rule is not None:
            _note(decided, site.result, rule.id)
            found += [Refusal(*request, rule.then) for request in requests.pop(site.result)]
    return found


def _ask_outputs(network: _Network, requests: Requests, left: Set[ir.Value]) -> None:
    """Let outputs that the rules make int16 be asked for, where all are, so that it is told where one has no int16."""
    for value in network.model.graph.outputs if network.options.output_type == INT16 else ():
        producer = value.producer()
        if producer is not None and value not in left and not any(map(is_quantised, float_readers(value))):
            requests.setdefault(value, {})[str(producer.name), f"set_model_output_{INT16}"] = None


def _refused_for_others(network: _Network, requests: Requests, decided: Decided) -> list[Refusal]:
    """Take out of ``requests`` those that are refused where others for the same tensor stay."""
    found = []
    for value, askers in list(requests.items()):
        for side in neighbours_of(value, tuple(askers), network.heads):
            rule = network.book.widths.requests.decide(side, network.march.family)
            for request in [own for own in side.own if rule is not None and own in askers]:
                del askers[request]
                found.append(Refusal(*request, lacking(side)))
            if rule is not None:
                _note(decided, value, rule.id)
                if side.gives and is_moved_in_int8(value):
                    found += [Refusal(*request, lacking(side)) for request in sorted(askers)]
                    askers.clear()
        if not askers:
            del requests[value]
    return found


def _refused_directly(
    network: _Network, requests: Requests, decided: Decided
) -> tuple[set[ir.Value], dict[Refusal, None]]:
    """Take out of ``requests`` the tensors that cannot be int16, and say why."""
    found: set[ir.Value] = set()
    refusals: dict[Refusal, None] = {}
    for value, askers in list(requests.items()):
        for side in neighbours_of(value, askers, network.heads):
            rule = network.book.widths.sides.decide(side, network.march.family)
            if rule is None:
                continue
            _note(decided, value, rule.id)
            if rule.then is Width.INT8:
                refusals |= dict.fromkeys(Refusal(*request, lacking(side)) for request in sorted(requests.pop(value)))
                found.add(value)
                break
    return found, refusals


def _follow(
    network: _Network,
    groups: _Groups,
    types: dict[ir.Value, str],
    asked: Set[ir.Value],
    decided: Decided,
) -> None:
    """Let what has the type of what it is made of be int16 where that is, or is asked to be."""
    group_of = {value: group for group in groups for value in group}
    for node in network.model.graph:
        rule = network.book.widths.following.decide(Tying(node, heads=network.heads), network.march.family)
        source = node.inputs[0] if node.inputs else None
        if rule is None or source is None:
            continue
        sources = [source, *_joined_on_cpu(source)]
        is_left = not on_bpu(node) and source in asked  # an int32 that the CPU reads
        if rule.then is Width.IF_READ and _has_reader_without_int16(network, node.outputs[0]):
            continue
        if is_left or any(types.get(each) == INT16 for each in sources):
            for value in group_of.get(node.outputs[0], node.outputs):
                types[value] = INT16
                _note(decided, value, rule.id)


def _joined_on_cpu(value: ir.Value) -> Iterator[ir.Value]:
    """What the CPU joins to ``value``: any of it in int16 counts (11 of 11 means on bayes-e and bayes)."""
    producer = value.producer()
    if producer is not None and joins_operands(producer) and not is_quantised(producer):
        yield from (each for each in producer.inputs if each is not None)


def _is_rectified_for_int8(network: _Network, value: ir.Value) -> bool:
    """Whether a PRelu on the BPU gives ``value`` to an operator without int16 (6 of 6 on bayes-e and bayes)."""
    producer = value.producer()
    is_rectified = producer is not None and producer.op_type == "PRelu" and on_bpu(producer)
    return is_rectified and _has_reader_without_int16(network, value)


def _has_reader_without_int16(network: _Network, value: ir.Value) -> bool:
    sides = [side for side in neighbours_of(value, (), network.heads) if not side.gives]
    found = [network.book.widths.sides.decide(side, network.march.family) for side in sides]
    return any(rule is not None and rule.then is Width.INT8 for rule in found)


def _end_sums_apart(network: _Network, types: dict[ir.Value, str], asked_int8: Set[ir.Value], decided: Decided) -> None:
    """Let sums that are computed apart from their convolution be int16 at the end, as other results are."""
    for chain, index in _sums(network.chains):
        apart = network.book.widths.sums.decide(Chained(chain, index, types), network.march.family)
        if apart is None or not is_read_by_floats(chain):
            continue
        site = Chained(chain[index:], output_type=network.options.output_type, asked_int8=asked_int8)
        rule = network.book.widths.tails.decide(site, network.march.family)
        if rule is not None and rule.then is not Width.LEFT:
            types[site.result] = INT16
            _note(decided, site.result, rule.id)


def _ends(network: _Network, asked_int8: Set[ir.Value]) -> tuple[dict[ir.Value, str], dict[ir.Value, str]]:
    """Results that nothing quantised reads and that are int16, and those that are not, with the rule that says so."""
    heads = {value: chain[0] for chain in network.chains for value in chain[-1].outputs}
    wide: dict[ir.Value, str] = {}
    left: dict[ir.Value, str] = {}
    asked_on_bpu = _asked_on_bpu(network.options)
    for chain in filter(is_read_by_floats, network.chains):
        site = Chained(
            chain,
            output_type=network.options.output_type,
            heads=heads,
            asked_int8=asked_int8,
            asked_on_bpu=asked_on_bpu,
            follows_int16=bool(wide) and not wide.keys().isdisjoint(joined_with(chain[-1].outputs[0])),
        )
        rule = network.book.widths.tails.decide(site, network.march.family)
        if rule is not None and rule.then is Width.LEFT:
            left[site.result] = rule.id
        elif rule is not None:
            wide |= dict.fromkeys(clipped_alike(chain[-1]) if rule.then is Width.ALIKE else [site.result], rule.id)
    return wide, left


def _asked_on_bpu(options: PlacementOptions) -> frozenset[str]:
    """Names of the nodes that are asked for on the BPU and of whose results no type is asked."""
    typed = {name for name, types in options.node_info.items() if types.output_type is not None}
    named = {name for name, types in options.node_info.items() if types.on == Device.BPU}
    return frozenset(named.union(options.run_on_bpu) - typed)


_Groups = Sequence[Sequence[ir.Value]]
_Asking = Mapping[ir.Value, Mapping[tuple[str, str], object]]


def _tied_groups(network: _Network, refused: Set[ir.Value], narrow: _Asking) -> tuple[_Groups, dict[ir.Value, str]]:
    """Activation tensors that must have one type, as groups in graph order, and the rule that ties each to others.

    One that is free is a group of its own. ``refused``: what int16 is refused to; ``narrow``: the requests for int8.
    """
    asked_int8 = {name for askers in narrow.values() for name, _ in askers}
    heads = network.heads
    group_of: dict[ir.Value, set[ir.Value]] = {}
    ties: dict[ir.Value, str] = {}
    for node in network.model.graph:
        site = Tying(node, refused, asked_int8, heads)
        for value in members_of(site):
            group_of.setdefault(value, {value})
        rule = network.book.widths.ties.decide(site, network.march.family)
        if rule is not None:
            tied = list(rule.then(site))
            ties |= dict.fromkeys(tied, rule.id)
            merged = set().union(*(group_of.setdefault(value, {value}) for value in tied))
            group_of.update(dict.fromkeys(merged, merged))
    ordered: dict[int, list[ir.Value]] = {}
    for value, group in group_of.items():
        ordered.setdefault(id(group), []).append(value)
    return list(ordered.values()), ties


def _let_tables_read_int16(
    network: _Network, groups: _Groups, requests: Requests, ends: dict[ir.Value, str], asked_int8: Set[ir.Value]
) -> None:
    """Ask for int16 where a table reads whose result is asked for in it, or is one at the end."""
    group_of = {value: group for group in groups for value in group}
    tables = [node for node in network.model.graph if is_table(node) and on_bpu(node)]
    known = -1
    while known != (known := sum(map(len, requests.values())) + len(ends)):
        for node in tables:
            source, group = node.inputs[0], group_of[node.outputs[0]]
            asked = [request for value in group for request in requests.get(value, ())]
            site = TableNode(bool(asked) or not ends.keys().isdisjoint(group), source in asked_int8)
            rule = network.book.widths.table_inputs.decide(site, network.march.family)
            if source is not None and rule is not None:
                if asked:
                    requests.setdefault(source, {}).update(dict.fromkeys(asked))
                else:
                    ends.setdefault(source, rule.id)
