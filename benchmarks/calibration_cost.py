"""Time of calibrations in float passes: ``python -m benchmarks.calibration_cost REFERENCE MODEL [ROUNDS]``.

A float pass is plain ONNX Runtime with its default options on the float model, the 50 measured images one at a time.
Every round times a float pass and then each calibration; the table has the medians of wall and CPU time. On a machine
that is not idle, compare CPU time. Models are loaded before.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import onnxruntime

from benchmarks.calibration_table import PERCENTILES
from engine.calibrate import CalibrationOptions, StatisticsOptions, calibration_tensors, collect, run_calibration
from engine.floats.float_model import Kernels
from engine.floats.runtime import open_session
from engine.place import place
from engine.terms import CalibrationType
from tests.parity.efficientnet import MARCH, calibration_images, optimized_model

ROUNDS = 3
SINGLE = [
    CalibrationOptions(),
    CalibrationOptions(calibration_type=CalibrationType.KL),
    CalibrationOptions(calibration_type=CalibrationType.MIX),
    CalibrationOptions(calibration_type=CalibrationType.DEFAULT),
    CalibrationOptions(bias_correction=True),
    CalibrationOptions(mean_bias_correction=True),
]
SWEEP = [
    CalibrationOptions(calibration_type=kind, max_percentile=percentile, per_channel=channels)
    for channels in (False, True)
    for kind, percentile in [
        (CalibrationType.MAX, 1.0),
        (CalibrationType.KL, 1.0),
        *((CalibrationType.MAX, percentile) for percentile in PERCENTILES),
    ]
]


def main(reference: Path, model: Path, rounds: int) -> None:
    """Write the table to standard output."""
    optimized, data = optimized_model(model), calibration_images(reference)
    placed = place(optimized, MARCH).model
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    in_order = open_session(model.read_bytes(), threads=None, blocked_layouts=False)
    images = [(data.read(i, i + 1)["data"] + 1.0) * 0.0078125 for i in range(len(data))]

    def float_pass() -> None:
        for image in images:
            session.run(None, {"data": image})

    def pass_in_order() -> None:
        for image in images:
            in_order.run(None, {"data": image})

    def fast_statistics() -> None:
        wanted = StatisticsOptions.covering(SINGLE[:1], kernels=Kernels.FAST)
        collect(optimized, calibration_tensors(placed), data, wanted)

    def one(options: CalibrationOptions) -> Callable[[], object]:
        return lambda: run_calibration(optimized, placed, data, options)

    def all_thresholds() -> None:
        wanted = StatisticsOptions.covering(SWEEP, kernels=Kernels.PLAIN)
        statistics = collect(optimized, calibration_tensors(placed), data, wanted)
        for options in SWEEP:
            statistics.thresholds(options)

    work: dict[str, Callable[[], object]] = {
        "float pass": float_pass,
        "float pass in the original's order of sums": pass_in_order,
        "statistics of max in ONNX Runtime's fast layouts": fast_statistics,
    }
    for options in SINGLE:
        corrections = [name for name in ("bias_correction", "mean_bias_correction") if getattr(options, name)]
        work[", ".join([options.calibration_type.value, *corrections])] = one(options)
    work["max, 5 percentiles and kl, per tensor and channel"] = all_thresholds
    float_pass()
    one(SINGLE[0])()
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, run in work.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            seconds[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    medians = {name: [statistics.median(kind) for kind in zip(*times, strict=True)] for name, times in seconds.items()}
    base = medians["float pass"]
    for name, (wall, cpu) in medians.items():
        sys.stdout.write(
            f"{name:50} wall {wall:7.2f} s {wall / base[0]:6.2f} float passes, "
            f"CPU {cpu:7.2f} s {cpu / base[1]:6.2f} float passes\n"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else ROUNDS)
