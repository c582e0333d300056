"""The structure of a compiled model: BPU subgraphs and CPU nodes, and what flows between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import onnx_ir as ir

from engine.compile import CompiledModel
from engine.terms import Device


@dataclass(frozen=True)
class Part:
    """A BPU subgraph, or one node that runs on the CPU.

    Attributes:
        name: of the subgraph or node, unique.
        kind: operator type; ``subgraph`` for subgraphs.
        device: where it runs.
    """

    name: str
    kind: str
    device: Device

    @property
    def label(self) -> str:
        """Short text for pictures."""
        return self.name if self.device is Device.BPU else f"{self.kind}: {self.name}"


@dataclass(frozen=True)
class Structure:
    """Parts in running order and edges (source, target) by name."""

    nodes: tuple[Part, ...]
    edges: tuple[tuple[str, str], ...]

    @cached_property
    def levels(self) -> Mapping[str, int]:
        """Longest way from the inputs, by name."""
        levels: dict[str, int] = {}
        for part in self.nodes:
            before = [levels[source] for source, target in self.edges if target == part.name]
            levels[part.name] = 1 + max(before, default=-1)
        return levels

    def places(self) -> dict[str, tuple[float, float]]:
        """Column and row of every part in a picture."""
        used: dict[int, int] = {}
        places = {}
        for part in self.nodes:
            level = self.levels[part.name]
            column = used.get(level, 0)
            used[level] = column + 1
            places[part.name] = (float(column), float(level))
        return places

    def dot(self) -> str:
        """The structure in the language of graphviz."""
        lines = ["digraph model {", "  node [shape=box, style=filled, fontcolor=white];"]
        for part in self.nodes:
            colour = "darkcyan" if part.device is Device.BPU else "gray"
            lines.append(f'  "{_escaped(part.name)}" [label="{_escaped(part.label)}", fillcolor={colour}];')
        lines += [f'  "{_escaped(source)}" -> "{_escaped(target)}";' for source, target in self.edges]
        return "\n".join([*lines, "}", ""])


def structure_of(compiled: CompiledModel) -> Structure:
    """Parts and edges of ``compiled``."""
    part_of: dict[ir.Node, Part] = {}
    subgraphs = iter(compiled.schedules)
    parts: list[Part] = []
    for segment in compiled.segments:
        if segment.device is Device.BPU:
            part = Part(next(subgraphs).name, "subgraph", Device.BPU)
            parts.append(part)
            part_of.update(dict.fromkeys(segment.nodes, part))
        else:
            for node in segment.nodes:
                part_of[node] = Part(str(node.name), node.op_type, Device.CPU)
                parts.append(part_of[node])
    edges: dict[tuple[str, str], None] = {}
    for node, part in part_of.items():
        for value in node.inputs:
            producer = value.producer() if value is not None else None
            source = part_of.get(producer) if producer is not None else None
            if source is not None and source != part:
                edges[source.name, part.name] = None
    return Structure(tuple(parts), tuple(edges))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
