"""Lowering of convolutions.

Every ``lower_*`` appends the instructions of one node and raises :class:`NotLowered` where the machine has none for its
types, shapes or parameters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.native.registers import LANES, REGISTERS
from engine.ops.conv import bias_and_sum, shifted_bias
from engine.ops.core.base import Attributes
from engine.ops.core.windows import Geometry, geometry, tap_corners
from engine.ops.preprocess import as_convolution
from engine.simulate.kernels import tiles
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.kernels.tiles import (
    BLOCK,
    BLOCK_SIDE,
    FLIP,
    PAIR,
    PIXELS,
    PRODUCTS,
    QUAD,
    RUN,
    STEP_BYTES,
)
from engine.simulate.lowering.choice import (
    MOST_CHANNELS,
    OPERAND_BYTES,
    WIDE_ENOUGH,
    are_best_bytes,
    blocks_of_channels,
    is_best_in_place,
    padded_width,
    pixels_together,
    shares_weights,
    takes_fewer_products,
    tile_rows_of,
    windows_together,
)
from engine.simulate.lowering.common import (
    ACTIVATION_TYPES,
    Call,
    NotLowered,
    check_window,
    integer_output,
    tap_fields,
    window_fields,
)
from engine.simulate.lowering.constants import (
    convolution_parameters,
    in_one_window,
    of_blocks,
    pack_weights,
    side_by_side,
    taps_of_blocks,
    transformed_weights,
    with_words,
)
from engine.simulate.lowering.movement import blocks_to_pixels, pad
from engine.simulate.lowering.tables import look_up, tables_of_ramp
from engine.simulate.program import Assembler, Operand, Tensor

Array = NDArray[Any]

SMALL_DEPTHWISE = 8
"""1x1 depthwise convolutions of so few channels are look-up tables: a vector would be mostly empty."""
MOST_ROWS = 16
"""Rows that such pixels are divided into, so that threads can share them."""
MIN_UNITS = 8
"""Parts that a convolution is split into, so that threads can share it evenly."""
KEPT_FROM = 28
"""Rows of results from which on a depthwise convolution pads its input itself: threads do not share so many units that
rows would be padded more than once."""
MIN_ROW_UNITS = 16
"""Parts that a depthwise convolution is split into: 7 rows would be 4 for one thread and 3 for another."""


def lower_convolution(call: Call, program: Assembler, block: tuple[int, int] = (1, 1)) -> Tensor:
    """HzSQuantizedConv; of a ``block`` of rows and columns of pixels, channels (row, column, channel) are the pixels.

    The window must be a single pixel for them.
    """
    x, (weights,), attributes = call.images(), call.constants(1), call.attributes
    check_window(attributes)
    if not _fits(weights, x, attributes):
        raise NotLowered(f"weights {weights.shape} do not belong to the input's {x.shape[3]} channels")
    positions, summed = bias_and_sum(call.inputs, attributes)
    bias, e = call.constants(*positions), None if summed is None else call.inputs[summed]
    channels, windows = len(weights), geometry(x.shape[1:3], attributes)
    shape = (x.shape[0], int(windows.out[0]), int(windows.out[1]), channels)
    if isinstance(e, np.ndarray):
        e = program.constant_operand(e)
    if e is not None and (e.shape != shape or e.dtype not in ACTIVATION_TYPES):
        raise NotLowered(f"an operand of {e.dtype} and shape {e.shape} is added to results of shape {shape}")
    if min(shape) < 1:
        raise NotLowered(f"results of shape {shape}")
    depthwise = attributes["group"] == channels == x.shape[3]
    quads = not depthwise and are_best_bytes(x, weights)
    # Where dot products of uint8 read x + 128, what that adds to an accumulator depends on the weights alone.
    surplus = FLIP * weights.astype(np.int64).sum(axis=(1, 2, 3)) if quads else 0
    params = convolution_parameters(shifted_bias(*bias) - surplus, attributes, channels)
    if e is None and _is_small_affine(x, weights, attributes):
        return look_up(x, tables_of_ramp(call, x.dtype, x.shape[3]), program)
    y, limits = _convolution_output(shape, attributes, program)
    whole = {"x": x, "y": y} if e is None else {"x": x, "e": e, "y": y}
    common = dict(limits)
    is_wordwise = tiles.WORDWISE and bool(np.all(params[tiles.OUT_SHIFT, :channels] >= tiles.LEAST_SHIFT))
    # Packed rows are those of whole vectors, which the channels of each group must begin with.
    is_wordwise &= bool(depthwise or attributes["group"] == 1 or channels // attributes["group"] % LANES == 0)
    blocks = blocks_of_channels(x, y, e, attributes) if depthwise and is_wordwise else 0
    params = of_blocks(params, weights, blocks) if blocks else params
    emit, kernel = (
        (_depthwise, InstructionKind.DEPTHWISE) if depthwise else (_matrix_product, InstructionKind.CONVOLUTION)
    )
    if fewer := not depthwise and takes_fewer_products(whole, weights, attributes, quads):
        emit, quads = _fewer_products, False
    fields: dict[str, int] = {}
    if depthwise and _is_pointwise(attributes):
        whole, params, weights = _beside_each_other(whole, params, weights)
        windows = geometry(whole["x"].shape[1:3], attributes)
    count = pixels_together(whole, windows, attributes) if depthwise else 1
    shared = 1 if depthwise or fewer else windows_together(whole, weights, attributes, quads)
    if shared > 1:
        params, weights, attributes = in_one_window(params, weights, attributes, shared)
        whole |= {name: _joined_pixels(whole[name], shared) for name in whole.keys() - {"x"}}
    if count > 1:
        params, weights = side_by_side(params, weights, count)
        surplus_columns = -padded_width(whole["x"], windows) % count
        windows = replace(windows, pads=windows.pads + np.array([0, 0, 0, surplus_columns]))
    is_read_as_it_is = not depthwise and (quads or whole["x"].dtype == np.int16)
    in_place = is_read_as_it_is and is_best_in_place(whole, windows, weights, attributes)
    finishes = is_wordwise and quads and REGISTERS.quads and _finishes(y, e)
    packs = is_wordwise and tiles.PACKS and y.dtype == np.int8
    common |= {"in_place": int(in_place), "finishes": int(finishes), "packs": int(packs)}
    common |= {"block_rows": 1, "block_columns": 1}
    is_spread = block != (1, 1) and finishes and channels // math.prod(block) % LANES == 0
    if is_spread:
        common |= {"block_rows": block[0], "block_columns": block[1]}
    if is_wordwise:
        params = with_words(params)
    border, flip = (-FLIP, FLIP) if in_place and quads else (0, 0)
    keeps = depthwise and count == 1 and bool(np.any(windows.pads)) and shape[1] >= KEPT_FROM
    for operands in _images(whole, attributes):
        padded = operands["x"] if keeps else pad(operands["x"], windows, border, program, flip)
        operands["x"] = padded
        if count > 1:
            operands = {name: _joined_pixels(tensor, count) for name, tensor in operands.items()}
        if not fields:
            common |= {"params": program.address(params), "params_pitch": params.strides[0]}
            common |= {**window_fields(operands["x"], operands["y"], attributes), "quads": int(quads)}
            common |= _dense_results(operands["y"], common)
            if depthwise:
                common["panels"] = blocks
            fields = emit(program, padded, common, weights, attributes)
            fields |= _kept_rows(padded, windows, attributes, program) if keeps else {}
        program.emit(kernel, operands, **fields)
    if is_spread:
        return y.shaped(1, shape[1] * block[0], shape[2] * block[1], channels // math.prod(block))
    return y if block == (1, 1) else blocks_to_pixels(y, *block, program)


def _dense_results(y: Tensor, common: dict[str, int]) -> dict[str, int]:
    """Fields of results that fill ``y``, a pixel after the other."""
    pitch = y.shape[3] // (common["block_rows"] * common["block_columns"]) * y.dtype.itemsize
    return {"y_pitch": pitch, "y_line": y.shape[2] * common["block_columns"] * pitch}


def _finishes(y: Tensor, e: Operand) -> bool:
    """Whether whole tiles of results can leave the registers as int8."""
    return y.dtype == np.int8 and (e is None or e.dtype == np.int8)


def _joined_pixels(tensor: Tensor, count: int) -> Tensor:
    """``count`` neighbours in a row as one pixel."""
    samples, height, width, channels = tensor.shape
    return tensor.shaped(samples, height, width // count, channels * count)


def _is_pointwise(attributes: Attributes) -> bool:
    """Whether each pixel stands alone."""
    return bool(
        np.all(attributes["kernel_shape"] == 1)
        and np.all(attributes["strides"] == 1)
        and not np.any(attributes["pads"])
    )


def _beside_each_other(
    operands: dict[str, Tensor], params: NDArray[np.int32], weights: Array
) -> tuple[dict[str, Tensor], NDArray[np.int32], Array]:
    """Some neighbouring pixels as one with as many channels more, so that vectors are full; not where none divides."""
    samples, height, width, channels = operands["x"].shape
    pixels = samples * height * width
    counts = (n for n in range(1, min(pixels, MOST_CHANNELS // channels) + 1) if pixels % n == 0)
    count = next((n for n in counts if n * channels % LANES == 0 or n * channels >= WIDE_ENOUGH), 1)
    rows = max(n for n in range(1, MOST_ROWS + 1) if pixels // count % n == 0)
    shape = (1, rows, pixels // count // rows, count * channels)
    return {name: x.shaped(*shape) for name, x in operands.items()}, *side_by_side(params, weights, count)


def _images(operands: dict[str, Tensor], attributes: Attributes) -> Iterator[dict[str, Tensor]]:
    """The operands of every map; all at once where each pixel stands alone."""
    if _is_pointwise(attributes):
        joined = {name: (1, t.shape[0] * t.shape[1], *t.shape[2:]) for name, t in operands.items()}
        yield {name: tensor.shaped(*joined[name]) for name, tensor in operands.items()}
        return
    for parts in zip(*(tensor.samples() for tensor in operands.values()), strict=True):
        yield dict(zip(operands, parts, strict=True))


def _fits(weights: Array, x: Tensor, attributes: Attributes) -> bool:
    """Whether weights, input and attributes belong together; the kernels do not look again."""
    group = attributes["group"]
    return bool(
        weights.ndim == 4
        and weights.dtype == np.int8
        and group >= 1
        and len(weights) % group == 0
        and weights.shape[1:3] == tuple(attributes["kernel_shape"])
        and weights.shape[3] * group == x.shape[3]
    )


def lower_preprocess(call: Call, program: Assembler) -> Tensor:
    """HzSQuantizedPreprocess, a 1x1 convolution."""
    kernel = np.asarray(call.inputs[1]).shape
    attributes = {**as_convolution(call.attributes), "kernel_shape": np.array(kernel[1:3], np.int64)}
    return lower_convolution(Call(call.operator, attributes, call.inputs), program)


def _convolution_output(
    shape: Sequence[int], attributes: Attributes, program: Assembler
) -> tuple[Tensor, dict[str, int]]:
    bits = 32 if attributes["high_precision_output"] else int(attributes["output_bit"])
    low = 0 if attributes["activation"] == "relu" else -(1 << (bits - 1))
    y = program.tensor(shape, np.int32 if bits == 32 else integer_output(bits), signed=low < 0)
    return y, {"low": low}


def _is_small_affine(x: Tensor, weights: Array, attributes: Attributes) -> bool:
    """Whether a convolution is a function of one int8 value per channel, of few channels."""
    return bool(
        attributes["group"] == x.shape[3] == len(weights) <= SMALL_DEPTHWISE
        and weights.shape[1:] == (1, 1, 1)
        and x.dtype == np.int8
        and attributes["output_bit"] == 8
        and not attributes["high_precision_output"]
        and not np.any(attributes["pads"])
        and np.all(attributes["strides"] == 1)
    )


def _depthwise(
    program: Assembler, x: Tensor, common: dict[str, int], weights: Array, attributes: Attributes
) -> dict[str, int]:
    """What an instruction on one map ``x``, of pixels as they are, needs beside its operands."""
    channels = len(weights)
    packed = np.zeros((weights.shape[1] * weights.shape[2], common["params_pitch"] // 4), np.int32)
    packed[:, :channels] = weights.reshape(channels, -1).T.astype(np.int32) & 0xFFFF
    _, height, width, _ = weights.shape
    own = x.dtype == np.int8 and attributes["dilations"][1] == 1 and channels == x.shape[3]
    own = own and (width, common["stride_w"]) in tiles.ROW_WINDOWS
    blocks = common["panels"]
    parts = blocks + -(-(channels - blocks * BLOCK) // LANES)
    splits = min(parts, math.ceil(MIN_ROW_UNITS / common["out_h"]))
    own_weights: dict[str, int] = {}
    if blocks:
        taps = taps_of_blocks(weights, blocks)
        own_weights = {"panel_table": program.address(taps), "group_weights": taps.strides[0]}
    return {
        "units": common["out_h"] * splits,
        "splits": splits,
        **own_weights,
        "overrun": (PIXELS * common["stride_w"] * channels + LANES) * x.dtype.itemsize,
        "weights": program.address(packed),
        "rows": height if own else 0,
        **tap_fields(x, attributes, program),
        **common,
    }


def _kept_rows(x: Tensor, windows: Geometry, attributes: Attributes, program: Assembler) -> dict[str, int]:
    """What an instruction needs that pads the rows of ``x`` itself, in working memory, as windows reach them.

    The taps of a window lie elsewhere for each place that its first row can have.
    """
    top, left, _, _ = (int(p) for p in windows.pads)
    corners = np.array(tap_corners(attributes), np.int64)
    kept, line = int(corners[:, 0].max()) + 1, padded_width(x, windows) * x.shape[3]
    places = (np.arange(kept)[:, np.newaxis] + corners[:, 0]) % kept
    offsets = (places * line + corners[:, 1] * x.shape[3]) * x.dtype.itemsize
    overrun = (PIXELS * int(attributes["strides"][1]) * x.shape[3] + LANES) * x.dtype.itemsize
    return {
        **{"kept": kept, "wide": line, "top": top, "left": left},
        "tap_offsets": program.address(offsets),
        "scratch": kept * line * x.dtype.itemsize + overrun,
    }


def _matrix_product(
    program: Assembler, x: Tensor, common: dict[str, int], weights: Array, attributes: Attributes
) -> dict[str, int]:
    """What an instruction on one map needs beside its operands."""
    groups = int(attributes["group"])
    kernel = weights.shape[1] * weights.shape[2] * weights.shape[3]
    values = QUAD if common["quads"] else PAIR
    pieces = weights.shape[1] if common["in_place"] else 1
    steps = tiles.steps_of(kernel // pieces, bool(common["quads"]))
    split = weights.reshape(len(weights), pieces, kernel // pieces)
    split = np.pad(split, ((0, 0), (0, 0), (0, steps * values - kernel // pieces)))
    # No panel holds channels of two pixels.
    block = common["block_rows"] * common["block_columns"]
    # ``places``: how far from the first byte of a window each step lies.
    item = x.dtype.itemsize
    between = int(attributes["dilations"][0]) * common["in_w"] * common["in_c"] * item
    places = (np.arange(pieces)[:, np.newaxis] * between + np.arange(steps) * STEP_BYTES).ravel()
    panels, packed = pack_weights(
        split.reshape(groups, len(weights) // groups, -1), bool(common["quads"]), block, places
    )
    runs, positions = 1, common["out_h"] * common["out_w"]
    if common["in_place"] and common["stride_h"] == common["stride_w"] == 1:
        positions = (common["out_h"] - 1) * common["in_w"] + common["out_w"]
    elif common["in_place"]:
        runs, positions = common["out_h"], common["out_w"]
    whole = common["stride_w"] * common["in_c"] * item if common["in_place"] else steps * STEP_BYTES
    tile_rows = positions if positions <= tiles.LARGEST_TILE_ROWS else tile_rows_of(runs * positions, whole)
    count = runs * math.ceil(positions / tile_rows)
    splits = min(len(panels), math.ceil(MIN_UNITS / count))
    return {
        "units": count * splits,
        "together": int(shares_weights(x, positions * runs, packed, common)),
        "streams": int(not common["quads"] and packed.nbytes > tiles.STREAMED),
        "scratch": 0 if common["in_place"] else (tile_rows + tiles.MOST_AT_ONCE) * whole + tiles.GATHER_OVERRUN,
        "overrun": tiles.GATHER_OVERRUN + common["in_place"] * tiles.MOST_AT_ONCE * whole,
        "pieces": pieces,
        "piece_pitch": between,
        "steps": steps,
        "groups": groups,
        "group_weights": packed.strides[0],
        "tile_rows": tile_rows,
        "splits": splits,
        "panels": len(panels),
        "panel_table": program.address(panels),
        "weights": program.address(packed),
        **_piece_fields(x, weights, attributes, program),
        **common,
    }


def _fewer_products(
    program: Assembler, x: Tensor, common: dict[str, int], weights: Array, attributes: Attributes
) -> dict[str, int]:
    """What an instruction on one map that computes blocks of results needs beside its operands."""
    inside = math.ceil(weights.shape[3] / RUN) * RUN
    steps = inside // PAIR
    factors = np.pad(transformed_weights(weights), ((0, 0), (0, 0), (0, inside - weights.shape[3])))
    panels, packed = pack_weights(factors.reshape(1, len(weights), -1), quads=False)
    across = math.ceil(common["out_w"] / BLOCK_SIDE)
    blocks = across * math.ceil(common["out_h"] / BLOCK_SIDE)
    pitch = PRODUCTS * steps * STEP_BYTES
    most = max(tiles.ROWS[-1], min(tiles.TILE_ROWS, OPERAND_BYTES // pitch))
    count = math.ceil(blocks / most)
    tile_rows = math.ceil(blocks / count)
    splits = min(len(panels), math.ceil(MIN_UNITS / count))
    sums = PRODUCTS * (tile_rows + tiles.MOST_AT_ONCE) * tiles.MAX_VECTORS * LANES * 4
    return {
        "units": count * splits,
        "together": int(shares_weights(x, blocks * BLOCK_SIDE**2, packed, common)),
        "streams": int(packed.nbytes > tiles.STREAMED),
        "scratch": tiles.ACCUMULATOR_BYTES + sums + (tile_rows + tiles.MOST_AT_ONCE) * pitch,
        "overrun": (x.shape[2] + BLOCK_SIDE) * x.shape[3] + RUN,
        "across": across,
        "pieces": 1,
        "steps": steps,
        "groups": 1,
        "tile_rows": tile_rows,
        "splits": splits,
        "panels": len(panels),
        "panel_table": program.address(panels),
        "weights": program.address(packed),
        **common,
    }


def _piece_fields(x: Tensor, weights: Array, attributes: Attributes, program: Assembler) -> dict[str, int]:
    """The window as contiguous pieces of memory: whole rows of it where nothing lies between its columns."""
    _, kernel_h, kernel_w, channels = weights.shape
    if attributes["group"] == 1 and (attributes["dilations"][1] == 1 or kernel_w == 1):
        rows = np.arange(kernel_h, dtype=np.int64) * attributes["dilations"][0]
        offsets = rows * x.shape[2] * x.shape[3] * x.dtype.itemsize
        return {"taps": kernel_h, "tap_offsets": program.address(offsets), "tap_length": kernel_w * channels}
    return {**tap_fields(x, attributes, program), "tap_length": channels}
