"""Standard ONNX nodes of a quantised graph: data movement on integers, and float operators that stay on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from numpy.typing import NDArray
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph, RuntimeException
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

from engine.alignment import aligned
from engine.errors import ModelError
from engine.floats.border_columns import columns_counted, without_columns
from engine.floats.convolution import convolved, window_of
from engine.floats.own_arithmetic import on_arrays
from engine.floats.pool import pooled, windows_of
from engine.floats.recurrent import cell_of, recurred
from engine.floats.resize import ResizePlan, plan_of, resized
from engine.floats.runtime import UNPACKED
from engine.floats.softmax.definition import softmax_over
from engine.ir import constant_of
from engine.ops.softmax import normalised_axes

Array = NDArray[Any]
Run = Callable[[dict[str, Array]], list[Array]]

NEWEST_IR_VERSION = 10
"""IR version of the one-node models; every ONNX Runtime that ptqlab allows reads it."""


class StandardNode:
    """One standard node, run on arrays of its declared shapes (one sample).

    ONNX Runtime computes it where it has a kernel for the types at hand, else the ONNX reference evaluator (a quantised
    graph holds nodes such as ``Max`` on int8 that the operator set of its file does not define). Neither depends on
    the rest of the graph, so that the result of a node never changes with what stands around it. A Softmax of float32,
    which ONNX Runtime computes otherwise on other CPUs, is that of :mod:`engine.floats.softmax.definition`, a
    convolution over one axis that of :mod:`engine.floats.convolution`, a Resize that of :mod:`engine.floats.resize`,
    a MaxPool that of :mod:`engine.floats.pool`, an LSTM or GRU that of :mod:`engine.floats.recurrent`, and what
    ONNX Runtime sums or rounds otherwise than the original's that of :mod:`engine.floats.own_arithmetic`. An average of
    floats counts padding as :mod:`engine.floats.border_columns` says.
    """

    def __init__(self, node: ir.Node, opsets: dict[str, int]) -> None:
        self._node = node
        self._opsets = opsets
        self._constants = [constant_of(value) for value in node.inputs]
        self._runners: dict[tuple[np.dtype[Any], ...], Run] = {}

    def __call__(self, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Outputs of the node; ``inputs`` in the node's order, None where one is omitted.

        Raises:
            ModelError: the node cannot be run on these inputs.
        """
        feed = {f"i{k}": x for k, x in enumerate(inputs) if x is not None and self._constants[k] is None}
        types = tuple(x.dtype for x in feed.values())
        if types not in self._runners:
            self._runners[types] = self._prepare(feed)
        return tuple(self._runners[types](feed))

    def _prepare(self, feed: dict[str, Array]) -> Run:
        if self._node.op_type == "Softmax" and [x.dtype for x in feed.values()] == [np.float32]:
            return lambda given: [softmax_over(x, self._softmax_axes(x)) for x in given.values()]
        operands = [feed.get(f"i{k}", constant) for k, constant in enumerate(self._constants)]
        source = operands[0] if operands else None
        if source is not None and set(feed) <= {"i0"} and source.dtype == np.float32:
            own = on_arrays(self._node, source.shape)
            if own is not None:
                return lambda given: [own(given.get("i0", source))]
            columns = columns_counted(self._node, source.shape)
            if columns:
                return self._with_columns(columns, source)
        if self._node.op_type == "Conv" and list(feed) == ["i0"] and window_of(self._node, operands) is not None:
            return self._convolve
        if self._node.op_type == "Resize" and list(feed) == ["i0"] and self._plan(feed["i0"]) is not None:
            return self._resize
        if self._node.op_type == "MaxPool" and list(feed) == ["i0"] and windows_of(self._node, feed["i0"]) is not None:
            return self._pool
        if list(feed) == ["i0"] and cell_of(self._node, operands) is not None:
            return self._recur
        model = self._one_node_model(feed)
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        # As the original's runtime, which neither rearranges maps nor packs constant operands of products beforehand.
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry(*UNPACKED)
        options.enable_cpu_mem_arena = False  # of every node its own, and never given back
        try:
            session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except (Fail, InvalidArgument, InvalidGraph, NoKernel):
            return self._evaluator(model)
        return lambda given: self._run(session, given)

    def _softmax_axes(self, x: Array) -> tuple[int, ...]:
        return normalised_axes(self._node, x.ndim, self._opsets.get("", self._opsets.get("ai.onnx", 0)))

    def _with_columns(self, columns: int, source: Array) -> Run:
        """The average of a map to which zeros are joined on the right, in place of padding there."""
        average = StandardNode(without_columns(self._node), self._opsets)
        return lambda given: [*average([np.pad(given.get("i0", source), ((0, 0), (0, 0), (0, 0), (0, columns)))])]

    def _convolve(self, given: dict[str, Array]) -> list[Array]:
        _, weights, bias = [*self._constants, None][:3]
        window = window_of(self._node, [given["i0"], weights, bias])
        if window is None or weights is None:
            raise ModelError(f"node {self._node.name} (Conv) cannot be computed on shape {given['i0'].shape}")
        return [convolved(given["i0"], weights, bias, window)]

    def _pool(self, given: dict[str, Array]) -> list[Array]:
        windows = windows_of(self._node, given["i0"])
        if windows is None:
            raise ModelError(f"node {self._node.name} (MaxPool) cannot be computed on shape {given['i0'].shape}")
        return [pooled(given["i0"], windows)]

    def _plan(self, x: Array) -> ResizePlan | None:
        return plan_of(self._node, [x, *self._constants[1:]], self._opsets.get("", 0))

    def _resize(self, given: dict[str, Array]) -> list[Array]:
        plan = self._plan(given["i0"])
        if plan is None:
            raise ModelError(f"node {self._node.name} (Resize) cannot be computed on shape {given['i0'].shape}")
        return [resized(given["i0"], plan)]

    def _recur(self, given: dict[str, Array]) -> list[Array]:
        cell = cell_of(self._node, [given["i0"], *self._constants[1:]])
        if cell is None:
            where = f"node {self._node.name} ({self._node.op_type})"
            raise ModelError(f"{where} cannot be computed on shape {given['i0'].shape}")
        return [*recurred(given["i0"], cell)][: len(self._node.outputs)]

    def _run(self, session: ort.InferenceSession, given: dict[str, Array]) -> list[Array]:
        try:
            return list(session.run(None, {name: aligned(array) for name, array in given.items()}))
        except (Fail, InvalidArgument, RuntimeException) as error:
            raise ModelError(f"node {self._node.name} ({self._node.op_type}) cannot be computed: {error}") from error

    def _evaluator(self, model: onnx.ModelProto) -> Run:
        from onnx.reference import ReferenceEvaluator  # 10 MB that ONNX Runtime's kernels do not need

        where = f"node {self._node.name} ({self._node.op_type})"
        try:
            evaluator = ReferenceEvaluator(model)
        except (NotImplementedError, RuntimeError) as error:
            raise ModelError(f"{where} cannot be simulated: {error}") from error
        return lambda given: [np.asarray(output) for output in evaluator.run(None, given)]

    def _one_node_model(self, feed: dict[str, Array]) -> onnx.ModelProto:
        proto = ir.serde.serialize_node(self._node)
        names = ["" if value is None else f"i{k}" for k, value in enumerate(self._node.inputs)]
        # Also those that are left out before one that is read, such as Y of a GRU: results have the node's order.
        outputs = [f"o{k}" for k in range(len(proto.output))]
        del proto.input[:], proto.output[:]
        proto.input.extend(names)
        proto.output.extend(outputs)
        constants = {f"i{k}": array for k, array in enumerate(self._constants) if array is not None}
        graph = onnx.helper.make_graph(
            [proto],
            "node",
            [_value_info(name, array) for name, array in feed.items()],
            [onnx.ValueInfoProto(name=name) for name in outputs],
            [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
        )
        opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in self._opsets.items()]
        return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=NEWEST_IR_VERSION)


def _value_info(name: str, array: Array) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(
        name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim
    )
