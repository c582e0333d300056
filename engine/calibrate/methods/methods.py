"""Calibration methods: from the distribution of a tensor to its threshold.

A method is one entry of :data:`METHODS`, or registered by a user (:data:`engine.extensions.CALIBRATION_METHODS`); it
says what statistics it needs and gives one number. Searches that choose among methods (``default``, ``mix``) combine
ours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from engine.calibrate.methods.kl import kl_threshold
from engine.calibrate.methods.mse import mse_threshold
from engine.calibrate.statistics.distribution import Distribution, clamp_percentile
from engine.config.options import CalibrationChoice
from engine.errors import ConfigError, UnsupportedError
from engine.extensions import CALIBRATION_METHODS, OwnMethod
from engine.rulebook.integers import BIAS_CORRECTION_SAMPLE, KL_DECIMALS, imitates
from engine.terms import CalibrationType

FIXED_THRESHOLD = 1.0
"""Threshold where the data say nothing: all values are zero, or the method does not look at data.

Source: reference/calibration.md 2.
"""


class CalibrationOptions(CalibrationChoice):
    """How thresholds are chosen, and what follows from that.

    Attributes:
        bias_correction_order: a calibrated model of the original's that shows the order of ``bias_correction``.
    """

    bias_correction_order: Path | None = None

    @property
    def corrects_biases_in_turn(self) -> bool:
        """Whether biases are corrected as in the original; :attr:`takes_mean_errors` takes the place of that."""
        return self.bias_correction and self.calibration_type.needs_data and not self.takes_mean_errors

    @property
    def takes_mean_errors(self) -> bool:
        """Whether mean errors are taken out of biases, each once: on request, or in place of the original's way."""
        right = not imitates(BIAS_CORRECTION_SAMPLE, self.compatibility)
        return self.mean_bias_correction or (self.bias_correction and right and self.calibration_type.needs_data)

    @property
    def log_name(self) -> str:
        """The method as the log names it, e.g. ``max-percentile:percentile=0.9999,per_channel``."""
        name = method_of(self).log_name(self)
        flags = [flag for flag in ("per_channel", "asymmetric") if getattr(self, flag)]
        return f"{name}{',' if ':' in name else ':'}{','.join(flags)}" if flags else name


class Method(ABC):
    """One way to choose a threshold; stateless.

    Attributes:
        needs_histogram: whether :attr:`Distribution.histogram` must be there.
        needs_data: whether thresholds come from calibration data.
        is_of_int8: whether thresholds are those of 8 bits, so that int16 tensors take their maximum instead.
    """

    needs_histogram: bool = False
    needs_data: bool = True
    is_of_int8: bool = False

    @abstractmethod
    def threshold(self, distribution: Distribution, options: CalibrationOptions) -> float:
        """The threshold for one tensor; 0 if it held only zeros."""

    def percentiles(self, options: CalibrationOptions) -> tuple[float, ...]:
        """The order statistics that the method needs besides the maximum."""
        return ()

    def rule(self, distribution: Distribution, options: CalibrationOptions) -> str | None:
        """Id of the rule without which the threshold would be another one; None where there is none."""
        return None

    @abstractmethod
    def log_name(self, options: CalibrationOptions) -> str:
        """What follows "Run calibration model with" in the log, without flags."""


class Max(Method):
    """``max|x|``, or the order statistic of ``max_percentile``."""

    def threshold(self, distribution: Distribution, options: CalibrationOptions) -> float:
        """See :meth:`Distribution.percentile`."""
        return distribution.percentile(options.max_percentile)

    def percentiles(self, options: CalibrationOptions) -> tuple[float, ...]:
        """``max_percentile`` where it is not the maximum itself."""
        return () if options.max_percentile == 1.0 else (clamp_percentile(options.max_percentile),)

    def log_name(self, options: CalibrationOptions) -> str:
        """``max`` or ``max-percentile:percentile=...``."""
        if options.max_percentile == 1.0:
            return "max"
        return f"max-percentile:percentile={clamp_percentile(options.max_percentile)}"


class Kl(Method):
    """Least Kullback-Leibler divergence of the quantised distribution."""

    needs_histogram = True

    def threshold(self, distribution: Distribution, options: CalibrationOptions) -> float:
        """See :func:`engine.calibrate.methods.kl.kl_threshold`.

        Raises:
            ConfigError: the statistics hold no histogram.
        """
        return _kl_threshold(distribution, decimals=imitates(KL_DECIMALS, options.compatibility))

    def rule(self, distribution: Distribution, options: CalibrationOptions) -> str | None:
        """``method.kl-decimals`` where exact divergences have their minimum elsewhere."""
        if not imitates(KL_DECIMALS, options.compatibility):
            return None
        cut_off, exact = (_kl_threshold(distribution, decimals=flag) for flag in (True, False))
        return None if cut_off == exact else KL_DECIMALS

    def log_name(self, options: CalibrationOptions) -> str:
        """``kl:num_bin=...``."""
        return "kl:num_bin=1024,max_num_bin=16384"


def _kl_threshold(distribution: Distribution, *, decimals: bool) -> float:
    if distribution.histogram is None:
        raise ConfigError("calibration_type 'kl' needs histograms, but the statistics were collected without them")
    return kl_threshold(distribution.histogram, decimals=decimals)


class LeastSquares(Method):
    """Least squared error of clipping and rounding to 8 bits; the original has no such option.

    In 16 bits clipping is never worth it.
    """

    needs_histogram = True
    is_of_int8 = True

    def threshold(self, distribution: Distribution, options: CalibrationOptions) -> float:
        """See :func:`engine.calibrate.methods.mse.mse_threshold`.

        Raises:
            ConfigError: the statistics hold no histogram.
        """
        if distribution.histogram is None:
            raise ConfigError("mse_thresholds needs histograms, but the statistics were collected without them")
        return mse_threshold(distribution.histogram, distribution.maximum)

    def log_name(self, options: CalibrationOptions) -> str:
        """``mse``."""
        return "mse"


class Fixed(Method):
    """Every activation threshold 1.0, whatever the data: ``skip``, and ``load`` where the model brings no threshold."""

    needs_data = False

    def threshold(self, distribution: Distribution, options: CalibrationOptions) -> float:
        """1.0."""
        return FIXED_THRESHOLD

    def log_name(self, options: CalibrationOptions) -> str:
        """``fixed thresholds``."""
        return "fixed thresholds"


METHODS: Mapping[str, Method] = {
    CalibrationType.MAX: Max(),
    CalibrationType.KL: Kl(),
    CalibrationType.SKIP: Fixed(),
    CalibrationType.LOAD: Fixed(),
}


LEAST_SQUARES = LeastSquares()


def method_of(options: CalibrationOptions) -> Method:
    """The method that ``options`` ask for.

    Raises:
        UnsupportedError: there is none for this ``calibration_type``.
    """
    kind = options.calibration_type
    method = CALIBRATION_METHODS[kind]() if isinstance(kind, OwnMethod) else METHODS.get(kind)
    if method is not None and method.needs_data and options.mse_thresholds:
        return LEAST_SQUARES
    if method is None:
        raise UnsupportedError(
            f"calibration_type {kind.value!r} is not supported yet; allowed are {sorted(map(str, METHODS))}"
        )
    return method
