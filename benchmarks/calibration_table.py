"""The parity table of docs/evidence/calibration.md: ``python -m benchmarks.calibration_table REFERENCE MODEL``.

For every measured conversion of EfficientNet-Lite0: how many activation thresholds and types are the original's, the
printed figures of the calibrated model and ours, and ours for the integer model on all calibration samples.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.calibrate import (
    ArrayData,
    HistogramRule,
    Kernels,
    StatisticsOptions,
    calibration_tensors,
    collect,
    run_calibration,
)
from engine.calibrate.corrections.bias import with_biases_of
from engine.floats.compare import compare
from engine.ir import ACTIVATION_QUANT_ATTRS, attribute, calibration_nodes, read_calibration
from engine.place import place
from engine.quantize import quantize
from engine.tune import Evaluator
from tests.parity.efficientnet import MARCH, calibration_images, optimized_model, options_of

PERCENTILES = (0.999, 0.9995, 0.9999, 0.99995, 0.99999)
HEADER = (
    "| configuration | thresholds | types | cosine, printed | ours | L1, printed | ours | L2, printed | ours "
    "| Chebyshev, printed | ours | integer cosine | agreement |"
)


def main(reference: Path, path: Path) -> None:
    """Write the table to standard output."""
    optimized, data = optimized_model(path), calibration_images(reference)
    placed = place(optimized, MARCH).model
    wanted = StatisticsOptions(
        percentiles=PERCENTILES, histogram=HistogramRule.REFERENCE, per_channel=True, kernels=Kernels.PLAIN
    )
    statistics = collect(optimized, calibration_tensors(placed), data, wanted)
    evaluator = Evaluator(optimized, data, len(data))
    sys.stdout.write(f"{HEADER}\n{'|---' * HEADER.count(' | ')}|---|\n")
    for file in sorted((reference / "calibration").glob("*.json")):
        measured = json.loads(file.read_text())
        calibrated = run_calibration(optimized, placed, data, options_of(measured), statistics=statistics)
        sys.stdout.write(row(file.stem, measured, calibrated, optimized, data, evaluator) + "\n")
        sys.stdout.flush()


def row(
    name: str,
    measured: dict[str, Any],
    calibrated: ir.Model,
    optimized: ir.Model,
    data: ArrayData,
    evaluator: Evaluator,
) -> str:
    """One line of the table."""
    theirs = measured["activation_thresholds"]
    ours = {
        str(node.inputs[0].name): read_calibration(node)
        for node in calibration_nodes(calibrated)
        if attribute(node, "quant_attrs") == ACTIVATION_QUANT_ATTRS and node.inputs[0] is not None
    }
    equal = [key for key in theirs if np.allclose(ours[key].thresholds, theirs[key]["thresholds"], rtol=4e-6, atol=0)]
    types = [key for key in theirs if ours[key].qtype == theirs[key]["qtype"]]
    is_corrected = options_of(measured).corrects_biases_in_turn
    reference = with_biases_of(calibrated, optimized) if is_corrected else optimized
    (found,) = compare(reference, calibrated, data.read(0, 1)).outputs.values()
    score = evaluator.integer(quantize(calibrated, MARCH))
    figures = [
        figure
        for key in ("cosine", "l1", "l2", "chebyshev")
        for figure in (f"{measured['output'][key]:.6f}", f"{getattr(found, key):.6f}")
    ]
    shares = [f"{len(equal)}/{len(theirs)}", f"{len(types)}/{len(theirs)}"]
    return f"| {' | '.join([name, *shares, *figures, f'{score.cosine:.6f}', f'{score.agreement:.3f}'])} |"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
