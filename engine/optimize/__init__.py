"""Float-graph optimisation: constants folded, arithmetic moved into convolutions, patterns collapsed.

``docs/optimisation.md`` lists the passes and where the result differs from the original's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from engine.chips import Chip, load_chip
from engine.ir import MARK_MARCH
from engine.optimize.activations import (
    CollapseActivations,
    CollapseRsqrt,
    CollapseSoftmax,
    HardSigmoidToHardSwish,
    StandardActivations,
)
from engine.optimize.affine_apart import AffineToDepthwise, FactorBetweenReshapes, NormOfRowsToProduct, mark_factors
from engine.optimize.affine_next import FoldAffineIntoNext, FoldChannelsIntoNext, FoldPadIntoConv
from engine.optimize.affine_previous import FoldAffineIntoPrevious, FoldNormThroughConcat
from engine.optimize.arithmetic import (
    DivToReciprocal,
    ExpandConstants,
    LargerFactorFirst,
    ShareArithmetic,
    SumToAdd,
    WhereToProducts,
)
from engine.optimize.checked import MAX_ROUNDS, CheckedPasses, did_not_settle
from engine.optimize.cleanup import (
    MergeReshapes,
    MergeTransposes,
    RemoveCastPairs,
    RemoveNoOps,
    RemoveUnusedNodes,
    ReshapingToReshape,
)
from engine.optimize.constants import ConstantOutputs, FoldConstants, LiftConstants, OwnWeights
from engine.optimize.covering import CoverByKernel
from engine.optimize.defaults import CompleteAttributes, ReshapeWithoutZeros
from engine.optimize.dense import (
    FoldAffineIntoProduct,
    GemmOfMapToConv,
    GemmToConv,
    MatMulOfConstantToConv,
    MatMulOfOneToGemm,
    MatMulToConv,
)
from engine.optimize.gru import UnrollGru
from engine.optimize.movement import JoinAlongReshapedAxis, KeepReducedAxis, SplitBeforeTranspose
from engine.optimize.normalization import DecomposeNorm, DecomposeNormalization
from engine.optimize.old_opsets import ConvertOldOpsets
from engine.optimize.pooling import AveragePoolToConv, Pool1d, ReduceMeanToGlobalPool
from engine.optimize.recurrent import UnrollLstm
from engine.optimize.shuffle import CollapseShuffle
from engine.optimize.sink import SinkReshape, SinkTranspose
from engine.optimize.sink_parts import (
    SinkReshapeBehindConcat,
    SinkReshapeBehindSoftmax,
    SinkReshapeBehindSplit,
    SinkTransposeBehindConcat,
)
from engine.optimize.transposes import (
    CancelAroundReshape,
    ReshapeBeforeTransposes,
    ReshapeToTranspose,
    ShareMovements,
    TransposeToReshape,
)
from engine.optimize.wide import SplitWideConv
from engine.terms import Compatibility

_FOREIGN_METADATA = "pkg.onnxscript."


@dataclass(frozen=True)
class Pipeline:
    """The passes of one march, in the order they run.

    Attributes:
        opening: run once, before everything.
        round: run in turn until none of them finds anything.
        settled: run then; where one finds something, rounds start again. They take what a later round could have folded
            into a neighbour.
        closing: run once, on the result.
    """

    opening: tuple[ir.passes.PassBase, ...]
    round: tuple[ir.passes.PassBase, ...]
    settled: tuple[ir.passes.PassBase, ...]
    closing: tuple[ir.passes.PassBase, ...]

    def __iter__(self) -> Iterator[ir.passes.PassBase]:
        return iter((*self.opening, *self.round, *self.settled, *self.closing))

    def without(self, *names: str) -> Pipeline:
        """The pipeline that lacks the passes of these names, which are those of their classes."""
        parts = (self.opening, self.round, self.settled, self.closing)
        return Pipeline(*(tuple(item for item in part if type(item).__name__ not in names) for part in parts))


def optimize(original: ir.Model, march: str, compatibility: Compatibility = Compatibility.ORIGINAL) -> ir.Model:
    """The float graph that placement, calibration and quantisation work on.

    Args:
        original: model from :func:`engine.frontend.preprocess.insert`; not changed.
        march: name of an architecture (``engine.chips.MARCHES``); kept in the model's metadata under ``hz.march``.
        compatibility: whether a Resize of opset 9 or 10 is moved by half a pixel, averages of large maps are taken in
            steps, ``a - b`` stands for ``b - a`` too where both are computed, and an output that equals a tensor before
            it has that one's name, as in the original.

    Returns:
        An equivalent model (up to float rounding, but for these) without constant, redundant or composite
        nodes. Optimising it again changes nothing.

    Raises:
        ConfigError: there is no such march.
        OptimizeError: a pass left a graph that does not hold together.
        UnsupportedError: two outputs hold the same tensor, which the original refuses.
    """
    return run_pipeline(pipeline(load_chip(march), compatibility), original, march)[0]


def run_pipeline(passes: Pipeline, original: ir.Model, march: str) -> tuple[ir.Model, frozenset[str]]:
    """What ``passes`` make of ``original``, as :func:`optimize` says; and the names of those that changed something."""
    model = original.clone()
    checked = CheckedPasses(model)
    checked.run(passes.opening)
    for _ in range(MAX_ROUNDS):
        checked.settle(passes.round, mark_factors)
        changed = checked.run(passes.settled)
        if not changed:
            break
    else:
        raise did_not_settle(changed)
    checked.run(passes.closing)
    _remove_foreign_metadata(model)
    model.metadata_props[MARK_MARCH] = march
    return model, frozenset(checked.changed)


def pipeline(march: Chip, compatibility: Compatibility = Compatibility.ORIGINAL) -> Pipeline:
    """The passes for ``march``."""
    return Pipeline(
        opening=(ConvertOldOpsets(compatibility), LiftConstants(), FoldNormThroughConcat()),
        round=(
            LiftConstants(),
            FoldConstants(),
            RemoveUnusedNodes(),
            CompleteAttributes(),
            ReshapeWithoutZeros(),
            RemoveNoOps(compatibility),
            RemoveCastPairs(),
            CollapseActivations(),
            HardSigmoidToHardSwish(),
            CollapseSoftmax(),
            StandardActivations(),
            ReshapingToReshape(),
            CollapseShuffle(),
            MergeTransposes(),
            RemoveUnusedNodes(),
            FoldPadIntoConv(),
            FoldAffineIntoPrevious(compatibility),
            NormOfRowsToProduct(),
            FoldChannelsIntoNext(compatibility),  # before anything moves: DaViT
            SumToAdd(),
            ShareArithmetic(compatibility),
            DivToReciprocal(),
            LargerFactorFirst(),
            WhereToProducts(),
            CollapseRsqrt(),
            DecomposeNormalization(),
            DecomposeNorm(),
            UnrollLstm(),
            UnrollGru(),
            ReduceMeanToGlobalPool(),
            KeepReducedAxis(march.graph),
            Pool1d(),
            AveragePoolToConv(march.graph, compatibility),
            GemmOfMapToConv(march.graph),
            ExpandConstants(),
            ShareMovements(compatibility),
            SplitBeforeTranspose(),
            TransposeToReshape(),
            SinkTranspose(),  # before products become convolutions: names of min_ln and detr
            SinkTransposeBehindConcat(),
            MatMulOfOneToGemm(),
            MatMulToConv(),
            MatMulOfConstantToConv(),
            FoldAffineIntoProduct(),
            SinkReshapeBehindConcat(),
            SinkReshapeBehindSplit(),
            SinkReshapeBehindSoftmax(),
            TransposeToReshape(),
            SinkReshape(),
            JoinAlongReshapedAxis(),  # before its Reshape becomes a Transpose beside that of a product (1 asked)
            ReshapeToTranspose(),
            CancelAroundReshape(),
            ReshapeBeforeTransposes(),
            MergeReshapes(),
            RemoveUnusedNodes(),
        ),
        settled=(
            CoverByKernel(),  # behind all movements, and before the next Gemm is a convolution
            GemmToConv(march.graph),
            FoldAffineIntoNext(compatibility),
            AffineToDepthwise(compatibility),
            FactorBetweenReshapes(),
        ),
        closing=(SplitWideConv(march), OwnWeights(), ConstantOutputs(), RemoveUnusedNodes()),
    )


def _remove_foreign_metadata(model: ir.Model) -> None:
    """Drop the notes that library passes leave on nodes and values."""
    graph = model.graph
    notes = [node.metadata_props for node in graph]
    notes += [value.metadata_props for node in graph for value in node.outputs]
    notes += [value.metadata_props for value in (*graph.inputs, *graph.initializers.values())]
    for properties in notes:
        for key in [key for key in properties if key.startswith(_FOREIGN_METADATA)]:
            del properties[key]
