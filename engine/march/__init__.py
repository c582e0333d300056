"""The BPU architectures: arithmetic, limits and operator support as data, one file per march."""

from engine.march.rules import MARCHES, Limits, March, load

__all__ = ["MARCHES", "Limits", "March", "load"]
