"""The files of a proposal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml

from engine.chips import March
from engine.errors import CalibrationDataError, ConfigError, ModelError
from harness.files.paths import find_beside
from harness.onboarding.image_cards import PICTURE, image_contents
from harness.onboarding.own_cards import check_free, copy_network, made_before, write_cards
from harness.onboarding.proposal import propose
from harness.suites.suite import open_suite
from harness.zoo.cards import load_card
from harness.zoo.float_baseline import float_score
from tests.card_images import fed as float_input
from tests.harness.onboarding.networks import colour_classifier, colour_images


def test_what_is_written_is_a_suite_that_gives_the_same_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("PTQLAB_SUITES", "PTQLAB_DATASETS"):
        monkeypatch.setenv(variable, "")
    proposal = propose(colour_classifier(tmp_path / "net.onnx"), colour_images(tmp_path / "images"))
    suite = write_cards(image_contents(proposal), tmp_path / "own", March("bayes-e"))
    find_beside(suite)
    assert open_suite(str(suite)).models == ("net",)
    card = load_card("net")
    assert float_score(card).value == card.float_score.value == proposal.score.value
    images = np.random.default_rng(0).integers(0, 256, (2, 16, 16, 3)).astype(np.uint8)
    fed = proposal.decision.best.apply(images, proposal.network.layout)
    np.testing.assert_allclose(float_input(card, images), fed, rtol=1e-5)
    text = (tmp_path / "own/zoo/net.yaml").read_text()
    assert "# Normalisation rgb" in text
    assert yaml.safe_load(text)["metric"] == {"name": "top1"}
    assert sorted(path.name for path in (tmp_path / "own").iterdir()) == [
        "datasets",
        "net.yaml",
        PICTURE,
        "zoo",
    ]


def test_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    check_free(tmp_path / "new")
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(ConfigError, match="is not empty"):
            check_free(path)


def test_weights_outside_the_file_are_put_in(tmp_path: Path) -> None:
    source = colour_classifier(tmp_path / "net.onnx")
    copy_network(source, tmp_path / "same.onnx")
    assert (tmp_path / "same.onnx").read_bytes() == source.read_bytes()
    model = onnx.load(source)
    onnx.save(model, source, save_as_external_data=True, location="weights.bin", size_threshold=0)
    copy_network(source, tmp_path / "whole.onnx")
    whole = onnx.load(tmp_path / "whole.onnx", load_external_data=False)
    assert not any(entry.external_data for entry in whole.graph.initializer)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ModelError, match="cannot be put into one file"):
        copy_network(source, tmp_path / "again.onnx")


def test_a_folder_for_exactly_these_files(tmp_path: Path) -> None:
    model, images = colour_classifier(tmp_path / "net.onnx"), colour_images(tmp_path / "images", each=1)
    (tmp_path / "labels.csv").write_text("0/0.png 0\n")
    first = made_before(tmp_path, model, images, None, "")
    assert first == made_before(tmp_path, model, images, None, "")
    others = {
        made_before(tmp_path, model, images, None, "none"),
        made_before(tmp_path, model, images, tmp_path / "labels.csv", ""),
        made_before(tmp_path, colour_classifier(model, (2, 1, 0)), images, None, ""),
    }
    assert len({first, *others}) == 4
    array = tmp_path / "arrays/0.npy"
    colour_images(array.parent / "masks", each=1)
    named = []
    for content in (b"", b"1"):
        array.write_bytes(content)
        named.append(made_before(tmp_path, model, array.parent, array.parent / "masks", ""))
    assert named[0] != named[1]


def test_cards_and_images_can_be_moved_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are relative to the card, also to labels elsewhere; the data keep their digest."""
    for variable in ("PTQLAB_SUITES", "PTQLAB_DATASETS", "PTQLAB_DATA"):
        monkeypatch.setenv(variable, "")
    here = tmp_path / "here"
    images = colour_images(here / "images")
    table = here / "classes.csv"
    table.write_text("".join(f"{path.relative_to(images)},{path.parent.name}\n" for path in images.rglob("*.png")))
    proposal = propose(colour_classifier(tmp_path / "net.onnx"), images, table)
    write_cards(image_contents(proposal), here / "own", March("bayes-e"))
    card = yaml.safe_load((here / "own/datasets/net_images.yaml").read_text())
    assert (card["options"]["folder"], card["options"]["labels"]) == ("../../images", "../classes.csv")
    assert card["source"] == "../../images"
    assert str(tmp_path) not in "".join(path.read_text() for path in (here / "own").rglob("*.yaml"))
    here.rename(tmp_path / "there")
    find_beside(tmp_path / "there/own/net.yaml")
    assert load_card("net").open_dataset().digest == card["digest"]
    (tmp_path / "there/images").rename(tmp_path / "there/away")
    with pytest.raises(CalibrationDataError, match=rf"no folder {tmp_path}/there/images"):
        load_card("net").open_dataset()


def test_the_quick_sweep_does_not_depend_on_time(tmp_path: Path) -> None:
    contents = image_contents(propose(colour_classifier(tmp_path / "net.onnx"), colour_images(tmp_path / "images", 60)))
    suite = yaml.safe_load(write_cards(contents, tmp_path / "own", March("bayes-e")).read_text())
    assert (suite["calibration_samples"], suite["evaluation_samples"]) == (45, 100)
