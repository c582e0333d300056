"""What the original's ``mix`` measures: tensors that it quantises before any takes the scale of another one.

At that time a tensor is quantised where something computes with it, or where nothing computes with what it is moved to
or joined in. What moves values (Slice, Transpose, Reshape, Resize, a shuffle) or joins them is passed, and so are
operands of LeakyRelu and PRelu; what a Split or MaxPool gives has the scale of what they read. Every threshold is that
of the tensor's own values, the result of a Sigmoid's too, but what a Sigmoid reads has its fixed one; an image, whose
threshold is fixed, is not quantised yet (docs/evidence/calibration.md).
"""

from __future__ import annotations

import onnx_ir as ir

from engine.calibrate.methods.methods import CalibrationOptions
from engine.calibrate.methods.thresholds import calibrated_constants, calibration_tensors, threshold_sources
from engine.facts.devices import is_quantised
from engine.facts.moves import is_passive, keeps_scale, moved_from, moved_to, waits
from engine.graph import float_readers
from engine.graph.scales import OWN, scale_source, set_scale_source
from engine.ir import WEIGHT_QUANT_ATTRS, attribute, before_calibration, calibration_nodes, constant_of, is_calibration
from engine.ops.core.base import Tie
from engine.ops.registry import rule_for
from engine.terms import CalibrationType, DataType

_OF_RESULT = frozenset({Tie.INPUT_TAKES_OUTPUT, Tie.ONE_FOR_BOTH})


def tensors_for(placed: ir.Model, options: CalibrationOptions) -> tuple[str, ...]:
    """The float tensors of which ``options`` need statistics, each once: those of :func:`calibration_tensors`, and for
    ``mix`` those that it measures.
    """
    found = dict.fromkeys(calibration_tensors(placed))
    if options.calibration_type is CalibrationType.MIX:
        constants = calibrated_constants(placed)
        measured = threshold_sources(only_measured(placed)).values()
        found |= dict.fromkeys(name for name in measured if name not in constants)
    return tuple(found)


def only_measured(placed: ir.Model) -> ir.Model:
    """A copy of ``placed`` where weights are floats, and all tensors that are not measured.

    Those that are have thresholds of their own, unless what reads or gives them fixes one. Outputs of the network stay
    as they are.

    Args:
        placed: model with ``HzCalibration`` nodes; not changed.
    """
    model = placed.clone()
    measured = {str(node.name) for node in calibration_nodes(model) if mix_measures(node)}
    for node in tuple(calibration_nodes(model)):
        value, result = node.inputs[0], node.outputs[0]
        if result.is_graph_output() or value is None:
            continue
        if str(node.name) in measured:
            if not _is_fixed(node):
                set_scale_source(node, OWN)
            continue
        result.replace_all_uses_with(value)
        model.graph.remove(node, safe=True)
    return model


def _is_fixed(node: ir.Node) -> bool:
    """Whether the threshold of what the ``HzCalibration`` quantises is fixed before there are others."""
    value = before_calibration(node.outputs[0])
    if scale_source(node).fixed is None or constant_of(value) is not None:
        return False
    source = moved_from(value, lambda each: is_calibration(each) or keeps_scale(each) or waits(each))
    return not _is_of_function(source) or any(_fixes(usage.node, node) for usage in node.outputs[0].uses())


def _is_of_function(value: ir.Value) -> bool:
    """Whether ``value`` is the result of a function that gives its threshold from that of its input."""
    producer = value.producer()
    rule = None if producer is None else rule_for(producer)
    return producer is not None and rule is not None and rule.gate(producer) is not None


def _fixes(reader: ir.Node, calibration: ir.Node) -> bool:
    """Whether ``reader`` fixes the threshold of what it reads."""
    rule = rule_for(reader)
    return rule is not None and rule.fixed_thresholds(reader, attribute(calibration, "qtype"))[0] is not None


def mix_measures(node: ir.Node) -> bool:
    """Whether ``mix`` measures what the ``HzCalibration`` quantises.

    The int8 result of a function is measured only where the BPU computes with it: 160 that the CPU reads or that are
    outputs are not.
    """
    value = before_calibration(node.outputs[0])
    if attribute(node, "quant_attrs") == WEIGHT_QUANT_ATTRS:
        return False
    if constant_of(value) is not None:
        return True
    producer = value.producer()
    if producer is None and scale_source(node).fixed is not None:
        return False
    if producer is not None and keeps_scale(producer) and not waits(producer):
        return False
    if any(map(_computes, _readers(node))):
        return True
    if _is_of_function(value) and attribute(node, "qtype") == DataType.INT8:
        return False
    source = scale_source(node)
    is_own = not source.follows or (source.of is None and source.gated is not None)
    return is_own and not any(map(_is_wanted, moved_to(value, _passes)))


def _readers(calibration: ir.Node) -> list[ir.Node]:
    """What reads what ``calibration`` gives, also behind the second one of what a convolution gives a sum.

    Not behind that of an output: the first of its two follows from the function in front of it.
    """
    found = [usage.node for usage in calibration.outputs[0].uses()]
    again = [node for node in found if is_calibration(node) and not node.outputs[0].is_graph_output()]
    return [*found, *(usage.node for node in again for usage in node.outputs[0].uses())]


def _passes(reader: ir.Node) -> bool:
    return is_quantised(reader) and (waits(reader) or keeps_scale(reader) or reader.op_type == "Concat")


def _is_wanted(value: ir.Value) -> bool:
    return any(map(_computes, float_readers(value)))


def _computes(reader: ir.Node) -> bool:
    """Whether what ``reader`` reads is measured for it."""
    if not is_quantised(reader) or waits(reader) or reader.op_type == "Concat":
        return False
    rule = rule_for(reader)
    if rule is not None and rule.tie(reader) in _OF_RESULT:
        return False
    return not is_passive(reader) or any(map(_is_wanted, reader.outputs))
