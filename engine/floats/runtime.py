"""Sessions of ONNX Runtime for float models; a module of its own, since the runtime is slow to import."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import onnxruntime as ort
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as errors

from engine.alignment import aligned
from engine.errors import ModelError

_REFUSALS = (
    errors.Fail,
    errors.InvalidArgument,
    errors.InvalidGraph,
    errors.InvalidProtobuf,
    errors.NotImplemented,
    errors.RuntimeException,
)
"""What the runtime raises for a model or inputs that it does not take."""

UNPACKED = "session.disable_prepacking", "1"
"""Setting of a session whose products of matrices read constants as they read what is computed.

ONNX Runtime sums a product of packed constants in another order where a matrix has one row, or few columns. The
original's runtime has one order for both: 42 of 42 products with constants, and 28 of 28 without, have its bits so."""


class CheckedSession(ort.InferenceSession):  # type: ignore[misc]  # onnxruntime ships no types
    """A session whose errors at run time are PtqlabErrors: operands that do not match show only then."""

    def run(self, outputs: Sequence[str] | None, feed: Mapping[str, NDArray[Any]], *options: Any) -> Any:
        """See ``onnxruntime.InferenceSession.run``; results do not depend on where the arrays of ``feed`` begin.

        Raises:
            ModelError: an operator does not take its operands.
        """
        with _refusals():
            return super().run(outputs, {name: aligned(array) for name, array in feed.items()}, *options)

    def run_with_iobinding(self, *arguments: Any, **options: Any) -> None:
        """See ``onnxruntime.InferenceSession.run_with_iobinding``.

        Raises:
            ModelError: an operator does not take its operands.
        """
        with _refusals():
            super().run_with_iobinding(*arguments, **options)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except (*_REFUSALS, RuntimeError) as error:  # bound outputs: a bare RuntimeError
        raise ModelError(f"ONNX Runtime cannot run the model: {error}") from error


def open_session(model: bytes, *, threads: int | None, blocked_layouts: bool) -> CheckedSession:
    """A session that computes ``model`` in floats on the CPU.

    Args:
        model: a serialised ONNX model.
        threads: CPU threads; None for all.
        blocked_layouts: whether feature maps may be rearranged for speed, which changes the order of float sums, and
            factors may be taken into products of matrices, which changes their roundings.

    Raises:
        ModelError: the runtime does not take the model.
    """
    levels = ort.GraphOptimizationLevel
    options = ort.SessionOptions()
    options.log_severity_level = 4  # what it refuses is raised as well
    options.intra_op_num_threads = threads or 0
    # Models here are float models: pairs of QuantizeLinear and DequantizeLinear must not become integer kernels.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if blocked_layouts else levels.ORT_ENABLE_EXTENDED
    if not blocked_layouts:
        options.add_session_config_entry(*UNPACKED)
    left_out = None if blocked_layouts else ["MatMulScaleFusion"]
    with _refusals():
        return CheckedSession(model, options, providers=["CPUExecutionProvider"], disabled_optimizers=left_out)
