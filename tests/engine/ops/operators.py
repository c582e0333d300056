"""Single operators: their integers by definition and in standard ONNX, and what a float node becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
from numpy.typing import NDArray

from engine.chips import load_chip
from engine.ir import HORIZON_DOMAIN, QMAX, Calibration, constant_of, to_bytes
from engine.ops.core.base import FloatRule, Quantized
from engine.ops.core.bounds import Case, IntegerOperand
from engine.ops.core.reasons import Code
from engine.ops.registry import operator, read_attributes
from engine.simulate.portable import to_standard
from tests.engine.simulate.models import node_model

Array = NDArray[Any]

FLOAT = ir.DataType.FLOAT


def results(op_type: str, inputs: Sequence[Array | None], activations: int = 1, **attributes: Any) -> tuple[Array, ...]:
    """What the definition of an operator gives; the first output is the same in standard ONNX, or this fails.

    Args:
        op_type: the operator.
        inputs: in order; None for an omitted one.
        activations: how many of the first inputs are no constants of the model.
        attributes: as in a file.
    """
    fed, constants = inputs[:activations], dict(enumerate(inputs))
    constants = {k: x for k, x in constants.items() if k >= activations and x is not None}
    model = node_model(op_type, fed, attributes, constants)
    found = operator(op_type).reference(inputs, read_attributes(model.graph[0]))
    model.graph.outputs[0].dtype = ir.DataType.from_numpy(found[0].dtype)
    model.graph.outputs[0].shape = ir.Shape(found[0].shape)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(to_bytes(to_standard(model)), options, providers=["CPUExecutionProvider"])
    (exported,) = session.run(None, {f"x{k}": x for k, x in enumerate(fed)})
    assert exported.dtype == found[0].dtype
    np.testing.assert_array_equal(exported, found[0])
    return found


def evaluate(op_type: str, inputs: Sequence[Array | None], activations: int = 1, **attributes: Any) -> Array:
    """The only result of :func:`results`."""
    (result,) = results(op_type, inputs, activations, **attributes)
    return result


def int8(*values: int, shape: Sequence[int] = (1, 1, -1, 1)) -> Array:
    """Integers of a row of pixels, or of another shape."""
    return np.array(values, np.int8).reshape(shape)


def tensor(name: str, *shape: int, dtype: ir.DataType = FLOAT) -> ir.Value:
    """A float tensor of the network."""
    return ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(shape))


def constant(name: str, array: Any) -> ir.Value:
    """A constant of the network."""
    content = ir.tensor(np.asarray(array), name=name)
    return ir.Value(name=name, type=ir.TensorType(content.dtype), shape=content.shape, const_value=content)


def float_node(op_type: str, inputs: Sequence[ir.Value | None], *shapes: Sequence[int], **attributes: Any) -> ir.Node:
    """The node ``n`` of the network, with outputs ``y``, ``y1`` ... of ``shapes``."""
    outputs = [tensor(f"y{index or ''}", *shape) for index, shape in enumerate(shapes)]
    return ir.node(op_type, inputs, attributes, outputs=outputs, name="n")


def refused(rule: FloatRule, node: ir.Node, march: str = "bayes-e", *, late: bool = False) -> Code | None:
    """Why ``node`` runs on the CPU of ``march``; with ``late``, though its inputs are quantised."""
    reason = (rule.late_refusal if late else rule.refusal)(node, load_chip(march))
    return None if reason is None else reason.code


def scaled(*scales: float, qtype: str = "int8") -> Calibration:
    """A calibration with these scales, one or one per channel."""
    array = np.array(scales, np.float32)
    return Calibration(array * np.float32(QMAX[qtype]), array, qtype)


@dataclass(frozen=True)
class Lowered:
    """A quantised node that a rule made; inputs and outputs by name."""

    op_type: str
    name: str
    inputs: list[str]
    attributes: Mapping[str, Any]
    outputs: list[str]
    bits: int | Sequence[int]
    scale: list[float]
    layout: str
    domain: str


class Recorder:
    """A :class:`~engine.ops.core.base.Lowering` that keeps what a rule makes.

    Attributes:
        nodes: what was emitted, in order.
        constants: arrays of initializers by name.
        forms: integer forms of tensors by name, as asked for last.
    """

    def __init__(self, march: str = "bayes-e", **calibrations: Calibration) -> None:
        """Args: calibrations, by name of the tensor; results without one are tails."""
        self.march = load_chip(march)
        self.nodes: list[Lowered] = []
        self.constants: dict[str, Array] = {}
        self.forms: dict[str, Quantized] = {}
        self._calibrations = calibrations

    def integer(
        self,
        value: ir.Value,
        layout: str = "NHWC",
        like: Calibration | None = None,
        per_channel: bool = False,
        unsigned: bool = False,
        index: int | None = None,
    ) -> Quantized:
        name = str(value.name)
        wanted = like or self._calibrations.get(name)
        if wanted is None:
            return self.forms[name]
        assert unsigned or not wanted.offset
        scales = wanted.scales if per_channel else wanted.scales.max(keepdims=True)
        self.forms[name] = Quantized(ir.Value(name=f"{name} {layout}"), scales, wanted.bits, wanted.offset)
        return self.forms[name]

    def padded(self, value: ir.Value, form: Quantized, pads: Sequence[int]) -> Quantized:
        return replace(form, value=ir.Value(name=f"{value.name} padded {list(pads)}"))

    def constant(self, value: ir.Value | None) -> Array | None:
        return constant_of(value)

    def calibration(self, value: ir.Value) -> Calibration | None:
        return self._calibrations.get(str(value.name))

    def is_tail(self, value: ir.Value) -> bool:
        return self.calibration(value) is None

    def initializer(self, name: str, array: Array) -> ir.Value:
        self.constants[name] = array
        return ir.Value(name=name)

    def alias(self, result: ir.Value, form: Quantized) -> None:
        self.forms[str(result.name)] = form

    def emit(
        self,
        op_type: str,
        node: ir.Node,
        inputs: Sequence[ir.Value],
        attributes: Mapping[str, Any],
        *outputs: ir.Value,
        bits: int | Sequence[int],
        scale: NDArray[np.float32],
        layout: str = "NHWC",
        domain: str = HORIZON_DOMAIN,
        name: str | None = None,
    ) -> None:
        read, made = ([str(value.name) for value in values] for values in (inputs, outputs))
        label, scales = str(name or node.name), np.asarray(scale).ravel().tolist()
        self.nodes.append(Lowered(op_type, label, read, attributes, made, bits, scales, layout, domain))
        width = bits if isinstance(bits, int) else bits[0]
        self.forms[made[0]] = Quantized(ir.Value(name=f"{made[0]} {layout}"), np.asarray(scale), width)


def lowered(rule: FloatRule, *chain: ir.Node, march: str = "bayes-e", **calibrations: Calibration) -> Lowered:
    """The only node that ``rule`` makes of ``chain``."""
    recorder = Recorder(march, **calibrations)
    rule.lower(chain, recorder)
    (made,) = recorder.nodes
    return made


def bound(
    op_type: str,
    head: ir.Node,
    operands: Sequence[float],
    scale: float,
    constants: Sequence[Array] = (),
    shapes: tuple[Sequence[int], Sequence[int]] = ((1, 2, 2, 4), (1, 2, 2, 4)),
    dtype: ir.DataType = ir.DataType.INT8,
    **attributes: Any,
) -> Any:
    """What an operator says of its error.

    Args:
        op_type: the operator.
        head: the float node that it stands for.
        operands: scales of its int8 activations.
        scale: of its result.
        constants: its other inputs.
        shapes: of the first activation and of the result.
        dtype: of the result.
        attributes: as in a file.
    """
    values = [tensor(f"x{index}", *shapes[0], dtype=ir.DataType.INT8) for index in range(len(operands))]
    inputs = [*values, *(constant(f"c{index}", array) for index, array in enumerate(constants))]
    outputs = [tensor("y", *shapes[1], dtype=dtype)]
    node = ir.node(op_type, inputs, attributes, domain=HORIZON_DOMAIN, outputs=outputs, name="n")
    known = [IntegerOperand(value, "x", size, 128.0) for value, size in zip(values, operands, strict=True)]
    return operator(op_type).error_bound(Case(node, read_attributes(node), [head], known, np.array([scale])))
