"""What a conversion costs beside a float pass, and all settings of a sweep beside one: ``python -m
benchmarks.conversion_cost mobilenet_v2 vit_tiny network.onnx``.

Networks are structures of :mod:`benchmarks.speed.structures` or ONNX files with one float input. For each of them, in
processes of their own and in CPU seconds:

* float pass: plain ONNX Runtime with its default options on the calibration samples, one at a time; the session is
  opened before.
* conversion: ``max``, ``latency``, ``O2``, as ``hb_mapper makertbin`` does it, start and imports of the process
  included, bytecode and compiled kernels being there. The first column of ratios is that of the conversion to the
  float pass and 3 s.
* 24 settings: statistics for all of them in one pass, and the calibrated model of each, as a sweep makes them; imports
  are done before. The second ratio is to one whole conversion, in which imports do count, the third to the calibration
  by ``max`` alone, which begins with a pass of its own.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import onnx

from benchmarks.installed import environment
from benchmarks.speed.structures import STRUCTURES, build

MARCH = "bayes-e"
ALLOWANCE = 3.0
"""CPU seconds that a conversion may take whatever the network is."""
PERCENTILES = (1.0, 0.99999, 0.99995, 0.9999)
SMALL = "mobilenet_v3_small"
MODEL, DATA, CONFIG = "m.onnx", "data", "c.yaml"


def prepare(folder: Path, network: str, samples: int) -> None:
    """Write the model, normally distributed samples, and the configuration."""
    model = build(network) if network in STRUCTURES else onnx.load(network)
    onnx.save(model, folder / MODEL)
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    (folder / DATA).mkdir()
    rng = np.random.default_rng(0)
    for index in range(samples):
        rng.normal(size=shape).astype(np.float32).tofile(folder / DATA / f"{index:04d}.bin")
    (folder / CONFIG).write_text(
        f"""
model_parameters: {{onnx_model: {MODEL}, march: {MARCH}, output_model_file_prefix: m, working_dir: out}}
input_parameters: {{input_type_train: featuremap, input_layout_train: NCHW, input_type_rt: featuremap}}
calibration_parameters: {{cal_data_dir: {DATA}, cal_data_type: float32, calibration_type: max}}
compiler_parameters: {{compile_mode: latency, optimize_level: O2}}
"""
    )


def float_pass() -> Callable[[], object]:
    """ONNX Runtime on all samples."""
    import onnxruntime

    session = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    feeds = [np.fromfile(path, np.float32).reshape(given.shape) for path in sorted(Path(DATA).iterdir())]
    return lambda: [session.run(None, {given.name: feed}) for feed in feeds]


def conversion() -> Callable[[], object]:
    """One whole conversion."""
    from engine.cli.start import prepare

    prepare()
    from engine.config import load_config
    from engine.convert import convert

    return lambda: convert(load_config(Path(CONFIG)))


def calibrations(one: bool) -> Callable[[], object]:
    """The calibrated models of all settings, or of ``max`` alone; the placed model is there.

    The process is prepared as that of a sweep's trials (:data:`harness.execution.isolation.CHILD`).
    """
    from engine.cli.start import prepare

    prepare()
    from engine.calibrate import (
        CalibrationOptions,
        Kernels,
        StatisticsOptions,
        calibration_tensors,
        collect,
        run_calibration,
    )
    from engine.calibrate.methods.search import candidates_of
    from engine.config import load_config
    from engine.convert.items import DATA as SAMPLES
    from engine.convert.items import OPTIMIZED, PLACEMENT
    from engine.convert.pipeline import conversion as stages
    from engine.errors import CalibrationDataError
    from engine.terms import CalibrationType as Kind

    run = stages(load_config(Path(CONFIG)))
    optimized, placed, data = run[OPTIMIZED], run[PLACEMENT].model, run[SAMPLES]
    if data is None:
        raise CalibrationDataError("the configuration names no samples")
    methods = [(Kind.MAX, percentile) for percentile in PERCENTILES] + [(Kind.KL, 1.0)]
    settings = [
        CalibrationOptions(calibration_type=kind, max_percentile=percentile, per_channel=channels, asymmetric=unsigned)
        for (kind, percentile), channels, unsigned in product(methods, (False, True), (False, True))
    ] + [
        CalibrationOptions(calibration_type=kind, asymmetric=unsigned)
        for kind, unsigned in product((Kind.MIX, Kind.DEFAULT), (False, True))
    ]
    settings = [CalibrationOptions()] if one else settings

    def run_all() -> None:
        candidates = [candidate for options in settings for candidate in candidates_of(options)]
        wanted = StatisticsOptions.covering(candidates, kernels=Kernels.PLAIN)
        statistics = collect(optimized, calibration_tensors(placed), data, wanted)
        for options in settings:
            run_calibration(optimized, placed, data, options, statistics=statistics)

    return run_all


JOBS: Mapping[str, Callable[[], Callable[[], object]]] = {
    "float pass": float_pass,
    "conversion": conversion,
    "settings": lambda: calibrations(one=False),
    "one": lambda: calibrations(one=True),
}


def child(job: str) -> None:
    """Run one job here; its CPU seconds go to standard output as JSON: since the process began, and without imports."""
    logging.disable(logging.ERROR)
    run = JOBS[job]()
    begun = time.process_time()
    run()
    ended = time.process_time()
    sys.stdout.write(json.dumps([ended, ended - begun]) + "\n")


def measure(job: str, folder: Path, whole: bool, bytecode: Path) -> float:
    """CPU seconds of one job; ``whole``: of its process."""
    command = [sys.executable, "-m", "benchmarks.conversion_cost", "--child", job]
    done = subprocess.run(command, cwd=folder, env=environment(bytecode), stdout=subprocess.PIPE, text=True, check=True)
    with_imports, alone = json.loads(done.stdout.splitlines()[-1])
    return float(with_imports if whole else alone)


def compile_modules(bytecode: Path) -> None:
    """Have the modules of a conversion compiled into the folder ``bytecode``."""
    with TemporaryDirectory() as folder:
        prepare(Path(folder), SMALL, 1)
        measure("conversion", Path(folder), whole=True, bytecode=bytecode)


def row(network: str, jobs: Sequence[str], samples: int, rounds: int, bytecode: Path) -> list[str]:
    """What is printed of ``network``: CPU seconds and ratios, medians of ``rounds``."""
    with TemporaryDirectory() as folder:
        prepare(Path(folder), network, samples)
        cost = {
            job: median(measure(job, Path(folder), job == "conversion", bytecode) for _ in range(rounds))
            for job in jobs
        }
    whole = cost["conversion"]
    figures = [cost["float pass"], whole, whole / (cost["float pass"] + ALLOWANCE)]
    if "settings" in cost:
        figures += [cost["settings"], cost["settings"] / whole, cost["settings"] / cost["one"]]
    return [Path(network).stem, *(f"{figure:.2f}" for figure in figures)]


def write_row(cells: Sequence[str]) -> None:
    """A row of a table in Markdown, at once."""
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


def main() -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=list(STRUCTURES))
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=1, help="of which the median is printed")
    parser.add_argument("--no-settings", action="store_true", help="leave out the 24 settings")
    parser.add_argument("--child", choices=JOBS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child)
        return
    columns = ["network", "float pass", "conversion", "to float pass + 3 s"]
    columns += [] if given.no_settings else ["24 settings", "to one conversion", "to one calibration"]
    write_row(columns)
    write_row(["---"] * len(columns))
    wanted = [job for job in JOBS if not (given.no_settings and job in ("settings", "one"))]
    with TemporaryDirectory() as kept:
        compile_modules(Path(kept))
        for network in given.networks:
            write_row(row(network, wanted, given.samples, given.rounds, Path(kept)))


if __name__ == "__main__":
    main()
