"""Convert a network and score the integer model: the bundled LeNet on 200 digits.

Usage: python examples/convert_and_run.py [FOLDER]
"""

import sys
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from engine import HB_ONNXRuntime
from engine.config import parse_config
from engine.convert import convert
from harness import open_dataset
from harness.zoo.cards import load_card


def main(folder: Path) -> float:
    """Convert into ``folder``; the share of digits that the integer model reads right."""
    card, digits = load_card("mnist_lenet"), open_dataset("mnist")
    samples = folder / "calibration"
    samples.mkdir(parents=True, exist_ok=True)
    for index, image in enumerate(digits.split("calibration").images(0, 50)):
        (samples / f"{index}.bin").write_bytes(image.tobytes())
    config = parse_config(
        {
            "model_parameters": {
                "onnx_model": str(card.model_path()),
                "march": "bayes-e",
                "working_dir": str(folder / "model"),
                "output_model_file_prefix": "lenet",
                "debug_mode": "dump_calibration_data",
            },
            "input_parameters": card.input_parameters,
            "calibration_parameters": {
                "cal_data_dir": str(samples),
                "cal_data_type": "uint8",
                "calibration_type": "max",
            },
        }
    )
    result = convert(config)
    session = HB_ONNXRuntime(model_file=str(result.files["quantized"]))
    split = digits.split("evaluation")
    images, classes = split.images(0, 200), split.targets(0, 200)
    right = 0
    for image, wanted in zip(images, classes, strict=True):
        scores = session.run(session.output_names, {session.input_names[0]: image[np.newaxis]}, input_offset=128)[0]
        right += int(scores.argmax() == wanted)
    print(f"{right} of {len(images)} right; {result.performance.latency_us / 1000:.3f} ms on bayes-e (estimate)")
    return right / len(images)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else mkdtemp()))
