"""Float-graph optimisation: constants folded, arithmetic moved into convolutions, patterns collapsed.

``docs/optimisation.md`` lists the passes and where the result differs from the original's.
"""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from engine.ir import MARK_MARCH
from engine.march import March, load
from engine.optimize.activations import (
    CollapseActivations,
    CollapseRsqrt,
    HardSigmoidToHardSwish,
    StandardActivations,
)
from engine.optimize.affine import AffineToDepthwise, FoldAffineIntoNext, FoldAffineIntoPrevious, FoldPadIntoConv
from engine.optimize.arithmetic import DivToReciprocal, SumToAdd, WhereToProducts
from engine.optimize.cleanup import MergeReshapes, MergeTransposes, RemoveCastPairs, RemoveNoOps, ReshapingToReshape
from engine.optimize.constants import FoldConstants, LiftConstants
from engine.optimize.defaults import CompleteAttributes
from engine.optimize.dense import DenseToConv
from engine.optimize.movement import KeepReducedAxis, SinkReshape
from engine.optimize.normalization import DecomposeNormalization
from engine.optimize.opset9 import ConvertOpset9
from engine.optimize.pooling import AveragePool1d, AveragePoolToConv, ReduceMeanToGlobalPool
from engine.optimize.shuffle import CollapseShuffle
from engine.optimize.wide import SplitWideConv

MAX_ROUNDS = 100
"""Bound on the rounds of passes; every round that changes something removes or replaces a node for good."""

_FOREIGN_METADATA = "pkg.onnxscript."


def optimize(original: ir.Model, march: str) -> ir.Model:
    """The float graph that placement, calibration and quantisation work on.

    Args:
        original: model from :func:`engine.frontend.preprocess.insert`; not changed.
        march: name of an architecture (``engine.march.MARCHES``); kept in the model's metadata under ``hz.march``.

    Returns:
        An equivalent model (up to float rounding) without constant, redundant or composite nodes. Optimising it again
        changes nothing.

    Raises:
        ConfigError: there is no such march.
    """
    rules = load(march)
    simplify = simplifications(rules)
    model = original.clone()
    ConvertOpset9()(model)
    for _ in range(MAX_ROUNDS):
        ir.passes.PassManager(simplify, steps=MAX_ROUNDS, early_stop=True)(model)
        if not AffineToDepthwise()(model).modified:
            break
    ir.passes.Sequential(SplitWideConv(rules), RemoveUnusedNodesPass())(model)
    _remove_foreign_metadata(model)
    model.metadata_props[MARK_MARCH] = march
    return model


def simplifications(march: March) -> list[ir.passes.PassBase]:
    """Passes that run until none of them finds anything, in the order of one round.

    :class:`AffineToDepthwise` and :class:`SplitWideConv` are none of them: they would take what a later round folds
    into a neighbour.
    """
    return [
        LiftConstants(),
        FoldConstants(),
        RemoveUnusedNodesPass(),
        CompleteAttributes(),
        RemoveNoOps(),
        RemoveCastPairs(),
        CollapseActivations(),
        HardSigmoidToHardSwish(),
        StandardActivations(),
        ReshapingToReshape(),
        CollapseShuffle(),
        MergeReshapes(),
        MergeTransposes(),
        FoldPadIntoConv(),
        FoldAffineIntoPrevious(),
        FoldAffineIntoNext(),
        SumToAdd(),
        DivToReciprocal(),
        WhereToProducts(),
        CollapseRsqrt(),
        DecomposeNormalization(),
        ReduceMeanToGlobalPool(),
        KeepReducedAxis(march.graph),
        AveragePool1d(),
        AveragePoolToConv(march.graph),
        DenseToConv(march.graph),
        SinkReshape(),
        RemoveUnusedNodesPass(),
    ]


def _remove_foreign_metadata(model: ir.Model) -> None:
    """Drop the notes that library passes leave on nodes and values."""
    graph = model.graph
    notes = [node.metadata_props for node in graph]
    notes += [value.metadata_props for node in graph for value in node.outputs]
    notes += [value.metadata_props for value in (*graph.inputs, *graph.initializers.values())]
    for properties in notes:
        for key in [key for key in properties if key.startswith(_FOREIGN_METADATA)]:
            del properties[key]
