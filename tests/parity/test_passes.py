"""Passes that small recorded networks need: their float graph is further from the original's without one."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from engine.conformance.cases import find_cases
from engine.conformance.rewrite_evidence import RewriteSubject
from engine.rulebook.rewrite import REWRITES, rewrite_id

RECORDED = Path(__file__).parent / "recorded"
NEEDED_BY = {
    "AffineToDepthwise": "mm_h2_bernoulli2",
    "AveragePoolToConv": "pool_16x16_by_8x8_bernoulli2",
    "CancelAroundReshape": "fold_affine_into_product",
    "CollapseActivations": "collapse_activations",
    "CollapseRsqrt": "decompose_normalization",
    "CollapseShuffle": "collapse_shuffle",
    "CollapseSoftmax": "collapse_softmax",
    "ConvertOldOpsets": "resize_10_bayes-e",
    "CompleteAttributes": "gemm_of_map_to_conv",
    "CoverByKernel": "covered_by_kernel_bayes-e",
    "DecomposeNorm": "decompose_norm_1",
    "DecomposeNormalization": "decompose_normalization",
    "DivToReciprocal": "div_to_reciprocal",
    "ExpandConstants": "expand_constants",
    "FactorBetweenReshapes": "number_behind_gemm_bayes-e",
    "FoldAffineIntoNext": "decompose_normalization",
    "FoldAffineIntoProduct": "normalised_windows_bayes-e",
    "FoldChannelsIntoNext": "into_next_bayes-e",
    "FoldConstants": "fold_constants",
    "FoldNormThroughConcat": "joined_norms_stated_bayes-e",
    "FoldPadIntoConv": "fold_pad_into_conv",
    "GemmOfMapToConv": "slope_per_feature_bayes",
    "GemmToConv": "gemm_to_conv",
    "HardSigmoidToHardSwish": "hard_sigmoid_to_hard_swish",
    "KeepReducedAxis": "keep_reduced_axis",
    "LargerFactorFirst": "larger_factor_first",
    "LiftConstants": "lift_constants",
    "MatMulOfConstantToConv": "constant_first_map_bayes-e",
    "MatMulOfOneToGemm": "one_matrix_bayes-e",
    "MatMulToConv": "mat_mul_to_conv",
    "MergeReshapes": "gemm_of_map_to_conv",
    "MergeTransposes": "mat_mul_to_conv",
    "NormOfRowsToProduct": "norms_of_rows_bayes-e",
    "OwnWeights": "own_weights",
    "Pool1d": "mpb_k2_bernoulli2",
    "ReduceMeanToGlobalPool": "mean_m2m1_bayes-e",
    "RemoveNoOps": "mat_mul_to_conv",
    "RemoveUnusedNodes": "collapse_softmax",
    "ReshapeToTranspose": "key_bayes-e",
    "ReshapeWithoutZeros": "reshape_without_zeros",
    "ReshapingToReshape": "gemm_of_map_to_conv",
    "ShareArithmetic": "shared_bayes-e",
    "ShareMovements": "share_movements",
    "SinkReshape": "fold_affine_into_product",
    "SinkReshapeBehindConcat": "boxes_of_the_width_bernoulli2",
    "SinkTranspose": "fold_affine_into_product",
    "SinkTransposeBehindConcat": "joined_transposes_bayes-e",
    "SplitBeforeTranspose": "split_before_transpose",
    "SumToAdd": "sum_of_two",
    "TransposeToReshape": "gemm_of_map_to_conv",
    "UnrollGru": "gru_given_bayes-e",
    "UnrollLstm": "lstm_given_bayes-e",
}
"""A recorded network that needs the pass."""
WITHOUT_CASE = {
    "ConstantOutputs": "the original lets such an output be an initializer; here every output is one of a node",
    "FoldAffineIntoPrevious": "in small networks AffineToDepthwise folds what it leaves",
    "JoinAlongReshapedAxis": "the states of GRUs, of more nodes, show it",
    "RemoveCastPairs": "the original keeps both casts, on the CPU",
    "ReshapeBeforeTransposes": "published logs alone show it",
    "SinkReshapeBehindSoftmax": "networks that are shipped show it (docs/evidence/shipping.md); none is kept here",
    "SinkReshapeBehindSplit": "published logs alone show it; the small network contradicts it",
    "SplitWideConv": "the original fails at the small one",
    "StandardActivations": "the original takes no operator set that has them",
    "WhereToProducts": "the original calls the parts otherwise, and does not fold constant conditions",
}
"""Passes that no recorded network of a few nodes needs, and why."""


@cache
def subjects() -> dict[str, RewriteSubject]:
    wanted = set(NEEDED_BY.values())
    return {case.name: RewriteSubject.of(case) for case in find_cases(RECORDED) if case.name in wanted}


@pytest.mark.parametrize("name", NEEDED_BY)
def test_without_a_pass_a_network_departs_from_the_original(name: str) -> None:
    assert subjects()[NEEDED_BY[name]].gained_by(name) > 0


def test_every_pass_has_a_case_or_a_reason() -> None:
    assert {rewrite_id(name) for name in (*NEEDED_BY, *WITHOUT_CASE)} == REWRITES.keys()
    assert not NEEDED_BY.keys() & WITHOUT_CASE.keys()
