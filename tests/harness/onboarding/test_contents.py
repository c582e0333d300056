"""Names of cards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.onboarding.array_proposal import propose_arrays
from harness.onboarding.contents import CardContents
from tests.harness.onboarding.networks import array_files, sound_classifier


def test_data_are_called_what_the_network_is_fed_with(tmp_path: Path) -> None:
    model = sound_classifier(tmp_path / "net.onnx", [1, 4, 10, 8])
    contents, _ = propose_arrays(model, array_files(tmp_path / "arrays", (4, 10, 8), 4))
    seen: CardContents = replace(contents, page="<html>")
    assert (contents.data_name, seen.data_name) == ("net_arrays", "net_images")
