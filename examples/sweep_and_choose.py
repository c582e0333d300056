"""Sweep two calibration methods over a bundled network, and print what the sweep would choose.

Usage: python examples/sweep_and_choose.py [FOLDER]
"""

import sys
from pathlib import Path
from tempfile import mkdtemp

from harness import Bench, Plan, Suite, Sweep, run_suite


def main(folder: Path) -> Sweep:
    """Run four trials; ``folder`` keeps them, so a second run computes nothing."""
    suite = Suite.model_validate(
        {
            "name": "example",
            "version": 1,
            "models": "mnist_lenet",
            "march": "bayes-e",
            "calibration_samples": 50,
            "evaluation_samples": 200,
            "sweep": {"calibration_type": ["max", "kl"], "int16": ["none", "all"]},
        }
    )
    sweep = run_suite(suite, Plan(Bench(folder)), record=False)
    for result in sweep.results:
        if result.accuracy is None or result.fidelity is None:
            raise SystemExit(f"{result.spec.id}: {result.failure}")
        print(f"{result.spec.id:60s} {result.accuracy.value:.4f}  cosine {result.fidelity.cosine:.6f}")
    names = {result.spec.key: result.spec.id for result in sweep.results}
    for choice in sweep.summary.choices:
        print(f"best: {names[choice.best] if choice.best else 'nothing passes the gates'}")
    return sweep


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else mkdtemp()))
