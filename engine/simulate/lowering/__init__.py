"""From graph nodes to instructions of the machine, one function per operator.

A function that cannot express a node (an unusual shape or parameter) returns None; the node's reference is then called
from the program, so that no result depends on this list.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from engine.simulate.lowering.common import Call, Lowering
from engine.simulate.lowering.convolution import (
    lower_convolution,
    lower_preprocess,
    lower_transposed_convolution,
)
from engine.simulate.lowering.elementwise import lower_dequantize, lower_elementwise, lower_quantize
from engine.simulate.lowering.matmul import lower_matmul
from engine.simulate.lowering.movement import (
    concat,
    extract,
    lower_depth_to_space,
    lower_pad,
    lower_resize,
    lower_shuffle,
    lower_space_to_depth,
    lower_upsample,
    transpose,
)
from engine.simulate.lowering.pooling import (
    lower_average_pool,
    lower_global_average,
    lower_global_max_pool,
    lower_max_pool,
)
from engine.simulate.lowering.tables import lower_requantize, lower_table_of_ramp

__all__ = ["LOWERINGS", "Call", "concat", "extract", "transpose"]

LOWERINGS: Mapping[str, Lowering] = MappingProxyType(
    {
        "HzSQuantizedConv": lower_convolution,
        "HzSQuantizedPreprocess": lower_preprocess,
        "HzSQuantizedConvTranspose": lower_transposed_convolution,
        "HzQuantize": lower_quantize,
        "HzDequantize": lower_dequantize,
        "HzQuantizedRoiResize": lower_resize,
        "HzSElementwiseAdd": lower_elementwise,
        "HzSElementwiseSub": lower_elementwise,
        "HzSElementwiseMul": lower_elementwise,
        "HzSQuantizedMatmul": lower_matmul,
        "HzQuantizedMaxPool": lower_max_pool,
        "HzQuantizedGlobalMaxPool": lower_global_max_pool,
        "HzQuantizedAveragePool": lower_average_pool,
        "HzSQuantizedGlobalAveragePool": lower_global_average,
        "HzQuantizedResizeUpsample": lower_upsample,
        "HzDepthToSpace": lower_depth_to_space,
        "HzSpaceToDepth": lower_space_to_depth,
        "HzChannelShuffle": lower_shuffle,
        "HzPad": lower_pad,
        "HzLut": lower_table_of_ramp,
        "HzLut2Layer": lower_table_of_ramp,
        "HzSPRelu": lower_table_of_ramp,
        "HzPRelu": lower_table_of_ramp,
        "HzLeakyRelu": lower_table_of_ramp,
        "HzRequantize": lower_requantize,
    }
)
"""Quantised operators that have instructions, by type."""
