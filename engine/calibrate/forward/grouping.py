"""How many samples the original's calibration looks at together."""

from __future__ import annotations

import logging

import numpy as np
import onnx_ir as ir

from engine.calibrate.forward.batching import computes_samples_apart
from engine.calibrate.forward.fake_quantization import lower_calibration
from engine.errors import ModelError
from engine.ir import shape_of, to_bytes
from engine.ops.foreign.custom import is_custom

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


def _runs(standard: ir.Model, samples: int) -> bool:
    """Whether ONNX Runtime computes ``standard``, changed in place, on ``samples`` samples of zeros."""
    from engine.calibrate.forward.runtime import open_session

    feed = {}
    for value in standard.graph.inputs:
        value.shape = ir.Shape((samples, *shape_of(value)[1:]))
        feed[str(value.name)] = np.zeros(shape_of(value), (value.dtype or ir.DataType.FLOAT).numpy())
    for node in standard.graph:
        for value in node.outputs:
            value.shape = None
    try:
        open_session(to_bytes(standard), threads=None, blocked_layouts=True).run(None, feed)
    except ModelError:
        return False
    return True
