"""Models that are refused whatever the configuration says."""

from __future__ import annotations

import onnx_ir as ir

from engine.chips import Chip
from engine.errors import UnsupportedError
from engine.ir import HORIZON_DOMAIN, MARK_ON, attribute, is_calibration, shape_of, static_shape
from engine.optimize.base import is_standard
from engine.terms import Device

NOT_IN_RUNTIME = frozenset(
    [
        "Compress",
        "Det",
        "Hardmax",
        "IsInf",
        "IsNaN",
        "MatMulInteger",
        "MaxUnpool",
        "Mean",
        "MeanVarianceNormalization",
        "NonMaxSuppression",
        "NonZero",
        "QuantizeLinear",
        "DequantizeLinear",
        "Unique",
        "Xor",
    ]
)
"""Operators that neither a march nor the CPU's runtime has."""
_MAP_RANK = 4
BPU_ALONE = frozenset({"HzGelu", "HzHardSwish", "HzMish", "HzSwish"})
"""Operators that the optimiser makes and that the CPU's runtime lacks: 9 of 9 asked on bayes-e and bernoulli2, by
``run_on_cpu`` and where bernoulli2 has none of that rank."""


def refuse_cpu_operators(model: ir.Model) -> None:
    """Refuse a model with operators that the board's runtime does not have (reference/operators.md, "Refused").

    Args:
        model: any; of one that is placed or quantised, also what the BPU alone has and the CPU is to compute.

    Raises:
        UnsupportedError: names their types, and what to do about those that the BPU has; or a node whose form the CPU
            lacks.
    """
    found = sorted({node.op_type for node in model.graph} & NOT_IN_RUNTIME)
    left = [node for node in model.graph if is_for_bpu_alone(node) and node.metadata_props.get(MARK_ON) == Device.CPU]
    _refuse_unconstrained(model)
    types = sorted({*found, *(node.op_type for node in left)})
    remedy = (
        f"; the BPU alone computes {left[0].name} ({left[0].op_type}): do not ask for it on the CPU, and on bernoulli2 "
        "give it a map of four dimensions"
        if left
        else ""
    )
    if types:
        raise UnsupportedError(f"HorizonRT not support these cpu operators: {', '.join(types)}{remedy}")


def _refuse_unconstrained(model: ir.Model) -> None:
    """Refuse operators that the CPU has in other forms than this one.

    A Conv or ConvTranspose with other padding at the end of an axis than at its beginning (9 of 9 asked: causal ones
    over lines, on all marches, and 20 x 1 and 20 x 3 on bernoulli2, of which some had a Pad in front; the same ones
    with equal padding are converted), a ConvTranspose of three dimensions (6 of 6; HiFi-GAN, Conv-TasNet) and a Pad of
    two or three (3 of 3, where of four and five 2 of 2 are converted; BoTNet).

    Raises:
        UnsupportedError: names the first node and what to write instead.
    """
    for node in model.graph:
        if node.metadata_props.get(MARK_ON) != Device.CPU:
            continue
        pads = attribute(node, "pads", ())
        half = len(pads) // 2
        if is_standard(node, "Conv", "ConvTranspose") and pads[:half] != pads[half:]:
            raise UnsupportedError(
                f"HorizonRT not support the padding {list(pads)} of {node.name} ({node.op_type}) on the CPU: it must "
                "be the same at both ends of an axis; pad equally and cut the surplus off with a Slice behind it"
            )
        rank = len(shape_of(node.outputs[0])) if is_standard(node, "ConvTranspose", "Pad") else _MAP_RANK
        if rank < _MAP_RANK:
            remedy = "with a window of 1 x n" if node.op_type == "ConvTranspose" else "whose own axis gets no padding"
            raise UnsupportedError(
                f"HorizonRT not support {node.name} ({node.op_type}) of {rank} dimensions on the CPU: reshape to a map "
                f"of one row, {remedy}"
            )


def is_for_bpu_alone(node: ir.Node) -> bool:
    """Whether the board's CPU cannot compute ``node``, which the optimiser made of others."""
    return node.domain == HORIZON_DOMAIN and node.op_type in BPU_ALONE


def refuse_unknown_shapes(optimized: ir.Model) -> None:
    """Refuse a model with a shape that depends on the data: nothing can be placed behind it.

    Raises:
        UnsupportedError: names the operators that the runtime lacks where there are some, else the tensor.
    """
    for node in optimized.graph:
        for value in node.outputs:
            if value.name and static_shape(value) is None:
                refuse_cpu_operators(optimized)
                raise UnsupportedError(
                    f"tensor {value.name} of node {node.name} ({node.op_type}) has the shape {value.shape}, which "
                    "depends on the data; end the model before that node (output_nodes) and compute the "
                    "rest in the application"
                )


def refuse_bare_rectifiers(placed: ir.Model, march: Chip) -> None:
    """Refuse a PRelu on the BPU whose result is not calibrated, on bernoulli2, whose operator has no other scale.

    The original ends without a word while it quantises: 7 of 7 PRelus in front of Slices, Reshapes, Transposes, Pads,
    Resizes, Tiles and PRelus that were asked, and two drawn networks; not the 8 whose result is calibrated.

    Raises:
        UnsupportedError: names the first node and its readers, and what to do.
    """
    if not march.leaky_relu_operator:
        return
    for node in placed.graph:
        on = node.metadata_props.get(MARK_ON)
        if node.op_type != "PRelu" or on != Device.BPU:
            continue
        value = node.outputs[0]
        if any(is_calibration(usage.node) for usage in value.uses()):
            continue
        readers = sorted({usage.node.op_type for usage in value.uses()})
        raise UnsupportedError(
            f"{node.name} (PRelu) has no scale of its own on {march.name}, because only {', '.join(readers)} "
            f"{'reads' if len(readers) == 1 else 'read'} its result; use a LeakyRelu or Relu there, or send it to the "
            f"CPU (run_on_cpu: {node.name})"
        )


def refuse_uncompilable(quantized: ir.Model, march: Chip) -> None:
    """Refuse a quantised model that the original's compiler refuses.

    That is a DepthToSpace on bernoulli2 whose output channels are no multiple of 4 (reference/operators.md, Limits; the
    network min_shuffle), or whose blocks are not of 2 x 2 pixels (6 of 6 asked, of 3, 4 and 8 in both modes, where both
    of 2 are compiled; not a SpaceToDepth, and none on bayes-e and bayes).

    Raises:
        UnsupportedError: names the node, what is allowed and what to do.
    """
    multiple, side = march.limits.depth_to_space_multiple, march.limits.depth_to_space_block
    for node in quantized.graph:
        if node.op_type != "HzDepthToSpace":
            continue
        remedy = f"send it to the CPU (run_on_cpu: {node.name})"
        channels, block = shape_of(node.outputs[0])[-1], attribute(node, "blocksize")
        if channels % multiple:
            raise UnsupportedError(
                f"output channel of {node.name} ({node.op_type}) must be a multiple of {multiple} on {march.name}, it "
                f"is {channels}; {remedy}"
            )
        if side is not None and block != side:
            raise UnsupportedError(
                f"blocksize of {node.name} ({node.op_type}) must be {side} on {march.name}, it is {block}; {remedy} "
                "or enlarge by two several times"
            )
