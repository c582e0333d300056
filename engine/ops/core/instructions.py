"""What the fast simulator's machine has instructions for: an operator declares which of them compute it."""

from __future__ import annotations

from enum import StrEnum


class Instructions(StrEnum):
    """How the fast simulator computes an operator; :mod:`engine.simulate.lowering` writes the instructions.

    An operator whose result is a function of one integer per channel takes ``TABLE``: its definition, evaluated on
    every integer, becomes the table.
    """

    CONVOLUTION = "convolution"
    PREPROCESS = "1x1 convolution of an image"
    TRANSPOSED_CONVOLUTION = "transposed convolution"
    MATRIX_PRODUCT = "product of two activations' matrices"
    WEIGHTED_SUM = "weighted sum of two activations"
    WEIGHTED_DIFFERENCE = "weighted difference of two activations"
    PRODUCT = "product of two activations"
    COMPARISON = "comparison of two activations"
    TABLE = "table of a function of one integer per channel"
    REQUANTIZE = "table of a requantisation along any axis"
    QUANTIZE = "float32 to integers"
    DEQUANTIZE = "integers to float32"
    MAX_POOL = "maximum over a window"
    WHOLE_AVERAGE_POOL = "sum over the map, times a reciprocal"
    GLOBAL_MAX_POOL = "maximum over the map"
    AVERAGE_POOL = "mean over a window"
    GLOBAL_AVERAGE_POOL = "mean over the map"
    SUM_OF_AXIS = "requantised sum over an axis"
    MAXIMUM_OF_AXIS = "maximum over an axis"
    POSITION_OF_MAXIMUM = "position of the maximum along the last axis"
    BILINEAR = "bilinear interpolation"
    REPEAT = "rows and columns repeated"
    DEPTH_TO_SPACE = "channels to pixels"
    SPACE_TO_DEPTH = "pixels to channels"
    CHANNEL_SHUFFLE = "channels in another order"
    PAD = "border of a constant, or of the outermost line"
    TRANSPOSE = "axes in another order"
    RESHAPE = "the same memory with another shape"
    FLATTEN = "the same memory as a matrix"
    IDENTITY = "the same tensor"
    CONCAT = "tensors joined along an axis"
    SLICE = "part of a tensor"
    SPLIT = "parts of a tensor"
    GATHER = "elements of an axis that lie evenly"
    NONE = "none: the definition is called on numpy arrays"
