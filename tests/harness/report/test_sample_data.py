"""Classes and worst samples on the page of a sweep."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
from PIL import Image

from harness.report.results import Sweep
from harness.report.sample_data import classes_data, worst_pictures
from harness.trials.trial import Outcome, TrialStore
from tests.harness import fakes


def test_classes_that_lost_most_stand_first(tmp_path: Path) -> None:
    store = TrialStore(tmp_path)
    trials = [fakes.result(fakes.spec("mnist_lenet")), fakes.result(fakes.spec("unknown"))]
    classes = {"by_class": np.array([0.5, np.nan, 0.9, 0.7]), "float_by_class": np.array([0.5, 0.2, 0.8, 0.9])}
    store.put(Outcome(trials[0], (), {"per_sample": fakes.hits(1), **classes}))
    store.put(Outcome(trials[1], (), {"per_sample": fakes.hits(1)}))
    (found,) = classes_data(trials, store)
    assert found["classes"] == [["3", 0.9, 0.7], ["0", 0.5, 0.5], ["2", 0.8, 0.9]]
    assert (found["trial"], found["count"]) == (trials[0].spec.id, 3)


def test_pictures_are_those_of_the_best_trials(sweep: Sweep, tmp_path: Path) -> None:
    store = TrialStore(tmp_path / "trials")
    buffer = io.BytesIO()
    Image.new("RGB", (20, 10), "red").save(buffer, "PNG")
    for result in sweep.results:
        store.put(Outcome(result, (), {"per_sample": fakes.hits(1)}, {"worst.png": buffer.getvalue()}))
    found = worst_pictures(sweep, store)
    assert [trial for trial, _ in found] == ["one/bayes-e/kl", "two/bayes-e/max-int16.all"]
    picture = Image.open(io.BytesIO(base64.b64decode(found[0][1].partition(",")[2])))
    assert (picture.format, picture.size) == ("WEBP", (20, 10))
