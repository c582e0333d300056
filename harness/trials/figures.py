"""The figures of a trial: accuracy, fidelity to the float model, footprint, and a row per node."""

from __future__ import annotations

import math
from collections.abc import Mapping

from harness.files.strict_yaml import StrictModel

Z95 = 1.959964
"""Standard errors on either side that hold 95 % of a normal distribution."""


class Accuracy(StrictModel):
    """The card's metric, on the same evaluation images.

    Attributes:
        metric: name.
        float_value: of the float model.
        value: of the quantised model.
        stderr: standard error of ``value``.
        delta_stderr: standard error of the paired difference: of a mean of scores per sample from their differences,
            else from the paired bootstrap.
        higher_is_better: whether the metric is a score, rather than an error.
        informative: evaluation images that hold something to find; None where all do.
        sought: what that is, in the plural; empty where every image has a right answer.
        by_float: whether the float model's decisions stand in for labels.
    """

    metric: str
    float_value: float
    value: float
    stderr: float
    delta_stderr: float
    higher_is_better: bool = True
    informative: int | None = None
    sought: str = ""
    by_float: bool = False

    @property
    def delta(self) -> float:
        """Quantised minus float."""
        return self.value - self.float_value

    @property
    def margin(self) -> float:
        """Half the width of the 95 % interval of :attr:`delta`, from paired scores."""
        return Z95 * self.delta_stderr

    @property
    def ratio(self) -> float:
        """Quantised as a share of float; 1 where float is 0."""
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

    @property
    def direction(self) -> int:
        """1 of a score, -1 of an error."""
        return 1 if self.higher_is_better else -1

    @property
    def images(self) -> str:
        """The images that tell settings apart, in words: ``images with objects``."""
        return "images" if self.informative is None else f"images with {self.sought}"

    def found(self, images: int) -> str:
        """How many of so many ``images`` hold something to find, in a sentence; empty where all do."""
        if self.informative is None or self.informative == images:
            return ""
        if self.by_float:
            return f"The float model finds {self.sought} in {self.informative} of {images} images."
        return f"{self.informative} of {images} images have {self.sought} by their labels."


class BrokenOutputs(StrictModel):
    """Outputs of a quantised model that no longer say what the float model's do.

    Attributes:
        outputs: their names.
        text: what is wrong with each, at which node it begins, where that is known, and what to do, in sentences.
    """

    outputs: tuple[str, ...] = ()
    text: str = ""


class Fidelity(StrictModel):
    """Outputs of the quantised model against the float model's, without labels.

    Attributes:
        cosine: mean over samples and outputs.
        cosine_min: least over samples and outputs.
        sqnr_db: signal to noise over all values, in decibels; None where there is no noise or no signal.
        max_abs: greatest difference of two values.
        agreement: the metric with the float model's decisions as labels (of a classifier the share of equal decisions);
            None where the metric knows no decisions.
        parts: mean cosine of each output where there are several, and of each part of them that the metric knows, such
            as boxes and classes.
    """

    cosine: float
    cosine_min: float
    sqnr_db: float | None
    max_abs: float
    agreement: float | None
    parts: Mapping[str, float] = {}

    @property
    def lowest_cosine(self) -> tuple[str, float]:
        """The output or part with the lowest mean cosine, and that."""
        found = self.parts or {"output": self.cosine}
        worst = min(found, key=lambda name: found[name])
        return worst, found[worst]


class Footprint(StrictModel):
    """What the compiled model costs per frame.

    Attributes:
        latency_ms: estimated time on the BPU.
        cpu_ms: time of what runs on the CPU, quantisation and layout changes too.
        cpu_measured_ms: the part of it that rests on measurements on a board; the rest is estimated from nothing that
            was measured there, for orders of magnitude.
        ddr_mb: estimated DDR traffic, in 10^6 bytes.
        cpu_nodes: operators on the CPU.
        subgraphs: BPU subgraphs.
    """

    latency_ms: float
    cpu_ms: float
    ddr_mb: float
    cpu_nodes: int
    subgraphs: int
    cpu_measured_ms: float = 0.0

    @property
    def total_ms(self) -> float:
        """BPU and CPU, one after the other."""
        return self.latency_ms + self.cpu_ms

    @property
    def cpu_text(self) -> str:
        """``cpu_ms`` with a mark where it is not all measured."""
        return f"{'' if self.cpu_measured_ms >= self.cpu_ms else '~'}{self.cpu_ms:.3f}"


class TrialNode(StrictModel):
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
        time_us: estimated microseconds, its part of the latency; None on the CPU.
        ddr_bytes: estimated bytes over DDR; None on the CPU.
        reads: places in the table, from 0, of the nodes whose results it reads, with spaces between.
        doubt: why it is not known that the original converts it so; empty where it is.
    """

    node: str
    on: str
    reason: str = ""
    subgraph: int | None = None
    type: str
    data_type: str
    threshold: float | None = None
    cosine: float | None = None
    time_us: float | None = None
    ddr_bytes: int | None = None
    reads: str = ""
    doubt: str = ""
