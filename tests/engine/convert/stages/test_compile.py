"""The stages behind the integer model: several samples at once, the container, nodes cut from its ends."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from engine.config import Config
from engine.convert.items import DEPLOYED, QUANTIZED
from engine.convert.stages import compile as stage
from engine.convert.stages.compile import COMPILE, REBATCH, compile_options
from engine.errors import UnsupportedError
from tests.engine.convert.test_refusals import shuffled
from tests.engine.convert.work import configured, ran


def test_all_parameters_of_the_compiler_are_passed_on() -> None:
    given = {
        "optimize_level": "O3",
        "compile_mode": "bandwidth",
        "core_num": 2,
        "debug": True,
        "input_source": {"x": "ddr"},
        "max_time_per_fc": 2000,
        "jobs": 4,
    }
    config = configured(model__march="bernoulli2", **{f"compiler__{key}": value for key, value in given.items()})
    assert {key: getattr(compile_options(config), key) for key in given} == given


@pytest.mark.parametrize(("batch", "asked"), [(1, False), (2, True)])
def test_only_several_samples_need_another_model(batch: int, asked: bool) -> None:
    assert REBATCH.is_asked(configured(input__input_batch=batch)) is asked
    assert REBATCH.passes == {DEPLOYED: QUANTIZED}


def test_what_is_deployed_is_quantised_behind_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.floats.rebatch.rebatch", lambda model, count: f"{count} x {model}")
    monkeypatch.setattr(stage, "quantize", lambda model, march: f"integers of {model} on {march}")
    found = ran(REBATCH, configured(input__input_batch=3), calibrated="c", quantized="q")
    assert found == {"deployed": "integers of 3 x c on bayes-e"}


def test_what_the_originals_compiler_refuses_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="must be a multiple of 4"):
        ran(COMPILE, configured(model__march="bernoulli2"), deployed=shuffled(3))


@pytest.fixture
def removals(monkeypatch: pytest.MonkeyPatch) -> list[list[object]]:
    """The steps that nodes are removed by; compiled is a text, and so is what is left of it."""
    seen: list[list[object]] = []

    def remove_nodes(compiled: str, steps: list[object]) -> SimpleNamespace:
        seen.append(steps)
        removed = [SimpleNamespace(name="n", type="Quantize", scales=(0.5,))]
        return SimpleNamespace(model=f"less {compiled}", removed=removed, skipped=["m"], absent=["Cast"])

    monkeypatch.setattr(stage, "remove_nodes", remove_nodes)
    monkeypatch.setattr(stage, "removable", lambda model: ("mm",))
    monkeypatch.setattr(stage, "refuse_uncompilable", lambda model, march: None)
    monkeypatch.setattr(stage, "compile_model", lambda model, march, options, name: f"{name} of {model}")
    return seen


def compiled(config: Config) -> str:
    return ran(COMPILE, config, deployed="d")["compiled"]


def test_nodes_are_removed_by_name_first_then_by_type(
    removals: list[list[object]], caplog: pytest.LogCaptureFixture
) -> None:
    config = configured(model__remove_node_name="b; a", model__remove_node_type="Quantize; Cast")
    with caplog.at_level("INFO", "engine.convert"):
        assert compiled(config) == "less m of d"
    ((first, second, last),) = removals
    assert (first, second) == (stage.Named("b"), stage.Named("a"))
    assert last == stage.OfTypes(frozenset({"Quantize", "Cast"}))
    assert "Node n (Quantize) is removed from the .bin; scale: [0.5]" in caplog.text
    assert "Node m is not adjacent to input or output. It can not be removed! Skipped!; did you" in caplog.text
    assert "remove_node_type Cast: no such node is adjacent" in caplog.text


def test_without_a_request_nothing_is_removed(removals: list[list[object]]) -> None:
    assert (compiled(configured()), removals) == ("m of d", [])
