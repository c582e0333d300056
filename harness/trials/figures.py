"""The figures of a trial: accuracy, fidelity to the float model, footprint, and a row per node."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from harness.strict_yaml import StrictModel


class Accuracy(StrictModel):
    """The card's metric, on the same evaluation images.

    Attributes:
        metric: name.
        float_value: of the float model.
        value: of the quantised model.
        stderr: standard error of ``value``.
        delta_stderr: standard error of the paired difference, from the scores per sample.
        higher_is_better: whether the metric is a score, rather than an error.
    """

    metric: str
    float_value: float
    value: float
    stderr: float
    delta_stderr: float
    higher_is_better: bool = True

    @property
    def delta(self) -> float:
        """Quantised minus float."""
        return self.value - self.float_value

    @property
    def ratio(self) -> float:
        """Quantised as a share of float; 1 where both are 0."""
        return self.value / self.float_value if self.float_value else 1.0

    @property
    def goodness(self) -> float:
        """:attr:`ratio` of a score, its inverse of an error: below 1 the quantised model is worse than the float one.

        Infinite where an error is 0 though the float model's is not.
        """
        if self.higher_is_better:
            return self.ratio
        if self.value:
            return self.float_value / self.value
        return 1.0 if not self.float_value else math.inf


class Fidelity(StrictModel):
    """Outputs of the quantised model against the float model's, without labels.

    Attributes:
        cosine: mean over samples and outputs.
        cosine_min: least over samples and outputs.
        sqnr_db: signal to noise over all values, in decibels; None where there is no noise or no signal.
        max_abs: greatest difference of two values.
        agreement: share of equal decisions (argmax over axis 1); None where the outputs are not scores per class.
    """

    cosine: float
    cosine_min: float
    sqnr_db: float | None
    max_abs: float
    agreement: float | None


class Footprint(StrictModel):
    """What the compiled model costs per frame.

    Attributes:
        latency_ms: estimated time on the BPU.
        ddr_mb: estimated DDR traffic, in 10^6 bytes.
        cpu_nodes: operators on the CPU.
        subgraphs: BPU subgraphs.
    """

    latency_ms: float
    ddr_mb: float
    cpu_nodes: int
    subgraphs: int


class NodeRow(StrictModel):
    """One node of the quantised graph.

    Attributes:
        node: name.
        on: ``BPU`` or ``CPU``.
        reason: why it runs on the CPU, where that is known.
        subgraph: number of its BPU subgraph; None on the CPU.
        type: operator.
        data_type: type of its first input: ``int8``, ``int16`` or ``float``.
        threshold: greatest threshold of its first input; None on the CPU.
        cosine: of its output, calibrated against float, on the first calibration sample.
    """

    node: str
    on: str
    reason: str = ""
    subgraph: int | None = None
    type: str
    data_type: str
    threshold: float | None = None
    cosine: float | None = None


def delta_stderr(ours: NDArray[np.float64], floats: NDArray[np.float64]) -> float:
    """Standard error of the mean paired difference of two score vectors, shape (samples,); 0 for one sample."""
    return float(np.std(ours - floats, ddof=1) / np.sqrt(len(ours))) if len(ours) > 1 else 0.0
