"""What the gate sees and what it overlooks, on real conversions: ``python -m tests.e2e.gate_power``.

*No change*: the same settings calibrated on other images, drawn with 20 seeds, against a baseline of 10 other draws,
which knows how far figures move between draws. Cosines get tolerances too.
*A planted loss*: predictions of that baseline of which one point, drawn with 20 seeds, was made wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import typer

from harness.execution.coordinator import Plan, run_sweep
from harness.files.strict_yaml import parse
from harness.gates.baseline import Baseline, updated_baseline
from harness.gates.judge import judge
from harness.gates.verdicts import TrialVerdict, Verdict
from harness.suites.suite import Suite
from harness.sweeps.planning import plan_trials
from harness.trials.tasks import Bench
from harness.trials.trial import TrialResult

BASELINE_DRAWS = 10
SEEDS = 20
EVALUATION_SAMPLES = 1000
LOSS = 0.01


def make_suite(models: Sequence[str], first_seed: int = 0) -> Suite:
    """``models`` with ``max`` and ``kl``, each with the draws of a baseline and :data:`SEEDS` others."""
    content = {
        "name": "gate_power",
        "version": 1,
        "models": list(models),
        "calibration_samples": 100,
        "evaluation_samples": EVALUATION_SAMPLES,
        "sweep": {
            "calibration_type": ["max", "kl"],
            "calibration_seed": list(range(first_seed, first_seed + BASELINE_DRAWS + SEEDS)),
        },
        "gates": {"tolerances": {"cosine": 0.001, "cosine_min": 0.01}},
    }
    return parse(content, Suite, "gate_power")


def run(suite: Suite, bench: Bench) -> list[list[TrialResult]]:
    """Results by configuration; the first :data:`BASELINE_DRAWS` of each are the baseline's."""
    results = run_sweep(plan_trials(suite), Plan(bench=bench))
    by_configuration: dict[str, list[TrialResult]] = {}
    for result in sorted(results, key=lambda result: result.spec.settings.calibration_seed or 0):
        by_configuration.setdefault(_unseeded(result).spec.id, []).append(result)
    return list(by_configuration.values())


def make_baseline(draws: Sequence[TrialResult], suite: Suite, bench: Bench) -> Baseline:
    """The first draw with what the first :data:`BASELINE_DRAWS` say of the spread, whatever the seed of a trial."""
    accepted = updated_baseline(None, suite, draws[:BASELINE_DRAWS], bench.store)
    trials = {_unseeded(draws[0]).spec.id: accepted.trials[draws[0].spec.id]}
    return accepted.model_copy(update={"trials": trials})


def judge_draws(draws: Sequence[TrialResult], suite: Suite, bench: Bench) -> list[TrialVerdict]:
    """Verdicts on all draws that are not the baseline's, as if they were the same trial once more."""
    baseline = make_baseline(draws, suite, bench)
    return [
        judge(_unseeded(draw), bench.store.predictions(draw.spec.key), baseline, suite.gates)
        for draw in draws[BASELINE_DRAWS:]
    ]


def judge_losses(draws: Sequence[TrialResult], suite: Suite, bench: Bench) -> list[TrialVerdict]:
    """Verdicts on the first draw with :data:`LOSS` of all samples made wrong; which of the right ones, seeds draw."""
    baseline, result = make_baseline(draws, suite, bench), _unseeded(draws[0])
    predictions = bench.store.predictions(draws[0].spec.key)
    scores = predictions["per_sample"]
    verdicts = []
    for seed in range(SEEDS):
        worse = scores.copy()
        worse[np.random.default_rng(seed).choice(np.flatnonzero(scores), round(LOSS * len(scores)), replace=False)] = 0
        if result.accuracy is None:
            raise ValueError(f"{result.spec.id} failed")
        accuracy = result.accuracy.model_copy(update={"value": float(worse.mean())})
        changed = result.model_copy(update={"accuracy": accuracy})
        verdicts.append(judge(changed, {**predictions, "per_sample": worse}, baseline, suite.gates))
    return verdicts


def _unseeded(result: TrialResult) -> TrialResult:
    settings = result.spec.settings.model_copy(update={"calibration_seed": None})
    return result.model_copy(update={"spec": result.spec.model_copy(update={"settings": settings})})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first-seed", type=int, default=0, help="of the baseline's draws; the others follow")
    suite = make_suite(["mnist_lenet", "mnist_resnet8", "mnist_mobilenet"], parser.parse_args().first_seed)
    with TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        for draws in run(suite, bench):
            alarms = [verdict for verdict in judge_draws(draws, suite, bench) if verdict.verdict is not Verdict.PASS]
            losses = judge_losses(draws, suite, bench)
            caught = sum(verdict.verdict is Verdict.REGRESSION for verdict in losses)
            typer.echo(
                f"{_unseeded(draws[0]).spec.id}: {len(alarms)} alarms on {SEEDS} unchanged draws, "
                f"{caught} of {len(losses)} planted losses of {LOSS:.0%} caught"
            )
            for alarm in alarms:
                typer.echo(f"   {[check for check in alarm.checks if check.verdict is not Verdict.PASS]}")


if __name__ == "__main__":
    main()
