"""Peak memory of calibration by number of samples: ``python -m benchmarks.calibration_memory REFERENCE MODEL [N …]``.

The statistics of ``default`` (all methods, per tensor and per channel) for EfficientNet-Lite0, each number of samples
in a process of its own; the measured calibration images are repeated as often as needed.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.calibrate import CalibrationData, CalibrationOptions, collect_for
from engine.place import place
from engine.terms import CalibrationType
from tests.parity.efficientnet import MARCH, calibration_images, optimized_model

COUNTS = (50, 1000)
MEASURE = "--measure"


class Repeated(CalibrationData):
    """``count`` samples: those of ``data`` again and again."""

    def __init__(self, data: CalibrationData, count: int) -> None:
        self._data, self._count = data, count

    def __len__(self) -> int:
        return self._count

    def read(self, start: int, stop: int) -> dict[str, NDArray[Any]]:
        """See :meth:`CalibrationData.read`."""
        wrapped = [index % len(self._data) for index in range(start, stop)]
        parts = [self._data.read(index, index + 1) for index in wrapped]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def digest(self) -> str:
        """See :meth:`CalibrationData.digest`."""
        return f"{self._count} {self._data.digest()}"


def main(reference: str, model: str, counts: list[str]) -> None:
    """Write a line per number of samples."""
    first = 0.0
    for count in counts:
        command = [sys.executable, "-m", "benchmarks.calibration_memory", reference, model, MEASURE, count]
        peak = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        first = first or peak
        sys.stdout.write(f"{count:>6} samples: peak {peak:.0f} MB, {peak / first - 1:+.1%}\n")
        sys.stdout.flush()


def measure(reference: Path, model: Path, count: int) -> float:
    """Peak resident memory of this process in MB, once it has collected the statistics of ``count`` samples."""
    optimized, data = optimized_model(model), calibration_images(reference)
    placed = place(optimized, MARCH).model
    collect_for(
        optimized, [placed], Repeated(data, count), CalibrationOptions(calibration_type=CalibrationType.DEFAULT)
    )
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    if MEASURE in sys.argv:
        sys.stdout.write(f"{measure(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[-1])):.1f}\n")
    else:
        main(sys.argv[1], sys.argv[2], sys.argv[3:] or [str(count) for count in COUNTS])
