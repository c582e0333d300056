"""Calibration: statistics of activations, thresholds, calibration data, forwards of the float stages."""

from engine.calibrate.asymmetric import to_signed
from engine.calibrate.collection import HistogramRule, StatisticsOptions, collect
from engine.calibrate.data import ArrayData, CalibrationData, FolderData, open_folders
from engine.calibrate.fake_quantization import to_standard
from engine.calibrate.forward import FloatSession, Kernels
from engine.calibrate.methods import METHODS, CalibrationOptions
from engine.calibrate.run import collect_for, needs_data, run_calibration
from engine.calibrate.search import SEARCHES
from engine.calibrate.statistics import Statistics
from engine.calibrate.statistics_cache import collect_into
from engine.calibrate.thresholds import apply_thresholds, calibrate, calibration_tensors

__all__ = [
    "METHODS",
    "SEARCHES",
    "ArrayData",
    "CalibrationData",
    "CalibrationOptions",
    "FloatSession",
    "FolderData",
    "HistogramRule",
    "Kernels",
    "Statistics",
    "StatisticsOptions",
    "apply_thresholds",
    "calibrate",
    "calibration_tensors",
    "collect",
    "collect_for",
    "collect_into",
    "needs_data",
    "open_folders",
    "run_calibration",
    "to_signed",
    "to_standard",
]
