"""CTC decoding and edit distance against plain definitions."""

from __future__ import annotations

from functools import cache
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ConfigError, InferenceError
from harness.metrics import open_metric
from harness.metrics.recognition import EditSimilarity, EditSimilarityOptions


def one_hot(labels: list[int], classes: int = 4) -> np.ndarray:
    return np.eye(classes, dtype=np.float32)[labels]


def metric(**options: object) -> EditSimilarity:
    return EditSimilarity(EditSimilarityOptions.model_validate({"characters": "a\nb", **options}))


def levenshtein(first: str, second: str) -> int:
    """The recurrence of the definition."""

    @cache
    def distance(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        return min(
            distance(i - 1, j) + 1,
            distance(i, j - 1) + 1,
            distance(i - 1, j - 1) + (first[i - 1] != second[j - 1]),
        )

    return distance(len(first), len(second))


class TestEditSimilarity:
    @pytest.mark.parametrize(
        ("labels", "text"),
        [
            ([0, 1, 1, 0, 1, 2, 2, 0], "aab"),
            ([3, 3, 1, 3, 2, 3], "a b"),  # blanks at both ends are dropped
            ([0, 0], ""),
            ([2], "b"),
        ],
    )
    def test_greedy_decoding(self, labels: list[int], text: str) -> None:
        assert metric().decode(one_hot(labels)) == text

    @given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
    def test_decoding_is_merge_then_drop(self, labels: list[int]) -> None:
        expected = "".join(["", "a", "b", " "][label] for label, _ in groupby(labels))
        assert metric(strip=False).decode(one_hot(labels)) == expected

    def test_the_blank_may_be_the_last_class(self) -> None:
        assert metric(blank=3).decode(one_hot([3, 0, 3, 1, 2, 0])) == "ab a"

    def test_characters_as_a_list_and_with_a_final_line_feed(self) -> None:
        for characters in (["a", "b"], "a\nb\n"):
            assert EditSimilarityOptions(characters=characters).alphabet == ["", "a", "b", " "]
        assert EditSimilarityOptions(characters="a\nb", space=False).alphabet == ["", "a", "b"]

    @given(st.lists(st.tuples(st.text("ab", max_size=6), st.text("ab", max_size=6)), min_size=2, max_size=8))
    def test_similarity_is_one_minus_the_normalised_distance(self, pairs: list[tuple[str, str]]) -> None:
        def steps(text: str) -> list[int]:
            labels = [label for character in text for label in (1 + "ab".index(character), 0)]
            return labels + [0] * (12 - len(labels))

        score = metric().score([np.stack([one_hot(steps(read)) for read, _ in pairs])], [text for _, text in pairs])
        expected = [1 - levenshtein(a, b) / max(len(a), len(b)) if a or b else 1.0 for a, b in pairs]
        np.testing.assert_allclose(score.per_sample, expected)
        assert score.value == pytest.approx(np.mean(expected))
        assert score.stderr == pytest.approx(np.std(expected, ddof=1) / np.sqrt(len(pairs)))

    def test_nothing_read_where_nothing_is_written_is_right(self) -> None:
        score = metric().score([np.stack([one_hot([0, 0]), one_hot([1, 0]), one_hot([1, 0])])], ["", "", "a"])
        assert score.per_sample.tolist() == [1, 0, 1]
        assert score.informative is not None
        assert score.informative.tolist() == [False, False, True]

    def test_nan_scores_nothing(self) -> None:
        outputs = one_hot([1, 0])[np.newaxis].copy()
        outputs[0, 1, 1] = np.nan
        assert metric().score([outputs], ["a"]).value == 0

    @pytest.mark.parametrize(
        ("shape", "texts"), [((1, 2, 5), ["a"]), ((1, 2, 4), ["a", "b"]), ((1, 8), ["a"]), ((0, 2, 4), [])]
    )
    def test_outputs_that_do_not_fit(self, shape: tuple[int, ...], texts: list[str]) -> None:
        with pytest.raises(InferenceError, match="edit_similarity"):
            metric().score([np.zeros(shape, np.float32)], texts)

    def test_targets_that_are_no_texts(self) -> None:
        with pytest.raises(InferenceError, match="needs a text for every image"):
            metric().score([np.zeros((1, 2, 4), np.float32)], np.array([1]))

    def test_characters_must_be_given(self) -> None:
        with pytest.raises(ConfigError, match="characters"):
            open_metric("edit_similarity")

    def test_only_blank_spaces_are_stripped(self) -> None:
        spaced = EditSimilarity(EditSimilarityOptions(characters=("\t", "a")))
        assert spaced.decode(one_hot([3, 1, 2, 3])) == "\ta"

    def test_of_equal_scores_the_first_class_is_read(self) -> None:
        assert metric().decode(np.array([[0, 0.4, 0.4, 0.2]])) == "a"

    def test_one_line_has_no_spread(self) -> None:
        score = metric().score([one_hot([1, 2])[np.newaxis]], ["ac"])
        assert (score.value, score.stderr) == (0.5, 0.0)

    def test_the_message_gives_the_shapes(self) -> None:
        with pytest.raises(InferenceError, match=r"shapes \[\(1, 2, 5\)\], the characters.* need \[\(1, steps, 4\)\]$"):
            metric().score([np.zeros((1, 2, 5))], ["a"])


def test_word_accuracy_counts_lines_without_a_fault() -> None:
    words = open_metric("word_accuracy", {"characters": "a\nb"})
    outputs = [np.stack([one_hot([1, 0, 2]), one_hot([1, 0, 1])])]
    score = words.score(outputs, ["ab", "ab"])
    assert (score.value, score.per_sample.tolist()) == (0.5, [1.0, 0.0])
    assert words.labels(outputs) == ["ab", "aa"]
