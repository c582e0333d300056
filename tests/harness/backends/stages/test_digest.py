"""Digests of what stages give: equal where it is equal, and only there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.chips import March
from harness.backends.bundled import Network
from harness.backends.items import DATA_DIGESTS, FLOAT_DIGESTS, MODEL_DIGESTS
from harness.backends.stages.digest import _of_targets
from harness.datasets import SceneTarget
from harness.suites.settings import Settings
from harness.trials.artefacts import DIGITS, Artefact
from harness.trials.tasks import Bench, StageClock
from harness.trials.trial import TrialSpec, card_key
from harness.zoo.cards import load_card


def network(folder: Path, **changes: Any) -> Network:
    card = load_card("mnist_lenet")
    spec = TrialSpec(
        model=card.name,
        march=March("bayes-e"),
        settings=Settings(),
        card=card_key(card),
        file=card.digest,
        data=card.open_dataset().digest,
        engine="0",
        **{"calibration_samples": 2, "evaluation_samples": 3, **changes},
    )
    return Network(spec, Bench(folder), StageClock(folder / "journal"))


def test_only_what_differs_has_another_digest(tmp_path: Path) -> None:
    runs = [network(tmp_path / str(count), calibration_samples=count).run(Settings()) for count in (2, 3)]
    data, floats, models = ([run[item] for run in runs] for item in (DATA_DIGESTS, FLOAT_DIGESTS, MODEL_DIGESTS))
    assert floats[0] == floats[1]
    assert {name for name in data[0] if data[0][name] != data[1][name]} == {Artefact.CALIBRATION_IMAGES.value}
    assert models[0][Artefact.PLACED.value] == models[1][Artefact.PLACED.value]
    assert {len(digest) for found in (*data, *floats, *models) for digest in found.values()} == {DIGITS}
    names = [*data[0], *floats[0], *models[0]]
    assert set(names) == {name.value for name in Artefact} - {Artefact.FOOTPRINT.value, Artefact.OUTPUTS.value}


@pytest.mark.parametrize(("first", "second"), [([1, 2], [1, 3]), (["a", "b"], ["ab", ""])])
def test_targets_of_any_kind_count(first: list[Any], second: list[Any]) -> None:
    arrays = [np.array(part) if isinstance(part[0], int) else part for part in (first, second)]
    assert _of_targets(arrays[0]) == _of_targets(arrays[0])
    assert _of_targets(arrays[0]) != _of_targets(arrays[1])


def test_boxes_count() -> None:
    def scene(left: float) -> SceneTarget:
        box = np.array([[left, 0, 4, 4]], np.float32)
        return SceneTarget(box, np.array([1]), np.zeros((4, 4), np.uint8))

    assert _of_targets([scene(0)]) == _of_targets([scene(0)])
    assert _of_targets([scene(0)]) != _of_targets([scene(1)])
