"""What a conversion costs beside a float pass: ``python -m benchmarks.conversion_cost net.onnx ... [--samples 50]``.

For every network, CPU seconds of: a plain pass of ONNX Runtime over the samples; a conversion by ``max`` at O2 with the
same samples, in a process of its own, imports among it; the thresholds of one setting of calibration, and of 24. Two
ratios: the conversion to the float pass plus 3 s, and 24 settings to one. Samples are seeded noise, one at a time.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnxruntime

from benchmarks.cold_start import cpu_seconds
from engine.calibrate import CalibrationOptions, StatisticsOptions, calibration_tensors, collect
from engine.config import load_config
from engine.convert import conversion
from engine.convert.items import DATA, OPTIMIZED, PLACED
from engine.terms import CalibrationType

ALLOWANCE = 3.0
"""CPU seconds of a conversion that are not counted against the float pass."""
PERCENTILES = (0.9999, 0.99999, 0.9995, 0.999, 0.995, 0.99, 0.98, 0.97, 0.95, 0.9)
SETTINGS = [
    CalibrationOptions(calibration_type=kind, max_percentile=percentile, per_channel=channels)
    for channels, (kind, percentile) in product(
        (False, True),
        [
            (CalibrationType.MAX, 1.0),
            (CalibrationType.KL, 1.0),
            *((CalibrationType.MAX, percentile) for percentile in PERCENTILES),
        ],
    )
]
"""24 settings of calibration."""
CONVERT = """
import sys
from pathlib import Path
from engine.config import load_config
from engine.convert import convert
convert(load_config(Path(sys.argv[1])))
"""


def prepare(folder: Path, network: Path, samples: int) -> Path:
    """Write samples and the file of the conversion; its path."""
    names, shapes = [], []
    for value in onnx.load(network, load_external_data=False).graph.input:
        names.append(value.name)
        shapes.append([dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim])
    rng = np.random.default_rng(0)
    for name, shape in zip(names, shapes, strict=True):
        (folder / name).mkdir()
        for index in range(samples):
            rng.normal(size=shape).astype(np.float32).tofile(folder / name / f"{index:04d}.bin")
    each = ";".join(["featuremap"] * len(names))
    path = folder / "c.yaml"
    path.write_text(
        f"""
model_parameters: {{onnx_model: {network}, march: bayes-e, output_model_file_prefix: m, working_dir: {folder}/out}}
input_parameters:
  input_type_train: {each}
  input_layout_train: {each.replace("featuremap", "NCHW")}
  input_type_rt: {each}
calibration_parameters:
  cal_data_dir: "{";".join(str(folder / name) for name in names)}"
  cal_data_type: "{each.replace("featuremap", "float32")}"
  calibration_type: max
compiler_parameters: {{compile_mode: latency, optimize_level: O2}}
"""
    )
    return path


def cpu_of(work: Callable[[], object]) -> float:
    """CPU seconds of this process, all threads."""
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(network: Path, samples: int) -> str:
    """A row of the table."""
    with TemporaryDirectory() as temporary:
        path = prepare(Path(temporary), network, samples)
        cache = os.environ.get("NUMBA_CACHE_DIR") or str(Path(temporary, "cache"))
        cpu_seconds(CONVERT, str(path), cache=cache)  # what is compiled on first use is not counted
        converted = cpu_seconds(CONVERT, str(path), cache=cache)
        run = conversion(load_config(path))
        optimized, placed, data = run[OPTIMIZED], run[PLACED], run[DATA]
        assert data is not None
        session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])
        feeds = [data.read(index, index + 1) for index in range(samples)]
        plain = cpu_of(lambda: [session.run(None, feed) for feed in feeds])

        def thresholds(settings: list[CalibrationOptions]) -> None:
            found = collect(optimized, calibration_tensors(placed.model), data, StatisticsOptions.covering(settings))
            for options in settings:
                found.thresholds(options)

        thresholds(SETTINGS[:1])
        one, all_settings = cpu_of(lambda: thresholds(SETTINGS[:1])), cpu_of(lambda: thresholds(SETTINGS))
    return (
        f"| {network.stem} | {plain:.2f} | {converted:.2f} | {converted / (plain + ALLOWANCE):.2f} "
        f"| {one:.2f} | {all_settings:.2f} | {all_settings / one:.2f} |"
    )


def main() -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+", type=Path)
    parser.add_argument("--samples", type=int, default=50)
    given = parser.parse_args()
    sys.stdout.write(
        f"| network | float pass | conversion | / (pass + {ALLOWANCE:.0f} s) "
        f"| one setting | {len(SETTINGS)} | ratio |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    for network in given.networks:
        sys.stdout.write(measure(network.resolve(), given.samples) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
