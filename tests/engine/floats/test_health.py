"""What counts as a broken output of an integer model."""

from __future__ import annotations

import numpy as np
import pytest

from engine.floats.compare import Distance
from engine.floats.health import HealthMeter, IntegerDistance, broken

RNG = np.random.default_rng(0)


def fed(pairs: list[tuple[np.ndarray, np.ndarray]]) -> HealthMeter:
    meter = HealthMeter()
    for actual, expected in pairs:
        meter.add(actual, expected)
    return meter


def test_a_quantised_copy_is_healthy() -> None:
    samples = [RNG.normal(size=(1, 8, 4, 4)) for _ in range(3)]
    meter = fed([(np.rint(sample * 32) / 32, sample) for sample in samples])
    assert meter.sqnr > 30
    assert meter.saturated == 0
    assert meter.dead() == (0.0, "")


def test_a_single_number_is_compared() -> None:
    """The mean over all axes at the end of a network has no dimension."""
    meter = fed([(np.float32(0.5), np.float32(0.25)), (np.float32(1.0), np.float32(1.0))])
    assert meter.distance().chebyshev == 0.25
    assert meter.dead() == (0.0, "")


def test_scores_next_to_boxes_are_named() -> None:
    """Boxes up to 640 and scores below 1 in one int8 output: the cosine is that of the boxes."""
    pairs = []
    for _ in range(2):
        exact = np.concatenate([RNG.uniform(0, 640, (1, 4, 64)), RNG.uniform(0, 0.9, (1, 8, 64))], axis=1)
        pairs.append((np.rint(exact / 5) * 5, exact))
    share, text = fed(pairs).dead()
    assert share == pytest.approx(8 / 12)
    assert text.startswith("8 of 12 slices of axis 1 (4 to 11) are constant (0) in the integer model, and reach 0.")


def test_what_is_constant_in_both_is_not_dead() -> None:
    exact = np.concatenate([RNG.normal(size=(1, 4, 64)), np.full((1, 4, 64), 0.3)], axis=1)
    assert fed([(exact, exact)]).dead() == (0.0, "")


def test_a_vector_of_classes_has_no_slices() -> None:
    exact = RNG.normal(size=(1, 1000)) * 0.01
    assert fed([(np.zeros_like(exact), exact)]).dead() == (0.0, "")


def test_clipped_outputs_are_saturated() -> None:
    exact = RNG.normal(size=(1, 1000))
    assert fed([(np.clip(exact, -0.5, 0.5), exact)]).saturated > 0.5


def test_the_largest_of_few_values_is_not_saturated() -> None:
    """Ten logits with noise of 3 %: the largest of a sample lies beyond it in every second sample."""
    samples = [RNG.normal(size=(1, 10)) for _ in range(20)]
    meter = fed([(sample + RNG.normal(size=sample.shape) * 0.03, sample) for sample in samples])
    assert meter.saturated == 0
    clipped = fed([(np.clip(sample, -1, 1), sample) for sample in samples])
    assert clipped.saturated == pytest.approx(float(np.mean(np.abs(samples) > 1)), abs=0.05)


def test_classes_that_no_sample_shows_are_not_dead() -> None:
    """Scores of a scale of their own: what reaches less than half a step says nothing."""
    exact = np.concatenate([RNG.uniform(0, 1, (1, 4, 64)), RNG.uniform(0, 0.003, (1, 4, 64))], axis=1)
    assert fed([(np.rint(exact * 128) / 128, exact)]).dead() == (0.0, "")


def test_all_figures_of_an_output() -> None:
    exact = np.array([[[3.0, 4.0]]])
    found = fed([(exact, exact), (exact * 0.5, exact)]).distance()
    assert (found.cosine, found.l1, found.chebyshev) == (pytest.approx(1), pytest.approx(0.875), 2)
    assert found.sqnr == pytest.approx(10 * np.log10(50 / 6.25))


def test_nothing_moves_of_equal_outputs() -> None:
    exact = RNG.normal(size=(1, 10))
    assert fed([(exact, exact)]).sqnr == float("inf")


@pytest.mark.parametrize(
    ("figures", "text"),
    [
        ({}, ""),
        ({"cosine": 0.42}, "its cosine to the float model is 0.4200"),
        ({"cosine": float("nan")}, "it, or that of the float model, holds NaN or infinity"),
        ({"sqnr": -6.0}, "its SQNR is -6.0 dB"),
        ({"saturated": 0.3}, "30.0% of its elements lie beyond"),
        ({"dead": 0.5, "lost": "4 of 8 slices"}, "4 of 8 slices"),
    ],
)
def test_floors(figures: dict[str, float], text: str) -> None:
    healthy = {"cosine": 0.999, "l1": 0.0, "l2": 0.0, "chebyshev": 0.1}
    more = {"sqnr": 30.0, "saturated": 0.0, "dead": 0.0, "lost": ""}
    found = "; ".join(broken(IntegerDistance(**{**healthy, **more, **figures})))  # type: ignore[arg-type]
    assert found.startswith(text)
    assert bool(found) == bool(text)
    assert broken(Distance(**healthy)) == ()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("everywhere", [True, False])
def test_values_without_end_are_named_without_a_warning_of_numpy(value: float, everywhere: bool) -> None:
    exact = RNG.normal(size=(1, 4, 32)).astype(np.float32)
    spoiled = np.full_like(exact, value) if everywhere else exact.copy()
    spoiled[0, 1, 2] = value
    for found in (fed([(exact, spoiled), (exact, exact)]), fed([(spoiled, spoiled)])):
        said = broken(found.distance())
        if value == 3e38:
            assert not any("NaN" in text for text in said)
        else:
            assert said == ("it, or that of the float model, holds NaN or infinity",)
