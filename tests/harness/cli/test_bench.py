"""``ptqlab bench``: batch sizes, which models."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from engine.errors import ConfigError, MissingError, ModelError
from harness.cli.bench import _cards, batch_sizes
from harness.zoo import cards


@pytest.mark.parametrize(("text", "batches"), [("1", (1,)), ("1,8", (1, 8)), (" 2 , 3", (2, 3))])
def test_batch_sizes(text: str, batches: tuple[int, ...]) -> None:
    assert batch_sizes(text) == batches


@pytest.mark.parametrize("text", ["", "0", "1,", "-1", "1.5", "1,x", "²"])
def test_no_batch_sizes(text: str) -> None:
    with pytest.raises(ConfigError, match="give positive integers joined by commas, such as 1,8"):
        batch_sizes(text)


def test_an_unknown_name_is_told_all_that_are_known() -> None:
    with pytest.raises(ConfigError, match=r"unknown model 'nosuch'.* Allowed: .*mnist_lenet"):
        _cards(["nosuch"])


@pytest.mark.parametrize("kind", [ModelError, MissingError])
def test_models_that_are_not_installed_are_left_out_and_said(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent() -> None:
        raise kind("net: pip install it")

    here, there = SimpleNamespace(model_path=lambda: "file"), SimpleNamespace(model_path=absent)
    monkeypatch.setattr(cards, "list_cards", lambda: [there, here])
    assert _cards([]) == [here]
    assert capsys.readouterr().err == "left out: net: pip install it\n"
    assert [card.name for card in _cards(["mnist_lenet"])] == ["mnist_lenet"]
