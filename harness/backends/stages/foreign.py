"""The stages of engines beside the bundled one: ONNX Runtime's quantisation, and the vendor's command."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from engine.convert.items import QUANTIZED, THREADS
from engine.convert.runner import Stage, Work
from engine.ir import load_model
from harness.backends.engines import QuantizationTask, engine_of
from harness.backends.foreign import convert_with_hb_mapper, float_runner
from harness.backends.items import (
    CARD,
    DATASET,
    EVALUATION_SAMPLES,
    FLOAT_OUTPUTS,
    FOLDER,
    INT16_NODES,
    OUTPUTS,
    SAMPLES,
    TOOL,
    TRIAL,
)
from harness.backends.stages.compared import run_compared


def _quantize_and_run(work: Work) -> None:
    card, threads = work[CARD], work[THREADS] or 0
    split = work[DATASET].split(card.dataset.evaluation.split)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "quantized.onnx"
        settings = work[TRIAL].settings
        path = engine_of(settings).quantize(QuantizationTask(card, settings, work[SAMPLES], target))
        count, floats = work[EVALUATION_SAMPLES], work[FLOAT_OUTPUTS]
        work.give(OUTPUTS, run_compared(float_runner(path, card, threads), split, count, floats))


def _convert(work: Work) -> None:
    card, folder = work[CARD], work[FOLDER]
    shutil.rmtree(folder, ignore_errors=True)
    inputs = card.training_inputs(work[SAMPLES])
    work.give(QUANTIZED, load_model(convert_with_hb_mapper(card, work[TRIAL], work[INT16_NODES], inputs, folder)))


ONNXRUNTIME = Stage(
    name="onnxruntime",
    run=_quantize_and_run,
    reads=(CARD, TRIAL, SAMPLES, DATASET, EVALUATION_SAMPLES, FLOAT_OUTPUTS, THREADS),
    gives=(OUTPUTS,),
)
OWN_ENGINE = replace(ONNXRUNTIME, name="own engine")
"""The stage of a trial whose engine the user registered."""
HB_MAPPER = Stage(
    name="hb_mapper", run=_convert, reads=(CARD, TRIAL, INT16_NODES, SAMPLES, FOLDER, TOOL), gives=(QUANTIZED,)
)
