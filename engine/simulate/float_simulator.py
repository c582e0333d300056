"""Float models: the calibration stage's sessions behind the checks that every simulator makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from engine.floats.fake_quantization import lower_calibration
from engine.floats.float_model import FloatSession
from engine.frontend.shapes import infer_shapes
from engine.ir import static_shape
from engine.simulate.tensors import check_feed, check_outputs, describe, graph_inputs

Array = NDArray[Any]


class FloatSimulator:
    """Runs a model of any float stage in ONNX Runtime."""

    def __init__(self, model: ir.Model, threads: int | None = None) -> None:
        model = standard_model(model)
        self.inputs = describe(graph_inputs(model))
        self.outputs = describe(model.graph.outputs)
        self._session = FloatSession(model, threads=threads, samplewise=False)

    def run(self, feed: Mapping[str, Array], output_names: Sequence[str] | None = None) -> dict[str, Array]:
        """Outputs by name, for a feed of any number of samples.

        Raises:
            InferenceError: the feed does not fit the model.
        """
        names = check_outputs(output_names, self.outputs)
        check_feed(feed, self.inputs)
        results = self._session.run(feed)
        return {name: results[name] for name in names}


def standard_model(model: ir.Model) -> ir.Model:
    """``model`` in standard operators, with static output shapes: a file from an exporter may lack them.

    Raises:
        ModelError: the model is not valid ONNX.
        UnsupportedError: the shape of an output depends on the data.
    """
    standard = lower_calibration(model)
    if all(static_shape(value) is not None for value in standard.graph.outputs):
        return standard
    return infer_shapes(standard, Path(model.graph.name or "model"))
