"""The stages that read the model with its inputs and put preprocessing before it."""

from __future__ import annotations

from engine.convert.items import ORIGINAL, SOURCE, SPECS
from engine.convert.runner import Stage, Work
from engine.frontend import parse, preprocess


def _read(work: Work) -> None:
    source, specs = parse(work.config)
    work.give(SOURCE, source)
    work.give(SPECS, specs)


def _prepare(work: Work) -> None:
    work.give(ORIGINAL, preprocess.insert(work[SOURCE], work[SPECS]))


READ = Stage(
    name="read",
    run=_read,
    gives=(SOURCE, SPECS),
    parameters=(
        "model_parameters.onnx_model",
        "model_parameters.caffe_model",
        "model_parameters.prototxt",
        "model_parameters.output_nodes",
        "input_parameters",
        "compiler_parameters.input_source",
        "custom_op",
    ),
)
PREPARE = Stage(name="prepare", run=_prepare, reads=(SOURCE, SPECS), gives=(ORIGINAL,))
