"""The engine's stages on a bundled network, kept by content."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.calibrate import ArrayData, Statistics
from engine.calibrate.methods.sensitivity import sensitivities
from engine.chips import March
from engine.convert.items import FOLDED, SOURCE
from engine.convert.runner import Given
from engine.ir import to_bytes
from engine.terms import Compatibility
from harness.backends import bundled
from harness.backends.bundled import Network
from harness.backends.items import CARD, FLOAT_JUDGED, MODEL_DIGESTS, SCORED
from harness.suites.settings import Int16Kind, Int16Policy, Settings
from harness.trials.tasks import Bench, StageClock
from harness.trials.trial import TrialSpec, card_key
from harness.zoo.cards import load_card
from tests.harness import fakes

SAMPLES = 61
SETTINGS = [Settings(max_percentile=0.9), fakes.KL, Settings(per_channel=True)]


class PowerError(Exception):
    """The power failed."""


@dataclass
class Reads:
    """Groups of samples that were read, by their first sample, and after how many the power fails."""

    limit: int | None
    starts: list[int] = field(default_factory=list)


def failing(reads: Reads) -> type[ArrayData]:
    """Data that ``reads`` counts and ends."""

    class Failing(ArrayData):
        def read(self, start: int, stop: int) -> dict[str, np.ndarray[Any, Any]]:
            if len(reads.starts) == reads.limit:
                raise PowerError
            reads.starts.append(start)
            return super().read(start, stop)

    return Failing


def network(folder: Path, model: str = "mnist_resnet8", calibration_samples: int = SAMPLES) -> Network:
    card = load_card(model)  # mnist_resnet8 calibrates in groups; mnist_lenet does not
    spec = TrialSpec(
        model=card.name,
        march=March("bayes-e"),
        settings=SETTINGS[0],
        calibration_samples=calibration_samples,
        evaluation_samples=1,
        card=card_key(card),
        file=card.file_digest(),
        data=card.open_dataset().digest,
        engine="0",
    )
    bench = Bench(folder)
    return Network(spec, bench, StageClock(bench.journal(spec.key)))


@pytest.mark.parametrize("cut_after", [1, 4, 7])
def test_a_sweep_goes_on_within_a_calibration_pass(
    cut_after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = network(tmp_path / "undisturbed")
    key = undisturbed.collect_statistics(SETTINGS)
    reads = Reads(limit=cut_after)
    monkeypatch.setattr("engine.calibrate.statistics.progress.SECONDS", 0.0)
    monkeypatch.setattr("harness.backends.stages.images.ArrayData", failing(reads))
    cut = network(tmp_path / "cut")
    with pytest.raises(PowerError):
        cut.collect_statistics(SETTINGS)
    reads.limit = None
    assert cut.collect_statistics(SETTINGS[::-1]) == key  # trials in another order make no other pass
    once = list(range(0, SAMPLES, 8))
    assert reads.starts in (once, 2 * once)  # every group once in each pass; a second one is that of whole ranges
    path, wanted = (each.bench.cache.path("statistics", key, ".npz") for each in (cut, undisturbed))
    assert Statistics.load(path).digest() == Statistics.load(wanted).digest()
    assert not list(path.parent.glob("*.partial.npz"))


def test_nodes_are_ranked_once_for_settings_with_the_same_thresholds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other numbers of nodes, and an option that changes nothing here; another percentile is ranked anew."""
    ranked: list[int] = []

    def counted(*arguments: Any, **options: Any) -> dict[str, float]:
        ranked.append(1)
        return sensitivities(*arguments, **options)

    monkeypatch.setattr("harness.backends.stages.rank.sensitivities", counted)
    lenet = network(tmp_path, "mnist_lenet", calibration_samples=2)
    found = [
        lenet._requested(settings.model_copy(update={"int16": Int16Policy(kind=Int16Kind.TOP_K, count=count)}))
        for settings in (Settings(), Settings(compatibility=Compatibility.CLEAN), Settings(max_percentile=0.9))
        for count in (1, 2)
    ]
    assert len(ranked) == 2
    assert found[0] == found[1][:1]
    assert found[2:4] == found[:2]
    assert lenet.clock.seconds.keys() >= {"sensitivity"}


TOP_2 = Settings(int16=Int16Policy(kind=Int16Kind.TOP_K, count=2))
CHANGING = [
    Settings(int16=Int16Policy(kind=Int16Kind.ALL), asymmetric=True),
    TOP_2.model_copy(update={"cross_layer_equalization": True}),
    Settings(mean_bias_correction=True, integer_bias_correction=True),
    Settings(),
]
"""Settings whose stages rewrite the graph, or its weights, most."""


def test_trials_do_not_change_what_stays_in_the_process(tmp_path: Path) -> None:
    """Beside what earlier trials left, and in a process of its own each: the same models and figures."""

    def computed(settings: Settings, folder: Path) -> tuple[Any, ...]:
        found = network(folder, "mnist_lenet", calibration_samples=2)
        spec = found.spec.model_copy(update={"settings": settings, "evaluation_samples": 2})
        run, nodes = Network(spec, found.bench, found.clock).trial("")
        scored = run[SCORED]
        return run[MODEL_DIGESTS], scored.accuracy, scored.fidelity, nodes, run[FOLDED], run[SOURCE]

    alone = []
    for index, settings in enumerate(CHANGING):
        bundled._staying.cache_clear()
        alone.append(computed(settings, tmp_path / str(index)))
    bundled._staying.cache_clear()
    beside = [computed(settings, tmp_path / "together") for settings in CHANGING]
    assert [each[:4] for each in beside] == [each[:4] for each in alone]
    assert len({id(each[4]) for each in beside}) == 1, "all trials read the same optimised model"
    assert {to_bytes(each[4]) for each in beside} == {to_bytes(alone[-1][4])}
    assert {to_bytes(each[5]) for each in beside} == {to_bytes(alone[-1][5])}


def test_what_stays_makes_room_for_that_of_another_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The float model is judged again beside another card; what it gave last is gone before that is computed."""
    given = network(tmp_path, "mnist_lenet", calibration_samples=2)
    run = given.run(Settings())
    first = run[FLOAT_JUDGED]
    assert given.run(TOP_2)[FLOAT_JUDGED] is first
    held = bundled._staying("judge", given.bench.cache.root)
    seen: list[int] = []
    fetched = bundled._CacheHooks._fetched

    def watched(*words: Any) -> Any:
        seen.append(len(held))
        return fetched(*words)

    monkeypatch.setattr(bundled._CacheHooks, "_fetched", watched)
    other = run.replacing({CARD: Given(given.card, "another card")})[FLOAT_JUDGED]
    assert other is not first
    assert seen[0] == 0
    assert [values[FLOAT_JUDGED] for values in held.values()] == [other]
