"""Engines beside the bundled one: what they are asked for, and what becomes of their failures."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import yaml
from onnxruntime.quantization import CalibrationMethod, QuantType

from engine.errors import ConfigError, MissingError, ModelError
from harness.backends import foreign
from harness.backends.foreign import (
    HB_MAPPER,
    convert_with_hb_mapper,
    float_runner,
    hb_mapper_command,
    hb_mapper_tool,
    quantize_with_onnxruntime,
)
from harness.suites.settings import Engine, Settings
from harness.zoo.cards import load_card
from tests.card_images import fed
from tests.harness import fakes

CARD = load_card("mnist_lenet")
IMAGES = np.arange(3 * 28 * 28, dtype=np.uint8).reshape(3, 28, 28, 1)
SAMPLES = {"image": IMAGES}


def asked(monkeypatch: pytest.MonkeyPatch, folder: Path, **settings: Any) -> dict[str, Any]:
    """What ONNX Runtime is asked for with these settings."""
    found: dict[str, Any] = {}

    def quantize(model: str, target: str, reader: Any, **options: Any) -> None:
        found.update(options, model=model, feeds=list(iter(reader.get_next, None)))
        assert Path(target).parent.is_dir()

    monkeypatch.setattr("onnxruntime.quantization.quantize_static", quantize)
    target = folder / "new" / "quantized.onnx"
    assert quantize_with_onnxruntime(CARD, Settings(engine=Engine.ONNXRUNTIME, **settings), SAMPLES, target) == target
    return found


class TestOnnxRuntime:
    def test_max_is_min_max_of_signed_bytes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        found = asked(monkeypatch, tmp_path)
        assert found["calibrate_method"] is CalibrationMethod.MinMax
        assert (found["activation_type"], found["weight_type"]) == (QuantType.QInt8, QuantType.QInt8)
        assert found["per_channel"] is False
        assert found["extra_options"] == {"ActivationSymmetric": True, "WeightSymmetric": True}
        assert found["model"] == str(CARD.model_path())

    def test_images_are_fed_one_at_a_time_as_the_float_model_takes_them(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        feeds = asked(monkeypatch, tmp_path)["feeds"]
        assert [list(feed) for feed in feeds] == [["image"]] * 3
        np.testing.assert_array_equal(np.concatenate([feed["image"] for feed in feeds]), fed(CARD, IMAGES))

    def test_a_percentile_is_given_in_percent(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        found = asked(monkeypatch, tmp_path, max_percentile=0.995)
        assert found["calibrate_method"] is CalibrationMethod.Percentile
        assert found["extra_options"]["CalibPercentile"] == 99.5

    def test_granularity_zero_points_and_width(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert asked(monkeypatch, tmp_path, per_channel=True)["per_channel"] is True
        shifted = asked(monkeypatch, tmp_path, asymmetric=True)
        assert shifted["activation_type"] is QuantType.QUInt8
        assert shifted["extra_options"]["ActivationSymmetric"] is False
        wide = asked(monkeypatch, tmp_path, int16="all")
        assert (wide["activation_type"], wide["weight_type"]) == (QuantType.QInt16, QuantType.QInt8)

    def test_kl_gives_entropy_s_ranges_of_fine_histograms(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made: dict[str, Any] = {}

        def create(model: Path, **options: Any) -> Any:
            made.update(options, model=model)
            data = SimpleNamespace(data={"a": SimpleNamespace(range_value=(-1.0, 2.0))})
            return SimpleNamespace(
                collect_data=lambda reader: made.update(samples=len(list(iter(reader.get_next, None)))),
                compute_data=lambda: data,
            )

        monkeypatch.setattr("onnxruntime.quantization.create_calibrator", create)
        found = asked(monkeypatch, tmp_path, calibration_type="kl")
        assert found["extra_options"]["TensorQuantOverrides"] == {"a": [{"rmin": -1.0, "rmax": 2.0}]}
        assert made["calibrate_method"] is CalibrationMethod.Entropy
        assert made["extra_options"] == {"num_bins": 1024, "symmetric": False}
        assert made["samples"] == 3

    def test_outputs_of_a_file_are_joined_over_the_images(self, tmp_path: Path) -> None:
        make = onnx.helper
        value = make.make_tensor_value_info
        graph = make.make_graph(
            [make.make_node("Relu", ["image"], ["a"]), make.make_node("Neg", ["image"], ["b"])],
            "g",
            [value("image", 1, [1, 1, 28, 28])],
            [value("a", 1, [1, 1, 28, 28]), value("b", 1, [1, 1, 28, 28])],
        )
        model = make.make_model(graph, opset_imports=[make.make_opsetid("", 13)], ir_version=8)
        onnx.save(model, tmp_path / "m.onnx")
        positive, negative = float_runner(tmp_path / "m.onnx", CARD, 1)(SAMPLES)
        np.testing.assert_array_equal(positive, np.maximum(fed(CARD, IMAGES), 0))
        np.testing.assert_array_equal(negative, -fed(CARD, IMAGES))

    @pytest.mark.parametrize("threads", [0, 3])
    def test_threads_are_those_that_are_asked_for(
        self, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / "m.onnx"
        onnx.save(onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [])), file)

        def session(path: Path, options: onnxruntime.SessionOptions, providers: list[str]) -> Any:
            assert (path, options.intra_op_num_threads) == (file, threads)
            assert providers == ["CPUExecutionProvider"]
            return SimpleNamespace(run=lambda names, feed: [feed["image"]])

        monkeypatch.setattr("onnxruntime.InferenceSession", session)
        assert len(float_runner(file, CARD, threads)(SAMPLES)[0]) == 3


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in that leaves two models, and says what it was asked."""
    script = tmp_path / "bin" / "hb_mapper"
    script.parent.mkdir()
    script.write_text(
        '#!/bin/sh\necho "$@" > asked\nmkdir -p out\ntouch out/b_quantized_model.onnx out/a_quantized_model.onnx\n'
        "echo told\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv(HB_MAPPER, str(script))
    return script


def converted(folder: Path) -> Path:
    return convert_with_hb_mapper(CARD, fakes.spec(CARD.name), ("conv1",), {"image": IMAGES}, folder)


class TestHbMapper:
    def test_the_command_works_in_its_folder_on_a_configuration_and_raw_images(
        self, command: Path, tmp_path: Path
    ) -> None:
        folder = tmp_path / "work"
        assert converted(folder) == folder / "out" / "a_quantized_model.onnx"
        assert (folder / "asked").read_text() == "makertbin --config config.yaml --model-type onnx\n"
        assert (folder / "hb_mapper.log").read_text() == "told\n"
        files = sorted((folder / "calibration").iterdir())
        assert [file.name for file in files] == ["00000.bin", "00001.bin", "00002.bin"]
        assert [file.read_bytes() for file in files] == [image.tobytes() for image in IMAGES]
        written = yaml.safe_load((folder / "config.yaml").read_text())
        assert written["calibration_parameters"]["cal_data_dir"] == str(folder / "calibration")
        assert list(written["model_parameters"]["node_info"]) == ["conv1"]
        assert written["model_parameters"]["onnx_model"] == str(CARD.model_path())

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            (
                "for line in one two three four; do echo $line; done >&2\nexit 3",
                "exit code 3: two | three | four; see",
            ),
            ("echo no model", "exit code 0: no model; see"),
        ],
    )
    def test_a_failure_gives_the_last_lines_of_the_log(
        self, command: Path, tmp_path: Path, body: str, message: str
    ) -> None:
        command.write_text(f"#!/bin/sh\n{body}\n")
        with pytest.raises(ModelError) as raised:
            converted(tmp_path / "work")
        assert str(raised.value) == f"hb_mapper ended with {message} {tmp_path / 'work' / 'hb_mapper.log'}"

    def test_a_command_that_is_not_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(HB_MAPPER, "/no/such/command --flag")
        with pytest.raises(MissingError, match=f"{HB_MAPPER}: /no/such/command --flag: cannot be run: No such file"):
            converted(tmp_path / "work")
        assert hb_mapper_tool() == "/no/such/command --flag: absent (FileNotFoundError)"
        monkeypatch.delenv(HB_MAPPER)
        with pytest.raises(MissingError, match=f"engine hb_mapper: set {HB_MAPPER} to the vendor's command"):
            hb_mapper_command()
        assert hb_mapper_tool() == "absent"

    def test_the_command_is_split_as_a_shell_does(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(HB_MAPPER, "docker run 'my image' hb_mapper")
        assert hb_mapper_command() == ["docker", "run", "my image", "hb_mapper"]

    def test_a_quotation_that_does_not_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(HB_MAPPER, "docker 'run")
        with pytest.raises(ConfigError, match=f"{HB_MAPPER}: docker 'run: No closing quotation"):
            hb_mapper_command()
        assert hb_mapper_tool() == "docker 'run: absent (ValueError)"

    def test_the_version_is_what_it_says_on_both_streams(self, command: Path) -> None:
        command.write_text('#!/bin/sh\n[ "$1" = --version ] && echo 1.2 && echo beta >&2\n')
        foreign._version_of.cache_clear()
        assert hb_mapper_tool() == f"{command}: 1.2\nbeta"
