"""Calibration: calibration data, statistics of activations, thresholds, corrections."""

from engine.calibrate.corrections.correction import Correction, CorrectionWork
from engine.calibrate.data.sources import ArrayData, CalibrationData, FolderData, open_folders
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
]
