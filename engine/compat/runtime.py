"""``HB_ONNXRuntime``: a session with the interface of the original toolchain's class of that name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import ArrayLike, NDArray

from engine.errors import InferenceError
from engine.simulate.session import Mode, Session, image_inputs
from engine.simulate.tensors import TensorInfo

Array = NDArray[Any]


class HB_ONNXRuntime:  # noqa: N801 - the name that users' scripts import
    """Session with the interface of the original toolchain's class of the same name.

    Args:
        model_file: any ``.onnx`` file of a conversion, or a ``.bin`` file.
        mode: see :class:`Session`.
    """

    def __init__(self, model_file: str | os.PathLike[str] | ir.Model, mode: Mode | str = Mode.FAST) -> None:
        self._session = Session(model_file, mode)
        self._images = image_inputs(self._session.model)
        self.hb_session = PlainSession(self._session)

    def get_inputs(self) -> list[TensorInfo]:
        """Inputs with ``name``, ``shape`` and ``type``."""
        return list(self._session.inputs)

    def get_outputs(self) -> list[TensorInfo]:
        """Outputs with ``name``, ``shape`` and ``type``."""
        return list(self._session.outputs)

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs, in order."""
        return [info.name for info in self._session.inputs]

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs, in order."""
        return [info.name for info in self._session.outputs]

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, ArrayLike], input_offset: int = 128
    ) -> list[Array]:
        """Run on images: subtracts ``input_offset`` from every image input and casts to the model's input type.

        An image input is one that a preprocessing node reads; other inputs are cast only.

        Raises:
            InferenceError: a name or shape does not fit, or a value does not fit the input's type after subtraction.
        """
        return self._run(output_names, input_feed, dict.fromkeys(self._images, input_offset))

    def run_feature(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, ArrayLike], input_offset: int = 0
    ) -> list[Array]:
        """Run on feature maps: the arrays as they are, minus ``input_offset`` where it is not 0."""
        return self._run(output_names, input_feed, dict.fromkeys(self.input_names, input_offset))

    def _run(
        self, output_names: Sequence[str] | None, feed: Mapping[str, ArrayLike], offsets: Mapping[str, int]
    ) -> list[Array]:
        types = {info.name: info.dtype for info in self._session.inputs}
        prepared = {
            name: cast(name, np.asarray(value), offsets.get(name, 0), types[name]) if name in types else value
            for name, value in feed.items()
        }
        return list(self._session.run(prepared, output_names).values())


class HB_HBIRRuntime(HB_ONNXRuntime):  # noqa: N801 - the name that users' scripts import
    """The same for the files of ``hb_compile``: ``.onnx``, ``_quantized_model.bc`` and ``.hbm``.

    The documents of the S100 name the class and print no script that uses it; its interface here is that of
    :class:`HB_ONNXRuntime`.
    """


class HBRuntime(HB_HBIRRuntime):
    """The inference library of the S100's documents, which name it without its interface: as above."""


class PlainSession:
    """``hb_session`` of :class:`HB_ONNXRuntime`: runs on arrays that already have the model's types."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, ArrayLike]) -> list[Array]:
        """Outputs in the order of ``output_names``."""
        return list(self._session.run(input_feed, output_names).values())


def cast(name: str, array: Array, offset: int, dtype: np.dtype[Any]) -> Array:
    """``array - offset`` as ``dtype``.

    Raises:
        InferenceError: the values are no real numbers, or do not survive the cast.
    """
    if offset == 0 and array.dtype == dtype:
        return array
    if not (np.issubdtype(array.dtype, np.integer) or np.issubdtype(array.dtype, np.floating)):
        raise InferenceError(f"input {name}: got type {array.dtype}, expected numbers")
    wide = array.astype(np.float64 if np.issubdtype(array.dtype, np.floating) else np.int64) - offset
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        wide = np.trunc(wide)
        if wide.size and not (limits.min <= wide.min() and wide.max() <= limits.max):
            raise InferenceError(
                f"input {name}: values minus input_offset {offset} span {wide.min():g}..{wide.max():g}, expected "
                f"{limits.min}..{limits.max} ({dtype}); pass input_offset=0 if the data are already shifted"
            )
    elif np.any(np.abs(wide, where=np.isfinite(wide), out=np.zeros(wide.shape)) > np.finfo(dtype).max):
        raise InferenceError(f"input {name}: holds values beyond the range of {dtype}")
    return wide.astype(dtype)
