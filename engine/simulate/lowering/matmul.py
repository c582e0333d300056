"""Lowering of products of two activations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.ops.add import Add
from engine.simulate.lowering.common import ACTIVATION_TYPES, Call, NotLowered
from engine.simulate.lowering.elementwise import elementwise_parameters, emit_elementwise
from engine.simulate.program import Assembler, Tensor

Array = NDArray[Any]

EXACT: Mapping[np.dtype[Any], int] = MappingProxyType({np.dtype(np.float32): 1 << 24, np.dtype(np.float64): 1 << 53})
"""Integers up to here, and so every partial sum that stays below, are exact."""


def lower_matmul(call: Call, program: Assembler) -> Tensor:
    """HzSQuantizedMatmul: integers carried in floats through BLAS, which has no integer product, then requantised."""
    a, b = call.inputs
    if a is None or b is None or a.dtype not in ACTIVATION_TYPES or b.dtype not in ACTIVATION_TYPES:
        raise NotLowered("its operands are not two tensors of int8 or int16")
    carrier = exact_carrier(a.dtype, b.dtype, a.shape[-1])
    shape = _shape_of_product(a.shape, b.shape)
    if carrier is None or not 1 <= len(shape) <= 4:
        raise NotLowered(f"the product has rank {len(shape)}, or sums of {a.shape[-1]} products that no float holds")
    requantize = _requantization(call)
    wide = call.attributes["output_bit"] == 32 or call.attributes["high_precision_output"]
    params = None if wide else elementwise_parameters(requantize, shape[-1])
    accumulator = program.tensor(shape, np.int32)
    program.call(_product_in(carrier), [a, b], [accumulator])
    if params is None:
        return accumulator
    nothing = program.constant_operand(np.zeros((1,) * len(shape), np.int8))
    return emit_elementwise(requantize, accumulator, nothing, params, program)


def _shape_of_product(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    try:
        return tuple(np.matmul(np.empty(a, np.bool_), np.empty(b, np.bool_)).shape)
    except ValueError as error:
        raise NotLowered(f"shapes {a} and {b} have no product") from error


def exact_carrier(a: np.dtype[Any], b: np.dtype[Any], length: int) -> np.dtype[Any] | None:
    """The narrowest float type in which a sum of ``length`` products of these integers is exact in any order."""
    largest = length * int(np.iinfo(a).min) * int(np.iinfo(b).min)
    for carrier, limit in EXACT.items():
        if largest <= limit:
            return carrier
    return None


def _product_in(carrier: np.dtype[Any]) -> Any:
    """The product of two integer matrices in ``carrier``, modulo 2**32."""

    def product(inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        a, b = (np.asarray(x).astype(carrier) for x in inputs)
        exact = np.matmul(a, b)
        return (exact.astype(np.int32) if carrier == np.float32 else exact.astype(np.int64).astype(np.int32),)

    return product


def _requantization(call: Call) -> Call:
    """What is left to do with the accumulator, as a sum with zero."""
    given = call.attributes
    attributes = {
        "x_shift": np.zeros(1, np.int64),
        "accu_right_shift": given["right_shift"],
        "output_scale": given["scale"],
        "output_right_shift": given["out_shift"],
        "output_bit": given["output_bit"],
        "rounding_method": given["rounding_method"],
    }
    return Call(Add(), attributes, ())
