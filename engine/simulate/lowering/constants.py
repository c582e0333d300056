"""Weights and parameters of convolutions in the order in which kernels read them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.native.registers import LANES
from engine.ops.core.base import Attributes
from engine.ops.core.fixed_point import SCALE_MAX, wrap_int32
from engine.simulate.kernels import tiles
from engine.simulate.kernels.tiles import BLOCK, BLOCK_VECTORS, ORDER, PAIR, PRODUCTS, QUAD
from engine.simulate.lowering import matrices
from engine.simulate.lowering.common import MAX_SCALE, MAX_SHIFT, NotLowered, per_channel

Array = NDArray[Any]


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


def with_words(params: NDArray[np.int32]) -> NDArray[np.int32]:
    """``params`` with rows of int16, each vector's own beside the next one's, and with the order of packed bytes."""
    found, left = [], np.maximum(params[tiles.OUT_SHIFT] - tiles.WORD, 0)
    for values in (params[tiles.SCALE], left if tiles.SHIFTS_WORDS else 1 << tiles.WORD >> left):
        own = (values & 0xFFFF).astype(np.uint16).view(np.int16).reshape(-1, LANES // 4, 4)
        following = np.concatenate([own[1:], np.zeros_like(own[:1])])
        found.append(np.ascontiguousarray(np.stack([own, following], axis=2)).view(np.int32).ravel())
    order = np.resize(np.array(tiles.IN_ORDER, np.int32), params.shape[1])
    return np.concatenate([params, np.stack([*found, order])])


def of_blocks(params: NDArray[np.int32], weights: Array, blocks: int) -> NDArray[np.int32]:
    """Parameters with those of ``blocks`` in the order of their lanes, which sum products of ``x + BLOCK_FLIP``."""
    order, count = _lanes_of(blocks), blocks * BLOCK
    surplus = tiles.BLOCK_FLIP * weights[:count].astype(np.int64).sum(axis=(1, 2, 3))
    changed = params.copy()
    changed[tiles.BIAS, :count] = wrap_int32(params[tiles.BIAS, :count] - surplus)
    changed[:, :count] = changed[:, order]
    return changed


def _lanes_of(blocks: int) -> NDArray[np.int64]:
    """The channel of every lane of ``blocks``."""
    return (np.arange(blocks)[:, np.newaxis] * BLOCK + np.array(ORDER, np.int64)).ravel()


def taps_of_blocks(weights: Array, blocks: int) -> NDArray[np.int8]:
    """Weights of the blocks: (blocks, steps, vectors, lanes, 4), as the kernel reads them, zeros where nothing is.

    A step has four neighbours of a row; behind all rows, steps of four rows of the fifth column. With AVX2 it has up to
    four rows of a column.
    """
    square = weights[_lanes_of(blocks)][..., 0]
    size = square.shape[1]
    padded = np.zeros((len(square), 2 * QUAD, 2 * QUAD), np.int8)
    padded[:, :size, :size] = square
    tops = range(0, size, QUAD)
    if tiles.CHAIN > 1:
        steps = [padded[:, top : top + QUAD, column] for column in range(size) for top in tops]
    else:
        steps = [padded[:, row, :QUAD] for row in range(size)]
        steps += [padded[:, top : top + QUAD, QUAD] for top in tops if size > QUAD]
    shape = (blocks, BLOCK_VECTORS, LANES, QUAD)
    return np.ascontiguousarray(np.stack([step.reshape(shape) for step in steps], axis=1))


def in_one_window(
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


def side_by_side(params: NDArray[np.int32], weights: Array, count: int) -> tuple[NDArray[np.int32], Array]:
    """Parameters and weights of ``count`` pixels side by side."""
    return _repeated(params, len(weights), count), np.tile(weights, (count, 1, 1, 1))


def _repeated(params: NDArray[np.int32], channels: int, count: int) -> NDArray[np.int32]:
    """The parameters of ``channels``, ``count`` times."""
    tiled = np.zeros((len(params), _whole_vectors(count * channels) + tiles.MAX_VECTORS * LANES), np.int32)
    tiled[:, : count * channels] = np.tile(params[:, :channels], count)
    return tiled


_FACTORS = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]])
"""Of the rows and columns of weights: twice the ``G`` of :mod:`~engine.simulate.kernels.winograd`."""


def transformed_weights(weights: NDArray[np.int8]) -> NDArray[np.int16]:
    """Weights (channels, 3, 3, inside) as the factors of products, (channels, 16, inside)."""
    factors: NDArray[np.int64] = np.einsum("ij,ojkc,lk->oilc", _FACTORS, weights.astype(np.int64), _FACTORS)
    return factors.reshape(len(weights), PRODUCTS, weights.shape[3]).astype(np.int16)


def pack_weights(
    weights: Array, quads: bool, parts: int = 1, places: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], Array]:
    """Weights (groups, channels, kernel) as the tile kernels read them; each of so many ``parts`` has its own panels.

    ``places`` are how far each step is from the first byte of a row, which chains of bytes need.

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
        if quads and tiles.CHAIN > 1:
            block = _in_chains(block, np.arange(steps) * tiles.STEP_BYTES if places is None else places)
        if tiles.MATRICES:
            panel = block.reshape(groups, steps, width, LANES, values)
            block = np.stack([matrices.in_registers(each if quads else matrices.halves(each)) for each in panel])
        pieces.append(block.reshape(groups, -1))
        table.append((width, first, offset))
        first += columns
        offset += pieces[-1].nbytes // groups
    return np.array(table, np.int64), np.ascontiguousarray(np.concatenate(pieces, axis=1))


def surplus_of_chains(weights: Array) -> NDArray[np.bool_]:
    """Where the sums of int16 of a chain might not fit, for weights (..., steps, 4): (..., chains, 2)."""
    *outer, steps, _ = weights.shape
    halves = weights.reshape(*outer, steps // tiles.CHAIN, tiles.CHAIN, QUAD // PAIR, PAIR).astype(np.int64)
    sums = (np.maximum(each, 0).sum(axis=(-3, -1)) for each in (halves, -halves))
    is_too_much: NDArray[np.bool_] = np.maximum(*sums) > tiles.MOST_OF_CHAIN
    return is_too_much


def _in_chains(block: Array, places: NDArray[np.int64]) -> NDArray[np.int8]:
    """Weights of a panel (groups, steps, columns, 4) as chains of bytes are summed, (groups, bytes).

    Behind them come the last steps of chains of which a sum would not fit an int16, with the weights that are missing
    there: their number, their ``places``, and their weights; as many for every group.
    """
    groups, _, columns, _ = block.shape
    is_too_much = surplus_of_chains(block.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)  # (groups, chains, columns, 2)
    kept, apart = block.copy(), np.zeros_like(block)
    last = np.s_[:, tiles.CHAIN - 1 :: tiles.CHAIN]
    moved = np.repeat(is_too_much, PAIR, axis=3)
    apart[last] = np.where(moved, block[last], 0)
    kept[last] = np.where(moved, 0, block[last])
    counts = is_too_much.any(axis=(2, 3)).sum(axis=1)
    rows = np.zeros((groups, int(counts.max(initial=0)), columns, QUAD), np.int8)
    found = np.zeros(rows.shape[:2], np.int64)
    for group in range(groups):
        chosen = np.flatnonzero(is_too_much[group].any(axis=(1, 2))) * tiles.CHAIN + tiles.CHAIN - 1
        rows[group, : len(chosen)], found[group, : len(chosen)] = apart[group, chosen], places[chosen]
    head = np.concatenate([np.full((groups, 1), rows.shape[1], np.int64), found], axis=1).view(np.int8)
    return np.concatenate([kept.reshape(groups, -1), head, rows.reshape(groups, -1)], axis=1)


def _whole_vectors(channels: int) -> int:
    return -(-channels // LANES) * LANES
