"""A metric and a data set of one's own, as a model card names them.

metric: {name: "own_metric_and_data:confidence"}
# in the card of the data set:
adapter: "own_metric_and_data:Gradients"
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from harness import Dataset, Split, open_metric
from harness.datasets.base import ArraySplit, Colour, ImageFormat
from harness.files.strict_yaml import StrictModel


def confidence(outputs: Sequence[NDArray[np.float32]], targets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Probability of the right class, 0..1, per image. Paired tests compare these scores."""
    logits = outputs[0].reshape(len(outputs[0]), -1).astype(np.float64)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares[np.arange(len(shares)), targets] / shares.sum(axis=1)


class Options(StrictModel):
    """Options of the adapter, checked when a card is read.

    Attributes:
        seed: of the drawn images.
    """

    seed: int = 0


class Gradients(Dataset):
    """Gray images of 8x8 that grow brighter to the right (class 0) or to the left (class 1)."""

    Options = Options
    version = 1

    def __init__(self, options: Options) -> None:
        random = np.random.default_rng(options.seed)
        self.image_format = ImageFormat(height=8, width=8, colour=Colour.GRAY)
        self._splits = {name: self._draw(name, random) for name in ("calibration", "evaluation")}
        self.digest = self._digest(options, {})

    @staticmethod
    def _draw(name: str, random: np.random.Generator) -> ArraySplit:
        classes = np.arange(20, dtype=np.int64) % 2
        ramp = np.linspace(0, 200, 8)
        rows = np.where(classes[:, None, None, None] == 0, ramp[:, None], ramp[::-1, None])
        pixels = rows + random.uniform(0, 55, (20, 8, 8, 1))
        return ArraySplit(name, pixels.astype(np.uint8), classes)

    @property
    def splits(self) -> Mapping[str, Split]:
        """The splits, by name."""
        return MappingProxyType(self._splits)


def main() -> float:
    """Score an obvious classifier: the brightness of both halves."""
    split = Gradients(Options()).split("evaluation")
    images = split.images(0).astype(np.float32)
    halves = np.stack([images[:, :, 4:].mean(axis=(1, 2, 3)), images[:, :, :4].mean(axis=(1, 2, 3))], axis=1)
    score = open_metric(f"{__name__ if __name__ != '__main__' else 'own_metric_and_data'}:confidence").score(
        [halves / 50], split.targets(0)
    )
    print(f"mean confidence {score.value:.3f}, standard error {score.stderr:.3f}")
    return score.value


if __name__ == "__main__":
    main()
