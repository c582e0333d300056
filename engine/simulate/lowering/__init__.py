"""From graph nodes to instructions of the machine: one function per entry of :class:`Instructions`.

A function that cannot express a node (an unusual shape or parameter) raises :class:`NotLowered`; the node's definition
is then called from the program, so that no result depends on this list.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from engine.ops.core.instructions import Instructions
from engine.simulate.lowering.common import Call, Lowering, NotLowered
from engine.simulate.lowering.comparison import lower_comparison
from engine.simulate.lowering.convolution import (
    lower_convolution,
    lower_preprocess,
)
from engine.simulate.lowering.elementwise import (
    lower_dequantize,
    lower_difference,
    lower_product,
    lower_quantize,
    lower_sum,
)
from engine.simulate.lowering.floats import FLOAT_LOWERINGS
from engine.simulate.lowering.matmul import lower_matmul
from engine.simulate.lowering.movement import (
    lower_depth_to_space,
    lower_pad,
    lower_resize,
    lower_shuffle,
    lower_space_to_depth,
    lower_upsample,
)
from engine.simulate.lowering.pooling import (
    lower_average_pool,
    lower_global_average,
    lower_global_max_pool,
    lower_max_pool,
    lower_whole_average_pool,
)
from engine.simulate.lowering.recurrent import RECURRENT_LOWERINGS
from engine.simulate.lowering.reduction import lower_position, lower_reduced_maximum, lower_reduced_sum
from engine.simulate.lowering.standard import (
    StandardLowering,
    lower_concat,
    lower_flatten,
    lower_gather,
    lower_identity,
    lower_reshape,
    lower_slice,
    lower_split,
    lower_transpose,
)
from engine.simulate.lowering.tables import lower_requantize, lower_table_of_ramp
from engine.simulate.lowering.transposed import lower_transposed_convolution

__all__ = ["FLOAT_LOWERINGS", "LOWERINGS", "RECURRENT_LOWERINGS", "STANDARD_LOWERINGS", "Call", "NotLowered"]

LOWERINGS: Mapping[Instructions, Lowering] = MappingProxyType(
    {
        Instructions.CONVOLUTION: lower_convolution,
        Instructions.PREPROCESS: lower_preprocess,
        Instructions.TRANSPOSED_CONVOLUTION: lower_transposed_convolution,
        Instructions.COMPARISON: lower_comparison,
        Instructions.MATRIX_PRODUCT: lower_matmul,
        Instructions.WEIGHTED_SUM: lower_sum,
        Instructions.WEIGHTED_DIFFERENCE: lower_difference,
        Instructions.PRODUCT: lower_product,
        Instructions.TABLE: lower_table_of_ramp,
        Instructions.REQUANTIZE: lower_requantize,
        Instructions.QUANTIZE: lower_quantize,
        Instructions.DEQUANTIZE: lower_dequantize,
        Instructions.MAX_POOL: lower_max_pool,
        Instructions.GLOBAL_MAX_POOL: lower_global_max_pool,
        Instructions.AVERAGE_POOL: lower_average_pool,
        Instructions.WHOLE_AVERAGE_POOL: lower_whole_average_pool,
        Instructions.GLOBAL_AVERAGE_POOL: lower_global_average,
        Instructions.BILINEAR: lower_resize,
        Instructions.REPEAT: lower_upsample,
        Instructions.DEPTH_TO_SPACE: lower_depth_to_space,
        Instructions.SPACE_TO_DEPTH: lower_space_to_depth,
        Instructions.CHANNEL_SHUFFLE: lower_shuffle,
        Instructions.PAD: lower_pad,
        Instructions.SUM_OF_AXIS: lower_reduced_sum,
        Instructions.MAXIMUM_OF_AXIS: lower_reduced_maximum,
        Instructions.POSITION_OF_MAXIMUM: lower_position,
    }
)
"""Instructions of quantised operators."""

STANDARD_LOWERINGS: Mapping[Instructions, StandardLowering] = MappingProxyType(
    {
        Instructions.TRANSPOSE: lower_transpose,
        Instructions.RESHAPE: lower_reshape,
        Instructions.FLATTEN: lower_flatten,
        Instructions.IDENTITY: lower_identity,
        Instructions.CONCAT: lower_concat,
        Instructions.SLICE: lower_slice,
        Instructions.SPLIT: lower_split,
        Instructions.GATHER: lower_gather,
    }
)
"""Instructions of standard operators."""
