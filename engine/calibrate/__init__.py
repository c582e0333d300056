"""Calibration: calibration data, statistics of activations, thresholds, corrections.

Its names are imported when they are first used: a check without data needs few of their modules.
"""

from types import MappingProxyType
from typing import TYPE_CHECKING

from engine.exports import lazily

if TYPE_CHECKING:
    from engine.calibrate.corrections.correction import Correction, CorrectionWork
    from engine.calibrate.data.sources import ArrayData, CalibrationData, FolderData, open_folders
    from engine.calibrate.methods.measured import tensors_for
    from engine.calibrate.methods.methods import METHODS, CalibrationOptions, Method
    from engine.calibrate.methods.search import SEARCHES
    from engine.calibrate.methods.thresholds import apply_thresholds, calibrate, calibration_tensors
    from engine.calibrate.run import collect_for, needs_data, run_calibration
    from engine.calibrate.statistics.cache import collect_into
    from engine.calibrate.statistics.collection import HistogramRule, StatisticsOptions, collect
    from engine.calibrate.statistics.statistics import Statistics
    from engine.floats.fake_quantization import lower_calibration
    from engine.floats.float_model import FloatSession, Kernels

__all__ = [
    "METHODS",
    "SEARCHES",
    "ArrayData",
    "CalibrationData",
    "CalibrationOptions",
    "Correction",
    "CorrectionWork",
    "FloatSession",
    "FolderData",
    "HistogramRule",
    "Kernels",
    "Method",
    "Statistics",
    "StatisticsOptions",
    "apply_thresholds",
    "calibrate",
    "calibration_tensors",
    "collect",
    "collect_for",
    "collect_into",
    "lower_calibration",
    "needs_data",
    "open_folders",
    "run_calibration",
    "tensors_for",
]

__getattr__ = lazily(
    __name__,
    MappingProxyType(
        {
            "ArrayData": "engine.calibrate.data.sources",
            "CalibrationData": "engine.calibrate.data.sources",
            "CalibrationOptions": "engine.calibrate.methods.methods",
            "Correction": "engine.calibrate.corrections.correction",
            "CorrectionWork": "engine.calibrate.corrections.correction",
            "FloatSession": "engine.floats.float_model",
            "FolderData": "engine.calibrate.data.sources",
            "HistogramRule": "engine.calibrate.statistics.collection",
            "Kernels": "engine.floats.float_model",
            "METHODS": "engine.calibrate.methods.methods",
            "Method": "engine.calibrate.methods.methods",
            "SEARCHES": "engine.calibrate.methods.search",
            "Statistics": "engine.calibrate.statistics.statistics",
            "StatisticsOptions": "engine.calibrate.statistics.collection",
            "apply_thresholds": "engine.calibrate.methods.thresholds",
            "calibrate": "engine.calibrate.methods.thresholds",
            "calibration_tensors": "engine.calibrate.methods.thresholds",
            "collect": "engine.calibrate.statistics.collection",
            "collect_for": "engine.calibrate.run",
            "collect_into": "engine.calibrate.statistics.cache",
            "lower_calibration": "engine.floats.fake_quantization",
            "needs_data": "engine.calibrate.run",
            "open_folders": "engine.calibrate.data.sources",
            "run_calibration": "engine.calibrate.run",
            "tensors_for": "engine.calibrate.methods.measured",
        }
    ),
)
