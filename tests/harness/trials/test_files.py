"""Files of a trial for people."""

from __future__ import annotations

import numpy as np

from harness.trials.files import classes_table, confusion, environment_text, trial_files
from harness.zoo.cards import load_card
from tests.harness import fakes

PREDICTIONS = {
    "per_sample": np.array([1.0, 0, 1, 0, *[1] * 20]),
    "per_sample_cosine": np.array([0.9, 0.8, 0.5, 0.7, *[0.99] * 20]),
    "targets": np.array([0, 1, 2, 1, *[0] * 20]),
    "classes": np.array([0, 0, 2, 2, *[0] * 20]),
    "float_classes": np.array([0, 1, 2, 2, *[0] * 20]),
    "by_class": np.array([1.0, 0.0, np.nan]),
    "float_by_class": np.array([1.0, 0.5, np.nan]),
}


def test_tables_by_hand() -> None:
    rows = confusion(PREDICTIONS["targets"], PREDICTIONS["classes"]).splitlines()
    assert rows[1:] == ["0,21,0,0", "1,1,0,1", "2,0,0,1"]
    assert classes_table(PREDICTIONS["by_class"], PREDICTIONS["float_by_class"]).splitlines() == [
        "class,quantised,float,difference",
        "0,1,1,0",
        "1,0,0.5,-0.5",
        "2,,,",
    ]


def test_a_trial_leaves_what_is_needed_to_judge_and_to_repeat_it() -> None:
    card = load_card("mnist_lenet")
    files = trial_files(
        card, fakes.spec("mnist_lenet"), (), PREDICTIONS, lambda index: np.full((28, 28, 1), index, np.uint8)
    )
    assert set(files) == {"config.yaml", "card.yaml", "environment.txt", "confusion.csv", "classes.csv", "worst.png"}
    assert b"calibration_type: max" in files["config.yaml"]
    without = trial_files(card, fakes.spec("mnist_lenet"), (), PREDICTIONS, lambda index: None)
    assert set(files) - set(without) == {"worst.png"}
    text = environment_text("bayes")
    assert text.startswith("march bayes\npython ")
    assert "\nnumpy==" in text
