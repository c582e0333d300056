"""Tiles of dot products: how large they are, and the rows of what their results are requantised with."""

from __future__ import annotations

from engine.native.registers import LANES, REGISTERS

PAIR = 2
"""Products that one 32-bit lane sums at a time where activations and weights are int16."""
QUAD = 4
"""Products that one 32-bit lane sums at a time where activations are uint8 and weights int8."""
STEP_BYTES = 4
"""Bytes of either that a lane takes in a step."""
RUN = 2 * LANES
"""int16 that a register holds."""
SHORT, MEDIUM, LONG = 16, 32, 2 * RUN
"""Bytes that are flipped at once where no more count; a register holds the last."""
MATRICES = REGISTERS.matrices
"""Whether products of convolutions and of int8 are those of matrices: :mod:`~engine.simulate.kernels.matrices`."""
FLIP = 128 if REGISTERS.quads and not MATRICES else 0
"""What int8 are combined with by exclusive or for dot products: uint8 that are 128 more, or int8 as they are."""
CHAIN = 2 if LANES == 8 else 1
"""Steps of bytes whose products are summed as int16 before they become int32: AVX2 has no instruction that sums four
products, but one that sums two of uint8 and int8. More than one means that activations must not be negative."""
MOST_OF_CHAIN = ((1 << 15) - 1) // ((1 << 7) - 1)
"""What the weights of either sign that meet in an int16 may come to, at most 127 times each."""
SIDE, DEPTH = 16, 16
"""Rows and columns of the largest matrix of sums, and 32-bit lanes of an operand's row that one product takes."""
ROW_BYTES, REGISTER_BYTES = DEPTH * STEP_BYTES, SIDE * DEPTH * STEP_BYTES
"""Bytes of a row of a register of operands, and of a register."""
MOST_HIGH, MOST_WIDE = 2 * SIDE, 2
"""Rows, and vectors of channels, whose sums are in registers at once."""
STREAMED, AHEAD = 1 << 19, 1 << 12
"""Bytes of weights from which on those that come next are fetched ahead, and of a page of memory, across which the CPU
does not look ahead by itself."""
STEPS_TOGETHER = DEPTH if MATRICES else 1
"""Steps of a piece are a multiple of so many, and of bytes of :data:`CHAIN`: what lies behind it meets weights of 0."""
PIXELS = 8 if LANES == 16 else 4
"""Neighbouring output pixels that a depthwise tile computes with one load of each weight: 32 registers hold more."""
BLOCK_VECTORS, BLOCK_PIXELS = 4, 4
BLOCK = BLOCK_VECTORS * LANES
"""Vectors of sums whose bytes fill a register, neighbouring pixels of a tile, and the channels of such a block."""
INTERLEAVED = 16
"""Bytes within which registers interleave."""
ORDER = tuple(
    INTERLEAVED * part + QUAD * vector + lane
    for vector in range(BLOCK_VECTORS)
    for part in range(BLOCK // INTERLEAVED)
    for lane in range(4)
)
"""The channel of a block that each lane of its vectors has."""
BLOCK_FLIP = 128 if REGISTERS.quads else 0
"""What :data:`FLIP` is for them: they are no products of matrices."""
BLOCK_WINDOWS = frozenset({(3, 1), (3, 2), (5, 1), (5, 2)})
"""Sides and horizontal strides of the square windows of int8 that are computed in such blocks."""

BIAS, RIGHT_SHIFT, SCALE, OUT_SHIFT, E_SCALE, E_LEFT, E_RIGHT = range(7)
"""Rows of the parameters of a convolution, int32; ``scale`` as an int16 pair (scale, 0)."""
WORD_SCALE, WORD_SHIFT, PACKED_ORDER = 7, 8, 9
"""Rows of the same for :data:`WORDWISE`. The first two are of int16, a register for each vector: scale and what moves
the upper half of its product on, of its channels and of the next vector's, in the order in which 32-bit lanes of both
are packed. That is :data:`OUT_SHIFT` less :data:`WORD` with AVX-512, and with AVX2, which shifts all int16 of a vector
alike, the factor whose product has the shifted number as its upper half. The last is :data:`IN_ORDER` for each vector:
were it in the code, LLVM would take three instructions for what is one."""
IN_ORDER = tuple(BLOCK_VECTORS * part + vector for vector in range(BLOCK_VECTORS) for part in range(LANES // 4))
"""Where packs leave the four bytes that belong at each place: they work within each 128 bits."""
SHIFTS_WORDS = LANES == 16
"""Whether an instruction shifts each int16 of a register by a number of its own (AVX-512)."""
WORD, LEAST_SHIFT = 16, 16 if SHIFTS_WORDS else 18
"""Bits of an upper half, and least :data:`OUT_SHIFT` of results that are computed from the upper halves of products of
int16: a factor for less would be no int16."""
PACKS = LANES == 8
WORDWISE = REGISTERS.quads or PACKS
"""Whether rows of int8 results in memory are packed from such halves, and whether any are."""
HALF = E_SCALE
"""Row of the parameters of a matrix product: what rounds its last shift."""
PARAMETER_ROWS = 5
"""Rows of the parameters of a matrix product."""


def steps_of(values: int, quads: bool) -> int:
    """Steps of a piece of so many ``values``, uint8 or int8 with ``quads`` and else int16: whole ones of products."""
    together = max(STEPS_TOGETHER, CHAIN) if quads else STEPS_TOGETHER
    return -(-values // (together * (QUAD if quads else PAIR))) * together


ROWS = REGISTERS.rows
QUAD_ROWS = (8, 4) if CHAIN > 1 else ROWS
"""The same for products of bytes: weights and activations of two steps and the products of both take registers too."""
FINISHED = (8,) * len(ROWS) if REGISTERS.matrices else ROWS
"""Rows of int8 results that leave the registers together, for 1, 2, ... vectors."""
MAX_VECTORS = len(REGISTERS.rows)
"""Vectors of output channels in the widest panel."""
TILE_ROWS = 2 * MOST_HIGH if MATRICES else 48
"""Output pixels per tile: whole register tiles, whose operands stay in the cache while all panels of weights pass."""
LARGEST_TILE_ROWS = 64
"""An image of no more pixels is one tile."""
FINISHED_ROWS = LARGEST_TILE_ROWS
"""Output pixels whose accumulators are requantised together: what is the same for them all is loaded once."""
MOST_AT_ONCE = max(*ROWS, MOST_HIGH if MATRICES else 0)
"""Rows of the highest tile: so many may be read where a single one is left."""
FEWER = not REGISTERS.quads
"""Whether windows of 3 x 3 may be computed from fewer products (:mod:`~engine.simulate.kernels.winograd`): they are of
int16, so that products of four bytes are as fast."""
WINDOW_SIDE, BLOCK_SIDE = 4, 2
"""Pixels along a side of what a block of such results is computed from, and results along a side of it."""
PRODUCTS, QUARTER = WINDOW_SIDE * WINDOW_SIDE, 2
"""Products of a channel for a block, and bits by which their sums are more than results."""
ACCUMULATOR_BYTES = (FINISHED_ROWS + MOST_AT_ONCE) * MAX_VECTORS * LANES * 4
GATHER_OVERRUN = RUN * 2
"""Bytes that :func:`gather` may touch behind its operands."""
BLOCK_ROWS = FINISHED_ROWS * MAX_VECTORS // BLOCK_VECTORS // BLOCK_PIXELS * BLOCK_PIXELS
"""Neighbouring pixels of a block that are requantised together: their accumulators fit as those of rows do."""
STAGING_BYTES = FINISHED_ROWS * LANES * 4
"""Working memory for vectors of results that are stored in part."""
MIN_SCRATCH = STAGING_BYTES + ACCUMULATOR_BYTES
"""Bytes of working memory that every thread has."""
ROW_WINDOWS = frozenset({(3, 1), (3, 2), (5, 1), (5, 2)})
"""Widths and horizontal strides of the int8 depthwise windows that have a kernel of their own."""

RECURRENT_VECTORS = 8
"""Sums of a recurrent cell that run side by side, so that none waits for its last addition."""
RECURRENT_WIDTH = RECURRENT_VECTORS * LANES
"""Columns of a panel of its weights."""
CHAIN_VECTORS = 2 if LANES == 16 else 1
"""Vectors of results of a single row, each with eight sums side by side, in as many registers as there are."""
CHAIN_WIDTH = CHAIN_VECTORS * LANES
"""Columns of a panel of weights for a single row: they are read one after the other, as caches bring them."""

FEW_FLOAT_ROWS, FLOAT_VECTORS = 4, 2
"""Output channels of a tile of a float convolution, and vectors of neighbouring positions."""
FLOAT_ROWS = 8 if LANES == 16 else FEW_FLOAT_ROWS
"""Output channels of a tile where a group has as many: 32 registers hold the sums of eight."""
FLOAT_WIDTH = FLOAT_VECTORS * LANES
"""Positions of such a tile."""
