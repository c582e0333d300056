"""Where the error of an integer model comes from, node by node.

The error of a node's result, integer model less float model, is the sum of four parts, element by element::

    inherited      = f(x~) - f(x)            f: the float node, x: float inputs, x~: values of the integer inputs
    clipping       = clip(f(x~)) - f(x~)     to the range of the result's integers
    rounding       = q(f(x~)) - clip(f(x~))  q: nearest integer value in that range
    requantisation = y - q(f(x~))            y: what the integers really gave: weights and bias as integers, narrowed
                                             accumulators, multipliers and shifts in place of exact scales

Where the integer model gives floats (the int32 accumulator of a last convolution times its scale, a node on the CPU),
nothing is clipped or rounded, and both parts are 0.

The parts sum to ``y - f(x)``, but for the rounding of float64. In squares the parts correlate: each part's share is its
product with the total, and the shares sum to the mean squared error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.debug.analysis.variants import FLOAT, dynamic_values, switch
from engine.debug.bisection.tensors import Feed, integer_tensors
from engine.floats.fake_quantization import fake_quantize, integer_range, spread
from engine.floats.float_model import FloatSession, Kernels
from engine.ir import Calibration, attribute, constant_of, is_calibration, read_calibration, shape_of

Array = NDArray[Any]
PARTS = ("inherited", "clipping", "rounding", "requantisation")

_NHWC_TO_NCHW = (0, 3, 1, 2)


@dataclass(frozen=True)
class NodeError:
    """The error of one node's result.

    Attributes:
        node: name of the float node whose result it is.
        tensor: its result.
        parts: float64 arrays of the result's shape by name of the part; they sum to ``total``.
        total: integer model less float model.
        units: value of one integer unit, broadcasts to the shape of ``total``; infinite where none is known.
    """

    node: str
    tensor: str
    parts: Mapping[str, NDArray[np.float64]]
    total: NDArray[np.float64]
    units: NDArray[np.float64]

    @property
    def mse(self) -> float:
        """Mean squared error of the result."""
        return float(np.mean(self.total**2))

    @property
    def shares(self) -> dict[str, float]:
        """Share of every part in :attr:`mse`; they sum to it. A part that takes error away has a negative one."""
        return {name: float(np.mean(part * self.total)) for name, part in self.parts.items()}


def integer_errors(calibrated: ir.Model, quantized: ir.Model, feed: Feed) -> list[NodeError]:
    """The error of every node whose result both models hold: a float tensor, and its integers or floats made of them.

    Args:
        calibrated: model with thresholds; the float model is it with all calibration switched off.
        quantized: its integer form, ours or foreign.
        feed: what the original_float model takes, samples along the first dimension.

    Returns:
        In graph order. A run of nodes whose tensors in between only one model holds counts as one, named after its
        last.
    """
    plain = calibrated.clone()
    switch(plain, FLOAT)
    nodes = _shared(plain, quantized)
    values = _values(plain, nodes, integer_tensors(quantized, feed))
    tensors = FloatSession(plain, list(nodes), kernels=Kernels.PLAIN, max_batch=1).run(feed)
    known = {**{name: _as_read(name, array, calibrated) for name, array in feed.items()}, **values}
    producers = {str(value.name): node for node in plain.graph for value in node.outputs}
    found = []
    for name, (key, calibration) in nodes.items():
        exact = _run_between(plain, name, known)
        if calibration is None:
            units, clipped, nearest = _units(quantized, key, exact.ndim), exact, exact
        else:
            units = spread(calibration.scales.astype(np.float64), exact.shape, calibration)
            low, high = integer_range(calibration.qtype)
            clipped = np.clip(exact, low * units, high * units)
            nearest = np.rint(clipped / units) * units
        wanted = tensors[name].astype(np.float64)
        parts = (exact - wanted, clipped - exact, nearest - clipped, values[name] - nearest)
        total = values[name] - wanted
        found.append(NodeError(str(producers[name].name), name, dict(zip(PARTS, parts, strict=True)), total, units))
    return found


def integer_values(calibrated: ir.Model, quantized: ir.Model, integers: Mapping[str, Array]) -> dict[str, Array]:
    """What the integers of a model stand for, by name of the float tensor, in its layout.

    Args:
        calibrated: model with thresholds.
        quantized: its integer form.
        integers: tensors of ``quantized`` by name.
    """
    return _values(calibrated, _shared(calibrated, quantized), integers)


def error_table(errors: Sequence[NodeError]) -> str:
    """A row per node: mean squared error and the share of every part, which sum to it."""
    width = max([len(error.node) for error in errors] + [4])
    lines = ["  ".join(["Node".ljust(width), *(name.rjust(14) for name in ("mse", *PARTS))])]
    for error in errors:
        figures = [error.mse, *error.shares.values()]
        lines.append("  ".join([error.node.ljust(width), *(f"{figure:14.6g}" for figure in figures)]))
    return "\n".join(lines) + "\n"


_Shared = Mapping[str, tuple[str, Calibration | None]]
"""By float tensor that a node computes: the tensor of the integer model, and its calibration if it holds integers."""


def _shared(plain: ir.Model, quantized: ir.Model) -> _Shared:
    """The tensors that both models hold, in graph order."""
    known = {str(value.name): value for node in quantized.graph for value in node.outputs}
    dynamic = dynamic_values(plain.graph)
    found: dict[str, tuple[str, Calibration | None]] = {}
    for node in plain.graph:
        for value in node.outputs:
            name = str(value.name)
            if value not in dynamic or is_calibration(node):
                continue
            match = _integers_of(value, known)
            if match is not None:
                found[name] = match
            elif name in known and known[name].dtype == value.dtype == ir.DataType.FLOAT and _fits(known[name], value):
                found[name] = (name, None)
    return found


def _integers_of(value: ir.Value, known: Mapping[str, ir.Value]) -> tuple[str, Calibration] | None:
    """The int8 or int16 form of ``value`` and its calibration."""
    for reader in value.consumers():
        if not is_calibration(reader) or not read_calibration(reader).scales.size:
            continue
        for key in (f"{value.name}_quantized", f"{value.name}_calibrated_quantized"):
            if key in known and known[key].dtype in (ir.DataType.INT8, ir.DataType.INT16) and _fits(known[key], value):
                return key, read_calibration(reader)
    return None


def _units(quantized: ir.Model, key: str, rank: int) -> NDArray[np.float64]:
    """Scales of the HzDequantize that makes the float tensor ``key``, spread over its channels; else infinite."""
    value: ir.Value | None = next(found for node in quantized.graph for found in node.outputs if found.name == key)
    order = tuple(range(rank))
    while value is not None and (node := value.producer()) is not None:
        if node.op_type == "Transpose":
            permutation = node.attributes["perm"].as_ints()
            order = tuple(permutation[axis] for axis in order)
            value = node.inputs[0]
        elif node.op_type == "HzDequantize":
            scales = np.asarray(constant_of(node.inputs[1]), np.float64).reshape(-1)
            shape = [1] * rank
            if scales.size > 1:
                shape[order.index(attribute(node, "axis", 1) % rank)] = scales.size
            return scales.reshape(shape)
        else:
            break
    return np.full((1,) * rank, np.inf)


def _values(plain: ir.Model, nodes: _Shared, integers: Mapping[str, Array]) -> dict[str, Array]:
    shapes = {str(value.name): shape_of(value) for node in plain.graph for value in node.outputs if value.name in nodes}
    return {
        name: integers[key].astype(np.float64)
        if calibration is None
        else _value(integers[key], calibration, shapes[name])
        for name, (key, calibration) in nodes.items()
    }


def _fits(first: ir.Value, second: ir.Value) -> bool:
    """Whether both have as many elements."""
    known = first.shape is not None and second.shape is not None
    return known and int(np.prod(shape_of(first))) == int(np.prod(shape_of(second)))


def _value(integers: Array, calibration: Calibration, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """What integers stand for, in the layout of the float tensor, which has ``shape`` for one sample.

    The integer model holds rank 4 as NHWC, but for the operands of matrix products.
    """
    kept = integers.ndim != 4 or integers.shape[1:] == shape[1:] != tuple(integers.shape[axis] for axis in (3, 1, 2))
    moved = integers if kept else integers.transpose(_NHWC_TO_NCHW)
    whole = moved.astype(np.float64) + calibration.offset
    return whole * spread(calibration.scales.astype(np.float64), moved.shape, calibration)


def _as_read(name: str, array: Array, calibrated: ir.Model) -> Array:
    """A graph input as the integer model reads it: quantised where a calibration node reads it at once."""
    value = next(value for value in calibrated.graph.inputs if value.name == name)
    readers = [node for node in value.consumers() if is_calibration(node)]
    if not readers or not read_calibration(readers[0]).scales.size:
        return array
    return fake_quantize(array, read_calibration(readers[0]))


def _run_between(plain: ir.Model, name: str, known: Mapping[str, Array]) -> NDArray[np.float64]:
    """The tensor ``name``, computed in float from the nearest tensors upstream that have integers."""
    target = next(value for node in plain.graph for value in node.outputs if value.name == name)
    dynamic = dynamic_values(plain.graph)
    bounds: dict[ir.Value, None] = {}
    stack = [target]
    seen = {target}
    while stack:
        producer = stack.pop().producer()
        for value in producer.inputs if producer is not None else ():
            if value is None or value not in dynamic or value in seen:
                continue
            seen.add(value)
            if value.name in known:
                bounds[value] = None
            else:
                stack.append(value)
    graph = ir.convenience.extract(plain.graph, list(bounds), [target])
    session = FloatSession(ir.Model(graph, ir_version=plain.ir_version), kernels=Kernels.PLAIN, max_batch=1)
    feed = {str(value.name): np.asarray(known[str(value.name)], np.float32) for value in bounds}
    return session.run(feed)[name].astype(np.float64)
