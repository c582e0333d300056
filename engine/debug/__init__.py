"""The accuracy debugger: which nodes of a calibrated model lose accuracy, and why."""

from engine.debug.analysis.data import CalibrationDataSet
from engine.debug.analysis.functions import (
    get_channelwise_data_distribution,
    plot_acc_error,
    plot_distribution,
    runall,
    sensitivity_analysis,
)
from engine.debug.analysis.sensitivity import get_sensitivity_of_nodes

__all__ = [
    "CalibrationDataSet",
    "get_channelwise_data_distribution",
    "get_sensitivity_of_nodes",
    "plot_acc_error",
    "plot_distribution",
    "runall",
    "sensitivity_analysis",
]
