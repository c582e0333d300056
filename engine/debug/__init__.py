"""The accuracy debugger: which nodes of a calibrated model lose accuracy, and why."""

from engine.debug.sensitivity import get_sensitivity_of_nodes

__all__ = ["get_sensitivity_of_nodes"]
