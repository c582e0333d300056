"""Information that tells a normalisation without labels: ``python -m benchmarks.normalisation_information NET.onnx``.

Per normalisation: nats that the answers for images and for their mirror images share, and that as a share of what the
number of images or classes could hold. ``--random`` replaces all weights by random ones of the same standard deviation.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import numpy_helper

from harness.datasets import Colour
from harness.datasets.own_images import OwnImages, OwnImagesOptions
from harness.onboarding.guesses import normalisations
from harness.onboarding.judging import LEAST_SHARE, by_mirror, information_floor
from harness.onboarding.network_file import Runner, read_network
from harness.terms import Fit


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="float ONNX model of a classifier")
    parser.add_argument("--images", type=Path, required=True, help="folder of images")
    parser.add_argument("--count", type=int, default=32, help="images, drawn with seed 0")
    parser.add_argument("--fit", type=Fit, default=Fit.CROP, choices=list(Fit))
    parser.add_argument("--size", type=int, nargs=2, help="height and width, where the file leaves them open")
    parser.add_argument("--random", type=int, metavar="SEED", help="replace the weights by random ones")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        path = options.model
        if options.random is not None:
            path = Path(folder) / "random.onnx"
            _with_random_weights(options.model, path, options.random)
        network = read_network(path, tuple(options.size) if options.size else None)
        runner = Runner(path, network.input_name)
    data = OwnImagesOptions(
        folder=options.images.resolve(),
        height=network.size[0],
        width=network.size[1],
        colour=Colour.GRAY if network.channels == 1 else Colour.RGB,
        fit=options.fit,
        calibration=options.count,
        evaluation=1,
    )
    images = OwnImages(data).split("calibration").images()
    classes = network.outputs[0].shape[-1]
    most = information_floor(len(images), classes) / LEAST_SHARE
    print(f"{options.model.name}, {len(images)} images, {classes} classes: at most {most:.3f} nats")
    rows = []
    for guess in normalisations(network.channels):
        plain, mirror = (runner(guess.apply(shown, network.layout)) for shown in (images, images[:, :, ::-1]))
        value, _, _ = by_mirror(plain, mirror, len(images))
        rows.append((value, str(guess)))
    for value, name in sorted(rows, reverse=True):
        print(f"{value:8.4f} {value / most:6.3f}  {name}")


def _with_random_weights(source: Path, target: Path, seed: int) -> None:
    """Save ``source`` with every weight of two dimensions or more drawn anew, normal, of its own deviation."""
    model, random = onnx.load(source), np.random.default_rng(seed)
    for tensor in model.graph.initializer:
        weight = numpy_helper.to_array(tensor)
        if weight.ndim > 1 and weight.dtype == np.float32:
            drawn = random.normal(0, max(float(weight.std()), 1e-6), weight.shape).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(drawn, tensor.name))
    onnx.save(model, target)


if __name__ == "__main__":
    main()
