"""Colours of plots, PNG files and graphs: those of Okabe and Ito, which can be distinguished with any colour vision.

Masataka Okabe, Kei Ito: Color Universal Design (2008). Shades are a little darker than theirs where lines and points
would not stand out from a white page. No page shows anything by colour alone.
"""

from __future__ import annotations

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#b0659a", "#b8860b", "#3f9fd8", "#7f7f7f", "#8c6d1f")
"""Colours of lines and points, in this order."""

SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "star")
"""Shapes of points, in the order of a second distinction."""

BPU_COLOUR, CPU_COLOUR = "#0072b2", "#b35900"
"""Colours of nodes by where they run; white letters on them can be read."""

WORSE_BETTER: list[list[float | str]] = [[0, "#e69f00"], [0.5, "#f3f0e6"], [1, "#56b4e9"]]
"""From the worst (orange) to the best (blue)."""

SEQUENTIAL = "Cividis"
"""From little (dark blue) to much (yellow)."""
