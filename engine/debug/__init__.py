"""The accuracy debugger: which nodes of a calibrated model lose accuracy, and why.

Names are looked up on first use, so that what only looks for a broken node does not depend on plots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.exports import lazily

if TYPE_CHECKING:
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

__getattr__ = lazily(
    __name__,
    {
        "CalibrationDataSet": "engine.debug.analysis.data",
        "get_channelwise_data_distribution": "engine.debug.analysis.functions",
        "get_sensitivity_of_nodes": "engine.debug.analysis.sensitivity",
        "plot_acc_error": "engine.debug.analysis.functions",
        "plot_distribution": "engine.debug.analysis.functions",
        "runall": "engine.debug.analysis.functions",
        "sensitivity_analysis": "engine.debug.analysis.functions",
    },
)
