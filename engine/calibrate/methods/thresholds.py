"""Fill in the thresholds of a placed model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.methods.asymmetric import unsigned_tensors
from engine.calibrate.methods.channels import tensors_of_wide_sums
from engine.calibrate.methods.methods import FIXED_THRESHOLD, CalibrationOptions, method_of
from engine.calibrate.statistics.distribution import FLOAT32_MAX
from engine.calibrate.statistics.statistics import Statistics
from engine.errors import ModelError
from engine.graph.scales import Gated, Term, scale_source
from engine.ir import (
    QMAX,
    UNSIGNED,
    WEIGHT_QUANT_ATTRS,
    Calibration,
    attribute,
    before_calibration,
    calibration_nodes,
    constant_of,
    read_calibration,
    written_thresholds,
)
from engine.ops.core.gates import behind_gates
from engine.rulebook.marks import note
from engine.terms import CalibrationType

Thresholds = Mapping[str, Sequence[float]]

ZERO_WEIGHT_THRESHOLD = np.float32(np.finfo(np.float32).tiny)
"""Threshold of an output channel whose weights are all zero, 1.1754944e-38 (reference/calibration.md 2)."""


def calibration_tensors(placed: ir.Model) -> tuple[str, ...]:
    """The float tensors of which :func:`calibrate` needs statistics, in graph order, each once.

    Those of activation ``HzCalibration`` nodes, or of the tensors that they are tied to; none for fixed thresholds, but
    where the values of the tensor count for a Concat. ``mix`` needs more
    (:func:`engine.calibrate.methods.measured.tensors_for`).
    """
    outputs = names_before_calibration(placed)
    joined = [node for node in calibration_nodes(placed) if not is_weight(node) and scale_source(node).largest]
    terms = [each for node in joined for each in _terms(node, outputs) if isinstance(each, str)]
    return tuple(dict.fromkeys((*threshold_sources(placed).values(), *terms)))


def threshold_sources(placed: ir.Model) -> dict[str, str]:
    """The float tensor whose values give the threshold, as the optimised model names it.

    That of the tensor itself, or of the one that it is tied to; graph outputs under their own names. A margin
    is not in it, and a tensor with the largest threshold of several stands for itself.

    Returns:
        By name of the activation ``HzCalibration``, in graph order, but for fixed thresholds.
    """
    outputs = names_before_calibration(placed)
    sources = {str(node.name): _source(node, outputs) for node in calibration_nodes(placed) if not is_weight(node)}
    return {name: source for name, source in sources.items() if source is not None}


def calibrated_constants(placed: ir.Model) -> dict[str, NDArray[np.float32]]:
    """The constants that are quantised as activations, by name; methods look at them as at any tensor.

    As at 24 constants of LayerNorm and GroupNorm in ``vit_timm``, ``fpn_retina_gn`` and ``swin``.
    """
    found: dict[str, NDArray[np.float32]] = {}
    for node in calibration_nodes(placed):
        value = before_calibration(node.outputs[0])
        array = None if is_weight(node) else constant_of(value)
        if array is not None:
            found[str(value.name)] = np.asarray(array, np.float32)
    return found


def calibrate(placed: ir.Model, statistics: Statistics, options: CalibrationOptions) -> ir.Model:
    """The calibrated model: thresholds and scales on every ``HzCalibration``.

    Args:
        placed: model from :func:`engine.place.place`; not changed.
        statistics: of its :func:`calibration_tensors`, from :func:`engine.calibrate.collect`.
        options: method and granularity.

    Returns:
        A copy with ``thresholds`` and ``scales`` (= threshold / largest magnitude of ``qtype``, float32) filled in;
        weights have one per output channel, ``max|w|``. Method ``load`` keeps the thresholds that nodes already have.

    Raises:
        UnsupportedError: there is no such method.
        ConfigError: the statistics were not collected for these options.
        ModelError: the statistics lack a tensor.
    """
    thresholds = thresholds_in(placed, statistics, options) if method_of(options).needs_data else None
    keep = options.calibration_type is CalibrationType.LOAD
    return apply_thresholds(placed, thresholds, keep, unsigned_of(placed, options))


def thresholds_in(
    placed: ir.Model, statistics: Statistics, options: CalibrationOptions
) -> dict[str, tuple[float, ...]]:
    """The thresholds of ``options`` by name of the float tensor, several only where ``placed`` allows it.

    Args:
        placed: model from :func:`engine.place.place`.
        statistics: as for :func:`calibrate`.
        options: method and granularity.
    """
    found = dict(statistics.thresholds(options))
    if options.per_channel:
        single = options.model_copy(update={"per_channel": False})
        found |= {
            name: statistics.tensors[name].thresholds(single) for name in tensors_of_wide_sums(placed) if name in found
        }
    return found


def unsigned_of(placed: ir.Model, options: CalibrationOptions) -> frozenset[str]:
    """The tensors of unsigned type under ``options``."""
    return unsigned_tensors(placed) if options.asymmetric else frozenset()


def apply_thresholds(
    placed: ir.Model, thresholds: Thresholds | None, keep: bool = False, unsigned: Collection[str] = ()
) -> ir.Model:
    """A copy of ``placed`` whose activations have the given thresholds.

    Args:
        placed: model with ``HzCalibration`` nodes.
        thresholds: one, or one per channel of axis 1, by name of the float tensor; ties and fixed thresholds are
            applied here. None: 1.0 everywhere.
        keep: leave the thresholds that a node already has.
        unsigned: tensors of type ``uint8``.

    Raises:
        ModelError: a tensor is missing in ``thresholds``.
    """
    model = placed.clone()
    outputs = names_before_calibration(model)
    for node in calibration_nodes(model):
        if keep and read_calibration(node).thresholds.size:
            continue
        if is_weight(node):
            set_thresholds(node, largest_weights(node))
            continue
        if before_calibration(node.outputs[0]).name in unsigned:
            node.attributes["qtype"] = ir.AttrString("qtype", UNSIGNED)
        values = _activation_thresholds(node, thresholds, outputs)
        set_thresholds(node, _as_float32(values))
        if len(values) > 1:
            node.attributes["axis"] = ir.AttrInt64("axis", 1)
    return model


def note_rules(calibrated: ir.Model, statistics: Statistics, candidates: Sequence[CalibrationOptions]) -> None:
    """Note on the operators of ``calibrated`` where a rule about methods decided one of their thresholds.

    An operator's thresholds are those of the tensors that it reads; those of an output of the network that no operator
    reads are of the one that gives it. What takes the largest threshold of several has no note of its own: the node
    that joins them reads those.

    Args:
        calibrated: model whose thresholds stand; operators get the note (:func:`engine.rulebook.marks.note`).
        statistics: that they were chosen from.
        candidates: the methods that they may be of; of those with equal thresholds the first one counts.
    """
    sources, outputs = threshold_sources(calibrated), names_before_calibration(calibrated)
    for node in calibration_nodes(calibrated):
        source = sources.get(str(node.name))
        if source is None or scale_source(node).largest is not None:
            continue
        tensor = statistics.tensors[source]
        equal = (each for each in candidates if _has(node, {source: tensor.thresholds(each)}, outputs))
        chosen = next(equal, None)
        rule = None if chosen is None else tensor.rule(chosen)
        for operator in () if rule is None else _operators_of(node):
            note(operator, str(rule))


def _has(node: ir.Node, thresholds: Thresholds, outputs: Mapping[str, str]) -> bool:
    """Whether the thresholds of ``node`` are those that follow from ``thresholds``."""
    values = _as_float32(_activation_thresholds(node, thresholds, outputs))
    return np.array_equal(written_thresholds(node), values)


def _operators_of(calibration: ir.Node) -> tuple[ir.Node, ...]:
    """The nodes that read what ``calibration`` gives; without them the one that gives what it reads."""
    readers = tuple(usage.node for usage in calibration.outputs[0].uses())
    value = calibration.inputs[0]
    producer = None if value is None else value.producer()
    return readers or (() if producer is None else (producer,))


def activation_scales(calibrated: ir.Model, thresholds: Thresholds | None) -> dict[str, NDArray[np.float32]]:
    """The scales that :func:`apply_thresholds` writes, the types being those of ``calibrated``.

    Args:
        calibrated: model from :func:`apply_thresholds`; not changed.
        thresholds: as there.

    Returns:
        By name of the activation ``HzCalibration``, in graph order: float32, shape (1,) or (channels,).

    Raises:
        ModelError: a tensor is missing in ``thresholds``.
    """
    outputs = names_before_calibration(calibrated)
    return {
        str(node.name): _scales(node, np.asarray(_activation_thresholds(node, thresholds, outputs), np.float32))
        for node in calibration_nodes(calibrated)
        if not is_weight(node)
    }


def _as_float32(values: Sequence[float]) -> NDArray[np.float32]:
    """Thresholds as float32, none of them infinite: sums of the largest numbers of that type exceed it."""
    return np.asarray(np.minimum(values, np.finfo(np.float32).max), np.float32)


def _activation_thresholds(node: ir.Node, thresholds: Thresholds | None, outputs: Mapping[str, str]) -> Sequence[float]:
    source = scale_source(node)
    if source.fixed is not None:
        own = before_calibration(node.outputs[0])
        is_constant = thresholds is not None and constant_of(own) is not None and str(own.name) in thresholds
        return thresholds[str(own.name)] if thresholds is not None and is_constant else [source.fixed]
    if thresholds is None:
        return [FIXED_THRESHOLD if source.gated is None else behind_gates(source.gated.gates, FIXED_THRESHOLD)]
    found = [_values(each, node, thresholds) for each in _terms(node, outputs)]
    # Operators that move values take one scale, and their results' channels may be others; a PRelu keeps channels.
    values = [max(map(max, found))] if source.follows and not _is_rectified(node) else found[0]
    return [*values] if source.margin is None else [source.margin.of(value) for value in values]


def _is_rectified(calibration: ir.Node) -> bool:
    """Whether PRelus alone read what ``calibration`` gives (40 of 40 asked on two marches)."""
    readers = {usage.node.op_type for usage in calibration.outputs[0].uses()}
    return readers == {"PRelu"}


def _values(term: Term, node: ir.Node, thresholds: Thresholds) -> Sequence[float]:
    """The thresholds of a ``term`` of those of ``node``."""
    if isinstance(term, float):
        return [term]
    name = term.of if isinstance(term, Gated) else term
    if name not in thresholds:
        raise ModelError(f"node {node.name!r}: the statistics have no entry for tensor {name!r}")
    return [behind_gates(term.gates, max(thresholds[name]))] if isinstance(term, Gated) else thresholds[name]


def _terms(node: ir.Node, outputs: Mapping[str, str]) -> list[Term]:
    """What the threshold of ``node`` is the largest of, tensors as the optimised model names them."""
    joined = scale_source(node).largest
    if joined is None:
        return [str(_source(node, outputs))]
    return [
        replace(each, of=outputs.get(each.of, each.of))
        if isinstance(each, Gated)
        else outputs.get(each, each)
        if isinstance(each, str)
        else each
        for each in joined
    ]


def largest_weights(node: ir.Node) -> NDArray[np.float32]:
    """``max|w|`` per output channel of the constant input of ``node``, float32, shape (channels,).

    NaN is ignored, infinity is the largest float32, and a channel of zeros has :data:`ZERO_WEIGHT_THRESHOLD`.

    Args:
        node: an ``HzCalibration`` of a constant.

    Raises:
        ModelError: its input is none.
    """
    weight = constant_of(node.inputs[0])
    if weight is None:
        raise ModelError(f"node {node.name!r} calibrates a weight, but its input is not a constant")
    magnitudes, calibration = np.abs(np.asarray(weight, np.float32)), read_calibration(node)
    largest = _largest(magnitudes, calibration)
    if not np.isfinite(largest).all():
        largest = _largest(np.nan_to_num(magnitudes, nan=0.0, posinf=FLOAT32_MAX), calibration)
    return np.where(largest == 0, ZERO_WEIGHT_THRESHOLD, largest)


def _largest(magnitudes: NDArray[np.float32], calibration: Calibration) -> NDArray[np.float32]:
    """The maximum of each output channel of a weight; NaN where one is."""
    if calibration.axis == 1:
        # ConvTranspose: (I, O / group, ...); the output channels of one group after those of the other.
        grouped = magnitudes.reshape(calibration.group, -1, *magnitudes.shape[1:])
        return np.asarray(grouped.max(axis=(1, *range(3, grouped.ndim))).reshape(-1))
    return np.asarray(magnitudes.reshape(len(magnitudes), -1).max(axis=1))


def set_thresholds(node: ir.Node, thresholds: NDArray[np.float32]) -> None:
    """Write ``thresholds``, float32, and the scales that follow from the type of ``node``."""
    scales = _scales(node, thresholds)
    node.attributes["thresholds"] = ir.AttrFloat32s("thresholds", thresholds.tolist())
    node.attributes["scales"] = ir.AttrFloat32s("scales", scales.tolist())


def _scales(node: ir.Node, thresholds: NDArray[np.float32]) -> NDArray[np.float32]:
    """The scales of ``node``, the type of which holds, for ``thresholds``."""
    return np.asarray(thresholds / np.float32(QMAX[attribute(node, "qtype", "int8")]), np.float32)


def _source(node: ir.Node, outputs: Mapping[str, str]) -> str | None:
    """The float tensor whose values give the threshold of ``node``; ``None`` where it does not depend on data."""
    source = scale_source(node)
    if source.fixed is not None:
        return None
    value = node.inputs[0]
    if value is None:
        raise ModelError(f"node {node.name!r}: HzCalibration has no input")
    name = str(source.of or before_calibration(value).name)
    return outputs.get(name, name)


def names_before_calibration(placed: ir.Model) -> Mapping[str, str]:
    """The names in the optimised model of tensors whose calibrated form has taken over their name: graph outputs."""
    return {
        str(before_calibration(node.outputs[0]).name): str(node.outputs[0].name)
        for node in calibration_nodes(placed)
        if node.outputs[0].is_graph_output()
    }


def is_weight(node: ir.Node) -> bool:
    """Whether the ``HzCalibration`` quantises a weight."""
    return bool(attribute(node, "quant_attrs") == WEIGHT_QUANT_ATTRS)
