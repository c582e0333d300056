"""Colours can be told from their background, and from each other by people who see two primaries."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from engine.pages.colours import BPU_COLOUR, CPU_COLOUR, PALETTE, SYMBOLS, WORSE_BETTER

DEUTERANOPIA = np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]])
PROTANOPIA = np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]])
"""Linear sRGB as it is seen: Machado, Oliveira, Fernandes (2009), severity 1."""


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb``, 0..1 (WCAG 2.2)."""
    levels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in levels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    """Contrast of two colours, 1..21 (WCAG 2.2)."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def seen(colour: str, kind: np.ndarray) -> np.ndarray:
    levels = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.clip(kind @ levels**2.2, 0, 1) ** (1 / 2.2)


def test_luminance_and_contrast_of_black_and_white() -> None:
    assert (luminance("#000000"), luminance("#ffffff")) == (0, pytest.approx(1))
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("colour", [BPU_COLOUR, CPU_COLOUR])
def test_white_letters_on_nodes_can_be_read(colour: str) -> None:
    assert contrast(colour, "#ffffff") >= 4.5


@pytest.mark.parametrize("colour", PALETTE[:4])
def test_lines_stand_out_from_a_light_and_a_dark_page(colour: str) -> None:
    assert contrast(colour, "#ffffff") >= 3
    assert contrast(colour, "#1b2638") >= 2.5


@pytest.mark.parametrize("kind", [DEUTERANOPIA, PROTANOPIA])
def test_the_first_colours_differ_for_people_who_see_two_primaries(kind: np.ndarray) -> None:
    for first, second in [
        *combinations(PALETTE[:3], 2),
        (BPU_COLOUR, CPU_COLOUR),
        (str(WORSE_BETTER[0][1]), str(WORSE_BETTER[2][1])),
    ]:
        assert np.linalg.norm(seen(first, kind) - seen(second, kind)) > 0.2, (first, second)
    assert len(set(SYMBOLS)) == len(SYMBOLS)
