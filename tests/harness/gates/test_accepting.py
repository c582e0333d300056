"""What a new baseline accepts."""

from __future__ import annotations

from pathlib import Path

from harness.gates.accepting import Acceptance, acceptance
from harness.gates.baseline import save_baseline, updated_baseline
from harness.gates.judgement import References
from harness.trials.trial import Outcome, TrialResult, TrialStore
from tests.harness import fakes
from tests.harness.finished import predictions, suite, trial

SUITE = suite()


def found(folder: Path, before: TrialResult, now: TrialResult, right: tuple[int, int]) -> Acceptance:
    """What ``now`` as a baseline accepts; ``right``: samples that both get right."""
    old, new = TrialStore(folder / "old"), TrialStore(folder / "new")
    old.put(Outcome(before, (), predictions(right[0])))
    new.put(Outcome(now, (), predictions(right[1])))
    accepted = updated_baseline(None, SUITE, [before], old)
    save_baseline(accepted, folder / "old.json")
    judgement = References(baseline=folder / "old.json").judge(SUITE, [now], new, [now.spec])
    return acceptance(accepted, judgement, [now])


def test_a_loss_beyond_noise_is_told_apart(tmp_path: Path) -> None:
    worse = found(tmp_path, trial(430), trial(390), (430, 390))
    assert worse.changes == ("net/bayes-e/max: accuracy.quantized 0.86 → 0.78",)
    (loss,) = worse.losses
    assert loss.startswith("net/bayes-e/max: accuracy.quantized: 0.7800, baseline 0.86")
    assert "p = " in loss
    assert worse.refusal().splitlines()[0] == "not written, since 1 figures are worse than tolerance and noise explain:"


def test_a_loss_within_noise_and_a_gain_are_changes_only(tmp_path: Path) -> None:
    noise = found(tmp_path / "a", trial(450), trial(449), (450, 449))
    assert (noise.changes, noise.losses) == (("net/bayes-e/max: accuracy.quantized 0.9 → 0.898",), ())
    better = found(tmp_path / "b", trial(390), trial(430), (390, 430))
    assert better.losses == ()
    assert better.lines() == ["net/bayes-e/max: accuracy.quantized 0.78 → 0.86"]


def test_nothing_differs(tmp_path: Path) -> None:
    same = found(tmp_path, trial(450), trial(450), (450, 450))
    assert (same.changes, same.lines()) == ((), ["nothing differs from the baseline before"])


def test_new_trials_and_those_that_are_gone(tmp_path: Path) -> None:
    other = trial(450).model_copy(update={"spec": fakes.spec("other", evaluation_samples=500)})
    changed = found(tmp_path, trial(450), other, (450, 450))
    assert changed.changes == ("other/bayes-e/max: new", "net/bayes-e/max: gone")


def test_many_lines_are_counted() -> None:
    assert Acceptance(changes=tuple(map(str, range(25)))).lines()[-1] == "… and 5 more"
