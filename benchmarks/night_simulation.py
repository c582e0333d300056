"""Simulated nights: when the gate and the drift since the anchor notice a slow loss and three jumps, and how often they
are alarmed by nothing.

``python -m benchmarks.night_simulation [series]`` simulates series of 90 nights of one trial on 1,000 images. Every
night the model decides 3 images on average otherwise than it should, as redrawn calibration images do. The planted
series loses 0.03 points a night from night 20 on and jumps by -0.8, +0.5 and -1.2 points in nights 30, 55 and 75. The
other one has no change at all.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.gates.drift import steps
from harness.gates.paired import paired_p_value

IMAGES = 1000
NIGHTS = 90
ACCURACY = 0.9
FLIPS = 3
DRIFT_FROM, DRIFT = 20, 0.0003
JUMPS = {30: -0.008, 55: 0.005, 75: -0.012}
TOLERANCE = 0.005
SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class Watched:
    """What one series of nights gave.

    Attributes:
        gate: nights in which the gate against the night before was red (a loss beyond tolerance, and significant).
        anchor: first night in which the gate against the anchor was.
        drift: first night in which the corrected p value was below the significance.
        steps: nights of the changes of level that are found after all nights.
    """

    gate: tuple[int, ...]
    anchor: int | None
    drift: int | None
    steps: tuple[int, ...]


def accuracy(night: int, planted: bool) -> float:
    """What the model of a night is worth."""
    if not planted:
        return ACCURACY
    drifted = DRIFT * max(0, night - DRIFT_FROM)
    return ACCURACY - drifted + sum(size for start, size in JUMPS.items() if night >= start)


def nights(random: np.random.Generator, planted: bool) -> list[NDArray[np.float64]]:
    """Scores per image and night: images are lost in the order of their difficulty, and a few flip every night."""
    difficulty = random.random(IMAGES)
    series = []
    for night in range(NIGHTS):
        scores = (difficulty < accuracy(night, planted)).astype(np.float64)
        flipped = random.choice(IMAGES, random.poisson(FLIPS), replace=False)
        scores[flipped] = 1 - scores[flipped]
        series.append(scores)
    return series


def watch(series: Sequence[NDArray[np.float64]]) -> Watched:
    """What the gates say of a series whose first night is the anchor; a red night is not promoted."""
    anchor = last_good = series[0]
    red, since_anchor, drifted = [], None, None
    for night, scores in enumerate(series[1:], 1):
        p = paired_p_value(anchor - scores)
        if since_anchor is None and anchor.mean() - scores.mean() > TOLERANCE and p < SIGNIFICANCE:
            since_anchor = night
        if drifted is None and p * (night + 1) * (night + 2) < SIGNIFICANCE:
            drifted = night
        lost = last_good.mean() - scores.mean()
        if lost > TOLERANCE and paired_p_value(last_good - scores) < SIGNIFICANCE:
            red.append(night)
        else:
            last_good = scores
    found = tuple(step.night for step in steps(np.array([scores.mean() for scores in series])))
    return Watched(tuple(red), since_anchor, drifted, found)


def main() -> None:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    random = np.random.default_rng(0)
    planted = [watch(nights(random, planted=True)) for _ in range(count)]
    quiet = [watch(nights(random, planted=False)) for _ in range(count)]
    print(f"{count} series of {NIGHTS} nights, {IMAGES} images, seed 0")
    for jump in (30, 75):
        caught = sum(jump in found.gate for found in planted)
        print(f"jump of {JUMPS[jump] * 100:+.1f} points in night {jump}: gate red that night in {caught} of {count}")
    for name, values in (
        ("@anchor red", [found.anchor for found in planted]),
        ("drift significant", [found.drift for found in planted]),
    ):
        known = sorted(value for value in values if value is not None)
        print(f"{name}: in {len(known)} of {count}, median night {known[len(known) // 2] if known else '-'}")
    for jump in JUMPS:
        near = sum(any(abs(night - jump) <= 1 for night in found.steps) for found in planted)
        print(f"change of level named within one night of {jump}: {near} of {count}")
    print("nothing planted:")
    print(f"  nights in which the gate was red: {sum(len(found.gate) for found in quiet)} of {count * (NIGHTS - 1)}")
    print(f"  series in which @anchor was red: {sum(found.anchor is not None for found in quiet)} of {count}")
    print(f"  series in which drift was significant: {sum(found.drift is not None for found in quiet)} of {count}")
    print(f"  series in which a change of level was named: {sum(bool(found.steps) for found in quiet)} of {count}")


if __name__ == "__main__":
    main()
