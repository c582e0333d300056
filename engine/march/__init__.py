"""The BPU architectures: arithmetic, limits and operator support as data, one file per march."""

from engine.march.rules import MARCHES, GraphRules, Limits, March, load_march

__all__ = ["MARCHES", "GraphRules", "Limits", "March", "load_march"]
