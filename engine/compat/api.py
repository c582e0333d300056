"""Look-alike of ``horizon_nn.api``: a session on a model in memory or in a file, and a whole conversion from YAML."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import ArrayLike, NDArray

from engine.config import load_config
from engine.convert import ConversionResult
from engine.convert import convert as run_conversion
from engine.simulate import Session

__all__ = ["ORTExecutor", "convert", "infer"]


class ORTExecutor:
    """Runs a model of any stage.

    Args:
        model: a model in memory or its file.
    """

    def __init__(self, model: onnx.ModelProto | ir.Model | str | os.PathLike[str]) -> None:
        self._session = Session(ir.from_proto(model) if isinstance(model, onnx.ModelProto) else model)

    def create_session(self) -> ORTExecutor:
        """The executor itself: sessions are made when a model is given."""
        return self

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs, in order."""
        return [info.name for info in self._session.inputs]

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs, in order."""
        return [info.name for info in self._session.outputs]

    def inference(
        self, inputs: Mapping[str, ArrayLike], output_names: Sequence[str] | None = None
    ) -> list[NDArray[Any]]:
        """Outputs in the order of ``output_names``, of the model where it is None.

        Raises:
            InferenceError: a name, shape or type does not fit.
        """
        feed = {name: np.asarray(array) for name, array in inputs.items()}
        return list(self._session.run(feed, output_names).values())


def infer(
    model: onnx.ModelProto | ir.Model | str | os.PathLike[str], inputs: Mapping[str, ArrayLike]
) -> dict[str, NDArray[Any]]:
    """Outputs by name of a model of any stage.

    Raises:
        InferenceError: a name, shape or type does not fit.
    """
    executor = ORTExecutor(model)
    return dict(zip(executor.output_names, executor.inference(inputs), strict=True))


def convert(config: str | os.PathLike[str]) -> ConversionResult:
    """Convert as a YAML file asks for, as ``hb_mapper makertbin`` does.

    Raises:
        PtqlabError: see :func:`engine.convert.convert`.
    """
    return run_conversion(load_config(config))
