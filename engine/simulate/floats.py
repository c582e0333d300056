"""Float models: the calibration stage's sessions behind the checks that every simulator makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.forward import FloatSession
from engine.simulate.tensors import check_feed, check_outputs, describe, graph_inputs

Array = NDArray[Any]


class FloatSimulator:
    """Runs a model of any float stage in ONNX Runtime."""

    def __init__(self, model: ir.Model, threads: int | None = None) -> None:
        self.inputs = describe(graph_inputs(model))
        self.outputs = describe(model.graph.outputs)
        self._session = FloatSession(model, threads=threads)

    def run(self, feed: Mapping[str, Array], output_names: Sequence[str] | None = None) -> dict[str, Array]:
        """Outputs by name, for a feed of any number of samples.

        Raises:
            InferenceError: the feed does not fit the model.
        """
        names = check_outputs(output_names, self.outputs)
        check_feed(feed, self.inputs)
        results = self._session.run(feed)
        return {name: results[name] for name in names}
