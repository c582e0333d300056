"""Images with another result than in the baseline."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness.gates.baseline import BaselineTrial, Scores
from harness.gates.flips import KEPT, flips_of
from harness.gates.made import Answers, made_of
from harness.trials.trial import Outcome, TrialStore
from tests.harness import fakes


def accepted(tmp_path: Path, correct: int = 40) -> BaselineTrial:
    store, spec = TrialStore(tmp_path), fakes.spec()
    arrays = {"per_sample": fakes.hits(correct), "classes": np.arange(40) % 4}
    store.put(Outcome(fakes.result(spec), (), arrays))
    made = made_of(fakes.result(spec), store)
    return BaselineTrial(data=spec.data, scores=Scores.of(arrays["per_sample"]), made=made)


def test_flips_have_both_answers_and_classes_their_change(tmp_path: Path) -> None:
    scores, classes = fakes.hits(40), np.arange(40) % 4
    scores[[1, 5]] = 0
    classes[[1, 5]] = 3
    now = {"per_sample": scores, "classes": classes}
    found = flips_of(fakes.result(fakes.spec()), accepted(tmp_path), now, np.arange(40) % 4)
    assert found is not None
    assert (found.worse, found.better) == (2, 0)
    assert [str(flip) for flip in found.images] == ["image 1 (label 1): 1 → 3", "image 5 (label 1): 1 → 3"]
    (delta,) = found.classes
    assert (delta.label, delta.count, delta.before, delta.now) == (1, 10, 1.0, 0.8)


def test_without_classes_the_score_is_shown_and_few_are_kept(tmp_path: Path) -> None:
    now = {"per_sample": np.zeros(40)}
    found = flips_of(fakes.result(fakes.spec()), accepted(tmp_path), now, None)
    assert found is not None
    assert found.worse == 40
    assert len(found.images) == KEPT
    assert str(found.images[0]) == "image 0: score 1.000 → 0.000"
    assert found.classes == ()


def test_files_are_named_below_the_folder_that_all_lie_in(tmp_path: Path) -> None:
    files = [Path(f"/data/{index % 2}/{index}.png") for index in range(40)]
    found = flips_of(fakes.result(fakes.spec()), accepted(tmp_path), {"per_sample": fakes.hits(39)}, None, files)
    assert found is not None
    assert (found.folder, [str(flip) for flip in found.images]) == ("/data", ["1/39.png: score 1.000 → 0.000"])


def test_other_images_are_not_compared(tmp_path: Path) -> None:
    before, now = accepted(tmp_path), {"per_sample": fakes.hits(3)}
    assert flips_of(fakes.result(fakes.spec(data="other")), before, now, None) is None
    assert flips_of(fakes.result(fakes.spec()), before, {"per_sample": fakes.hits(3, 7)}, None) is None
    assert flips_of(fakes.result(fakes.spec()), before, {}, None) is None
    assert flips_of(fakes.result(fakes.spec()), before, {**now, "resampled": np.zeros(9)}, None) is None


def test_answers_of_another_count_are_left_out(tmp_path: Path) -> None:
    before = accepted(tmp_path)
    assert before.made is not None
    made = before.made.model_copy(update={"answers": Answers.of(np.arange(3))})
    now = {"per_sample": fakes.hits(39), "classes": np.zeros(40, np.int64)}
    found = flips_of(fakes.result(fakes.spec()), before.model_copy(update={"made": made}), now, None)
    assert found is not None
    assert [flip.before for flip in found.images] == [None]
