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


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb``, 0..1 (WCAG 2.2)."""
    levels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in levels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    """Contrast of two colours, 1..21 (WCAG 2.2)."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)
