"""What each node of the float network costs on the BPU: the layers that it became, in a table by cost.

Layers are nodes of the quantised graph. Most have the name of the node that they compute; helpers (changes of scale,
steps of a pooling, parts of a decomposed operator) count for the node whose result they give or serve.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from engine.compile.schedule import Schedule
from engine.ir import MARK_PART_OF
from engine.perf.performance import LayerPerformance, Performance

_SUFFIXES = ("_requantized_output", "_Requantize", "_quantized", "_calibrated")
"""What the conversion adds to the name of a tensor."""


@dataclass(frozen=True)
class NodeCost:
    """One node of the float network on the BPU.

    Attributes:
        node: its name; of a layer that belongs to no node, the layer's own.
        op_type: its operator.
        subgraph: number of the BPU subgraph.
        latency_us: its part of the latency per run.
        loaded_bytes: bytes loaded from DDR per run.
        stored_bytes: bytes stored to DDR per run.
        layers: names of the layers that it became.
    """

    node: str
    op_type: str
    subgraph: int
    latency_us: float
    loaded_bytes: int
    stored_bytes: int
    layers: tuple[str, ...]

    @property
    def ddr_bytes(self) -> int:
        """Bytes over the DDR interface per run."""
        return self.loaded_bytes + self.stored_bytes


def node_costs(
    performance: Performance, schedules: Sequence[Schedule], network: ir.Model, calibrated: ir.Model
) -> tuple[NodeCost, ...]:
    """The costs of all nodes, the costliest first; together they are the latency and the traffic of the model.

    Args:
        performance: the estimate.
        schedules: what it estimates.
        network: the float network whose nodes are wanted.
        calibrated: the calibrated model between the two, which knows decomposed nodes.
    """
    owners = _Owners(network, calibrated)
    found: dict[tuple[int, str], list[LayerPerformance]] = {}
    for number, (subgraph, schedule) in enumerate(zip(performance.subgraphs, schedules, strict=True)):
        for layer, owner in zip(subgraph.layers, owners.of(schedule), strict=True):
            found.setdefault((number, owner), []).append(layer)
    costs = (
        NodeCost(
            node=owner,
            op_type=owners.op_types.get(owner, layers[0].op_type),
            subgraph=number,
            latency_us=sum(layer.latency_us for layer in layers),
            loaded_bytes=sum(layer.loaded_bytes for layer in layers),
            stored_bytes=sum(layer.stored_bytes for layer in layers),
            layers=tuple(layer.name for layer in layers),
        )
        for (number, owner), layers in found.items()
    )
    return tuple(sorted(costs, key=lambda cost: -cost.latency_us))


class _Owners:
    """Which node of the float network a layer belongs to."""

    def __init__(self, network: ir.Model, calibrated: ir.Model) -> None:
        self.op_types: Mapping[str, str] = {str(node.name): node.op_type for node in network.graph}
        self._whole = {
            str(node.name): str(node.metadata_props[MARK_PART_OF])
            for node in calibrated.graph
            if MARK_PART_OF in node.metadata_props
        }
        producers = ((value, node) for node in calibrated.graph for value in node.outputs)
        self._producers = {str(value.name): str(node.name) for value, node in producers}
        self._converted = {str(node.name) for node in calibrated.graph}
        self._longest_first = sorted(self.op_types, key=len, reverse=True)

    def of(self, schedule: Schedule) -> list[str]:
        """The owner of each layer; a helper without one has that of the layer that reads it."""
        found: list[str | None] = [self._own(layer.name, layer.output) for layer in schedule.layers]
        by_input: dict[str, str] = {}
        for position in reversed(range(len(found))):
            layer = schedule.layers[position]
            owner = found[position] or by_input.get(layer.output) or layer.name
            found[position] = owner
            by_input.update(dict.fromkeys(layer.inputs, owner))
        return [owner for owner in found if owner is not None]

    def _own(self, layer: str, output: str) -> str | None:
        """The owner by name, or as the node that computes the tensor that the layer gives.

        What the conversion put before the network (preprocessing) belongs to itself.
        """
        names = (layer, *(self._producers[tensor] for tensor in _stripped(output) if tensor in self._producers))
        for name in names:
            name = self._whole.get(name, name)
            if name in self.op_types:
                return name
        parts = (known for name in names for known in self._longest_first if _is_part(name, known))
        return next(parts, layer if layer in self._converted else None)


def _stripped(tensor: str) -> Iterator[str]:
    """The names that ``tensor`` may have had before the conversion added to them."""
    yield tensor
    for suffix in _SUFFIXES:
        if tensor.endswith(suffix):
            yield from _stripped(tensor.removesuffix(suffix))


def _is_part(name: str, known: str) -> bool:
    """Whether ``name`` is that of a node with something before or after it."""
    return bool(known) and (name.startswith(f"{known}_") or name.endswith(f"_{known}") or f"_{known}_" in name)
