"""``ptqlab bench``: batch sizes, which models."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from engine.errors import ConfigError, MissingError, ModelError, UnsupportedError
from engine.simulate.bench import BenchOptions
from harness.bench import measure, peers, suite
from harness.cli.bench import _batches, _cards, _suite
from harness.zoo import cards


@pytest.mark.parametrize(("text", "batches"), [("1", (1,)), ("1,8", (1, 8)), (" 2 , 3", (2, 3))])
def test_batch_sizes(text: str, batches: tuple[int, ...]) -> None:
    assert _batches(text) == batches


@pytest.mark.parametrize("text", ["", "0", "1,", "-1", "1.5", "1,x", "²"])
def test_no_batch_sizes(text: str) -> None:
    with pytest.raises(ConfigError, match="give positive integers joined by commas, such as 1,8"):
        _batches(text)


def test_an_unknown_name_is_told_all_that_are_known() -> None:
    with pytest.raises(ConfigError, match=r"unknown model 'nosuch'.* Allowed: .*bundled.*mnist_lenet.*vit_tiny.*zoo"):
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


def test_networks_that_a_march_cannot_run_are_left_out_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(network: suite.SuiteNetwork, *_: object) -> measure.BenchReport:
        if network.name == "unet":
            raise UnsupportedError("not here")
        return measure.BenchReport(network.name, (), ())

    monkeypatch.setattr(measure, "bench_network", refuse)
    monkeypatch.setattr(peers, "has_openvino", lambda: False)
    reports = _suite(["unet", "resnet_18"], "bayes", BenchOptions(), measure.Extent())
    assert [report.model for report in reports] == ["resnet_18"]
    assert capsys.readouterr().err == (
        "left out: int8 OpenVINO: pip install 'openvino>=2025.0'\nleft out: unet: not here\n"
    )
    assert _suite(["mnist_lenet"], "bayes", BenchOptions(), measure.Extent()) == []
    assert capsys.readouterr().err == ""
