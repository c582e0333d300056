"""Thresholds that are not a tensor's own: taken over from another one, or fixed by an operator.

An operator that only moves values cannot rescale them, so what it reads and writes has one threshold: that of the
tensor at the head of such a chain. A Concat takes the operands that nothing computes with at its output's threshold
and requantises the others. All 20 recorded patterns of operands and readers show it: an operand that a convolution or
a sum reads too keeps its own (`input.20` of GhostNet, `input.68` of YOLO11), so do all outputs of a Split one of
which is computed with (``min_c2f``); through Reshape, Transpose and Resize the Concat reaches back to the tensor that
was moved (the heads of YOLO11); of two Concats that a Resize's input and output go to, the one that runs last decides
(the necks of YOLOv5 to YOLO11). What a Resize or Pad reads follows its output in the same way: 61 operands in 12
networks do, 21 in four that something computes with keep their own (the necks of db_text, fpn_retina_gn and fpn_ssd,
the Pads of blazeface). A Reshape or Pad that goes to the CPU late is tied as if it stayed (`input.244` of yolo11_b, the
reflecting Pads of style), Gathers are in another way (swin). The result of a Relu that no convolution absorbs has its
input's threshold (golden conversions ``i16_conv1``, ``i16_res``).

The files of the original tell a threshold that was taken over from one of the tensor's own: its attributes are in
another order.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping

import onnx_ir as ir

from engine.ir import (
    MARK_FACTOR,
    MARK_FIXED,
    MARK_LARGEST,
    MARK_TIE,
    MARK_VALUES,
    attribute,
    before_calibration,
    is_calibration,
    mark,
)
from engine.ops.core.base import FloatRule, Tie
from engine.ops.registry import rule_for
from engine.place.chains import float_readers, on_bpu
from engine.place.devices import refused_late
from engine.place.options import INT16

_PERMUTATIONS = ("Reshape", "Transpose")
_TIED_ON_CPU = ("Pad", "Reshape")
"""What is tied although it goes to the CPU late."""


def mark_thresholds(model: ir.Model, asked: Collection[str] = ()) -> None:
    """Marks on calibration nodes what their thresholds follow from where it is not the tensor's own values.

    That of another tensor (``hz.tie``), values of a moved form of it (``hz.values``), the largest of several
    (``hz.largest``), a multiple (``hz.factor``), or what an operator fixes (``hz.fixed``).

    Operands of an int16 Concat of which int16 is ``asked`` keep theirs (``yolov8_nhwc``, ``unet_t3_argmax``: two that
    are, three that are not).
    """
    calibrations = {_tensor_name(node.inputs[0]): node for node in model.graph if is_calibration(node)}
    computed = _computed_with(model)
    ties: dict[str, str] = {}
    for node, rule in _placed(model):
        _tie_moved(ties, node, rule)
    for node, rule in _placed(model):
        if rule.tie(node) is Tie.ONE_FOR_BOTH:
            _tie_operand(ties, _activations(node, rule)[0], str(node.outputs[0].name), computed)
    _tie_gathered(ties, model)
    joined: dict[str, list[str]] = {}
    for node, rule in reversed(list(_placed(model))):
        if rule.tie(node) is not Tie.OPERANDS_TAKE_OUTPUT:
            continue
        output, operands = str(node.outputs[0].name), _activations(node, rule)
        calibration = calibrations.get(output)
        if calibration is not None and _keeps_operands(calibration):
            if calibration.outputs[0].is_graph_output():
                joined[output] = operands
                continue
            operands = [name for name in operands if name not in asked]
        for name in operands:
            _tie_operand(ties, name, output, computed)
    for node, rule in _placed(model):
        if rule.keeps_threshold(node) and _tensor_name(node.inputs[0]) in calibrations:
            _tie(ties, str(node.outputs[0].name), _tensor_name(node.inputs[0]))
    for node in model.graph:
        _fix_thresholds(node, calibrations, ties)
    first: dict[str, str] = {}
    for name, calibration in calibrations.items():
        root = _root(ties, name)
        if root not in calibrations:  # what the CPU computes and only movements read is quantised as the first behind
            root = first.setdefault(root, name)
        if root != name:
            mark(calibration, MARK_TIE, root)
            mark(calibration, MARK_FIXED, calibrations[root].metadata_props.get(MARK_FIXED))
        last = _moved_last(calibrations[root].inputs[0])
        follows = last in calibrations and last != root and _root(ties, last) == _root(ties, root)
        mark(calibration, MARK_VALUES, last if follows else None)
        widened = _goes_into_softmax(calibrations[root])
        mark(calibration, MARK_FACTOR, repr(SOFTMAX_MARGIN) if widened else None)
    for name, operands in joined.items():
        roots = dict.fromkeys(_root(ties, each) for each in operands)
        thresholds = [_threshold_of(calibrations[first.get(root, root)]) for root in roots]
        mark(calibrations[name], MARK_LARGEST, json.dumps(thresholds))


SOFTMAX_MARGIN = 1.2
"""An int16 tensor that a Softmax on the CPU reads takes so much more than its largest magnitude.

What is tied to the tensor has the same threshold (for consistency: no recorded network shows it).

The product of ``mobilevit`` and three of four sums of ``swin``, on both marches. The fourth sum, with the mask of the
shifted windows, takes 1.1 times as much; why is unknown. Through a Reshape there is no margin (``min_fc``).
"""


def _goes_into_softmax(calibration: ir.Node) -> bool:
    readers = [usage.node for usage in calibration.outputs[0].uses()]
    is_read = bool(readers) and all(reader.op_type == "Softmax" and not on_bpu(reader) for reader in readers)
    return is_read and attribute(calibration, "qtype") == INT16


def _threshold_of(calibration: ir.Node) -> str | float:
    """The threshold of ``calibration`` where it is fixed, else the tensor whose values give it."""
    marks = calibration.metadata_props
    if MARK_FIXED in marks:
        return float(marks[MARK_FIXED])
    return str(marks.get(MARK_VALUES) or _tensor_name(calibration.inputs[0]))


def _placed(model: ir.Model) -> Iterator[tuple[ir.Node, FloatRule]]:
    """The nodes on the BPU, and those that are tied although they left it late, with their rules, in graph order."""
    for node in model.graph:
        rule = rule_for(node)
        stays = on_bpu(node) or (node.op_type in _TIED_ON_CPU and refused_late(node))
        if rule is not None and stays and not is_calibration(node):
            yield node, rule


def _activations(node: ir.Node, rule: FloatRule) -> list[str]:
    return [_tensor_name(node.inputs[index]) for index in rule.activations(node)]


def _tie_moved(ties: dict[str, str], node: ir.Node, rule: FloatRule) -> None:
    """Tie what ``node`` writes to what it reads, or the other way round."""
    tie = rule.tie(node)
    if tie not in (Tie.OUTPUT_TAKES_INPUT, Tie.INPUT_TAKES_OUTPUT):
        return
    source, results = _activations(node, rule)[0], [str(value.name) for value in node.outputs]
    if tie is Tie.INPUT_TAKES_OUTPUT:
        _tie(ties, source, results[0])
    else:
        ties.update({name: source for name in results if _root(ties, source) != name})


def _tie_gathered(ties: dict[str, str], model: ir.Model) -> None:
    """What several ``Gather`` on the CPU read, and all that they give, take the threshold of what the first one gives.

    They are quantised although nothing on the BPU reads them: the queries, keys and values of windows in ``swin``, on
    two marches.
    """
    first: dict[str, str] = {}
    for node in model.graph:
        if node.op_type != "Gather" or not refused_late(node):
            continue
        source, result = _tensor_name(node.inputs[0]), str(node.outputs[0].name)
        if source not in first:
            first[source] = result
            ties[_root(ties, source)] = result
        else:
            ties[result] = first[source]


def _computed_with(model: ir.Model) -> set[str]:
    """Tensors that an operator reads which does more than move them."""
    return {name for node, rule in _placed(model) if rule.tie(node) is Tie.NONE for name in _activations(node, rule)}


def _tie_operand(ties: dict[str, str], name: str, to: str, computed: set[str]) -> None:
    """Let the tensor at the head of ``name`` follow ``to`` unless any that follows it is computed with."""
    head = _root(ties, name)
    follows = {other for other in (*ties, head) if _root(ties, other) == head}
    if follows.isdisjoint(computed) and _root(ties, to) != head:
        ties[head] = to


def _keeps_operands(calibration: ir.Node) -> bool:
    """Whether the operands of what is calibrated keep their own thresholds: int16 that no reader fixes.

    Before an int16 Sigmoid they take its range (heads of ``yolov8_decode``, ``yolo11``, ``fpn_retina_gn``). What joins
    them has the largest of theirs (11 of 11 Concats in ``yolov8_nhwc`` and ``fpn_retina_gn``): an inner Concat gets it
    from its own values; an output needs ``hz.largest``.
    """
    if attribute(calibration, "qtype") != INT16:
        return False
    readers = [usage.node for usage in calibration.outputs[0].uses()]
    rule = rule_for(readers[0]) if len(readers) == 1 and on_bpu(readers[0]) else None
    return rule is None or rule.fixed_thresholds(readers[0], INT16)[0] is None


def _moved_last(value: ir.Value | None) -> str:
    """What the last Reshape or Transpose behind ``value`` gives; its own name where nothing moves it whole.

    Those values give the threshold, which matters to a percentile: it counts by the first dimension. ``swin`` (products
    in front of a Reshape to windows, windows in front of a Transpose) and ``crnn_gru`` (a Transpose to steps behind a
    MaxPool) show it.
    """
    last = _tensor_name(value)
    while value is not None and len(readers := float_readers(before_calibration(value))) == 1:
        if readers[0].op_type not in (*_PERMUTATIONS, "MaxPool"):
            break
        value = readers[0].outputs[0]
        last = last if readers[0].op_type == "MaxPool" else str(value.name)
    return last


def _tensor_name(value: ir.Value | None) -> str:
    return "" if value is None else str(before_calibration(value).name)


def _root(ties: Mapping[str, str], name: str) -> str:
    while name in ties:
        name = ties[name]
    return name


def _tie(ties: dict[str, str], name: str, to: str) -> None:
    """``name`` takes the threshold of ``to``, unless it has been tied already or ``to`` follows ``name``."""
    if name not in ties and _root(ties, to) != name:
        ties[name] = to


def _casts_comparison(node: ir.Node) -> bool:
    """Whether ``node`` makes numbers of a comparison: 0 and 1 as they are on the CPU too.

    Provisional, 1 network: ``centernet_b``, kl.
    """
    source = node.inputs[0].producer() if node.op_type == "Cast" and node.inputs[0] is not None else None
    return source is not None and source.op_type == "Equal"


def _fix_thresholds(node: ir.Node, calibrations: Mapping[str, ir.Node], ties: Mapping[str, str]) -> None:
    """Thresholds that an operator fixes, on tensors whose threshold nothing else determines."""
    rule = rule_for(node)
    if is_calibration(node) or rule is None or not (on_bpu(node) or _casts_comparison(node)):
        return
    source, result = _tensor_name(node.inputs[0]), str(node.outputs[0].name)
    for name, alone in ((source, True), (result, False)):
        calibration = calibrations.get(name)
        if calibration is None or name in ties or (alone and len(list(calibration.outputs[0].uses())) > 1):
            continue
        thresholds = rule.fixed_thresholds(node, attribute(calibration, "qtype"))
        fixed = thresholds[0 if name == source else 1]
        decided = node.metadata_props.get(MARK_FIXED) if name == result else None
        if fixed is not None or decided is not None:
            mark(calibration, MARK_FIXED, decided or repr(fixed))
