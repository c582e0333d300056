"""What cards say of a network that sees images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
from onnx import helper

from harness.onboarding.image_cards import PICTURE, image_contents
from harness.onboarding.judging import Basis
from harness.onboarding.proposal import propose
from harness.zoo.cards import TaskKind
from tests.harness.onboarding.networks import colour_classifier, colour_images


def test_the_reason_for_the_normalisation_is_said(tmp_path: Path) -> None:
    model, images = colour_classifier(tmp_path / "net.onnx"), colour_images(tmp_path / "images")
    measured = image_contents(propose(model, images))
    assert f"by the labels; {PICTURE} shows them." in measured.about_input
    assert measured.data_name == "net_images"
    assert measured.data.options["fit"] == "stretch"
    assert (measured.data.calibration, measured.data.evaluation) == (6, 18)
    assert "<html" in measured.page
    assert f"  {propose(model, images).decision.best}: " in measured.about_input
    assumed = image_contents(propose(model, images, task=TaskKind.OTHER))
    assert "not measured" in assumed.about_input


def test_where_images_and_file_disagree_the_card_has_both_rows(tmp_path: Path) -> None:
    proposal = propose(colour_classifier(tmp_path / "net.onnx"), colour_images(tmp_path / "images"))
    ranking = proposal.decision.ranking
    decision = replace(proposal.decision, basis=Basis.MIRROR, usual=ranking[-1].guess, is_agreed=False)
    about = image_contents(replace(proposal, decision=decision)).about_input
    rows = [line.strip() for line in about.splitlines() if line.startswith("  ")]
    assert f"open: the images speak for it, the file for {ranking[-1].guess}" in about
    assert [row for row in rows if row.startswith(f"{decision.best}: ") and row.endswith("images (chosen)")]
    assert rows[-1].startswith(f"{ranking[-1].guess}: ")
    assert rows[-1].endswith("(what the file speaks for)")
    assert len(rows) == 5


def test_classes_are_called_as_the_network_calls_them(tmp_path: Path) -> None:
    """Where labels do not count, what they call their classes is no name of the network's."""
    model, images = colour_classifier(tmp_path / "net.onnx"), colour_images(tmp_path / "images")
    named = onnx.load(model)
    helper.set_model_props(named, {"names": "['red', 'green', 'blue']"})
    onnx.save(named, model)
    assert image_contents(propose(model, images)).data.classes == ("red", "green", "blue")
    for number, name in enumerate(("ant", "bee", "cat")):
        (images / str(number)).rename(images / name)
    assert image_contents(propose(model, images)).data.classes == ("ant", "bee", "cat")
    assert image_contents(propose(model, images, task=TaskKind.OTHER)).data.classes == ("red", "green", "blue")
