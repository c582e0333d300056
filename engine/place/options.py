"""What the configuration asks of the placement, and what the placement answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from engine.terms import Compatibility

INT8, INT16 = "int8", "int16"


@dataclass(frozen=True)
class NodeTypes:
    """What ``node_info`` asks of one node.

    Attributes:
        on: ``BPU``, ``CPU`` or ``None`` for the tool's choice.
        input_type: ``int8`` or ``int16`` for all inputs; ``None`` for the default.
        input_types: type per input index, over ``input_type``.
        output_type: type of the output.
        by_name: whether the node is asked by its name, and not as all are.
    """

    on: str | None = None
    input_type: str | None = None
    input_types: Mapping[int, str] = field(default_factory=dict)
    output_type: str | None = None
    by_name: bool = True


@dataclass(frozen=True)
class PlacementOptions:
    """What the configuration asks of the placement.

    Attributes:
        node_info: request per node name.
        run_on_cpu: names of nodes to compute in float.
        run_on_bpu: names of nodes to compute in integers where that is possible.
        output_type: ``int8`` or ``int16`` for all graph outputs; ``None`` for int32 tails.
        without_int16: names of nodes of which int16 would be asked with all others, had their operators any: where they
            run on the BPU, that is refused, and changes nothing.
        compatibility: whether rules of the original that cost accuracy are followed.
    """

    node_info: Mapping[str, NodeTypes] = field(default_factory=dict)
    run_on_cpu: frozenset[str] = frozenset()
    run_on_bpu: frozenset[str] = frozenset()
    output_type: str | None = None
    without_int16: frozenset[str] = frozenset()
    compatibility: Compatibility = Compatibility.ORIGINAL


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
