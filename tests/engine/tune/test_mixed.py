"""The search for int16 nodes under a latency budget, and the scores that it goes by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.calibrate import ArrayData
from engine.calibrate.data.samples import SelectedData, halves
from engine.config import Config, parse_config
from engine.convert import conversion
from engine.convert.items import DATA, EQUALIZED, OPTIMIZED, REQUESTS
from engine.convert.runner import Given
from engine.errors import ConfigError
from engine.evaluate.similarity import Similarity
from engine.place import NodeTypes, PlacementOptions, place
from engine.tune import Evaluator
from engine.tune.mixed import LatencyBudget, MixedPrecisionSearch, TuningResult
from tests.configurations import FEATUREMAP
from tests.engine.calibrate.models import graph, residual

NOTHING_ASKED = PlacementOptions()

DATA_OF_X = ArrayData({"x": np.random.default_rng(3).standard_normal((10, 3, 6, 5)).astype(np.float32)})


def config(march: str) -> Config:
    content = {name: dict(group) for name, group in FEATUREMAP.items()}
    content["model_parameters"]["march"] = march
    return parse_config(content)


def search(
    model: ir.Model | None = None,
    march: str = "bayes-e",
    report: Callable[[str], None] = lambda text: None,
    placement: PlacementOptions = NOTHING_ASKED,
    **options: object,
) -> TuningResult:
    model = model or residual()
    given = {EQUALIZED: model, OPTIMIZED: model, REQUESTS: placement, DATA: DATA_OF_X}
    run = conversion(config(march), {item: Given(value) for item, value in given.items()})
    subject = MixedPrecisionSearch(run, Evaluator(model, DATA_OF_X))
    return subject.run(LatencyBudget(**options), report)  # type: ignore[arg-type]  # its fields


def test_the_float_model_scores_one() -> None:
    score = Evaluator(residual(), DATA_OF_X).floating(residual())
    assert (score.cosine, score.worst_cosine, score.agreement) == (pytest.approx(1), pytest.approx(1), 1.0)


def test_the_choice_is_no_worse_than_int8_and_in_the_budget() -> None:
    found = search(latency_us=1e9)
    assert found.chosen.score.cosine >= found.int8.score.cosine
    assert found.chosen == found.ceiling
    assert set(found.fragment()["model_parameters"]["node_info"]) == set(found.chosen.int16)


def test_what_was_chosen_is_scored_where_nothing_was_chosen() -> None:
    model = residual()
    given = {EQUALIZED: model, OPTIMIZED: model, REQUESTS: NOTHING_ASKED, DATA: DATA_OF_X}
    run = conversion(config("bayes-e"), {item: Given(value) for item, value in given.items()})
    parts = [Evaluator(model, SelectedData(DATA_OF_X, part), len(part)) for part in halves(len(DATA_OF_X), 4)]
    subject = MixedPrecisionSearch(run, *parts)
    found = subject.run(LatencyBudget(latency_us=1e9))
    for mix in (found.int8, found.ceiling, found.chosen):
        assert mix.test == parts[1].integer(subject.model(mix))
        assert mix.score == parts[0].integer(subject.model(mix))


def test_where_asked_the_task_decides_before_the_similarity() -> None:
    model = residual()
    given = {EQUALIZED: model, OPTIMIZED: model, REQUESTS: NOTHING_ASKED, DATA: DATA_OF_X}
    run = conversion(config("bayes-e"), {item: Given(value) for item, value in given.items()})
    seen: list[float] = []

    def worse_and_worse(quantized: ir.Model) -> float:
        assert any(node.domain == "horizon" for node in quantized.graph)
        seen.append(1.0 - 0.1 * len(seen))
        return seen[-1]

    found = MixedPrecisionSearch(run, Evaluator(model, DATA_OF_X), task=worse_and_worse).run(LatencyBudget(1e9))
    assert found.chosen == found.int8  # although int16 is more similar
    assert found.int8.task == 1.0
    assert found.ceiling.score.cosine > found.int8.score.cosine
    equal = MixedPrecisionSearch(run, Evaluator(model, DATA_OF_X), task=lambda quantized: 0.5).run(LatencyBudget(1e9))
    assert equal.chosen == equal.ceiling  # of equal metrics the more similar one


def test_nothing_fits_a_budget_of_nothing() -> None:
    found = search(latency_us=0.0)
    assert found.chosen == found.int8
    assert found.fragment() == {}
    assert {name for name, _ in found.ranking} >= {"conv0", "conv1"}


def test_trials_and_minutes_end_the_search() -> None:
    assert search(latency_us=0.0, trials=3).trials == 3
    assert search(latency_us=0.0, minutes=0.0).trials == 2


def test_the_fragment_asks_for_what_was_chosen() -> None:
    found = search(latency_us=1e9)
    types = found.fragment()["model_parameters"]["node_info"]
    assert set(types) == set(found.chosen.int16)
    assert types["conv0"] == {"ON": "BPU", "InputType": "int16", "OutputType": "int16"}


def test_a_fragment_keeps_what_the_configuration_asks_for() -> None:
    found = search(latency_us=1e9)
    merged = found.fragment({"conv0": {"InputType0": "int8"}, "other": {"ON": "CPU"}})["model_parameters"]["node_info"]
    assert merged["other"] == {"ON": "CPU"}
    assert merged["conv0"]["InputType0"] == "int8"
    assert set(merged) == {"other", *found.chosen.int16}


def network() -> ir.Model:
    """Convolutions that can have int16 around a transposed one, whose int8 result is requantised; an int32 tail."""
    rng = np.random.default_rng(0)
    shapes = {"w0": (4, 3, 3, 3), "w1": (4, 4, 1, 1), "t": (4, 4, 2, 2), "w2": (4, 4, 3, 3)}
    weights = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c"], name="first"),
        helper.make_node("Conv", ["c", "w1"], ["d"], name="second"),
        helper.make_node("ConvTranspose", ["d", "t"], ["u"], name="up", strides=[2, 2]),
        helper.make_node("Conv", ["u", "w2"], ["y"], name="last"),
    ]
    return graph(nodes, {"x": (1, 3, 6, 5)}, ["y"], weights)


def test_only_what_is_granted_is_asked_for() -> None:
    ceiling = search(network(), latency_us=1e9).ceiling
    both, one = NodeTypes(input_type="int16", output_type="int16"), NodeTypes(input_type="int16")
    assert ceiling.int16 == {"first": both, "second": one, "last": one}
    options = PlacementOptions(node_info=ceiling.int16)
    assert place(network(), "bayes-e", options).refusals == ()


def test_what_the_configuration_has_int16_already_is_left_to_it() -> None:
    asked = PlacementOptions(node_info={"first": NodeTypes(input_type="int16", output_type="int8")})
    assert set(search(network(), placement=asked, latency_us=1e9).ceiling.int16) == {"second", "last"}


@pytest.mark.parametrize("march", ["bayes-e", "bernoulli2"])
def test_the_cpu_costs_time_too(march: str) -> None:
    found = search(network(), march, latency_us=1e9, cpu=True)
    assert set(found.chosen.cpu) & {"up", "last"}
    assert found.chosen.cpu_us > found.int8.cpu_us
    budget = found.chosen.latency_us + 0.5 * (found.chosen.cpu_us - found.int8.cpu_us)
    cheaper = search(network(), march, latency_us=budget, cpu=True)
    assert cheaper.chosen.latency_us + cheaper.chosen.cpu_us - cheaper.int8.cpu_us <= budget


def test_a_march_without_int16_has_only_the_cpu() -> None:
    with pytest.raises(ConfigError, match="bernoulli2 has no int16"):
        search(network(), "bernoulli2")


def test_int16_that_makes_nothing_better_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([0.9, 0.8, *[0.7] * 9])
    monkeypatch.setattr(Evaluator, "integer", lambda self, quantized: Similarity(next(scores), 0.5, None))
    found = search(network(), latency_us=1e9)
    assert found.chosen == found.int8
    assert found.trials > 2


def test_an_interrupt_ends_the_search_with_what_was_found() -> None:
    told: list[str] = []

    def report(text: str) -> None:
        told.append(text)
        if len(told) == 2:
            raise KeyboardInterrupt

    found = search(report=report, latency_us=0.0)
    assert found.trials == 3
    assert told[-1] == "interrupted; the result so far follows"


def test_a_choice_whose_outputs_are_broken_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert search(latency_us=1e9).broken == ()
    monkeypatch.setattr("engine.floats.health.FLOOR_COSINE", 1.1)
    (found,) = search(latency_us=1e9).broken
    assert found == "Output y of the integer model is broken: its cosine to the float model is 1.0000 (floor 1.1)."
