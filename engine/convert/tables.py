"""The tables of a conversion that users read: its nodes, its outputs, and ``*_quant_info.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir

from engine.compile import CompiledModel
from engine.compile.partition import CPU_OPS, is_border_copy
from engine.errors import ModelError
from engine.ir import before_calibration, calibration_nodes, calibration_of, read_calibration
from engine.ops.core.base import Tie
from engine.ops.core.reasons import Code, Reason, because, reason_of
from engine.ops.registry import rule_for
from engine.rulebook.doubts import doubt_about
from engine.rulebook.marks import remark, rules_behind
from engine.terms import Device

if TYPE_CHECKING:
    from engine.floats.compare import Distance, ModelComparison


@dataclass(frozen=True)
class NodeRow:
    """One operator of the converted network.

    Attributes:
        node: name.
        on: ``BPU`` or ``CPU``.
        subgraph: number of its BPU subgraph; ``None`` on the CPU.
        type: operator of the quantised graph.
        cosine: similarity of its output in the calibrated to that in the float model, on the first calibration sample;
            ``None`` where there are no data or no such tensor.
        threshold: largest threshold of the first input that it has in the calibrated model, through movements; ``None``
            where that has none, and for what the quantisation adds (changes of scale, padding).
        data_type: type of its first input; ``int16`` for a BPU operator and ``float`` for a CPU one where any input is.
        reason: why it runs on the CPU; ``None`` on the BPU.
        unmeasured: operator and rank that no measured conversion has, so that the node follows the nearest rule; empty
            where one has them.
        quirks: rules of the original that decided what the node computes and that cost accuracy.
        reads: names of the listed nodes whose results it reads, seen through nodes that are not listed.
        rules: ids of the rules of the original that decided the node, and how what it reads is quantised.
    """

    node: str
    on: str
    subgraph: int | None
    type: str
    cosine: float | None
    threshold: float | None
    data_type: str
    reason: Reason | None = None
    unmeasured: str = ""
    quirks: str = ""
    reads: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()

    @property
    def doubt(self) -> str:
        """Why it is not known that the original converts the node so; empty where it is."""
        return doubt_about(self.rules, self.unmeasured)

    @property
    def remarks(self) -> str:
        """What a table says beside the reason."""
        return "; ".join(filter(None, (self.unmeasured, self.quirks)))


@dataclass(frozen=True)
class OutputRow:
    """How far an output of a model is from the float model's."""

    name: str
    distance: Distance


def node_rows(compiled: CompiledModel, calibrated: ir.Model, cosines: Mapping[str, float]) -> tuple[NodeRow, ...]:
    """The node table: the operators of the network in the order of the quantised graph, without copies at borders.

    So has the original's, in 112 of 112 networks, also where parts of several subgraphs alternate.

    Args:
        compiled: the compiled model.
        calibrated: the calibrated model that it was made from.
        cosines: similarity by node and by float tensor.
    """
    origins = {str(node.name): node for node in calibrated.graph}
    reasons = {name: reason_of(node) for name, node in origins.items()}
    quirks = {name: remark(node) for name, node in origins.items()}
    rows = []
    behind: dict[str, tuple[str, ...]] = {}
    on_bpu = [segment for segment in compiled.segments if segment.device is Device.BPU]
    subgraphs = {node: number for number, segment in enumerate(on_bpu) for node in segment.nodes}
    for node in compiled.model.graph:
        name, reads, subgraph = str(node.name), _reads(node, behind), subgraphs.get(node)
        listed = node.op_type not in CPU_OPS and not is_border_copy(node)
        behind[name] = (name,) if listed else reads
        if not listed:
            continue
        rows.append(
            NodeRow(
                node=name,
                on=(Device.CPU if subgraph is None else Device.BPU).value,
                subgraph=subgraph,
                type=node.op_type,
                cosine=cosines.get(name, cosines.get(float_name(node.outputs[0]))),
                threshold=_input_threshold(origins.get(name)),
                data_type=_data_type(node, subgraph is not None),
                reason=None if subgraph is not None else reasons.get(name) or because(Code.ADDED_NODE),
                quirks=quirks.get(name, ""),
                reads=reads,
                rules=rules_behind(origins[name]) if name in origins else (),
            )
        )
    return tuple(rows)


def _input_threshold(node: ir.Node | None) -> float | None:
    """Largest threshold of the first input of ``node`` of a calibrated model, seen through what only moves values."""
    value = None if node is None or not node.inputs else node.inputs[0]
    while value is not None and (producer := value.producer()) is not None:
        calibration = calibration_of(value)
        if calibration is not None:
            return float(calibration.thresholds.max(initial=0))
        rule = rule_for(producer)
        if rule is None or rule.tie(producer) is not Tie.OUTPUT_TAKES_INPUT:
            return None
        value = producer.inputs[0]
    return None


def _reads(node: ir.Node, behind: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Names of what ``node`` reads; ``behind``: by earlier node, the listed nodes that its results come from."""
    producers = [value.producer() for value in node.inputs if value is not None]
    found = [name for producer in producers if producer is not None for name in behind.get(str(producer.name), ())]
    return tuple(dict.fromkeys(found))


def output_rows(distances: Mapping[str, Distance]) -> tuple[OutputRow, ...]:
    """The output table of ``distances`` by name of an output."""
    return tuple(OutputRow(name, distance) for name, distance in distances.items())


def float_name(value: ir.Value) -> str:
    """Name of the float tensor that ``value`` of a quantised graph stands for."""
    return (value.name or "").removesuffix("_quantized").removesuffix("_calibrated")


def quant_info(compiled: CompiledModel, calibrated: ir.Model, rows: tuple[NodeRow, ...]) -> bytes:
    """Per node: type, inputs, outputs, thresholds by tensor, similarity; the ``*_quant_info.json`` file."""
    thresholds = {
        str(before_calibration(node.outputs[0]).name): read_calibration(node).thresholds.tolist()
        for node in calibration_nodes(calibrated)
    }
    nodes = {str(node.name): node for node in compiled.model.graph}
    content = {}
    for row in rows:
        node = nodes[row.node]
        read = [value for value in node.inputs if value is not None and value.const_value is None]
        inputs = [float_name(_behind_copies(value)) for value in read]
        outputs = [float_name(value) for value in node.outputs]
        content[row.node] = {
            "type": row.type,
            "inputs": inputs,
            "outputs": outputs,
            "thresholds": {name: thresholds[name] for name in (*inputs, *outputs) if name in thresholds},
            "cosine_similarity": row.cosine,
        }
    return json.dumps(content, indent=2).encode()


def cosines(optimized: ir.Model, comparison: ModelComparison) -> dict[str, float]:
    """Similarities by name of a node, and by name of the tensor for quantised nodes that have no float node's name."""
    producers = {str(value.name): str(node.name) for node in optimized.graph for value in node.outputs}
    tensors = {tensor: comparison.nodes[node] for tensor, node in producers.items() if node in comparison.nodes}
    return {**tensors, **comparison.nodes}


def _behind_copies(value: ir.Value | None) -> ir.Value:
    """The tensor that ``value`` is, layout changes at borders looked through."""
    if value is None:
        raise ModelError("the first input of a quantised node is missing")
    producer = value.producer()
    return value if producer is None or not is_border_copy(producer) else _behind_copies(producer.inputs[0])


def _data_type(node: ir.Node, on_bpu: bool) -> str:
    """See :class:`NodeRow`; what the node tables behind reference/operators.md show, the int16 slope of a
    PRelu included.
    """
    types = [dtype for value in node.inputs if value is not None and (dtype := _behind_copies(value).dtype) is not None]
    if on_bpu and ir.DataType.INT16 in types:
        return "int16"
    return "float" if not types or (not on_bpu and ir.DataType.FLOAT in types) else types[0].name.lower()
