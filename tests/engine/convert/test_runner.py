"""The stage runner: what stages may read and give, what is computed, what keys follow from."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.config import Config, parse_config
from engine.convert.pipeline import CONVERSION, WITHOUT_DATA
from engine.convert.runner import NO_HOOKS, Given, Hooks, Item, Run, Stage, Values, Work, asked_of, content_of, only
from tests.configurations import FEATUREMAP

A, B, C, D = (Item[int](name) for name in "ABCD")


def config(**groups: dict[str, Any]) -> Config:
    return parse_config({name: {**group, **groups.get(name, {})} for name, group in FEATUREMAP.items()})


def adds(name: str, reads: tuple[Item[int], ...], gives: Item[int], **more: Any) -> Stage:
    """A stage that gives one more than the sum of what it reads."""

    def run(work: Work) -> None:
        work.give(gives, 1 + sum(work[item] for item in reads))

    return Stage(name=name, run=run, reads=reads, gives=(gives,), **more)


STAGES = (adds("first", (A,), B), adds("second", (B,), C), adds("third", (A, C), D))


@dataclass
class Log(Hooks):
    """Remembers; ``cached``: values that need not be computed."""

    ran: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    cached: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def running(self, stage: Stage) -> Iterator[None]:
        self.ran.append(stage.name)
        yield

    def made(self, item: Item[Any], value: Any) -> None:
        self.seen.append(f"{item.name}={value}")

    def fetched(self, stage: Stage, key: Callable[[Item[Any]], str], compute: Callable[[], Values]) -> Values:
        (item,) = stage.gives
        return {item: self.cached[item.name]} if item.name in self.cached else compute()


def run(given: int = 0, hooks: Hooks = NO_HOOKS, stages: tuple[Stage, ...] = STAGES, **groups: Any) -> Run:
    return Run(stages, config(**groups), {A: Given(given, str(given))}, hooks, lambda stage: stage.name)


def test_items_are_computed_by_need_and_once() -> None:
    log = Log()
    found = run(hooks=log)
    assert found[C] == 2
    assert found[D] == 3
    assert log.ran == ["first", "second", "third"]
    assert log.seen == ["B=1", "C=2", "D=3"]


def test_what_is_given_takes_the_place_of_its_stage() -> None:
    log = Log()
    found = Run(STAGES, config(), {A: Given(0), B: Given(10)}, log)
    assert found[D] == 12
    assert log.ran == ["second", "third"]
    with pytest.raises(LookupError, match="no stage gives A"):
        _ = Run(STAGES, config())[D]


def test_a_cached_item_needs_no_stage_before_it() -> None:
    log = Log(cached={"C": 7})
    assert run(hooks=log)[D] == 8
    assert log.ran == ["third"]


def test_replacing_keeps_what_does_not_depend_on_it() -> None:
    log = Log()
    found = run(hooks=log)
    _ = found[D]
    other = found.replacing({C: Given(5)})
    assert (other[B], other[C], other[D], found[D]) == (1, 5, 6, 3)
    assert log.ran == ["first", "second", "third", "third"]


def test_what_a_stage_does_not_declare_it_does_not_get() -> None:
    def greedy(work: Work) -> None:
        work.give(C, work[A])

    def generous(work: Work) -> None:
        work.give(B, 1)

    def idle(work: Work) -> None:
        del work

    for function, message in ((greedy, "reads A"), (generous, "gives B"), (idle, "does not give C")):
        stage = Stage(name="it", run=function, reads=(B,), gives=(C,))
        with pytest.raises(LookupError, match=f"stage it {message}"):
            _ = Run([stage], config(), {A: Given(0), B: Given(0)})[C]
    with pytest.raises(ValueError, match="given by two stages"):
        Run([STAGES[0], STAGES[0]], config())


def test_parameters_that_are_not_declared_have_their_defaults() -> None:
    full = config(
        model_parameters={"march": "bayes", "layer_out_dump": True},
        calibration_parameters={"optimization": "asymmetric;set_Conv_input_int16;set_model_output_int8"},
    )
    found = only(full, ["model_parameters.march", "calibration_parameters.optimization:set_*"])
    assert found.march == full.march
    assert not found.model_parameters.layer_out_dump
    assert found.calibration_parameters.optimization == ("set_Conv_input_int16", "set_model_output_int8")
    assert not hasattr(found.model_parameters, "output_model_file_prefix")  # it has no default
    assert asked_of(full, ["model_parameters.march", "custom_op"]) == {
        "model_parameters": {"march": "bayes"},
        "custom_op": None,
    }


def test_the_key_covers_stage_parameters_and_all_that_it_reads() -> None:
    stages = (STAGES[0], adds("second", (B,), C, parameters=("model_parameters.march",)), STAGES[2])
    key = run(stages=stages).key(D)
    assert run(stages=stages).key(D) == key
    assert run(1, stages=stages).key(D) != key
    assert run(stages=stages, model_parameters={"march": "bayes"}).key(D) != key
    assert run(stages=stages, model_parameters={"march": "bayes"}).key(B) == run(stages=stages).key(B)
    assert run(stages=stages, calibration_parameters={"per_channel": True}).key(D) == key
    assert Run(stages, config(), {A: Given(0, "0")}, fingerprint=lambda stage: f"{stage.name} edited").key(D) != key
    with pytest.raises(LookupError, match="A was given without a key"):
        Run(stages, config(), {A: Given(0)}).key(D)


def test_a_stage_that_is_not_asked_for_passes_on_what_it_reads() -> None:
    option = "calibration_parameters.optimization:asymmetric"
    optional = adds(
        "second",
        (B,),
        C,
        parameters=(option,),
        passes={C: B},
        asked=lambda given: "asymmetric" in given.calibration_parameters.optimization,
    )
    stages, log = (STAGES[0], optional, STAGES[2]), Log()
    without = run(hooks=log, stages=stages)
    assert without[D] == 2
    assert log.ran == ["first", "third"]
    assert without.key(C) == without.key(B)
    assert [stage.name for stage in without.stages_of(D)] == ["first", "third"]
    asked = run(stages=stages, calibration_parameters={"optimization": "asymmetric"})
    assert asked[D] == 3
    assert [stage.name for stage in asked.stages_of(D)] == ["first", "second", "third"]


@pytest.mark.parametrize("stages", [CONVERSION, WITHOUT_DATA])
def test_stages_have_names_of_their_own_and_stand_behind_what_they_read(stages: tuple[Stage, ...]) -> None:
    assert len({stage.name for stage in stages}) == len(stages)
    given = {item for stage in stages for item in stage.gives}
    before: set[Item[Any]] = set()
    for stage in stages:
        assert not {item for item in stage.reads if item in given} - before, stage.name
        before.update(stage.gives)
        assert only(config(), stage.parameters)


def test_a_file_is_digested_again_only_when_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    file.write_bytes(b"one")
    first, again = content_of(file), content_of(file)
    os.utime(file, ns=(1, 1))
    assert first == again == content_of(file) == hashlib.sha256(b"one").hexdigest()
    file.write_bytes(b"two")
    os.utime(file, ns=(2, 2))
    assert content_of(file) == hashlib.sha256(b"two").hexdigest()
    assert content_of(tmp_path) == {"net.onnx": content_of(file)}
    assert content_of(tmp_path / "none") is None
