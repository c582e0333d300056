"""BPU or CPU for every node, with the reason for the CPU (reference/operators.md, Placement)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import onnx_ir as ir

from engine.ir import MARK_LATE, MARK_ON, attribute, before_calibration, constant_of, is_calibration, mark, shape_of
from engine.march import March
from engine.ops.add import runs_as_convolution
from engine.ops.core.base import FloatRule
from engine.ops.core.float_nodes import is_relu
from engine.ops.core.reasons import Code, Reason, because, sentence_of, set_reason
from engine.ops.foreign.custom import is_custom
from engine.ops.registry import rule_for
from engine.place.chains import BPU, CPU, chains, float_readers, is_exact_sum, on_bpu, only_reader
from engine.place.options import PlacementOptions, Refusal


def mark_placement(model: ir.Model, march: March, options: PlacementOptions | None = None) -> list[Refusal]:
    """Set the marks ``hz.on`` and ``hz.reason`` on every node of ``model``, in place; unhonoured requests."""
    options = options or PlacementOptions()
    wanted = wanted_on_bpu(options)
    nodes = [node for node in model.graph if not is_calibration(node)]
    for node in nodes:
        _set(node, _early_reason(node, march, str(node.name) in wanted))
    for node, why in _asked_for(model, march, options, wanted).items():
        _set(node, why)
    refused = {node for node in nodes if not on_bpu(node)}
    _follow_cpu_heads(nodes, wanted)
    _keep_divisions_whole(nodes, wanted)
    _drop_tails(model, march, wanted, options.output_type is not None)
    for node in filter(on_bpu, nodes):
        if (reason := late_reason(node, march)) is not None:
            _set(node, reason, late=True)
            refused.add(node)
    _drop_products(nodes, march, wanted)
    asked = [node for node in nodes if node in refused and str(node.name) in wanted]
    return [Refusal(str(node.name), "ON: BPU", sentence_of(node)) for node in asked]


def wanted_on_bpu(options: PlacementOptions) -> set[str]:
    return {name for name, types in options.node_info.items() if types.on == BPU} | set(options.run_on_bpu)


def reason_for_cpu(node: ir.Node, march: March, options: PlacementOptions, on_request: bool) -> Reason | None:
    """Why ``node`` itself runs on the CPU; ``None`` for the BPU."""
    if _is_asked_for(node, options):
        return because(Code.ASKED_FOR)
    return _early_reason(node, march, on_request) or late_reason(node, march)


def _is_asked_for(node: ir.Node, options: PlacementOptions) -> bool:
    """Whether the configuration sends ``node`` to the CPU."""
    requested = options.node_info.get(str(node.name))
    return str(node.name) in options.run_on_cpu or (requested is not None and requested.on == CPU)


def _asked_for(model: ir.Model, march: March, options: PlacementOptions, wanted: set[str]) -> dict[ir.Node, Reason]:
    """Nodes that the configuration sends to the CPU, with the activations that would be one with them; the reasons.

    reference/operators.md, Partition: the fused Relu moves with the node.
    """
    asked = {node: because(Code.ASKED_FOR) for node in model.graph if _is_asked_for(node, options)}
    moved = {
        reader: because(Code.PART_OF_ASKED_FOR, node=str(node.name))
        for chain in chains(model, march)
        for node, reader in pairwise(chain)
        if node in asked and is_relu(reader) and str(reader.name) not in wanted
    }
    return moved | asked


def _early_reason(node: ir.Node, march: March, on_request: bool) -> Reason | None:
    if is_custom(node):
        return because(Code.CUSTOM)
    rule = rule_for(node)
    if rule is None or (node.op_type in march.cpu_operators and not (_orders_pixels(node) or _normalises(node))):
        return _no_operator(node, march)
    if _has_other_rank(node, march) and not _quantised_of_rank_3(node, march):
        return because(Code.RANK_4_ONLY, march=march.name)
    if any(shape_of(value) == () for value in node.outputs):
        return because(Code.SCALAR)
    numbers = [value for index, value in enumerate(node.outputs) if index not in rule.index_outputs]
    if any(value.type is not None and value.dtype != ir.DataType.FLOAT for value in numbers):
        return because(Code.NOT_FLOAT)
    if rule.on_request and not on_request:  # that is no use where it would be refused then
        return rule.late_refusal(node, march) or because(Code.ON_REQUEST, op_type=node.op_type)
    if _has_undefined_constant(node, rule):
        return because(Code.UNDEFINED_CONSTANT)
    return rule.refusal(node, march)


def late_reason(node: ir.Node, march: March) -> Reason | None:
    """Why ``node`` runs on the CPU although its inputs are quantised for it; ``None`` where nothing speaks against it.

    The original finds these reasons only after it has calibrated: a convolution before such a node is int8 and keeps
    its Relu, while one before any other CPU node stays in int32.
    """
    if node.op_type in march.late_cpu_operators:
        return _no_operator(node, march)
    if _has_other_rank(node, march):
        return because(Code.RANK_4_ONLY, march=march.name)
    rule = rule_for(node)
    return None if rule is None else rule.late_refusal(node, march)


def refused_late(node: ir.Node) -> bool:
    """Whether ``node`` runs on the CPU though its inputs are quantised for the BPU."""
    return MARK_LATE in node.metadata_props


def _has_other_rank(node: ir.Node, march: March) -> bool:
    """Whether ``node`` gives a tensor of a rank that ``march`` does not compute."""
    return march.rank4_only and any(len(shape_of(value)) != 4 for value in node.outputs)


def _quantised_of_rank_3(node: ir.Node, march: March) -> bool:
    """Whether ``node`` is quantised although it runs on the CPU, as a tensor of rank 3.

    So are 100 means, differences, products, powers and sums of LayerNorm and InstanceNorm in ``detr``, ``vit_sep``,
    ``vit_timm`` and ``fpn_retina_gn`` on bernoulli2; sums of two tensors of rank 3 beside them and what is of rank 5
    (``swin``, ``sknet``) are not.
    """
    return node.op_type in march.late_rank3_operators and all(len(shape_of(value)) == 3 for value in node.outputs)


def _no_operator(node: ir.Node, march: March) -> Reason:
    return because(Code.NO_OPERATOR, march=march.name, op_type=node.op_type)


def _orders_pixels(node: ir.Node) -> bool:
    """Whether ``node`` gives an NHWC image the NCHW order: BPU tensors are NHWC anyway, nothing is moved."""
    image = None if node.op_type != "Transpose" or node.inputs[0] is None else node.inputs[0].producer()
    is_image = image is not None and image.op_type == "HzPreprocess" and attribute(image, "data_format") == "NHWC"
    return is_image and tuple(attribute(node, "perm", ())) == (0, 3, 1, 2)


def _normalises(node: ir.Node) -> bool:
    """Whether ``node`` is a mean of a normalisation: a difference or a reciprocal root reads it.

    All 56 in seven networks of bernoulli2 are quantised; two others, ``ReduceMean_150`` of ``vit_sep`` and
    ``op_reducemean_c``, are not.
    """
    readers = float_readers(node.outputs[0]) if node.op_type == "ReduceMean" else []
    return any(reader.op_type in ("Sub", "HzRsqrt") for reader in readers)


def _has_undefined_constant(node: ir.Node, rule: FloatRule) -> bool:
    """Whether a constant that would be quantised is not finite."""
    values = [node.inputs[index] for index in (*rule.activations(node), *rule.weights(node))]
    arrays = [constant_of(before_calibration(value)) for value in values if value is not None]
    return any(array is not None and not np.all(np.isfinite(array)) for array in arrays)


def _set(node: ir.Node, reason: Reason | None, *, late: bool = False) -> None:
    mark(node, MARK_ON, BPU if reason is None else CPU)
    mark(node, MARK_LATE, "1" if late else None)
    set_reason(node, reason)


def _follow_cpu_heads(nodes: Sequence[ir.Node], wanted: set[str]) -> None:
    """What would be one with a node on the CPU runs there too.

    That is the activation of a convolution, unless something else reads that convolution, and the cast of a comparison.
    """
    for node in nodes:
        value = node.inputs[0] if on_bpu(node) and node.inputs else None
        head = None if value is None else value.producer()
        if head is None or value is None or on_bpu(head):
            continue
        activation = is_relu(node) and str(node.name) not in wanted and only_reader(value) is node
        if node.op_type == "Cast" or (activation and head.op_type in ("Conv", "ConvTranspose")):
            _set(node, because(Code.PART_OF_CPU_NODE, node=str(head.name)))


def _keep_divisions_whole(nodes: Sequence[ir.Node], wanted: set[str]) -> None:
    """A reciprocal that only a product on the CPU reads runs there too: the original decides on the ``Div`` of both."""
    for node in nodes:
        if node.op_type != "Reciprocal" or not on_bpu(node) or str(node.name) in wanted:
            continue
        reader = only_reader(node.outputs[0])
        if reader is not None and reader.op_type == "Mul" and not on_bpu(reader):
            _set(node, because(Code.DIVISION))


def _drop_tails(model: ir.Model, march: March, wanted: set[str], typed: bool) -> None:
    """Operators that would cost the last results before them their precision run on the CPU.

    These are passive operators, and the activation where the march cannot apply it to an int32 output. An
    activation that several nodes read stays, and its convolution is int8 (measured on ``op_ln_c``). What moves a result
    stays too where a type is asked for all results (``typed``): it is an integer anyway (``fpn_retina_gn``,
    ``vit_timm``).
    """
    heads = {value: chain[0] for chain in chains(model, march) for value in chain[-1].outputs}
    for node in reversed(list(model.graph)):
        rule = rule_for(node)
        if is_calibration(node) or not on_bpu(node) or rule is None:
            continue
        readers = [reader for value in node.outputs for reader in float_readers(value)]
        if any(on_bpu(reader) for reader in readers):
            continue
        asked = str(node.name) in wanted or (typed and node.outputs[0].is_graph_output())
        if rule.passive and not asked and not _moves_sum(node, march) and _moves_accumulator(node, heads, march):
            _set(node, because(Code.PASSIVE_TAIL, op_type=node.op_type))
        elif is_relu(node) and not march.tail_relu and len(readers) <= 1 and _follows_convolution(node):
            _set(node, because(Code.ACTIVATION_TAIL, march=march.name, op_type=node.op_type))


def _drop_products(nodes: Sequence[ir.Node], march: March, wanted: set[str]) -> None:
    """Products and sums that nothing on the BPU reads run on the CPU where the march has none at the end.

    The original finds that last: their inputs are quantised (31 products in ``centernet``, ``crnn_lstm``, ``detr``,
    ``mobilevit``, ``swin`` and ``vit_sep`` on bernoulli2; reference/operators.md, cases of Div, LayerNorm and LSTM).
    """
    for node in reversed(nodes):
        if not on_bpu(node) or str(node.name) in wanted:
            continue
        readers = [reader for value in node.outputs for reader in float_readers(value)]
        if any(on_bpu(reader) for reader in readers):
            continue
        if _sums_alone(node, march, readers) or (node.op_type == "Mul" and not march.tail_mul):
            _set(node, because(Code.PRODUCT_TAIL, march=march.name, op_type=node.op_type), late=True)


def _sums_alone(node: ir.Node, march: March, readers: Sequence[ir.Node]) -> bool:
    """Whether ``node`` is a sum that no convolution computes, read by one node (``mobilevit``; provisional, 1 network).

    One that several CPU nodes read stays on the BPU (``swin``).
    """
    return node.op_type == "Add" and march.add_as_conv and len(readers) == 1 and not runs_as_convolution(node, march)


def _moves_sum(node: ir.Node, march: March) -> bool:
    """Whether ``node`` moves an int32 result of one scale, which is made float behind it as well."""
    rule, value = rule_for(node), node.inputs[0]
    passes = rule is not None and rule.moves_sums and not march.rank4_only
    return passes and value is not None and is_exact_sum(before_calibration(value))


def _moves_accumulator(node: ir.Node, heads: Mapping[ir.Value, ir.Node], march: March) -> bool:
    """Whether a passive ``node`` reads, directly or through others, what could stay in int32 or float."""
    rule = rule_for(node)
    for index in () if rule is None else rule.activations(node):
        value = node.inputs[index]
        head = None if value is None else heads.get(before_calibration(value))
        source = None if head is None else rule_for(head)
        if value is not None and source is not None and _is_computed_with(value, march):
            continue
        if (
            head is None
            or source is None
            or late_reason(head, march) is not None
            or source.stays_int32(head)
            or (head.op_type == "Mul" and not march.tail_mul)
            or (source.passive and _moves_accumulator(head, heads, march))
        ):
            return True
    return False


def _is_computed_with(value: ir.Value, march: March) -> bool:
    """Whether the BPU does more than move ``value``, or what it is moved to: so ``value`` is requantised anyway.

    As the map that a convolution and the MaxPool beside it read in ``blazeface_b``. Movements that leave the BPU late
    do not count (the states of ``crnn_gru_b``).
    """
    pending, seen = [value], {value}
    while pending:
        for reader in filter(on_bpu, float_readers(pending.pop())):
            rule = rule_for(reader)
            if rule is None or late_reason(reader, march) is not None:
                continue
            if not rule.passive:
                return True
            pending += [result for result in reader.outputs if result not in seen]
            seen.update(reader.outputs)
    return False


def _follows_convolution(node: ir.Node) -> bool:
    """Whether ``node`` reads a convolution, or a sum that one may have absorbed."""
    value = node.inputs[0]
    producer = None if value is None else before_calibration(value).producer()
    rule = None if producer is None else rule_for(producer)
    return producer is not None and (producer.op_type == "Add" or (rule is not None and rule.stays_int32(producer)))
