"""Threshold of least information loss: the ``kl`` method of the original (reference/calibration.md 2)."""

from __future__ import annotations

import numpy as np

from engine.calibrate.statistics.distribution import Histogram
from engine.calibrate.statistics.divergence import LEVELS

WINDOW = 9
"""Width of the mean filter over the curve of divergences."""

STEP = 1.2556e-6
"""Divergences count in whole steps of this size.

Fitted to the last digit, the mechanism is not known: of 537 thresholds of 18 networks exact arithmetic gives 533. In
the other four (``onnx::Conv_576``, ``onnx::Conv_686`` and the equalised ``onnx::Conv_934`` of EfficientNet-Lite0,
``input.16`` of a small EfficientNet) the curve has a level stretch, mostly between lone outliers, and behind it a
minimum that is deeper by 5e-8 to 5e-7; the original takes the first cut of the level stretch. Of 28,800 steps and
offsets 253 give all 537, scattered from 1.1e-6 to 1.8e-6, so that steps are hardly what the original has. No order of
float32 operations that was tried gives the four.

``input.8`` of ``unet_t3_argmax_c`` contradicts steps: its curve falls by 1.0e-7 to the first cut of a level
stretch, which the original takes and steps miss. "The first local minimum within 1e-7 of the least" gives 656 of 657
thresholds of the seen networks (exact arithmetic and steps 655 each), but not the three of EfficientNet-Lite0; within
5e-7 it gives those and loses five others. ``input.56`` of the same case is a local minimum that lies 3.6e-5 above the
least: unknown.

Steps of 2^-20, which float32 numbers from 8 to 16 have, give all of 793 thresholds of 17 networks but ``input.56``,
``input.8`` among them, with any share from 0.81 to 0.96; but the equalised ``onnx::Conv_934`` is then another one (a
printed similarity of 0.991641 instead of 0.991650). Sums in float32, whose rounding differs from tensor to tensor,
would explain all but ``input.56``; which sums is not known: those of MXNet's and TVM's searches and logarithms of the
counts are not (each loses two to six of the sixteen closest curves).
"""
_SHARE = 0.63
"""Share of a step that is added before rounding down; fitted with :data:`STEP`."""
_MALFORMED = 2.0**40
"""Steps of a cut that no count lies below: more than any divergence, but finite, so that of cuts whose mean takes in
such ones the one with the fewest is the least (the reciprocals of Swin, whose counts lie in the last seven bins)."""


def kl_threshold(histogram: Histogram, *, stepped: bool = True) -> float:
    """The threshold whose clipped and quantised distribution is closest to the original one.

    The curve of :attr:`Histogram.divergences`, in whole steps (:data:`STEP`), is smoothed by a mean over 9 neighbours;
    the first minimum gives the threshold, the middle of its bin. So it is always below the largest value. Where all
    numbers but small ones have one magnitude no cut is better than another: it is the bin a window before the end
    (eight constants of ones and a mask of -100 in ``fpn_retina_gn``, ``vit_timm`` and ``swin``; why not for a lone
    number, whose cut is the first, is not known).

    Args:
        histogram: of the magnitudes.
        stepped: whether divergences count in steps, as in the original, or exactly.

    Returns:
        The threshold; 0 if only zeros were seen.
    """
    if histogram.width == 0.0:
        return 0.0
    if not histogram.counts[1:-1].any() and histogram.counts[-1] > 1:
        return (histogram.counts.size - WINDOW + 0.5) * histogram.width
    curve = histogram.divergences / STEP
    curve = np.minimum(np.floor(curve + _SHARE) if stepped else curve, _MALFORMED)
    # Sums of whole numbers are exact, so that equal means are found equal.
    smoothed = np.convolve(curve, np.ones(WINDOW), mode="valid")
    center = LEVELS + WINDOW // 2 + int(np.argmin(smoothed))
    return (center + 0.5) * histogram.width
