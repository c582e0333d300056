"""All rewrites, in the order in which they are tried."""

from __future__ import annotations

from engine.rewrite.arithmetic import MinAsMax, NegationAsProduct, ReductionsInSteps, SquaresAsProducts
from engine.rewrite.attention import SplitAttention
from engine.rewrite.base import Rewrite
from engine.rewrite.border_average import BorderAverage
from engine.rewrite.convolution import ConvolutionInSlices, ConvolutionOfOneAxis
from engine.rewrite.dfl import DflAsConvolution
from engine.rewrite.einsum import EinsumAsMatMul
from engine.rewrite.grid_sample import GridSampleBehindConvolutions
from engine.rewrite.group_norm import GroupNormOfMaps
from engine.rewrite.padding import ReflectionAsSlices
from engine.rewrite.pooling import PoolingInSteps
from engine.rewrite.scatter import ScatterAsConcat
from engine.rewrite.softmax import SoftmaxOverLastAxis

REWRITES: tuple[type[Rewrite], ...] = (
    ConvolutionInSlices,
    ConvolutionOfOneAxis,
    PoolingInSteps,
    EinsumAsMatMul,
    ScatterAsConcat,
    SplitAttention,
    GroupNormOfMaps,
    DflAsConvolution,
    SoftmaxOverLastAxis,
    GridSampleBehindConvolutions,
    ReflectionAsSlices,
    BorderAverage,
    NegationAsProduct,
    MinAsMax,
    SquaresAsProducts,
    ReductionsInSteps,
)
"""What makes more of a network run on the BPU: patterns of several operators before single ones."""
