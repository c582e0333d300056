"""Forwards of the float stages in ONNX Runtime: source, original_float, optimized_float and calibrated models.

:func:`to_standard` turns what is not standard ONNX into standard nodes; :class:`FloatSession` runs the result on any
number of samples and fetches any tensor of the graph.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from enum import StrEnum
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import RemoveUnusedNodesPass, RemoveUnusedOpsetsPass

from engine.calibrate.batching import computes_samples_apart, with_symbolic_batch
from engine.calibrate.chained import ChainedRunner, run_bound
from engine.calibrate.depthwise import extract_depthwise
from engine.errors import InferenceError, ModelError
from engine.ir import (
    QMAX,
    Calibration,
    attribute,
    before_calibration,
    calibration_nodes,
    calibration_of,
    constant_of,
    read_calibration,
    shape_of,
    to_bytes,
)
from engine.ops.composite import Expansion, expand_composites
from engine.ops.custom import is_custom

if TYPE_CHECKING:
    import onnxruntime as ort

Array = NDArray[Any]
Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_BATCH = 8
"""Samples per run of ONNX Runtime, as the original's log says ("Calibration using batch 8")."""

_ROUND_SINCE_OPSET = 11
_CLIP_BY_INPUTS_SINCE_OPSET = 11
_QUANTIZE_LINEAR_SINCE_OPSET = 10
_QUANTIZE_LINEAR_TYPES = {"int8": ir.DataType.INT8, "uint8": ir.DataType.UINT8}
_ROUNDING_CONSTANT = 1.5 * 2**23
"""Adding and subtracting it rounds a float32 of magnitude up to 2^22 half to even."""


class Kernels(StrEnum):
    """Which implementations ONNX Runtime may use: they differ in the order of float sums, thus in the last bits.

    Attributes:
        FAST: everything it has, among others blocked layouts.
        PLAIN: the layout of the graph; reproduces the similarity figures that the original prints to the last digit.
    """

    FAST = "fast"
    PLAIN = "plain"


def to_standard(model: ir.Model, *, quantize_linear: bool = False) -> ir.Model:
    """A copy of a float-stage model that holds standard ONNX operators only.

    Composites are expanded. An ``HzCalibration`` becomes what it stands for: nothing where its switch is ``OFF``, so
    that the graph is that of the optimised model again; otherwise what :func:`fake_quantize` does, in standard nodes.
    Constant inputs are quantised here and now. A convolution whose input has a scale per channel computes with one
    scale and a weight that has the others folded into it, as its integers do. Every tensor that is left keeps its name.

    Args:
        model: float-stage model; not changed.
        quantize_linear: 8 bits with one scale as ``QuantizeLinear`` and ``DequantizeLinear``: the same numbers in half
            the time, but only in a runtime that is told not to compute in integers around them.

    Raises:
        ModelError: an ``HzCalibration`` that is ``ON`` has no thresholds yet.
    """
    model = expand_composites(model)
    opset = model.opset_imports.get("", 0)
    for node in model.graph:
        _fold_input_scales(model.graph, node, opset)
    for node in tuple(calibration_nodes(model)):
        _replace_calibration(model.graph, node, opset, quantize_linear)
    RemoveUnusedNodesPass()(model)
    RemoveUnusedOpsetsPass()(model)
    return model


def fake_quantize(array: Array, calibration: Calibration) -> NDArray[np.float32]:
    """What an ``HzCalibration`` that is ``ON`` makes of ``array``.

    Args:
        array: float32.
        calibration: one scale, or one per channel.

    Returns:
        float32, same shape: ``clip(rint(x / scale), qmin, qmax) * scale``, each step rounded to float32, half to even,
        over the whole range of the integer type. It reproduces the original's similarity figures (CALIBRATION.md 2).
    """
    low, high = integer_range(calibration.qtype)
    scales = spread(calibration.scales, array.shape, calibration)
    integers = np.clip(np.rint(np.asarray(array, np.float32) / scales), low, high)
    return np.asarray(integers * scales, np.float32)


def _fold_input_scales(graph: ir.Graph, node: ir.Node, opset: int) -> None:
    """Let the convolution ``node`` compute as its integers do if its input has a scale per channel.

    The input's integers count steps of the largest scale, and the weight is quantised with the ratios of the scales
    folded into it. The original's printed similarities are those of this order of operations.
    """
    if node.op_type != "Conv" or attribute(node, "group", 1) != 1:
        return
    data, source = node.inputs[:2]
    activation, calibration = calibration_of(data), calibration_of(source)
    if data is None or source is None or activation is None or calibration is None:
        return
    if "OFF" in (activation.switch, calibration.switch):
        return
    weight = constant_of(before_calibration(source))
    if weight is None or not activation.scales.size or np.ptp(activation.scales) == 0:
        return
    step = activation.scales.max()
    folded = np.asarray(weight, np.float32) * (activation.scales / step).reshape(1, -1, *(1,) * (weight.ndim - 2))
    largest = np.abs(folded).max(axis=tuple(range(1, folded.ndim)))
    scales = np.maximum(largest, np.finfo(np.float32).tiny) / np.float32(QMAX["int8"])
    expansion = Expansion(node)
    quantized = fake_quantize(folded, replace(calibration, thresholds=largest, scales=scales))
    node.replace_input_with(1, _constant(expansion, quantized))
    integers = _quantize_in_steps(expansion, before_calibration(data), activation, opset, step)
    node.replace_input_with(0, integers)
    graph.insert_before(node, expansion.nodes)


def integer_range(qtype: str) -> tuple[float, float]:
    """Least and greatest integer of a quantised type."""
    return (0.0, 255.0) if qtype == "uint8" else (-QMAX[qtype] - 1.0, float(QMAX[qtype]))


def spread(values: Array, shape: Sequence[int], calibration: Calibration) -> Array:
    """Values per channel, shaped to broadcast over the tensor that they belong to; one value becomes a scalar.

    The weight of a grouped ``ConvTranspose`` (axis 1, shape (I, O / group, ...)) has O values, group after group.

    Args:
        values: shape (1,) or (channels,).
        shape: of the tensor.
        calibration: whose ``axis`` and ``group`` hold.
    """
    if values.size == 1:
        return values.reshape(())
    axis, group = calibration.axis, calibration.group
    if axis == 1 and group > 1:
        rows = np.repeat(values.reshape(group, shape[1]), shape[0] // group, axis=0)
        return rows.reshape(*rows.shape, *(1 for _ in shape[2:]))
    return values.reshape([-1 if index == axis else 1 for index in range(len(shape))])


def _replace_calibration(graph: ir.Graph, node: ir.Node, opset: int, quantize_linear: bool) -> None:
    """Put standard nodes in the place of the ``HzCalibration`` ``node``."""
    source, result, calibration = node.inputs[0], node.outputs[0], read_calibration(node)
    if source is None:
        raise ModelError(f"node {node.name!r}: HzCalibration has no input")
    if calibration.switch == "OFF" and not result.is_graph_output():
        result.replace_all_uses_with(source)
        graph.remove(node, safe=True)
        return
    nodes = _standard_nodes(node, source, calibration, opset, quantize_linear)
    ir.convenience.replace_nodes_and_values(graph, node, [node], nodes, [result], [nodes[-1].outputs[0]])


def _standard_nodes(
    node: ir.Node, source: ir.Value, calibration: Calibration, opset: int, quantize_linear: bool
) -> Sequence[ir.Node]:
    expansion = Expansion(node)
    if calibration.switch == "OFF":
        expansion.add("Identity", source)
        return expansion.nodes
    if not calibration.scales.size:
        raise ModelError(f"node {node.name!r}: HzCalibration has no thresholds; calibrate the model first")
    constant = constant_of(source)
    if constant is not None:
        _constant(expansion, fake_quantize(constant, calibration))
        return expansion.nodes
    kind = _QUANTIZE_LINEAR_TYPES.get(calibration.qtype)
    if quantize_linear and kind is not None and calibration.scales.size == 1 and opset >= _QUANTIZE_LINEAR_SINCE_OPSET:
        _quantize_linear(expansion, source, calibration, kind)
    else:
        _quantize_in_steps(
            expansion, source, calibration, opset, spread(calibration.scales, shape_of(source), calibration)
        )
    return expansion.nodes


def _quantize_linear(expansion: Expansion, source: ir.Value, calibration: Calibration, kind: ir.DataType) -> None:
    scale = _constant(expansion, calibration.scales.reshape(()))
    zero = expansion.add("Constant", value=ir.tensor(np.zeros((), kind.numpy())))
    zero.type = ir.TensorType(kind)
    integers = expansion.add("QuantizeLinear", source, scale, zero)
    integers.type = ir.TensorType(kind)
    expansion.add("DequantizeLinear", integers, scale, zero)
    _give_shape(expansion, source.shape)


def _quantize_in_steps(
    expansion: Expansion, source: ir.Value, calibration: Calibration, opset: int, step: Array
) -> ir.Value:
    """The integers of ``source`` times ``step``, which broadcasts over it."""
    low, high = integer_range(calibration.qtype)
    ratio = expansion.add(
        "Div", source, _constant(expansion, spread(calibration.scales, shape_of(source), calibration))
    )
    # The bounds are integers, so clipping first is the same, and keeps large values out of the rounding by addition.
    if opset >= _CLIP_BY_INPUTS_SINCE_OPSET:
        clipped = expansion.add("Clip", ratio, expansion.scalar(low), expansion.scalar(high))
    else:
        clipped = expansion.add("Clip", ratio, min=low, max=high)
    result = expansion.add("Mul", _rounded(expansion, clipped, opset), _constant(expansion, step))
    _give_shape(expansion, source.shape)
    return result


def _give_shape(expansion: Expansion, shape: ir.Shape | None) -> None:
    for node in expansion.nodes:
        if node.op_type != "Constant":
            node.outputs[0].shape = shape


def _constant(expansion: Expansion, array: Array) -> ir.Value:
    return expansion.add("Constant", value=ir.tensor(np.asarray(array, np.float32)))


def _rounded(expansion: Expansion, value: ir.Value, opset: int) -> ir.Value:
    if opset >= _ROUND_SINCE_OPSET:
        return expansion.add("Round", value)
    constant = expansion.scalar(_ROUNDING_CONSTANT)
    return expansion.add("Sub", expansion.add("Add", value, constant), constant)


class FloatSession:
    """Runs a float-stage model in ONNX Runtime on any number of samples.

    A model is made for one sample (or its fixed batch). Where its operators allow it, up to ``max_batch`` samples are
    computed per run; only if that gives the same bits as one sample at a time, which is tried where it is not known.

    Args:
        model: source, original_float, optimized_float or calibrated model; not changed.
        outputs: tensors to fetch, any of the graph; None for the graph's outputs.
        threads: CPU threads; None for all.
        kernels: see :class:`Kernels`.
        max_batch: samples per run.

    Raises:
        InferenceError: a name in ``outputs`` is not a tensor that a node computes.
    """

    def __init__(
        self,
        model: ir.Model,
        outputs: Sequence[str] | None = None,
        *,
        threads: int | None = None,
        kernels: Kernels = Kernels.FAST,
        max_batch: int = MAX_BATCH,
    ) -> None:
        model = to_standard(model, quantize_linear=True)
        if outputs is not None:
            _fetch(model, outputs)
        self.inputs = {str(value.name): shape_of(value) for value in model.graph.inputs}
        self.outputs = {str(value.name): shape_of(value) for value in model.graph.outputs}
        self._types = {str(value.name): _numpy_type(value) for value in model.graph.inputs}
        self._threads, self._kernels = threads, kernels
        self._samplewise = False
        self._pool = ThreadPoolExecutor(threads or os.cpu_count() or 1)
        self._session, self.batch = self._open(model, max_batch)

    def _open(self, model: ir.Model, max_batch: int) -> tuple[ort.InferenceSession | ChainedRunner, int]:
        """The session and how many samples it computes per run; code of users sees one at a time, as the model says."""
        if self._kernels is Kernels.PLAIN and extract_depthwise(model):
            # The threads take a sample each: they wait for each other less than if they share one.
            self._samplewise, self._threads = self._threads != 1, 1
            return ChainedRunner(model, self._load), 1
        if any(map(is_custom, model.graph)):
            return ChainedRunner(model, self._load), 1
        if max_batch > 1 and all(kind == np.float32 for kind in self._types.values()):
            symbolic = with_symbolic_batch(model)
            if symbolic is not None:
                session = self._load(symbolic)
                if computes_samples_apart(model) or self._is_batch_exact(session):
                    return session, max_batch
        return self._load(model), 1

    def _load(self, model: ir.Model) -> ort.InferenceSession:
        from engine.calibrate.runtime import open_session

        return open_session(to_bytes(model), threads=self._threads, blocked_layouts=self._kernels is Kernels.FAST)

    def _is_batch_exact(self, session: ort.InferenceSession) -> bool:
        """Whether two samples in one run give the bits of two runs; float kernels may sum differently."""
        rng = np.random.default_rng(0)
        feed = {name: rng.standard_normal((2, *shape[1:]), np.float32) for name, shape in self.inputs.items()}
        try:
            together = session.run(None, feed)
        except ModelError:
            return False
        alone = session.run(None, {name: array[1:] for name, array in feed.items()})
        return all(np.array_equal(both[1:], one, equal_nan=True) for both, one in zip(together, alone, strict=True))

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs for ``feed``, which holds any number of samples along the first dimension.

        Raises:
            InferenceError: an input is missing or unknown, or has the wrong shape.
        """
        results = self._each(lambda batch: self._session.run(None, batch), self._batches(feed))
        joined = results[0] if len(results) == 1 else [np.concatenate(parts) for parts in zip(*results, strict=True)]
        return dict(zip(self.outputs, joined, strict=True))

    def run_into(self, feed: Mapping[str, Array], buffers: Mapping[str, NDArray[np.float32]]) -> None:
        """As :meth:`run`, the outputs written into ``buffers``: nothing is allocated.

        Args:
            feed: arrays by input name.
            buffers: C-contiguous float32 arrays by output name, rows for as many samples as ``feed`` holds.
        """
        pieces, first, (name, shape) = [], 0, next(iter(self.inputs.items()))
        for batch in self._batches(feed):
            samples = len(batch[name]) // shape[0]
            rows = {key: slice(first * shape[0], (first + samples) * shape[0]) for key, shape in self.outputs.items()}
            pieces.append((batch, {key: buffers[key][part] for key, part in rows.items()}))
            first += samples
        run = self._session.run_into if isinstance(self._session, ChainedRunner) else partial(run_bound, self._session)
        self._each(lambda piece: run(*piece), pieces)

    def visit(self, feed: Mapping[str, Array], see: Callable[[str, NDArray[np.float32]], None]) -> None:
        """As :meth:`run`, but outputs, all float32, are shown as soon as they are there and do not outlast that.

        Args:
            feed: arrays by input name.
            see: called with the name of an output and its values for one or some samples; several threads call it.
        """
        if isinstance(self._session, ChainedRunner):
            self._each(partial(self._session.visit, see=see), self._batches(feed))
            return
        (name, shape), room = next(iter(self.inputs.items())), self._room
        for batch in self._batches(feed):
            count = len(batch[name]) // shape[0]
            parts = {key: array[: count * self.outputs[key][0]] for key, array in room.items()}
            run_bound(self._session, batch, parts)
            list(self._pool.map(see, parts, parts.values()))

    @cached_property
    def _room(self) -> dict[str, NDArray[np.float32]]:
        """Memory for the outputs of one run."""
        return {name: np.empty((self.batch * shape[0], *shape[1:]), np.float32) for name, shape in self.outputs.items()}

    def _each(self, compute: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """One run after the other; runs of one sample each at the same time."""
        return list(self._pool.map(compute, items) if self._samplewise else map(compute, items))

    def _batches(self, feed: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
        """The feed in pieces that one run can take."""
        if set(feed) != set(self.inputs):
            raise InferenceError(f"inputs given: {sorted(feed)}; the model's inputs are {sorted(self.inputs)}")
        counts = set()
        for name, array in feed.items():
            shape = self.inputs[name]
            if array.ndim != len(shape) or array.shape[1:] != shape[1:] or not len(array) or len(array) % shape[0]:
                raise InferenceError(
                    f"input {name!r}: the array has shape {array.shape}, the model takes {shape} or a multiple in the "
                    "first dimension"
                )
            counts.add(len(array) // shape[0])
        if len(counts) != 1:
            raise InferenceError(f"inputs hold different numbers of samples: {sorted(counts)}")
        (samples,) = counts
        for start in range(0, samples, self.batch):
            stop = min(start + self.batch, samples)
            yield {
                name: np.ascontiguousarray(feed[name][start * shape[0] : stop * shape[0]], self._types[name])
                for name, shape in self.inputs.items()
            }


def _fetch(model: ir.Model, names: Sequence[str]) -> None:
    """Make the tensors ``names`` the outputs of ``model`` and drop what they do not need."""
    values = {str(value.name): value for node in model.graph for value in node.outputs}
    unknown = [name for name in names if name not in values]
    if unknown:
        raise InferenceError(f"not tensors that a node of the model computes: {unknown}")
    model.graph.outputs[:] = [values[name] for name in dict.fromkeys(names)]
    RemoveUnusedNodesPass()(model)


def _numpy_type(value: ir.Value) -> np.dtype[Any]:
    if value.dtype is None:
        raise ModelError(f"tensor {value.name!r} has no type")
    return value.dtype.numpy()
