"""What the stages of a trial hand on besides what those of a conversion do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.convert.runner import Item

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from engine.board import BoardTimes
    from engine.calibrate import StatisticsOptions
    from harness.backends.values import CalibrationUse, FloatJudged, Scored
    from harness.datasets import Dataset, Samples
    from harness.trials.comparison import FidelityMeter
    from harness.trials.figures import BrokenOutputs, Footprint, TrialNode
    from harness.trials.trial import TrialSpec
    from harness.zoo.cards import ModelCard

    Array = NDArray[Any]

CARD: Item[ModelCard] = Item("card")
"""The model's card."""
TRIAL: Item[TrialSpec] = Item("trial")
"""The trial, for engines beside the bundled one."""
INT16_NODES: Item[tuple[str, ...]] = Item("int16_nodes")
"""Nodes that the trial's int16 policy asks for."""
DATA_DIGEST: Item[str] = Item("data_digest")
"""Digest of the data set that the trial was planned with."""
DATASET: Item[Dataset] = Item("dataset")
"""The card's data set."""
CALIBRATION_USE: Item[CalibrationUse] = Item("calibration_use")
"""Which images are calibrated with."""
EVALUATION_SAMPLES: Item[int] = Item("evaluation_samples")
"""How many images are evaluated."""
SAMPLES: Item[Samples] = Item("samples")
"""Calibration samples as the data set gives them."""
DOUBTS: Item[tuple[str, ...]] = Item("doubts")
"""What is doubtful about the calibration samples, a sentence each."""
BROKEN: Item[BrokenOutputs] = Item("broken")
"""Outputs that no longer say what the float model's do."""
FLOAT_OUTPUTS: Item[list[Array]] = Item("float_outputs")
"""Outputs of the float model on the evaluation images, one array per output."""
FLOAT_JUDGED: Item[FloatJudged] = Item("float_judged")
"""What the card's metric says of these."""
TENSORS: Item[tuple[str, ...]] = Item("tensors")
"""Tensors that statistics are collected of."""
STATISTICS_OPTIONS: Item[StatisticsOptions] = Item("statistics_options")
"""What is collected."""
STATISTICS_FILE: Item[Path] = Item("statistics_file")
"""Where statistics go, and go on from after an interruption."""
RANKING: Item[tuple[str, ...]] = Item("ranking")
"""Nodes, those first whose quantisation alone harms the outputs most."""
OUTPUTS: Item[tuple[list[Array], FidelityMeter]] = Item("outputs")
"""Outputs of the quantised model on the evaluation images, and how far they are from the float model's."""
SCORED: Item[Scored] = Item("scored")
"""Accuracy, fidelity and predictions."""
BOARD: Item[BoardTimes | None] = Item("board")
"""What was measured of CPU nodes on a board."""
FOOTPRINT: Item[Footprint] = Item("footprint")
"""What the compiled model costs."""
NODES: Item[tuple[TrialNode, ...]] = Item("nodes")
"""The node table."""
DATA_DIGESTS: Item[dict[str, str]] = Item("data_digests")
"""Digests of images, targets and float outputs by the name of the artefact."""
FLOAT_DIGESTS: Item[dict[str, str]] = Item("float_digests")
"""Digests of the float models before anything that a trial's settings change, by the name of the artefact."""
MODEL_DIGESTS: Item[dict[str, str]] = Item("model_digests")
"""Digests of the models that a trial's settings lead to, by the name of the artefact."""
FOLDER: Item[Path] = Item("folder")
"""Where a command of others works."""
TOOL: Item[str] = Item("tool")
"""The vendor's command, with its version as key."""
