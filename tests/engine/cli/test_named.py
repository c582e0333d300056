"""Options of a name and a value, as one word or two."""

from __future__ import annotations

import pytest

from engine.cli.named import join_pairs, read_fixed, read_shape, read_shapes
from engine.errors import ConfigError


def test_pairs_of_words_become_one_argument() -> None:
    given = ["checker", "--input-shape", "a", "1x3", "--input-shape", "b", "2x4", "--march", "bayes"]
    expected = ["checker", "--input-shape", "a 1x3", "--input-shape", "b 2x4", "--march", "bayes"]
    assert join_pairs(given) == expected
    assert join_pairs(["checker", "--input-shape"]) == ["checker", "--input-shape"]


def test_one_word_stays() -> None:
    given = ["check", "--input-shape", "a=1x3", "--fix", "sr=16000", "--fix", "b 1", "--march", "bayes"]
    assert join_pairs(given) == given
    assert join_pairs(["--fix", "sr", "16000", "x"]) == ["--fix", "sr 16000", "x"]


def test_shapes_by_name() -> None:
    assert read_shapes(None) == {}
    assert read_shapes(["a=1x3x4", "b=c=7", "d=2X5"]) == {"a": (1, 3, 4), "b=c": (7,), "d": (2, 5)}
    assert read_shape("data 1x3x224X224") == ("data", (1, 3, 224, 224))


@pytest.mark.parametrize(
    "entry",
    ["1x3", "=1x3", "a=", "a=1x0", "a=1x-3", "a=1,3", "a=1xn", "data", "data 1x0x3", "data 1x-3", "data 1x²", " 1x3"],
)
def test_shapes_of_another_form(entry: str) -> None:
    with pytest.raises(ConfigError, match=f"--input-shape {entry}: give NAME=SHAPE"):
        read_shape(entry)


def test_values_by_name() -> None:
    found = read_fixed(["sr=16000", "training=false", "scale=0.5,1"])
    assert found == {"sr": (16000.0,), "training": (0.0,), "scale": (0.5, 1.0)}
    assert read_fixed(["sr 8000"]) == {"sr": (8000.0,)}
    assert read_fixed(None) == {}


@pytest.mark.parametrize("entry", ["sr", "=1", "sr=", "sr=fast", "sr=nan"])
def test_values_of_another_form(entry: str) -> None:
    with pytest.raises(ConfigError, match=f"--fix {entry}"):
        read_fixed([entry])
