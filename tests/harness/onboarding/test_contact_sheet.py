"""The page with what the network sees."""

from __future__ import annotations

from pathlib import Path

from harness.onboarding.contact_sheet import contact_sheet
from harness.onboarding.proposal import propose
from tests.harness.onboarding.networks import colour_classifier, colour_images


def test_every_guess_has_a_row_with_the_same_images(tmp_path: Path) -> None:
    proposal = propose(colour_classifier(tmp_path / "net.onnx"), colour_images(tmp_path / "images"))
    page = contact_sheet(proposal)
    assert page.count("<section") == len(proposal.decision.ranking) == 12
    assert page.count('<section class="chosen"') == 1
    assert page.count("data:image/png;base64,") == 12 * len(proposal.shown)
    assert f"<strong>{proposal.decision.best}</strong>" in page
    assert "://" not in page
