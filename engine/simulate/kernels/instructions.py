"""The instructions of the simulator's machine: what their fields mean.

An instruction reads and writes buffers in an arena, which threads have for themselves or share, and reads constants,
which all share. Buffers are dense tensors; images are NHWC with one sample.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

ENTRIES = {"leader": 8, "helper": 1}
"""Functions that run programs, and how many 64-bit arguments each takes."""


class InstructionKind(IntEnum):
    """What an instruction does; the fields it uses are listed with its kernel."""

    CONVOLUTION = 0
    DEPTHWISE = 1
    PAD = 2
    COPY = 3
    TABLE = 4
    ELEMENTWISE = 5
    MAX_POOL = 6
    AVERAGE_POOL = 7
    GLOBAL_AVERAGE = 8
    BILINEAR = 9
    QUANTIZE = 10
    DEQUANTIZE = 11
    MATRIX_PRODUCT = 12
    REDUCE = 13
    SOFTMAX = 14
    ARITHMETIC = 15
    CAST = 16
    FLOAT_CONVOLUTION = 17
    RESIZE = 18
    RECURRENT = 19
    FLOAT_PRODUCT = 20


FIELDS = (
    "kind",  # InstructionKind
    "units",  # independent parts, which threads share out
    "portions",  # of what is left of its part a thread takes one at a time; 1: no other takes over, 0: one thread alone
    "x",  # arena offset of the first operand, bytes
    "e",  # arena offset of the second operand
    "y",  # arena offset of the result
    "x_bytes",  # bytes per element: 1, 2, 4 or 8
    "e_bytes",  # 0 where there is no second operand
    "y_bytes",  # 1, 2, 4 or 8
    "z",  # CONVOLUTION: arena offset of where its results are stored a second time, in bytes
    "z_bytes",  # 0 where they are not
    "in_h",
    "in_w",
    "in_c",
    "out_h",
    "out_w",
    "out_c",
    "stride_h",
    "stride_w",
    "top",  # PAD, DEPTHWISE: rows above
    "left",  # PAD, DEPTHWISE: columns to the left; FLOAT_CONVOLUTION: zeros in front of a row; RECURRENT: 1 for
    # backwards
    "hollow",  # PAD: 1 where only the border is written
    "block_rows",  # CONVOLUTION: the block of pixels that its channels are; 1, DEPTHWISE too, where they are one
    "block_columns",
    "y_pitch",  # CONVOLUTION, DEPTHWISE: bytes from a pixel of the result to the next, and from a line to the next
    "y_line",  # QUANTIZE: the same where it has planes
    "z_pitch",  # CONVOLUTION: the same of z
    "z_line",
    "flip",  # PAD, CONVOLUTION, QUANTIZE: what bytes of y are combined with by exclusive or
    "z_flip",  # CONVOLUTION: the same of z
    "floats",  # CONVOLUTION: 1 where results are float32, integers times a scale
    "planes",  # CONVOLUTION: elements from a channel of y to the next where they lie by channels, else 0; QUANTIZE: the
    # same of x where units are lines of an image
    "indirect",  # QUANTIZE: 1 where x is an int64, the address of what is quantised; CONVOLUTION, DEQUANTIZE: 1 where y
    # is that of the results
    "value",  # PAD: what the border holds; AVERAGE_POOL: the reciprocal; COPY: first byte in y
    "start",  # COPY: first byte in x
    "taps",  # pieces that the window consists of
    "tap_offsets",  # address of their byte offsets in x, int64
    "tap_length",  # elements per piece
    "kept",  # DEPTHWISE: rows that a window reaches over, which are padded in working memory; 0 where x is padded
    "rows",  # DEPTHWISE: rows of the window where its width and stride have a kernel of their own, else 0
    "in_place",  # CONVOLUTION: 1 where windows are read where they lie, 0 where they are gathered
    "together",  # 1 where several samples had better go through the same units one after the other: weights are many
    "finishes",  # CONVOLUTION: 1 where whole tiles are requantised in registers
    "streams",  # CONVOLUTION: 1 where weights are fetched ahead, as the second cache does not keep them all
    "packs",  # CONVOLUTION, DEPTHWISE: 1 where whole vectors of int8 results are packed from words
    "across",  # CONVOLUTION: blocks of 2 x 2 results side by side in a line where they come from fewer products, else 0
    "pieces",  # CONVOLUTION, MATRIX_PRODUCT: pieces of an operand of dot products, 1 of one that is gathered
    "piece_pitch",  # bytes between them
    "steps",  # the same: 32-bit lanes per piece: pairs of int16, or four uint8
    "quads",  # CONVOLUTION, MATRIX_PRODUCT: 1 for int8 (uint8 where dot products take them), 0 for int16
    "groups",
    "group_weights",  # bytes of weights per group; DEPTHWISE: per block
    "tile_rows",  # output pixels, or blocks of them, that a unit computes
    "splits",  # parts that the output channels of a tile, or of a row of a depthwise convolution, are split into
    "panels",  # panels of output channels per group; DEPTHWISE: blocks of channels
    "panel_table",  # address: vectors, first channel, byte offset of the weights; int64 (panels, 3); DEPTHWISE: weights
    # of the blocks
    "weights",  # address
    "params",  # address of parameter rows, one value per output channel; QUANTIZE: float32 scales
    "params_pitch",  # bytes between two rows
    "low",  # smallest and largest value of the result; FLOAT_CONVOLUTION, FLOAT_PRODUCT: bits of the smallest
    "high",
    "shift",  # AVERAGE_POOL: fraction bits
    "operation",  # ARITHMETIC, RECURRENT: of engine.simulate.kernels.operations
    "multiply",  # ELEMENTWISE: 1 for x * e, 0 for the weighted sum
    "along",  # QUANTIZE, DEQUANTIZE: 1 where the elements of a run have one scale each
    "wide",  # ELEMENTWISE: 1 for 64 bits; FLOAT_CONVOLUTION: numbers in a row of x with its zeros, 0 where it has none;
    # DEPTHWISE: the same where rows are kept
    "largest",  # REDUCE: 0 for the sum, 1 for the maximum, 2 for its first position
    "twice",  # BILINEAR: 1 to floor after either direction
    "rows_from",  # BILINEAR: address of upper row, lower row, weight per output row; int64 (rows, 3); RESIZE: of upper
    # rows, lower rows; int64 (2, rows)
    "columns_from",  # BILINEAR, RESIZE: the same per output column
    "dims",  # address of a shape and strides in elements: int64 (rows, 4)
    "table",  # address of look-up tables, an entry for each integer; RECURRENT: of first states and cells
    "period",  # TABLE: number of tables; element i uses table i % period; QUANTIZE: number of scales; ELEMENTWISE: of
    # parameters in a row
    "kernel",  # address of the compiled kernel of the kind; 0 until the machine sets it
    "count",  # TABLE, CAST: elements per unit; SOFTMAX: of a row; QUANTIZE: elements that one scale covers;
    # FLOAT_CONVOLUTION, FLOAT_PRODUCT, RECURRENT: products that are summed at once
)

INSTRUCTION = np.dtype([(name, np.int64) for name in FIELDS])
