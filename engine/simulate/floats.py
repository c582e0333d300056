"""Float models in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import onnxruntime as ort
from numpy.typing import NDArray

from engine.ir import to_bytes
from engine.simulate.tensors import check_feed, check_outputs, describe, graph_inputs, join_samples, split_samples

Array = NDArray[Any]


class FloatSimulator:
    """A model of standard operators, one sample at a time: a float sum may depend on the batch it is computed in."""

    def __init__(self, model: ir.Model, threads: int | None = None) -> None:
        self.inputs = describe(graph_inputs(model))
        self.outputs = describe(model.graph.outputs)
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = threads or 0
        self._session = ort.InferenceSession(to_bytes(model), options, providers=["CPUExecutionProvider"])

    def run(self, feed: Mapping[str, Array], output_names: Sequence[str] | None = None) -> dict[str, Array]:
        """Outputs by name, for a feed of any number of samples.

        Raises:
            InferenceError: the feed does not fit the model.
        """
        names = check_outputs(output_names, self.outputs)
        samples = range(check_feed(feed, self.inputs))
        return join_samples([self._one(split_samples(feed, self.inputs, i), names) for i in samples], names)

    def _one(self, sample: Mapping[str, Array], names: Sequence[str]) -> dict[str, Array]:
        return dict(zip(names, self._session.run(list(names), dict(sample)), strict=True))
