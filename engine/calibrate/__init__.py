"""Calibration: statistics of activations, thresholds, calibration data, forwards of the float stages."""

from engine.calibrate.collection import HistogramRule, StatisticsOptions, collect
from engine.calibrate.data import ArrayData, CalibrationData, FolderData, open_folders
from engine.calibrate.forward import FloatSession, Kernels, to_standard
from engine.calibrate.methods import METHODS, CalibrationOptions
from engine.calibrate.statistics import Statistics
from engine.calibrate.thresholds import apply_thresholds, calibrate, calibration_tensors

__all__ = [
    "METHODS",
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
    "open_folders",
    "to_standard",
]
