"""How many samples the original's calibration looks at together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import ModelError
from engine.floats.batching import BATCH, computes_samples_apart
from engine.floats.fake_quantization import lower_calibration
from engine.floats.float_model import FloatSession, Kernels, make_outputs, numpy_type
from engine.ir import constant_of, shape_of, static_shape, to_bytes
from engine.ops.foreign.custom import is_custom
from engine.optimize.base import axes_of

logger = logging.getLogger(__name__)

GROUP = 8
"""Samples that the original looks at together ("Calibration using batch 8"): ``kl`` takes the first range from them."""

_FIXES_BATCH = frozenset({"Reshape"})
"""Operators that may hold the number of samples although each sample is computed by itself."""


def group_size(model: ir.Model) -> int:
    """:data:`GROUP`, or 1 where the network as it stands does not run on so many samples at once.

    The original tries and, where that fails, starts again with single samples ("Reset batch_size=1 and execute forward
    again"). What fails is an operator that holds the number of samples: a Reshape to a fixed shape, a Resize to fixed
    sizes. Of 17 recorded conversions with ``kl``, 7 with single samples and 10 with groups, this trial tells 16 apart;
    the other one (``min_reset``) needs a Reshape that the optimiser writes elsewise.

    Args:
        model: float model, not changed; one whose inputs have no first dimension of 1 counts as running in groups, so
            does one with custom operators, which are not tried.
    """
    standard = lower_calibration(model)
    if any(map(is_custom, standard.graph)) or any(shape_of(value)[:1] != (1,) for value in standard.graph.inputs):
        return GROUP
    if computes_samples_apart(standard) and not any(node.op_type in _FIXES_BATCH for node in standard.graph):
        return GROUP
    if _runs(standard, GROUP):
        return GROUP
    logger.info("Reset batch_size=1 and execute forward again...")
    return 1


class TogetherSession:
    """The float model as the original's calibration runs it: as it stands, on a whole group of samples at once.

    Args:
        model: float model that :func:`mixes_group`, so every input has a first dimension of 1; not changed.
        outputs: tensors to show, float32.
        threads: CPU threads; None for all.
    """

    def __init__(self, model: ir.Model, outputs: Sequence[str], threads: int | None = None) -> None:
        self._model, self._outputs, self._threads = model, outputs, threads
        values = {str(value.name): value for node in model.graph for value in node.outputs}
        self._rows = {name: shape_of(values[name])[1:] for name in outputs}
        self._sessions: dict[int, FloatSession] = {}

    def visit(self, feed: Mapping[str, NDArray[Any]], see: Callable[[int, str, NDArray[np.float32]], None]) -> None:
        """Show every output for all samples of ``feed``, in rows of the shape that it has for one sample."""
        (samples,) = {len(array) for array in feed.values()}
        if samples not in self._sessions:
            model = _for_samples(self._model, samples)
            self._sessions[samples] = FloatSession(
                model, self._outputs, threads=self._threads, kernels=Kernels.PLAIN, max_batch=1
            )

        def show(_: int, name: str, values: NDArray[np.float32]) -> None:
            see(0, name, np.ascontiguousarray(values).reshape(-1, *self._rows[name]))

        self._sessions[samples].visit(feed, show)


def _for_samples(model: ir.Model, samples: int) -> ir.Model:
    """A copy of ``model`` with the shapes that its tensors have for so many samples."""
    standard = lower_calibration(model)
    values = [value for node in standard.graph for value in node.outputs if value.name]
    make_outputs(standard, [str(value.name) for value in values])
    shapes = {name: array.shape for name, array in _run(standard, samples).items()}
    copy = model.clone()
    for value in copy.graph.inputs:
        value.shape = ir.Shape([samples, *shape_of(value)[1:]])
    for node in copy.graph:
        for value in node.outputs:
            if value.name in shapes:
                value.shape = ir.Shape(shapes[value.name])
    return copy


def mixes_group(model: ir.Model) -> bool:
    """Whether a group of samples runs through the network as it stands, and a tensor then has other rows than theirs.

    Args:
        model: see :func:`group_size`; one with an input whose first dimension is not 1 is not tried and counts as
            mixing nothing.
    """
    standard = lower_calibration(model)
    if any(shape_of(value)[:1] != (1,) for value in standard.graph.inputs):
        return False
    if any(map(_reduces_samples, standard.graph)):
        return group_size(model) == GROUP
    if not any(map(_may_mix, standard.graph)) or group_size(model) != GROUP:
        return False
    values = [value for node in standard.graph for value in node.outputs if value.dtype == ir.DataType.FLOAT]
    shapes = {str(value.name): shape_of(value) for value in values if value.shape is not None}
    make_outputs(standard, list(shapes))
    found = _run(standard, GROUP)
    return any(array.shape != (GROUP, *shapes[name][1:]) for name, array in found.items() if shapes[name][:1] == (1,))


def _reduces_samples(node: ir.Node) -> bool:
    """Whether ``node`` reduces the first axis, or all, naming none."""
    rank = len(static_shape(node.inputs[0]) or ()) if node.op_type.startswith("Reduce") else 0
    return rank > 0 and 0 in (axes_of(node, rank) or (0,))


def _may_mix(node: ir.Node) -> bool:
    """Whether ``node`` holds a number of samples that others do not contradict of themselves."""
    index = {"Resize": 3, "Reshape": 1}.get(node.op_type)
    value = None if index is None or len(node.inputs) <= index else node.inputs[index]
    target = None if value is None else constant_of(value)
    return target is not None and bool(target.size) and target[0] == 1 and (node.op_type == "Resize" or -1 in target)


def _runs(standard: ir.Model, samples: int) -> bool:
    """Whether ONNX Runtime computes ``standard``, changed in place, on ``samples`` samples of zeros."""
    try:
        _run(standard, samples)
    except ModelError:
        return False
    return True


def _run(standard: ir.Model, samples: int) -> dict[str, NDArray[Any]]:
    """The outputs of ``standard``, changed in place, for ``samples`` samples of zeros.

    Raises:
        ModelError: it does not run on so many.
    """
    from engine.floats.runtime import open_session

    feed = {
        str(value.name): np.zeros((samples, *shape_of(value)[1:]), numpy_type(value)) for value in standard.graph.inputs
    }
    names = [str(value.name) for value in standard.graph.outputs]
    _forget_batch(standard)
    found = open_session(to_bytes(standard), threads=None, blocked_layouts=True).run(None, feed)
    return dict(zip(names, found, strict=True))


def _forget_batch(standard: ir.Model) -> None:
    """Let ``standard`` take any number of samples, and say no shapes of what it computes."""
    for value in standard.graph.inputs:
        value.shape = ir.Shape([BATCH, *shape_of(value)[1:]])
    for node in standard.graph:
        for value in node.outputs:
            value.shape = None
