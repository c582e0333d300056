"""Model cards: typed, strict, and true of the files and data that they describe."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml

from engine.config import InputParameters
from engine.errors import CalibrationDataError, ConfigError, MissingError, ModelError
from engine.terms import InputType, Layout
from harness.files import paths
from harness.files.strict_yaml import parse
from harness.zoo.cards import ModelCard, evaluation_images, list_cards, load_card
from tests.card_images import fed, trained

BUNDLED = [card for card in list_cards() if card.source.bundled]


def content(name: str = "mnist_lenet", **changes: Any) -> dict[str, Any]:
    """A bundled card as YAML gives it, with other values for single keys (dotted)."""
    plain: dict[str, Any] = yaml.safe_load((paths.bundled("suites") / "zoo" / f"{name}.yaml").read_text())
    for dotted, value in changes.items():
        *owners, key = dotted.split("__")
        target = plain
        for owner in owners:
            target = target[owner]
        target[key] = value
    return plain


def test_zoo_is_complete_and_small() -> None:
    names = {card.name for card in BUNDLED}
    assert names >= {"mnist_lenet", "mnist_resnet8", "mnist_mobilenet", "scene_yolo", "scene_unet"}
    files = list((paths.bundled("suites") / "zoo").glob("*.onnx"))
    assert {file.stem for file in files} == names
    assert sum(file.stat().st_size for file in files) < 3_000_000


def test_selection_by_glob() -> None:
    assert [card.name for card in list_cards("mnist_*")] == ["mnist_lenet", "mnist_mobilenet", "mnist_resnet8"]
    assert list_cards("nothing*") == []


@pytest.mark.parametrize("card", BUNDLED, ids=lambda card: card.name)
class TestBundled:
    def test_file_is_a_static_model_of_the_opsets_we_read(self, card: ModelCard) -> None:
        model = onnx.load(card.model_path())
        onnx.checker.check_model(model, full_check=True)
        assert 10 <= model.opset_import[0].version <= 19
        (image,) = model.graph.input
        assert image.name == card.input_specs[0].name
        assert tuple(dim.dim_value for dim in image.type.tensor_type.shape.dim) == card.input_specs[0].shape
        assert all(node.name for node in model.graph.node)

    def test_data_fit_the_input(self, card: ModelCard) -> None:
        dataset = card.open_dataset()
        batch = fed(card, dataset.split(card.dataset.calibration.split).images(0, 2))
        assert batch.dtype == np.float32
        assert (1, *batch.shape[1:]) == card.input_specs[0].shape

    def test_converter_yaml_reads_back(self, card: ModelCard) -> None:
        assert parse(card.converter_yaml(), InputParameters, card.name) == card.input_parameters

    def test_metric_tag_and_evaluation_images(self, card: ModelCard) -> None:
        assert card.open_metric().higher_is_better
        assert "bundled" in card.tags
        splits = [use.split for use in (card.dataset.train, card.dataset.calibration, card.dataset.evaluation) if use]
        assert len(set(splits)) == len(splits) == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metrc": {}}, "unknown key 'metrc'; did you mean 'metric'"),
        ({"input_parameters__norm_typ": "x"}, "unknown key 'input_parameters.norm_typ'; did you mean 'norm_type'"),
        ({"input_parameters__norm_type": "mean"}, "input_parameters.norm_type"),
        ({"input_parameters__input_type_train": "yuv444"}, "input_parameters"),
        ({"input_parameters__input_shape": "1x784"}, "four dimensions"),
        ({"input_parameters__input_shape": "2x1x28x28"}, "must begin with 1"),
        ({"input_parameters__input_shape": None}, "input_shape"),
        ({"source": {"bundled": "a.onnx", "file": "b.onnx"}}, "exactly one of bundled, file"),
        ({"source": {}}, "exactly one of bundled, file"),
        ({"source": {"bundled": "../a.onnx"}}, "relative to the folder"),
        ({"source": {"file": "/etc/passwd"}}, "relative to the folder"),
        ({"digest": "abc"}, "digest"),
        ({"dataset__evaluation": {"split": "calibration", "count": 5}}, "must not be used for anything else"),
        ({"dataset__evaluation": {"split": "train", "count": 5}}, "must not be used for anything else"),
        ({"float_score": {"value": 98.7, "stderr": 0}}, "float_score.value: 98.7"),
        ({"task": "regression"}, "task: 'regression'"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        parse(content(**changes), ModelCard, "card.yaml")
    assert str(raised.value).startswith("card.yaml: ")


def test_unknown_card() -> None:
    with pytest.raises(ConfigError, match="unknown model 'mnist_lenett'; did you mean 'mnist_lenet'"):
        load_card("mnist_lenett")


def changed(name: str = "mnist_lenet", **changes: Any) -> ModelCard:
    return parse(content(name, **changes), ModelCard, name)


def test_a_changed_model_file_is_refused() -> None:
    with pytest.raises(ModelError, match="has SHA-256"):
        changed(digest="0" * 64).model_path()


def test_files_outside_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTQLAB_MODELS", str(tmp_path))
    (tmp_path / "sub").mkdir()
    card = changed(source={"file": "sub/x.onnx"}, digest=hashlib.sha256(b"content").hexdigest())
    with pytest.raises(MissingError, match="PTQLAB_MODELS"):
        card.model_path()
    (tmp_path / "sub" / "x.onnx").write_bytes(b"content")
    assert card.model_path() == tmp_path / "sub" / "x.onnx"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_parameters__input_shape": "1x1x32x32"}, r"gray images of \(28, 28, 1\)"),
        ({"input_parameters__input_type_train": "rgb", "input_parameters__input_type_rt": "rgb"}, "gray images"),
        ({"dataset__calibration": {"split": "calibration", "count": 301}}, "has 300"),
        ({"dataset__calibration": {"split": "calib", "count": 3}}, "did you mean 'calibration'"),
    ],
)
def test_data_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        changed(**changes).open_dataset()


def test_absent_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTQLAB_DATA", str(tmp_path))
    with pytest.raises(CalibrationDataError, match="PTQLAB_DATA"):
        load_card("efficientnet_lite0").open_dataset()


def test_dataset_options_of_a_card_apply() -> None:
    card = changed(dataset__options={"calibration": 40, "train": 340}, dataset__train__count=3400)
    assert len(card.open_dataset().split("calibration")) == 400


@pytest.mark.parametrize("count", [0, 1201])
def test_evaluation_images_are_limited_to_the_cards(count: int) -> None:
    with pytest.raises(ConfigError, match=r"expected 1\.\.1200"):
        evaluation_images(load_card("mnist_lenet"), count)


class TestInputs:
    IMAGES = np.arange(2 * 2 * 2 * 3, dtype=np.uint8).reshape(2, 2, 2, 3)

    def card(self, **parameters: str) -> ModelCard:
        wanted = {
            "input_name": "x",
            "input_type_train": "rgb",
            "input_layout_train": "NCHW",
            "input_shape": "1x3x2x2",
            "input_type_rt": "nv12",
            **parameters,
        }
        return changed("mnist_lenet", input_parameters=wanted)

    def test_colour_order_and_layout(self) -> None:
        np.testing.assert_array_equal(trained(self.card(), self.IMAGES), self.IMAGES.transpose(0, 3, 1, 2))
        bgr = self.card(input_type_train="bgr", input_layout_train="NHWC", input_shape="1x2x2x3")
        np.testing.assert_array_equal(trained(bgr, self.IMAGES), self.IMAGES[..., ::-1])
        assert np.shares_memory(trained(bgr, self.IMAGES), self.IMAGES), "a view"
        assert fed(bgr, self.IMAGES).flags.c_contiguous

    def test_normalisation_per_channel(self) -> None:
        card = self.card(norm_type="data_mean_and_scale", mean_value="1 2 3", scale_value="0.5 0.25 2")
        expected = (self.IMAGES.astype(np.float32) - [1, 2, 3]) * [0.5, 0.25, 2]
        np.testing.assert_array_equal(fed(card, self.IMAGES), expected.transpose(0, 3, 1, 2))

    def test_values_that_the_norm_type_leaves_out_do_not_apply(self) -> None:
        card = self.card(norm_type="data_scale", mean_value="7", scale_value="0.5")
        np.testing.assert_array_equal(fed(card, self.IMAGES).max(), 23 / 2)
        np.testing.assert_array_equal(fed(self.card(), self.IMAGES).max(), 23)

    def test_input_spec(self) -> None:
        spec = self.card(norm_type="data_scale", scale_value="0.5", input_layout_rt="NHWC").input_specs[0]
        assert (spec.type_train, spec.type_rt, spec.layout_rt) == (InputType.RGB, InputType.NV12, None)
        assert (spec.shape, spec.mean, spec.scale) == ((1, 3, 2, 2), (), (0.5,))
        rgb = self.card(input_type_rt="bgr", input_layout_rt="NHWC").input_specs[0]
        assert (rgb.type_rt, rgb.layout_rt) == (InputType.BGR, Layout.NHWC)
