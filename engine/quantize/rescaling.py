"""Other scales and widths: integers of constants, and nodes that requantise a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import Calibration, shape_of
from engine.ops.core.base import Lowering, Quantized
from engine.ops.core.fixed_point import requantization, round_away
from engine.ops.core.float_nodes import TO_NHWC
from engine.ops.core.unit_conv import unit_convolution
from engine.quantize.layouts import CHANNELS_LAST
from engine.quantize.writer import DTYPES, GraphWriter
from engine.rulebook.name import NamedPart, NameSite, Naming


def constant_integers(array: NDArray[Any], wanted: Calibration, rank: int, layout: str) -> NDArray[Any]:
    """``array`` as int8 or int16 of ``rank`` dimensions; NHWC where that is the layout of a map.

    The quotient is float32, and half an integer goes away from zero, as in weights: 13 halves in each of 11 constants
    asked (sums, differences, products, a Concat and matrices, of maps and lines) on bayes-e and bayes, 4 on bernoulli2.
    """
    aligned = array.reshape((1,) * (rank - array.ndim) + array.shape)
    if rank == len(TO_NHWC) and layout == "NHWC":
        aligned = aligned.transpose(TO_NHWC)
    info = np.iinfo(np.int8 if wanted.bits == 8 else np.int16)
    integers = round_away(aligned.astype(np.float32) / wanted.scales)
    return np.asarray(np.clip(integers, info.min, info.max), info.dtype)


def is_like(form: Quantized, wanted: Calibration) -> bool:
    """Whether ``form`` is read as ``wanted`` without being requantised: scales differ by less than about 1e-5 of them.

    Of seven Concats on bayes-e and bernoulli2 the operands of three, whose scales differ by 1e-6, 3e-6 and 7e-6 of
    them, are not requantised, of four, from 1.2e-5 on, they are; so are those of four with scales of 2.5e-6.
    """
    is_of_one_kind = form.bits == wanted.bits and form.scale.shape == wanted.scales.shape
    return is_of_one_kind and np.allclose(form.scale, wanted.scales, rtol=1e-5, atol=0.0)


def rescale(
    name: str, form: Quantized, wanted: Calibration, lowering: Lowering, writer: GraphWriter, names: Naming
) -> ir.Value:
    """``form``, NHWC, by a convolution called ``name``: 89 of them in ten recorded networks of bernoulli2."""
    shape = shape_of(form.value)
    inputs, attributes = unit_convolution(name, shape[-1], form, wanted, lowering)
    kind, result = (
        ir.TensorType(DTYPES[wanted.bits]),
        names.of(NameSite(NamedPart.REQUANTIZED, node=name, as_convolution=True)),
    )
    return writer.append("HzSQuantizedConv", name, inputs, attributes, result, kind, shape)


def requantize(
    node: str, layout: str, form: Quantized, wanted: Calibration, writer: GraphWriter, names: Naming
) -> ir.Value:
    """``form``, which is in ``layout``, by an HzRequantize called ``node``.

    The quotient of the scales is float32, in which half an integer is no rare value: it is rounded up (43 of 43 that
    were asked, 12 of them where float64 or the even integer give another: ``tests/parity/multipliers.py``).
    """
    split = requantization(form.scale / wanted.scales, wanted.bits, half_up=True)
    shape = shape_of(form.value)
    is_map = len(shape) == len(TO_NHWC)
    channels = shape[-1] if layout in ("NHWC", "flat") and split.scale.size == 1 else 1
    return writer.append(
        "HzRequantize",
        node,
        [form.value],
        {
            "axis": CHANNELS_LAST if is_map else len(shape) - 1,
            "bits": wanted.bits,
            "method": "Rescale",
            "output_scale": split.scale.tolist() * channels,
            "output_right_shift": (split.right_shift + split.out_shift).tolist() * channels,
            "data_format": "NHWC" if is_map else None,
        },
        names.of(NameSite(NamedPart.REQUANTIZED, node=node)),
        ir.TensorType(DTYPES[wanted.bits]),
        shape,
    )
