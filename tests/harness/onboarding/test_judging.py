"""Which normalisation is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.terms import InputType, Layout
from harness.datasets.own_images import OwnImages, OwnImagesOptions
from harness.metrics import open_metric
from harness.onboarding.guesses import Normalisation, normalisations
from harness.onboarding.judging import (
    LEAST_SHARE,
    Answer,
    Basis,
    Decision,
    Network,
    by_labels,
    by_mirror,
    contrasted,
    decide,
    information_floor,
    probabilities,
)
from harness.onboarding.network_file import Runner
from tests.harness.onboarding.networks import COLOURS, SIDE, colour_classifier, digit_images, digit_network


def images(count: int = 24) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(count) % 3
    random = np.random.default_rng(0)
    plain = np.array([COLOURS[str(label)] for label in labels])[:, np.newaxis, np.newaxis]
    noisy = plain + random.integers(-30, 31, (count, SIDE, SIDE, 3))
    return np.clip(noisy, 0, 255).astype(np.uint8), labels


def seen_by(network: Callable[[np.ndarray], list[np.ndarray]], layout: Layout = Layout.NCHW) -> Network:
    """``network``, which takes what a network is fed, as :func:`decide` asks it."""

    def begin(guess: Normalisation, images: np.ndarray) -> Answer:
        return lambda: network(guess.apply(images, layout))

    return begin


def test_rgb_is_taken_where_bgr_is_as_good(tmp_path: Path) -> None:
    """A network that tells green from the rest says the same of both orders of colours."""
    runner = Runner(colour_classifier(tmp_path / "net.onnx", (0, 1, 2)), "image")
    pixels, labels = images()
    green = (labels == 1).astype(np.int64)
    judge = by_labels(open_metric("top1"), {0: green})
    tried = sorted(normalisations(3), key=lambda guess: guess.colour is InputType.RGB)
    found = decide(
        seen_by(lambda fed: [np.stack([out[:, [0, 2]].max(axis=1), out[:, 1]], axis=1) for out in runner(fed)]),
        tried, pixels, judge, Basis.LABELS, mirrored=False,
    )  # fmt: skip
    assert (found.best.colour, found.is_tie, found.ranking[0].value) == (InputType.RGB, True, 1.0)
    assert found.words.endswith("(rgb and bgr tie: rgb is taken)")


@pytest.mark.parametrize(("channels", "colour"), [((0, 1, 2), InputType.RGB), ((2, 1, 0), InputType.BGR)])
def test_labels_tell_the_order_of_colours(channels: tuple[int, ...], colour: InputType, tmp_path: Path) -> None:
    runner = Runner(colour_classifier(tmp_path / "net.onnx", channels), "image")
    pixels, labels = images()
    judge = by_labels(open_metric("top1"), {0: labels})
    found = decide(seen_by(runner), normalisations(3), pixels, judge, Basis.LABELS, mirrored=False)
    assert (found.best.colour, found.is_tie) == (colour, False)
    assert {tried.value for tried in found.ranking if tried.guess.colour is colour} == {1.0}
    assert all(tried.value < 0.5 for tried in found.ranking if tried.guess.colour is not colour)


def test_the_number_of_the_first_class_is_tried(tmp_path: Path) -> None:
    runner = Runner(colour_classifier(tmp_path / "net.onnx"), "image")
    pixels, labels = images()
    kept = labels > 0
    judge = by_labels(open_metric("top1"), {0: labels[kept] - 1, 1: labels[kept]})
    found = decide(seen_by(runner), normalisations(3)[:2], pixels[kept], judge, Basis.LABELS, mirrored=False)
    assert (found.first_class, found.ranking[0].value) == (1, 1.0)


def test_mirror_images_tell_the_normalisation_without_labels(tmp_path: Path) -> None:
    """The bundled LeNet was trained on 0..1; nothing but its answers says so."""
    options = {"folder": digit_images(tmp_path / "digits"), "height": 28, "width": 28, "colour": "gray"}
    data = OwnImages(
        OwnImagesOptions.model_validate({**options, "fit": "stretch", "calibration": 60, "evaluation": 20})
    )
    found = decide(
        seen_by(Runner(digit_network(), "image")),
        normalisations(1),
        data.split("calibration").images(),
        by_mirror,
        Basis.MIRROR,
        mirrored=True,
    )
    assert found.best.name == "0..1"


def test_one_answer_for_all_carries_no_information() -> None:
    same = np.tile([[9.0, 0, 0, 0]], (8, 1))
    different = 20 * np.eye(4)[np.arange(8) % 4]
    assert by_mirror([same], [same], 8)[0] == pytest.approx(0, abs=1e-3)
    assert by_mirror([different], [different], 8)[0] == pytest.approx(np.log(4), rel=5e-2)
    assert by_mirror([different], [different[::-1]], 8)[0] == pytest.approx(np.log(4), rel=5e-2)
    wide = np.zeros((8, 1000))
    wide[:, :4] = different
    assert by_mirror([wide], [wide], 8)[0] == pytest.approx(np.log(4), rel=5e-2)


def test_greater_scores_of_the_same_answers_are_no_better() -> None:
    scores = np.random.default_rng(0).normal(size=(16, 10))
    once, hundredfold = (by_mirror([scores * factor], [scores * factor], 16)[0] for factor in (1, 100))
    assert hundredfold == pytest.approx(once, rel=0.05)


def test_probabilities_are_taken_as_they_are() -> None:
    rows = np.array([[0.2, 0.8], [1.0, 0.0]])
    np.testing.assert_array_equal(probabilities(rows), rows)
    np.testing.assert_allclose(contrasted(rows), contrasted(np.log(rows + 1e-30)), rtol=1e-6)
    np.testing.assert_allclose(probabilities(np.array([[0.0, np.log(3)]])), [[0.25, 0.75]])
    assert np.isfinite(probabilities(np.array([[np.nan, np.inf]]))).all()


@pytest.mark.parametrize(
    ("basis", "chance", "words"),
    [
        (Basis.LABELS, 0.001, "sure"),
        (Basis.MIRROR, 0.05, "likely"),
        (Basis.LABELS, 0.5, "open"),
        (Basis.CONVENTION, 1.0, "not measured"),
    ],
)
def test_how_sure_it_is(basis: Basis, chance: float, words: str) -> None:
    assert Decision((), normalisations(3)[0], basis, chance).words == words


def test_the_usual_one_is_chosen_unless_another_is_better_beyond_chance(tmp_path: Path) -> None:
    """The order of colours is not to be seen on what is green."""
    runner = Runner(colour_classifier(tmp_path / "net.onnx", (2, 1, 0)), "image")
    pixels, labels = images()
    guesses = normalisations(3)
    judge = by_labels(open_metric("top1"), {0: labels})
    green = labels == 1
    same = by_labels(open_metric("top1"), {0: labels[green]})
    alike = decide(seen_by(runner), guesses, pixels[green], same, Basis.LABELS, mirrored=False)
    assert (alike.best, alike.words) == (guesses[0], "open (rgb and bgr tie: rgb is taken)")
    told = decide(seen_by(runner), guesses, pixels, judge, Basis.LABELS, mirrored=False)
    assert told.best.colour is InputType.BGR


@pytest.mark.parametrize(("most", "times"), [(1 << 28, 1), (0, 2)])
@pytest.mark.parametrize("mirrored", [False, True])
def test_images_are_answered_once_where_the_answers_can_be_kept(
    most: int, times: int, mirrored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.onboarding.judging._KEPT_BYTES", most)
    runner, asked = Runner(colour_classifier(tmp_path / "net.onnx"), "image"), Counter[bytes]()
    pixels, labels = images()

    def network(fed: np.ndarray) -> list[np.ndarray]:
        asked.update(image.tobytes() for image in fed)
        return runner(fed)

    judge, basis = (
        (by_mirror, Basis.MIRROR) if mirrored else (by_labels(open_metric("top1"), {0: labels}), Basis.LABELS)
    )
    found = decide(seen_by(network), normalisations(3), pixels, judge, basis, mirrored)
    assert (found.best.colour, found.ranking[0].images) == (InputType.RGB, 24)
    assert max(asked.values()) == times
    for tried in found.ranking:
        shown = pixels[: tried.images]
        turned = runner(tried.guess.apply(shown[:, :, ::-1], Layout.NCHW)) if mirrored else []
        whole = judge(runner(tried.guess.apply(shown, Layout.NCHW)), turned, tried.images)
        assert tried.value == whole[0], "the same as of all images at once"


def nearly_one_answer(fed: np.ndarray) -> list[np.ndarray]:
    """Four classes, of which the first is said of everything; a trace of the input's scale is left."""
    trace = fed.mean(axis=(1, 2, 3), keepdims=False)[:, np.newaxis] * np.array([[0, 1e-4, -1e-4, 5e-5]])
    return [np.array([[9.0, 0, 0, 0]]) + trace]


def test_a_lead_without_information_is_not_sure() -> None:
    """A lead of thousandths of a nat was "bgr 0..255: sure" on 8 photographs that all are no tumours."""
    pixels, _ = images(32)
    guesses = sorted(normalisations(3), key=lambda guess: str(guess) != "bgr Caffe mean")
    floor = information_floor(32, 4)
    found = decide(
        seen_by(nearly_one_answer, Layout.NHWC), guesses, pixels, by_mirror, Basis.MIRROR, True, guesses[:1], floor
    )
    assert found.ranking[0].value < floor
    assert str(found.best) == "bgr Caffe mean"
    first = found.ranking[0]
    assert found.words.startswith(f"open: of the images {first.guess} is best, but its {first.value:.3f} tells nothing")
    assert not found.is_informed
    assert (found.mark(found.best), found.mark(found.ranking[1].guess)) == ("chosen", "")


def test_images_that_contradict_the_file_leave_it_open(tmp_path: Path) -> None:
    runner = Runner(colour_classifier(tmp_path / "net.onnx"), "image")
    pixels, labels = images()
    guesses = normalisations(3)
    judge = by_labels(open_metric("top1"), {0: labels})
    assert decide(seen_by(runner), guesses, pixels, judge, Basis.LABELS, False).is_agreed
    other = [guess for guess in guesses if guess.colour is InputType.BGR]
    found = decide(seen_by(runner), [*other, *guesses[:6]], pixels, judge, Basis.MIRROR, False, other)
    assert (found.best.colour, found.is_agreed) == (InputType.RGB, False)
    assert found.words == f"open: the images speak for it, the file for {other[0]}"
    assert found.mark(other[0]) == "what the file speaks for"


def test_the_level_of_information() -> None:
    """A third of what the images, or the classes, could hold."""
    assert information_floor(32, 1000) == pytest.approx(LEAST_SHARE * np.log(32))
    assert information_floor(32, 2) == pytest.approx(LEAST_SHARE * np.log(2))


def test_labels_must_be_sure_to_contradict_a_file_that_leaves_no_doubt() -> None:
    """A YOLO of ultralytics for digits of any colour was "bgr 0..1: likely" on 32 labelled images."""
    pixels, _ = images(8)
    guesses = normalisations(3)[1:3]  # 0..1 and -1..1
    leads = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0])  # p is 1/32: likely, not sure

    def judge(outputs: list[np.ndarray], mirror: list[np.ndarray], count: int) -> tuple[float, np.ndarray, int]:
        scores = leads[:count] * float(outputs[0].min() < 0)
        return float(scores.mean()), scores, 0

    chosen = [
        decide(
            seen_by(lambda fed: [fed], Layout.NHWC), guesses, pixels, judge, Basis.LABELS, False, is_certain=certain
        ).best
        for certain in (False, True)
    ]
    assert [guess == guesses[0] for guess in chosen] == [False, True]
