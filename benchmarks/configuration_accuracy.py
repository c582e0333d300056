"""Accuracy of the measured configurations: ``python -m benchmarks.configuration_accuracy REFERENCE [EVALUATION]``.

EfficientNet-Lite0, calibrated as every configuration of reference/calibration.md says and with its images; the
integer model on
the simulator, on images of ``imagenet_sample`` that calibration never sees (400 unless told). The reference's figures
beside ours are of 200 other images: only their size compares. Models and images are found by ``PTQLAB_MODELS`` and
``PTQLAB_DATA``.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np

from benchmarks.option_gains import Setting, Subject
from engine.calibrate import CalibrationOptions
from harness.zoo.cards import load_card
from tests.parity.efficientnet import options_of

WITHOUT_FILE = {
    "p999": CalibrationOptions(max_percentile=0.999),
    "p99995_pc": CalibrationOptions(max_percentile=0.99995, per_channel=True),
    "kl_pc": CalibrationOptions(calibration_type="kl", per_channel=True),
    "mix_pc": CalibrationOptions(calibration_type="mix", per_channel=True),
    "opt_asym_kl": CalibrationOptions(calibration_type="kl", asymmetric=True),
}
"""Configurations of which no file is given."""


def main(reference: Path, evaluation: int) -> None:
    """Write the table to standard output."""
    files = sorted((reference / "calibration").glob("*.json"))
    options = {file.stem: options_of(json.loads(file.read_text())) for file in files} | WITHOUT_FILE
    settings = [Setting(name, option) for name, option in sorted(options.items())]
    with np.load(next((reference / "calibration").glob("*.npz")), allow_pickle=False) as archive:
        subject = Subject(load_card("efficientnet_lite0"), archive["images"], evaluation, settings)
    theirs = _reference_figures(reference)
    sys.stdout.write(f"float top-1 {subject.float_metric()} on {subject.count} images\n\n")
    sys.stdout.write("| configuration | top-1 | agreement | mean cosine | least cosine | the original's |\n")
    sys.stdout.write("|---|---|---|---|---|---|\n")
    for setting in settings:
        figures = subject.figures(subject.simulated(subject.integers(setting)))
        sys.stdout.write(f"| {' | '.join([setting.name, *figures, theirs.get(setting.name, '')])} |\n")
        sys.stdout.flush()


def _reference_figures(reference: Path) -> dict[str, str]:
    """Top-1, agreement, mean and least cosine by configuration, where reference/calibration.md has them."""
    row = re.compile(r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", re.MULTILINE)
    text = (reference / "reference/calibration.md").read_text(encoding="utf-8")
    return {name: " / ".join(figures) for name, *figures in row.findall(text)}


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 400)
