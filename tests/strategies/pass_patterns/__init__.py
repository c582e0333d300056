"""For every optimiser pass, a pattern that it rewrites: :data:`PATTERNS`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import onnx_ir as ir

from engine.optimize import (
    activations,
    affine_apart,
    affine_next,
    affine_previous,
    arithmetic,
    cleanup,
    constants,
    defaults,
    dense,
    movement,
    pooling,
    sink,
    sink_parts,
    transposes,
)
from engine.optimize.covering import CoverByKernel
from engine.optimize.gru import UnrollGru
from engine.optimize.normalization import DecomposeNorm, DecomposeNormalization
from engine.optimize.old_opsets import ConvertOldOpsets
from engine.optimize.recurrent import UnrollLstm
from engine.optimize.shuffle import CollapseShuffle
from engine.optimize.wide import SplitWideConv
from tests.strategies.pass_patterns import functions, layers, movements, tidying, with_constants
from tests.strategies.patterns import Pattern

PATTERNS: Mapping[type[ir.passes.PassBase], Pattern] = MappingProxyType(
    {
        ConvertOldOpsets: Pattern(tidying.convertible, (9,)),
        constants.LiftConstants: Pattern(tidying.lifted),
        constants.FoldConstants: Pattern(tidying.foldable),
        constants.ConstantOutputs: Pattern(tidying.given_away),
        constants.OwnWeights: Pattern(layers.twice_the_same_convolution),
        cleanup.RemoveUnusedNodes: Pattern(tidying.dead),
        defaults.CompleteAttributes: Pattern(tidying.incomplete),
        defaults.ReshapeWithoutZeros: Pattern(movements.reshaped_with_zeros),
        cleanup.RemoveNoOps: Pattern(tidying.without_effect),
        cleanup.RemoveCastPairs: Pattern(tidying.cast_there_and_back),
        activations.CollapseActivations: Pattern(functions.written_activation),
        activations.HardSigmoidToHardSwish: Pattern(functions.gated_by_hard_sigmoid),
        activations.StandardActivations: Pattern(functions.own_activation, (14, 17, 18)),
        cleanup.ReshapingToReshape: Pattern(movements.reshaping),
        CollapseShuffle: Pattern(movements.shuffled),
        cleanup.MergeReshapes: Pattern(movements.reshaped_twice),
        cleanup.MergeTransposes: Pattern(movements.transposed_twice),
        affine_next.FoldPadIntoConv: Pattern(with_constants.padded_convolution),
        affine_previous.FoldAffineIntoPrevious: Pattern(with_constants.convolution_then_affine),
        affine_previous.FoldNormThroughConcat: Pattern(with_constants.joined_convolutions_then_norm),
        affine_apart.NormOfRowsToProduct: Pattern(with_constants.norm_of_rows),
        affine_next.FoldChannelsIntoNext: Pattern(with_constants.numbers_per_channel_then_convolution),
        affine_next.FoldAffineIntoNext: Pattern(with_constants.affine_then_convolution),
        affine_apart.AffineToDepthwise: Pattern(with_constants.lone_affine),
        affine_apart.FactorBetweenReshapes: Pattern(with_constants.scaled_between_reshapes),
        arithmetic.SumToAdd: Pattern(with_constants.long_sum),
        arithmetic.ShareArithmetic: Pattern(with_constants.computed_twice),
        arithmetic.DivToReciprocal: Pattern(with_constants.quotient),
        arithmetic.LargerFactorFirst: Pattern(with_constants.gate_first),
        arithmetic.ExpandConstants: Pattern(with_constants.unexpanded),
        arithmetic.WhereToProducts: Pattern(with_constants.choice),
        activations.CollapseRsqrt: Pattern(functions.reciprocal_root),
        activations.CollapseSoftmax: Pattern(functions.softmax_over_channels),
        DecomposeNormalization: Pattern(functions.normalised),
        DecomposeNorm: Pattern(functions.length, (11, 13, 18)),
        UnrollLstm: Pattern(layers.recurrent_cell),
        UnrollGru: Pattern(layers.gated_cell),
        movement.SplitBeforeTranspose: Pattern(movements.exchanged_steps),
        movement.JoinAlongReshapedAxis: Pattern(movements.joined_states),
        pooling.ReduceMeanToGlobalPool: Pattern(layers.map_mean),
        movement.KeepReducedAxis: Pattern(movements.dropped_axis),
        pooling.Pool1d: Pattern(layers.pooled_row),
        pooling.AveragePoolToConv: Pattern(layers.pooled_map),
        dense.GemmOfMapToConv: Pattern(layers.gemm_of_map),
        CoverByKernel: Pattern(layers.convolution_of_joined_axes),
        dense.MatMulToConv: Pattern(layers.matmul_by_matrix),
        dense.MatMulOfOneToGemm: Pattern(layers.matmul_by_one_of_one),
        dense.MatMulOfConstantToConv: Pattern(layers.constant_by_matrix),
        dense.FoldAffineIntoProduct: Pattern(layers.scaled_rows_of_product),
        dense.GemmToConv: Pattern(layers.gemm_of_rows),
        sink.SinkReshape: Pattern(movements.reshaped_operands),
        sink.SinkTranspose: Pattern(movements.transposed_operands),
        sink_parts.SinkTransposeBehindConcat: Pattern(movements.joined_transposes),
        sink_parts.SinkReshapeBehindConcat: Pattern(movements.joined_rows),
        sink_parts.SinkReshapeBehindSplit: Pattern(movements.divided_rows),
        sink_parts.SinkReshapeBehindSoftmax: Pattern(movements.classes),
        transposes.ReshapeBeforeTransposes: Pattern(movements.transposed_around_a_dropped_axis),
        transposes.TransposeToReshape: Pattern(movements.moved_single_axes),
        transposes.ReshapeToTranspose: Pattern(movements.reshaped_single_axes),
        transposes.CancelAroundReshape: Pattern(movements.rows_there_and_back),
        transposes.ShareMovements: Pattern(movements.moved_twice_alike),
        SplitWideConv: Pattern(layers.wide_convolution),
    }
)
"""A pattern per pass: the pass finds it on at least one march, unless another node reads a tensor inside."""
