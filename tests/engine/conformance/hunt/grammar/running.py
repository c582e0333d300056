"""Networks of the grammar in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from engine.conformance.hunt.grammar.drawing import Drawing

SEEDS = (1, 2, 3)
"""Of the drawings that a block is tried in: they differ in activation, operator set and spellings."""


def drawing(seed: int, *shape: int) -> Drawing:
    return Drawing("n", shape or (1, 8, 12, 12), (seed,))


def run(net: Drawing) -> list[NDArray[np.float32]]:
    """The outputs for the first sample: finite numbers."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(net.model().SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = session.run(None, {name: samples[0] for name, samples in net.data().items()})
    assert results
    assert all(np.isfinite(each).all() for each in results)
    return list(results)


def output_of(net: Drawing, *names: str) -> list[NDArray[np.float32]]:
    """What the network computes for tensors, whose shapes must be those that it states."""
    net.output(*names)
    results = run(net)
    assert [each.shape for each in results] == [net.dims(name) for name in names]
    return results


def operators(net: Drawing) -> Sequence[str]:
    return [node.op_type for node in net.model().graph.node]
