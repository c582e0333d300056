"""Figures of trials as axes of plots, and the buttons that choose among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.trials.figures import Z95
from harness.trials.trial import TrialResult


@dataclass(frozen=True)
class Axis:
    """A figure that plots can show.

    Attributes:
        name: as in :meth:`harness.trials.trial.TrialResult.metrics`.
        label: on a button.
        title: of the axis, with the unit.
        factor: from the metric's unit to the title's.
        form: format of values.
    """

    name: str
    label: str
    title: str
    factor: float = 1.0
    form: str = ".4f"

    def of(self, result: TrialResult) -> float | None:
        """The figure of a trial in the title's unit; None where it has none."""
        value = result.metrics().get(self.name)
        return None if value is None else value * self.factor

    def margin(self, result: TrialResult) -> float | None:
        """Half a 95 % interval of :meth:`of`; None where it is not known.

        Of the accuracy it is that of another sample of as many images, of its share of the float model's accuracy that
        of the paired difference.
        """
        accuracy = result.accuracy
        if accuracy is None:
            return None
        if self.name == "accuracy.quantized":
            return Z95 * accuracy.stderr
        if self.name == "accuracy.ratio" and accuracy.float_value:
            return self.factor * accuracy.margin / accuracy.float_value
        return None

    def reach(self, result: TrialResult) -> float | None:
        """:meth:`margin` upwards: no metric is above 1, which only the accuracy itself could seem to pass."""
        margin, accuracy = self.margin(result), result.accuracy
        if margin is None or accuracy is None or self.name != "accuracy.quantized":
            return margin
        return min(margin, max(0.0, 1.0 - accuracy.value))


LATENCY = Axis("latency.total_ms", "latency", "estimated latency, BPU and CPU, ms", form=".3f")


def buttons(axes: Sequence[Axis], arguments: Callable[[Axis], Any]) -> dict[str, Any]:
    """What the buttons of a plot are called and do, one per figure; the page draws them."""
    return {
        "type": "buttons",
        "buttons": [{"label": axis.label, "method": "update", "args": arguments(axis)} for axis in axes],
    }
