"""Lines of text: the same every time, upright where they are to be read."""

from __future__ import annotations

import numpy as np
import pytest

from harness.datasets.text_lines import ALPHABET, draw_word, paper
from tests.harness.datasets.helpers import open_with


def test_text_lines_are_the_same_every_time_and_every_second_is_upside_down() -> None:
    lines = open_with("text_lines", evaluation=6).split("evaluation")
    again = open_with("text_lines", evaluation=6).split("evaluation")
    np.testing.assert_array_equal(lines.images(2, 4), again.images()[2:4])
    assert sorted(set(lines.targets().tolist())) == [0, 1]
    texts = open_with("text_lines", evaluation=3, target="text").split("evaluation").targets()
    assert all(4 <= len(text) <= 12 and set(text) <= set(ALPHABET) for text in texts)


def test_text_that_is_to_be_read_is_never_upside_down() -> None:
    read = open_with("text_lines", target="text").split("evaluation").images(0, 4)
    turned = open_with("text_lines").split("evaluation").images(0, 4)
    np.testing.assert_array_equal(read[::2], turned[::2])
    np.testing.assert_array_equal(read[1::2], turned[1::2, ::-1, ::-1])


def test_texts_follow_the_seed_and_the_place_in_the_sequence() -> None:
    """The streams of RandomState never change; evaluation goes on where calibration ends."""
    texts = open_with("text_lines", target="text").split("evaluation").targets(0, 3)
    assert texts == ["vwHruCy", "wjGtfdDOby", "Hekss6e45nX4"]
    assert open_with("text_lines", target="text", calibration=99).split("evaluation").targets(1, 4) == texts
    assert open_with("text_lines", target="text", seed=1).split("evaluation").targets(0, 3) != texts


def test_direction_alternates_over_the_whole_sequence() -> None:
    data = open_with("text_lines", calibration=3)
    assert data.split("calibration").targets().tolist() == [0, 1, 0]
    assert data.split("evaluation").targets(0, 3).tolist() == [1, 0, 1]


def test_words_have_4_to_12_characters_of_the_alphabet() -> None:
    random = np.random.RandomState(0)
    words = [draw_word(random) for _ in range(2000)]
    assert sorted({len(word) for word in words}) == list(range(4, 13))
    assert set("".join(words)) == set(ALPHABET)
    assert len(ALPHABET) == 62


def test_ground_is_light_and_noisy() -> None:
    sheets = [np.asarray(paper(np.random.RandomState(seed), 40, 50)) for seed in range(50)]
    means = [sheet.mean() for sheet in sheets]
    assert sheets[0].shape == (40, 50, 3)
    assert 188 < min(means) < 195 < 230 < max(means) < 240
    assert np.median([sheet.std() for sheet in sheets]) == pytest.approx(6, abs=0.3)


@pytest.mark.parametrize(("width", "height"), [(192, 48), (64, 48)])
def test_a_line_is_dark_centred_and_leaves_a_margin(width: int, height: int) -> None:
    lines = open_with("text_lines", target="text", width=width, height=height).split("evaluation").images(0, 30)
    for line in lines:
        rows, columns = np.nonzero((line < 120).all(axis=2))
        assert line[rows, columns].min() < 90
        assert columns.min() >= 2
        assert columns.max() < width - 2
        assert abs((columns.min() + columns.max()) / 2 - width / 2) < 3
        assert np.ptp(rows) < 0.9 * height


def test_letters_fill_their_line_where_there_is_room() -> None:
    """The font has 0.55 to 0.8 of the height; capitals have about 0.7 of that."""
    lines = open_with("text_lines", target="text", width=600).split("evaluation").images(0, 30)
    tall = [np.ptp(np.nonzero((line < 120).all(axis=2))[0]) + 1 for line in lines]
    assert 0.55 * 0.65 * 48 < min(tall) < max(tall) < 0.8 * 1.1 * 48
