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
from engine.ops.core.fixed_point import SCALE_MAX, wrap_int32
from engine.ops.core.windows import Geometry, geometry, tap_corners
from engine.ops.preprocess import as_convolution
from engine.simulate.kernels import tiles
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.kernels.tiles import (
    BLOCK,
    BLOCK_SIDE,
    BLOCK_VECTORS,
    FLIP,
    ORDER,
    PAIR,
    PIXELS,
    PRODUCTS,
    QUAD,
    QUARTER,
    RUN,
    STEP_BYTES,
)
from engine.simulate.lowering import matrices
from engine.simulate.lowering.common import (
    ACTIVATION_TYPES,
    MAX_SCALE,
    MAX_SHIFT,
    Call,
    NotLowered,
    check_window,
    integer_output,
    per_channel,
    tap_fields,
    window_fields,
)
from engine.simulate.lowering.movement import blocks_to_pixels, pad
from engine.simulate.lowering.tables import look_up, tables_of_ramp
from engine.simulate.program import Assembler, Operand, Tensor

Array = NDArray[Any]

SMALL_DEPTHWISE = 8
"""1x1 depthwise convolutions of so few channels are look-up tables: a vector would be mostly empty."""
WIDE_ENOUGH, MOST_CHANNELS = 128, 4096
"""Channels from which on a vector that is partly empty does not count, and most that pixels side by side may have."""
MOST_ROWS = 16
"""Rows that such pixels are divided into, so that threads can share them."""
FLIPPED, PIECE, VECTOR = 5, 10, 12
"""What it takes to gather a piece of a window and to requantise a vector, in products of one, which take 0.15 ns on
AVX512: the first is for pieces of up to :data:`~engine.simulate.kernels.tiles.MEDIUM` bytes that are flipped."""
GAIN = 0.9
"""The share of the time that several pixels at once may take, for them to be worth it."""
MOST_TILE_ROWS, MANY_UNITS, OPERAND_BYTES = 3 * tiles.TILE_ROWS, 16, 1 << 18
"""Most positions of a unit, least units that leave so many, and most bytes that a unit should read of its input."""
SHARED_POSITIONS, SHARED_BYTES, SHARED_RATIO = 256 if tiles.MATRICES else 32, 1 << 16, 4
"""Most positions of an image for which it takes less time to compute products than to bring weights into the second
cache, least bytes of weights that are no longer there when the next sample comes, and how many times as many as those
of the image and its results, which leave the cache instead."""
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
    quads = REGISTERS.quads and x.dtype == np.int8 and not depthwise
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
    blocks = _blocks(x, y, e, attributes) if depthwise and is_wordwise else 0
    params = _of_blocks(params, weights, blocks) if blocks else params
    emit, kernel = (
        (_depthwise, InstructionKind.DEPTHWISE) if depthwise else (_matrix_product, InstructionKind.CONVOLUTION)
    )
    if fewer := not quads and not depthwise and _takes_fewer_products(whole, weights, attributes):
        emit = _fewer_products
    fields: dict[str, int] = {}
    if depthwise and _is_pointwise(attributes):
        whole, params, weights = _beside_each_other(whole, params, weights)
        windows = geometry(whole["x"].shape[1:3], attributes)
    count = _pixels_together(whole, windows, attributes) if depthwise else 1
    shared = 1 if depthwise or fewer else _windows_together(whole, weights, attributes)
    if shared > 1:
        params, weights, attributes = _in_one_window(params, weights, attributes, shared)
        whole |= {name: _joined_pixels(whole[name], shared) for name in whole.keys() - {"x"}}
    if count > 1:
        params, weights = _side_by_side(params, weights, count)
        surplus_columns = -_padded_width(whole["x"], windows) % count
        windows = replace(windows, pads=windows.pads + np.array([0, 0, 0, surplus_columns]))
    is_read_as_it_is = not depthwise and (quads or whole["x"].dtype == np.int16)
    in_place = is_read_as_it_is and _is_best_in_place(whole, windows, weights, attributes)
    finishes, packs = is_wordwise and quads and _finishes(y, e), is_wordwise and tiles.PACKS and y.dtype == np.int8
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


def with_words(params: NDArray[np.int32]) -> NDArray[np.int32]:
    """``params`` with rows of int16, each vector's own beside the next one's, and with the order of packed bytes."""
    found, left = [], np.maximum(params[tiles.OUT_SHIFT] - tiles.WORD, 0)
    for values in (params[tiles.SCALE], left if tiles.SHIFTS_WORDS else 1 << tiles.WORD >> left):
        own = (values & 0xFFFF).astype(np.uint16).view(np.int16).reshape(-1, LANES // 4, 4)
        following = np.concatenate([own[1:], np.zeros_like(own[:1])])
        found.append(np.ascontiguousarray(np.stack([own, following], axis=2)).view(np.int32).ravel())
    order = np.resize(np.array(tiles.IN_ORDER, np.int32), params.shape[1])
    return np.concatenate([params, np.stack([*found, order])])


def _is_best_in_place(operands: dict[str, Tensor], windows: Geometry, weights: Array, attributes: Attributes) -> bool:
    """Whether dot products had better read windows where they lie, a row of a window after the other.

    Nothing is gathered then. With steps of one, windows at the ends of rows are computed that no result needs; else
    what a row leaves over of a tile of pixels. Single pixels of int8 are flipped on their way, those of int16 are as
    they are.
    """
    channels, height, width, inside = weights.shape
    flips = operands["x"].dtype == np.int8
    if attributes["group"] != 1 or (attributes["dilations"][1] != 1 and width > 1):
        return False
    if tiles.MATRICES:
        return _reads_matrices_in_place(operands, windows, weights, attributes)
    strides, out_w = attributes["strides"], operands["y"].shape[2]
    vectors, piece = math.ceil(channels / LANES), width * inside * operands["x"].dtype.itemsize
    if height == width == 1 and flips:
        return False
    steps = math.ceil(height * piece / STEP_BYTES)
    copied = FLIPPED if flips and piece <= tiles.MEDIUM else PIECE * math.ceil(piece / tiles.LONG)
    gathered = height * copied + vectors * steps
    rows = tiles.ROWS[min(vectors, tiles.MAX_VECTORS) - 1]
    row = math.ceil(out_w / rows) * rows
    if np.all(strides == 1):
        row = _padded_width(operands["x"], windows)
    return bool(row / out_w * vectors * height * math.ceil(piece / STEP_BYTES) <= gathered)


def _reads_matrices_in_place(
    operands: dict[str, Tensor], windows: Geometry, weights: Array, attributes: Attributes
) -> bool:
    """Whether products of matrices had better read windows where they lie."""
    channels, height, width, _ = weights.shape
    _, out_h, out_w, _ = operands["y"].shape
    item = operands["x"].dtype.itemsize
    line, step, pixel = _padded_width(operands["x"], windows), int(attributes["strides"][1]), weights.shape[3] * item
    runs, rows = out_h, out_w
    if np.all(attributes["strides"] == 1):
        runs, rows = 1, (out_h - 1) * line + out_w
    crossing = matrices.crossing(step * pixel, int(attributes["strides"][0]) * line * pixel)
    computed = runs * math.ceil(rows / tiles.SIDE) * tiles.SIDE / (out_h * out_w)
    in_place = computed * matrices.in_place(height, width * pixel, channels, crossing, rows, item)
    return in_place <= matrices.gathered(height, width * pixel, channels, item)


def _blocks(x: Tensor, y: Tensor, e: Tensor | None, attributes: Attributes) -> int:
    """How many blocks of channels a depthwise convolution is computed in."""
    height, width = attributes["kernel_shape"]
    window = (int(width), int(attributes["strides"][1]))
    fits = x.dtype == y.dtype == np.int8 and e is None and attributes["dilations"][1] == 1
    return x.shape[3] // BLOCK if REGISTERS.quads and fits and height == width and window in tiles.BLOCK_WINDOWS else 0


def _of_blocks(params: NDArray[np.int32], weights: Array, blocks: int) -> NDArray[np.int32]:
    """Parameters with those of ``blocks`` in the order of their lanes, which sum products of ``x + 128``."""
    order, count = _lanes_of(blocks), blocks * BLOCK
    surplus = 128 * weights[:count].astype(np.int64).sum(axis=(1, 2, 3))
    changed = params.copy()
    changed[tiles.BIAS, :count] = wrap_int32(params[tiles.BIAS, :count] - surplus)
    changed[:, :count] = changed[:, order]
    return changed


def _lanes_of(blocks: int) -> NDArray[np.int64]:
    """The channel of every lane of ``blocks``."""
    return (np.arange(blocks)[:, np.newaxis] * BLOCK + np.array(ORDER, np.int64)).ravel()


def taps_of_blocks(weights: Array, blocks: int) -> NDArray[np.int8]:
    """Weights of the blocks: (blocks, steps, vectors, lanes, 4), as the kernel reads them, zeros where nothing is.

    A step has four neighbours of a row; behind all rows, steps of four rows of the fifth column.
    """
    square = weights[_lanes_of(blocks)][..., 0]
    size = square.shape[1]
    padded = np.zeros((len(square), 2 * QUAD, 2 * QUAD), np.int8)
    padded[:, :size, :size] = square
    steps = [padded[:, row, :QUAD] for row in range(size)]
    steps += [padded[:, top : top + QUAD, QUAD] for top in range(0, size, QUAD) if size > QUAD]
    shape = (blocks, BLOCK_VECTORS, LANES, QUAD)
    return np.ascontiguousarray(np.stack([step.reshape(shape) for step in steps], axis=1))


def _pixels_together(operands: dict[str, Tensor], windows: Geometry, attributes: Attributes) -> int:
    """How many neighbouring pixels of a depthwise convolution are best treated as one with as many channels more.

    Where a pixel has fewer channels than a vector has lanes, the same taps serve its neighbours in the same vector, if
    windows are one column apart. The input's rows must be whole groups; a border that is there anyway may grow.
    """
    channels, out_w = operands["y"].shape[3], operands["y"].shape[2]
    width = _padded_width(operands["x"], windows)
    if attributes["strides"][1] != 1 or channels >= LANES:
        return 1
    most = min(out_w, MOST_CHANNELS // channels)
    counts = [n for n in range(1, most + 1) if out_w % n == 0 and (np.any(windows.pads) or width % n == 0)]

    def cost(count: int) -> tuple[int, int, int]:
        """Tiles, then results that are requantised."""
        vectors, pixels = math.ceil(count * channels / LANES), out_w // count
        return math.ceil(pixels / PIXELS) * vectors, pixels * vectors, count

    return min(counts, key=cost)


def _windows_together(operands: dict[str, Tensor], weights: Array, attributes: Attributes) -> int:
    """How many neighbouring results of a convolution are best computed as the channels of one.

    Their windows overlap: as long as each row of them all is one short piece, it is gathered once for all, and the
    results of few channels share vectors, up to one panel. Each result has zeros for what only its neighbours read.
    """
    channels, height, width, inside = weights.shape
    step, out_w, item = int(attributes["strides"][1]), operands["y"].shape[2], operands["x"].dtype.itemsize
    if attributes["group"] != 1 or attributes["dilations"][1] != 1 or (height == width == 1):
        return 1
    if operands["y"].dtype == np.int32 and channels >= LANES:  # they may leave as floats, pixel after pixel
        return 1
    quads = REGISTERS.quads and item == 1
    longest, values = tiles.LONG if quads or tiles.MATRICES else tiles.SHORT, QUAD if quads else PAIR

    def cost(count: int) -> float:
        columns = (width + (count - 1) * step) * inside
        if tiles.MATRICES:
            size, together = columns * item, count * channels
            in_place = matrices.in_place(height, size, together, matrices.crossing(1), tiles.MOST_HIGH, item)
            products = min(in_place, matrices.gathered(height, size, together, item))
            return (products + matrices.finished(count * channels)) / count
        products, piece = height * columns / values, FLIPPED if quads and columns <= tiles.MEDIUM else PIECE
        return float(height * piece + math.ceil(count * channels / LANES) * (VECTOR + products)) / count

    most = min((longest // (item * inside) - width) // step + 1, tiles.MAX_VECTORS * LANES // channels)
    counts = [count for count in range(1, most + 1) if out_w % count == 0]
    best = min(counts, key=cost, default=1)
    return best if cost(best) <= GAIN * cost(1) else 1


def _in_one_window(
    params: NDArray[np.int32], weights: Array, attributes: Attributes, count: int
) -> tuple[NDArray[np.int32], Array, Attributes]:
    """Parameters, weights and attributes of a convolution the channels of which are ``count`` results side by side."""
    channels, height, width, inside = weights.shape
    step = int(attributes["strides"][1])
    wide = np.zeros((count * channels, height, width + (count - 1) * step, inside), weights.dtype)
    for index in range(count):
        wide[index * channels : (index + 1) * channels, :, index * step : index * step + width] = weights
    changed = {"strides": np.array([attributes["strides"][0], count * step]), "kernel_shape": wide.shape[1:3]}
    return _repeated(params, channels, count), wide, {**attributes, **changed}


def _padded_width(x: Tensor, windows: Geometry) -> int:
    return x.shape[2] + int(windows.pads[1] + windows.pads[3])


def _joined_pixels(tensor: Tensor, count: int) -> Tensor:
    """``count`` neighbours in a row as one pixel."""
    samples, height, width, channels = tensor.shape
    return tensor.shaped(samples, height, width // count, channels * count)


def _side_by_side(params: NDArray[np.int32], weights: Array, count: int) -> tuple[NDArray[np.int32], Array]:
    """Parameters and weights of ``count`` pixels side by side."""
    return _repeated(params, len(weights), count), np.tile(weights, (count, 1, 1, 1))


def _repeated(params: NDArray[np.int32], channels: int, count: int) -> NDArray[np.int32]:
    """The parameters of ``channels``, ``count`` times."""
    tiled = np.zeros((len(params), _whole_vectors(count * channels) + tiles.MAX_VECTORS * LANES), np.int32)
    tiled[:, : count * channels] = np.tile(params[:, :channels], count)
    return tiled


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
    return {name: x.shaped(*shape) for name, x in operands.items()}, *_side_by_side(params, weights, count)


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


def convolution_parameters(bias: NDArray[np.int64], attributes: Attributes, channels: int) -> NDArray[np.int32]:
    """Rows of the kernel's parameters, padded to whole vectors.

    Raises:
        NotLowered: one does not fit its 32-bit lanes, or there are neither one nor ``channels`` of them.
    """
    shifts = {name: per_channel(attributes[name], channels) for name in ("right_shift", "scale", "out_shift")}
    e_scale = per_channel(attributes["e_scale"], channels) if attributes["use_sumin"] else np.zeros(channels, np.int64)
    e_shift = per_channel(attributes["e_shift"], channels) if attributes["use_sumin"] else np.zeros(channels, np.int64)
    if np.any(shifts["right_shift"] < 0) or np.any(shifts["out_shift"] < 0) or np.any(e_shift > MAX_SHIFT):
        raise NotLowered("a shift lies outside what the machine takes")
    if np.any(np.abs(shifts["scale"]) > SCALE_MAX) or np.any(np.abs(e_scale) > MAX_SCALE):
        raise NotLowered("a multiplier lies outside what the machine takes")
    rows = {
        tiles.BIAS: per_channel(wrap_int32(bias), channels),
        tiles.RIGHT_SHIFT: np.minimum(shifts["right_shift"], MAX_SHIFT),
        tiles.SCALE: shifts["scale"] & 0xFFFF,
        tiles.OUT_SHIFT: np.minimum(shifts["out_shift"], MAX_SHIFT),
        tiles.E_SCALE: e_scale,
        tiles.E_LEFT: np.maximum(e_shift, 0),
        tiles.E_RIGHT: np.minimum(np.maximum(-e_shift, 0), MAX_SHIFT),
    }
    if any(values.shape != (channels,) for values in rows.values()):
        raise NotLowered(f"biases of another number than the {channels} channels")
    params = np.zeros((len(rows), _whole_vectors(channels) + tiles.MAX_VECTORS * LANES), np.int32)
    for row, values in rows.items():
        params[row, :channels] = values
    return params


def _convolution_output(
    shape: Sequence[int], attributes: Attributes, program: Assembler
) -> tuple[Tensor, dict[str, int]]:
    bits = 32 if attributes["high_precision_output"] else int(attributes["output_bit"])
    y = program.tensor(shape, np.int32 if bits == 32 else integer_output(bits))
    low = 0 if attributes["activation"] == "relu" else -(1 << (bits - 1))
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
    kept, line = int(corners[:, 0].max()) + 1, _padded_width(x, windows) * x.shape[3]
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
    panels, packed = pack_weights(split.reshape(groups, len(weights) // groups, -1), bool(common["quads"]), block)
    runs, positions = 1, common["out_h"] * common["out_w"]
    if common["in_place"] and common["stride_h"] == common["stride_w"] == 1:
        positions = (common["out_h"] - 1) * common["in_w"] + common["out_w"]
    elif common["in_place"]:
        runs, positions = common["out_h"], common["out_w"]
    item = x.dtype.itemsize
    whole = common["stride_w"] * common["in_c"] * item if common["in_place"] else steps * STEP_BYTES
    tile_rows = positions if positions <= tiles.LARGEST_TILE_ROWS else _tile_rows(runs * positions, whole)
    count = runs * math.ceil(positions / tile_rows)
    splits = min(len(panels), math.ceil(MIN_UNITS / count))
    return {
        "units": count * splits,
        "together": int(_shares_weights(x, positions * runs, packed, common)),
        "scratch": 0 if common["in_place"] else (tile_rows + tiles.MOST_AT_ONCE) * whole + tiles.GATHER_OVERRUN,
        "overrun": tiles.GATHER_OVERRUN + common["in_place"] * tiles.MOST_AT_ONCE * whole,
        "pieces": pieces,
        "piece_pitch": int(attributes["dilations"][0]) * common["in_w"] * common["in_c"] * item,
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


def _takes_fewer_products(operands: dict[str, Tensor], weights: Array, attributes: Attributes) -> bool:
    """Whether blocks of results are best computed from fewer products (:mod:`~engine.simulate.kernels.winograd`).

    Results must be less than 2^31 with the bits that the transforms add. The unit of time is a step of one vector, a
    multiplication and an addition: the transforms of a block take 64 operations for each run of channels that is read,
    and 48 for each vector of results.
    """
    channels, height, width, inside = weights.shape
    is_plain = (height, width, attributes["group"]) == (3, 3, 1)
    is_plain &= bool(np.all(attributes["strides"] == 1) and np.all(attributes["dilations"] == 1))
    if not tiles.FEWER or not is_plain or operands["x"].dtype != np.int8:
        return False
    if 128 * np.abs(weights.astype(np.int64)).sum(axis=(1, 2, 3)).max() >= 1 << (31 - QUARTER):
        return False
    vectors, runs = math.ceil(channels / LANES), math.ceil(inside / RUN)
    _, out_h, out_w, _ = operands["y"].shape
    blocks = math.ceil(out_h / BLOCK_SIDE) * math.ceil(out_w / BLOCK_SIDE)
    fewer = blocks * (PRODUCTS * runs * LANES * vectors + 32 * runs + 24 * vectors)
    return bool(fewer <= GAIN * out_h * out_w * vectors * math.ceil(height * width * inside / PAIR))


_FACTORS = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]])
"""Of the rows and columns of weights: twice the ``G`` of :mod:`~engine.simulate.kernels.winograd`."""


def transformed_weights(weights: NDArray[np.int8]) -> NDArray[np.int16]:
    """Weights (channels, 3, 3, inside) as the factors of products, (channels, 16, inside)."""
    factors: NDArray[np.int64] = np.einsum("ij,ojkc,lk->oilc", _FACTORS, weights.astype(np.int64), _FACTORS)
    return factors.reshape(len(weights), PRODUCTS, weights.shape[3]).astype(np.int16)


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
        "together": int(_shares_weights(x, blocks * BLOCK_SIDE**2, packed, common)),
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


def _shares_weights(x: Tensor, positions: int, packed: Array, common: dict[str, int]) -> bool:
    """Whether several samples had better meet the weights one after the other."""
    results = math.prod(common[name] for name in ("out_h", "out_w", "out_c"))
    moved = SHARED_RATIO * (x.size * x.dtype.itemsize + results)
    return positions <= SHARED_POSITIONS and packed.nbytes >= max(moved, SHARED_BYTES)


def _tile_rows(positions: int, row_bytes: int) -> int:
    """Positions of a unit: the more, the less often weights are read, but their operands must stay in the cache."""
    most = min(MOST_TILE_ROWS, positions // MANY_UNITS, OPERAND_BYTES // row_bytes)
    return max(1, most // tiles.TILE_ROWS) * tiles.TILE_ROWS


def _piece_fields(x: Tensor, weights: Array, attributes: Attributes, program: Assembler) -> dict[str, int]:
    """The window as contiguous pieces of memory: whole rows of it where nothing lies between its columns."""
    _, kernel_h, kernel_w, channels = weights.shape
    if attributes["group"] == 1 and (attributes["dilations"][1] == 1 or kernel_w == 1):
        rows = np.arange(kernel_h, dtype=np.int64) * attributes["dilations"][0]
        offsets = rows * x.shape[2] * x.shape[3] * x.dtype.itemsize
        return {"taps": kernel_h, "tap_offsets": program.address(offsets), "tap_length": kernel_w * channels}
    return {**tap_fields(x, attributes, program), "tap_length": channels}


def pack_weights(weights: Array, quads: bool, parts: int = 1) -> tuple[NDArray[np.int64], Array]:
    """Weights (groups, channels, kernel) as the tile kernels read them; each of so many ``parts`` has its own panels.

    Returns:
        The panels of a group as rows (vectors, first channel, byte offset), int64, and the packed weights
        (groups, elements): per panel (steps, columns, values per step), zeros where nothing is; int8 with ``quads``,
        else int16.
    """
    groups, channels, kernel = weights.shape
    vectors = -(-channels // LANES)
    each = vectors // parts
    panel_count = -(-each // tiles.MAX_VECTORS)
    widths = [each // panel_count + (k < each % panel_count) for k in range(panel_count)] * parts
    values = QUAD if quads else PAIR
    steps = tiles.steps_of(kernel, quads)
    padded = np.zeros((groups, vectors * LANES, steps * values), np.int8 if quads else np.int16)
    padded[:, :channels, :kernel] = weights
    table, pieces, first, offset = [], [], 0, 0
    for width in widths:
        columns = width * LANES
        block = padded[:, first : first + columns].reshape(groups, columns, steps, values).transpose(0, 2, 1, 3)
        if tiles.MATRICES:
            panel = block.reshape(groups, steps, width, LANES, values)
            block = np.stack([matrices.in_registers(each if quads else matrices.halves(each)) for each in panel])
        pieces.append(block.reshape(groups, -1))
        table.append((width, first, offset))
        first += columns
        offset += pieces[-1].nbytes // groups
    return np.array(table, np.int64), np.ascontiguousarray(np.concatenate(pieces, axis=1))


def _whole_vectors(channels: int) -> int:
    return -(-channels // LANES) * LANES
