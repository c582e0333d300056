"""Models that ptqlab converts and the original refuses; the shipped file is built with the original."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import onnx_ir as ir

from engine.chips import HB_COMPILE_MARCHES
from engine.errors import UnsupportedError
from engine.frontend.versions import file_versions
from engine.ir import attribute, constant_of, shape_of
from engine.simulate.tensors import graph_inputs

logger = logging.getLogger("engine.convert")


@dataclass(frozen=True)
class OriginalTool:
    """What a command of the original takes.

    Attributes:
        name: the command.
        opsets: lowest and highest version of ONNX's own operators.
        ir_versions: lowest and highest version of the file format.
        outputs: most outputs of a model that its documents allow; ``None`` where they name no limit.
        one_sample: whether its documents ask for a first dimension of 1 of every input.
        integer_similarity: what its documents call the similarity of the integer to the float model.
        moves_norms: whether it fails where a BatchNormalization that it moves lacks :data:`MOVED_ATTRIBUTES`.
        joins_roots: whether it fails where others read what it makes part of a reciprocal root.
    """

    name: str
    opsets: tuple[int, int]
    ir_versions: tuple[int, int]
    outputs: int | None
    one_sample: bool
    integer_similarity: str = "Cosine Similarity"
    moves_norms: bool = False
    joins_roots: bool = False


MOVED_ATTRIBUTES = ("epsilon", "momentum")
"""What a BatchNormalization must state for itself where hb_mapper moves it; elsewhere the defaults serve."""
HB_MAPPER = OriginalTool("hb_mapper", (9, 11), (5, 9), outputs=32, one_sample=True, moves_norms=True, joins_roots=True)
"""Versions as measured; the measured tool takes a model of 33 outputs (reference/calibration.md 6), and inputs of other
than four dimensions (one network, three conversions), against its documents."""
HB_COMPILE = OriginalTool(
    "hb_compile", (10, 19), (1, 9), outputs=None, one_sample=False, integer_similarity="Quantized Cosine"
)
"""As the documents of the S100 say; nothing was measured."""


def original_tool(march: str) -> OriginalTool:
    """The command of the original that converts for ``march``."""
    return HB_COMPILE if march in list(HB_COMPILE_MARCHES) else HB_MAPPER


def refused_by(tool: OriginalTool, source: ir.Model) -> tuple[str, ...]:
    """Why ``tool`` refuses an ONNX model that was read, a sentence per reason; empty where none is known."""
    opset, ir_version = file_versions(source)
    versions = (("opset version", opset, tool.opsets), ("ir version", ir_version, tool.ir_versions))
    reasons = [
        f"{what} of the model is {version}; {lowest} to {highest} are supported"
        for what, version, (lowest, highest) in versions
        if not lowest <= version <= highest
    ]
    for node in source.graph if tool.moves_norms else ():
        missing = [name for name in MOVED_ATTRIBUTES if name not in node.attributes]
        if missing and _is_moved_norm(node):
            reasons.append(
                f"node {node.name}: a BatchNormalization behind a Concat of convolutions must state "
                f"{' and '.join(missing)} in the file"
            )
    for node in source.graph if tool.joins_roots else ():
        shared = _shared_part_of_root(node)
        if shared is not None:
            reasons.append(
                f"node {node.name}: a root that divides must be read by that division alone, and so must what is "
                f"added to it; others read {shared.name} or it is an output. Compute it twice, by nodes of its own each"
            )
    return tuple(reasons)


_ROOTS = frozenset({"Sqrt", "ReduceL2"})


def _shared_part_of_root(node: ir.Node) -> ir.Value | None:
    """What others read of a root that the original makes one operator of with the reciprocal behind it.

    It takes the Sqrt, that of a ReduceL2 too, and one number that is added in front of it or behind, and fails where
    anything else reads the root or that sum, or one of them is an output (58 networks asked, 28 of which it refuses;
    x / s * s of time series is one). A Sub, a sum with several numbers or a Relu keeps them apart.
    """
    if node.op_type not in _ROOTS:
        return None
    root = node.outputs[0]
    behind = [
        total for reader, _ in root.uses() if (total := _sum_with_one(reader, root)) is not None and _divides(total)
    ]
    source = node.inputs[0] if node.op_type == "Sqrt" else None
    maker = source.producer() if source is not None else None
    if behind:
        parts = [root, *behind]
    elif not _divides(root):
        parts = []
    elif source is None or maker is None or maker.op_type != "Add":
        parts = [root]
    else:
        parts = [root, source] if any(_sum_with_one(maker, each) for each in maker.inputs) else []
    return next((part for part in parts if len(part.uses()) > 1 or part.is_graph_output()), None)


def _sum_with_one(node: ir.Node, value: ir.Value | None) -> ir.Value | None:
    """The sum of ``value`` and one number; None where ``node`` is anything else."""
    if node.op_type != "Add":
        return None
    number = constant_of(next((each for each in node.inputs if each is not value), None))
    return node.outputs[0] if number is not None and number.size == 1 else None


def _divides(value: ir.Value) -> bool:
    """Whether a reciprocal of ``value`` is taken, or something with dimensions divided by it."""
    return any(
        reader.op_type == "Reciprocal" or (reader.op_type == "Div" and index == 1 and len(shape_of(value)) > 0)
        for reader, index in value.uses()
    )


def _is_moved_norm(node: ir.Node) -> bool:
    """Whether the original moves a BatchNormalization in front of the Concat that it reads, onto every operand.

    It does where the Concat joins channels of convolutions that nothing else reads; other readers of the Concat do not
    matter (42 conversions on three marches, 24 forms).
    """
    joined = node.inputs[0].producer() if node.op_type == "BatchNormalization" and node.inputs[0] is not None else None
    if joined is None or joined.op_type != "Concat" or attribute(joined, "axis") != 1:
        return False
    return all(
        value is not None
        and len(value.uses()) == 1
        and (maker := value.producer()) is not None
        and maker.op_type == "Conv"
        and not value.is_graph_output()
        for value in joined.inputs
    )


def beyond_documents(tool: OriginalTool, source: ir.Model) -> tuple[str, ...]:
    """What the documents of ``tool`` do not allow and no measurement refuses, a sentence each."""
    reasons = []
    if tool.outputs is not None and len(source.graph.outputs) > tool.outputs:
        reasons.append(f"the model has {len(source.graph.outputs)} outputs; at most {tool.outputs} are allowed")
    for value in graph_inputs(source) if tool.one_sample else ():
        samples = next(iter(shape_of(value)), 1)
        if samples != 1:
            reasons.append(f"input {value.name} takes {samples} samples at once; 1 is allowed")
    return tuple(reasons)


def tell_refusals(tool: OriginalTool, source: ir.Model, strict: bool, *, caffe: bool = False) -> None:
    """Warn of what ``tool`` refuses about ``source``, or refuse it here too; warn of what its documents do not allow.

    Args:
        tool: a command of the original.
        source: the model.
        strict: refuse.
        caffe: whether it was a Caffe model, so that ptqlab chose the versions of ONNX.

    Raises:
        UnsupportedError: ``strict``, and there is something that it refuses; names all of it.
    """
    reasons = () if caffe else refused_by(tool, source)
    if strict and reasons:
        raise UnsupportedError(f"the original's {tool.name} refuses this model: {'; '.join(reasons)}")
    for reason in reasons:
        logger.warning(
            "The original's %s refuses this model: %s. With --as-original, ptqlab refuses it too.", tool.name, reason
        )
    for reason in beyond_documents(tool, source):
        logger.warning("The documents of the original's %s do not allow this: %s.", tool.name, reason)
