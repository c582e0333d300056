"""Which cards a name stands for, and what they must say."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ConfigError
from harness.cards.updates import Cards, Update, cards_of
from tests.harness.files.test_user_code import own, write

__all__ = ["own"]


@pytest.fixture
def lab(own: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Cards whose folders no variable names."""
    write(own, {"adapter": "own_pictures:Noise"}, {"name": "own_pictures:closeness", "labels": "float"})
    (own / "datasets").rename(own / "suites/datasets")
    for name in ("PTQLAB_SUITES", "PTQLAB_DATASETS"):
        monkeypatch.setenv(name, "")
    return own


@pytest.mark.parametrize(
    ("what", "cards"),
    [
        ("suites", Cards(("mine",), ("tiny",))),
        ("suites/mine.yaml", Cards(("mine",), ("tiny",))),
        ("suites/zoo", Cards((), ("tiny",))),
        ("suites/zoo/tiny.yaml", Cards((), ("tiny",))),
        ("suites/datasets", Cards(("mine",), (), ("tiny",))),
        ("suites/datasets/mine.yaml", Cards(("mine",), (), ("tiny",))),
    ],
)
def test_a_suite_a_folder_and_a_card(lab: Path, what: str, cards: Cards) -> None:
    assert cards_of(str(lab / what), lab / "work") == cards


def test_a_name(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="unknown suite, folder or card 'tiny'"):
        cards_of("tiny", lab / "work")
    monkeypatch.setenv("PTQLAB_SUITES", str(lab / "suites"))
    assert cards_of("tiny", lab / "work") == Cards((), ("tiny",))
    monkeypatch.setenv("PTQLAB_DATASETS", str(lab / "suites/datasets"))
    assert cards_of("mine", lab / "work") == Cards(("mine",), (), ("tiny",))
    assert set(cards_of("smoke", lab / "work").models) == {"mnist_lenet", "mnist_resnet8"}


def test_what_holds_no_card_is_refused(lab: Path) -> None:
    with pytest.raises(ConfigError, match="holds no cards; expected"):
        cards_of(str(lab), lab / "work")
    stray = lab / "stray.yaml"
    stray.write_text((lab / "suites/zoo/tiny.yaml").read_text())
    with pytest.raises(ConfigError, match=f"move it to {lab / 'zoo'}"):
        cards_of(str(stray), lab / "work")


def test_differences_in_words() -> None:
    before = {
        "digest": "a" * 64,
        "float_score": {"value": 0.98, "stderr": 0.008},
        "splits": {"evaluation": 3},
        "determinants": {"files": "1", "seed": "0"},
    }
    now = {
        "digest": "b" * 64,
        "float_score": {"value": 0.8, "stderr": 0.02},
        "splits": {"evaluation": 3},
        "determinants": {"files": "2", "seed": "0"},
        "image": {"height": 8},
    }
    assert list(Update(Path("x"), before, now).lines()) == [
        f"digest: {'a' * 12}… → {'b' * 12}…",
        "float_score: 0.9800 ± 0.0080 → 0.8000 ± 0.0200",
        "determinants.files: 1 → 2",
        "image: none → {height: 8}",
    ]
