"""What the stages of a conversion hand on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.convert.runner import Item

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx_ir as ir

    from engine.calibrate import CalibrationData, Statistics
    from engine.calibrate.statistics.outputs import FloatOutputs
    from engine.compile import CompiledModel
    from engine.config import InputSpec
    from engine.floats.compare import Distance, ModelComparison
    from engine.place import Placement, PlacementOptions

SOURCE: Item[ir.Model] = Item("source")
"""The model as its file has it, with static shapes."""
SPECS: Item[tuple[InputSpec, ...]] = Item("specs")
"""What each of its inputs is."""
DATA: Item[CalibrationData | None] = Item("data")
"""Calibration data; None where nothing needs any."""
ORIGINAL: Item[ir.Model] = Item("original_float")
"""The source with preprocessing."""
FOLDED: Item[ir.Model] = Item("folded")
"""The original after all rewrites that keep its function in float."""
EQUALIZED: Item[ir.Model] = Item("equalized")
"""The folded model with channels of neighbouring convolutions scaled alike, where that is asked for."""
REQUESTS: Item[PlacementOptions] = Item("requests")
"""What is asked of the placement."""
OPTIMIZED: Item[ir.Model] = Item("optimized_float")
"""The float model that is calibrated: with several nodes for each that runs on the BPU as several."""
PLACED: Item[Placement] = Item("placed")
"""Devices and calibration nodes."""
PLACEMENT: Item[Placement] = Item("placement")
"""Devices and calibration nodes of a model that can be converted."""
STATISTICS: Item[Statistics | None] = Item("statistics")
"""Statistics of the calibration data; None to collect what the calibration needs."""
SEEN_OUTPUTS: Item[FloatOutputs] = Item("seen_outputs")
"""What the calibration has seen of the optimised model's outputs."""
THRESHOLDS: Item[ir.Model] = Item("thresholds")
"""The placed model with thresholds, and what calibration changes in its weights."""
REFERENCE: Item[ir.Model] = Item("reference")
"""The float model that the calibrated one is compared with."""
CALIBRATED: Item[ir.Model] = Item("calibrated")
"""The calibrated model, its biases corrected by the integer model where that is asked for."""
QUANTIZED: Item[ir.Model] = Item("quantized")
"""The integer model, for single samples."""
DEPLOYED: Item[ir.Model] = Item("deployed")
"""The integer model for as many samples as the ``.bin`` takes at once."""
COMPILED: Item[CompiledModel] = Item("compiled")
"""What the ``.bin`` holds."""
COMPARISON: Item[ModelComparison] = Item("comparison")
"""The calibrated against the reference model, on the first sample; empty without data."""
INTEGER_DISTANCES: Item[Mapping[str, Distance]] = Item("integer_distances")
"""The quantised against the optimised model, on all samples, by output; empty without data."""
THREADS: Item[int | None] = Item("threads")
"""CPU threads to use; None for all. They change no result."""
