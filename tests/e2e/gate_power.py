"""What the gate sees and what it overlooks, on real conversions: ``python -m tests.e2e.gate_power``.

*No change*: the same settings calibrated on other images, drawn with 20 seeds, against the baseline of the first draw.
Cosines get tolerances that cover draws. ``kl`` chooses really different thresholds for other images on some networks.
*A planted loss*: predictions of that baseline of which one point, drawn with 20 seeds, was made wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from harness.execution import Plan, run_sweep
from harness.gates import TrialVerdict, Verdict, judge, updated_baseline
from harness.strict_yaml import parse
from harness.suites import Suite
from harness.sweep import plan_trials
from harness.tasks import Bench
from harness.trials import TrialResult

SEEDS = 20
EVALUATION_SAMPLES = 1000
LOSS = 0.01


def make_suite(models: Sequence[str], first_seed: int = 0) -> Suite:
    """``models`` with ``max`` and ``kl``, for one baseline and :data:`SEEDS` other draws of calibration images."""
    content = {
        "name": "gate_power",
        "version": 1,
        "models": list(models),
        "calibration_samples": 100,
        "evaluation_samples": EVALUATION_SAMPLES,
        "sweep": {
            "calibration_type": ["max", "kl"],
            "calibration_seed": list(range(first_seed, first_seed + SEEDS + 1)),
        },
        "gates": {"tolerances": {"cosine": 0.001, "cosine_min": 0.01}},
    }
    return parse(content, Suite, "gate_power")


def run(suite: Suite, bench: Bench) -> list[list[TrialResult]]:
    """Results by configuration; the first of each is the baseline's."""
    results = run_sweep(plan_trials(suite), Plan(bench=bench))
    by_configuration: dict[str, list[TrialResult]] = {}
    for result in sorted(results, key=lambda result: result.spec.settings.calibration_seed or 0):
        by_configuration.setdefault(_unseeded(result).spec.id, []).append(result)
    return list(by_configuration.values())


def judge_draws(draws: Sequence[TrialResult], suite: Suite, bench: Bench) -> list[TrialVerdict]:
    """Verdicts on all draws but the first, as if they were the same trial once more."""
    first, *others = draws
    name = _unseeded(first).spec.id
    accepted = updated_baseline(None, suite, [first], bench.store)
    baseline = accepted.model_copy(update={"trials": {name: accepted.trials[first.spec.id]}})
    return [judge(_unseeded(other), bench.store.predictions(other.spec.key), baseline, suite.gates) for other in others]


def judge_losses(result: TrialResult, suite: Suite, bench: Bench) -> list[TrialVerdict]:
    """Verdicts on ``result`` with :data:`LOSS` of all samples made wrong; which of the right ones, seeds draw."""
    baseline = updated_baseline(None, suite, [result], bench.store)
    predictions = bench.store.predictions(result.spec.key)
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
    parser.add_argument("--first-seed", type=int, default=0, help="of the baseline's draw; the others follow")
    suite = make_suite(["mnist_lenet", "mnist_resnet8", "mnist_mobilenet"], parser.parse_args().first_seed)
    with TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        for draws in run(suite, bench):
            alarms = [verdict for verdict in judge_draws(draws, suite, bench) if verdict.verdict is not Verdict.PASS]
            losses = judge_losses(draws[0], suite, bench)
            caught = sum(verdict.verdict is Verdict.REGRESSION for verdict in losses)
            print(  # noqa: T201
                f"{_unseeded(draws[0]).spec.id}: {len(alarms)} alarms on {len(draws) - 1} unchanged draws, "
                f"{caught} of {len(losses)} planted losses of {LOSS:.0%} caught"
            )
            for alarm in alarms:
                print("  ", [check for check in alarm.checks if check.verdict is not Verdict.PASS])  # noqa: T201


if __name__ == "__main__":
    main()
