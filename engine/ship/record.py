"""``ship.json``: what a ship folder was made from, and what the toolchain has to arrive at."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from engine.chips import March
from engine.ir import calibration_nodes, constant_of, read_calibration


class _Frozen(BaseModel):
    """Values that do not change, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Origin(_Frozen):
    """What a ship folder was made from.

    Attributes:
        model: name of the file of the source model.
        model_sha256: of its content; of structure and weights of a Caffe model one after the other.
        data_sha256: of the calibration data; None where there are none.
        engine: version of ptqlab.
        trial: what identifies the trial, empty without one: such as ``suite``, ``model``, ``trial``, ``key``.
    """

    model: str
    model_sha256: str
    data_sha256: str | None
    engine: str
    trial: Mapping[str, str] = Field(default_factory=dict)


class Threshold(_Frozen):
    """How one activation is quantised.

    Attributes:
        values: its thresholds, one or one per channel.
        type: ``int8``, ``int16`` or ``uint8``.
    """

    values: tuple[float, ...]
    type: str


class NotCarried(_Frozen):
    """Something of the conversion that the ship folder does not carry over.

    Attributes:
        what: option, node or parameter.
        reason: why not.
        cost: what differs in what is built.
    """

    what: str
    reason: str
    cost: str


class ShipRecord(_Frozen):
    """The content of ``ship.json``.

    Attributes:
        format: version of this file.
        prefix: prefix of the toolchain's files.
        march: BPU architecture.
        origin: what it was made from.
        network_sha256: of ``net.onnx``.
        thresholds: of every activation, by name of the float tensor.
        integers: number of integers that the toolchain has to arrive at.
        nodes: digest of the integers of every quantised node that has some, by its name.
        not_carried: what is not carried over, and its cost.
        unmeasured: what of this was never compared with a toolchain; empty where it was.
    """

    format: Literal[1] = 1
    prefix: str
    march: March
    origin: Origin
    network_sha256: str
    thresholds: Mapping[str, Threshold]
    integers: int
    nodes: Mapping[str, str]
    not_carried: tuple[NotCarried, ...] = ()
    unmeasured: str = ""


def thresholds_of(calibrated: ir.Model) -> dict[str, Threshold]:
    """Every activation's threshold in ``calibrated``, by name of the float tensor, in graph order."""
    found = {}
    for node in calibration_nodes(calibrated):
        value = node.inputs[0]
        if value is not None and constant_of(value) is None:
            calibration = read_calibration(node)
            values = tuple(float(each) for each in calibration.thresholds.ravel())
            found[str(value.name)] = Threshold(values=values, type=calibration.qtype)
    return found


def integers_of(node: ir.Node) -> list[tuple[str, NDArray[Any]]]:
    """The integer constants that ``node`` reads and the integer lists among its attributes, named by place."""
    found = []
    for index, value in enumerate(node.inputs):
        array = constant_of(value)
        if array is not None and array.dtype.kind in "iu":
            found.append((f"input {index}", array))
    for name, attribute in sorted(node.attributes.items()):
        if attribute.type is ir.AttributeType.INTS:
            found.append((name, np.asarray(attribute.as_ints(), np.int64)))
        elif attribute.type is ir.AttributeType.TENSOR and attribute.as_tensor().dtype.is_integer():
            found.append((name, attribute.as_tensor().numpy()))
    return found


def digest_of_integers(node: ir.Node) -> str | None:
    """SHA-256 of :func:`integers_of`; None where there are none."""
    found = hashlib.sha256()
    arrays = integers_of(node)
    for place, array in arrays:
        found.update(f"{place} {array.dtype.str} {array.shape};".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest() if arrays else None


def count_integers(quantized: ir.Model) -> int:
    """Number of integers that the nodes of ``quantized`` hold."""
    return sum(map(count_of, quantized.graph))


def count_of(node: ir.Node) -> int:
    """Number of integers that ``node`` holds."""
    return sum(array.size for _, array in integers_of(node))
