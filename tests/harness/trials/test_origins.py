"""What a sweep is made of."""

from __future__ import annotations

from pathlib import Path

from harness.backends.pipeline import environment
from harness.suites.settings import Engine, Settings
from harness.trials.origins import Environment, keep_environment, kept_environment, origins_of
from tests.harness import fakes


def test_a_card_is_kept_in_words_and_unknown_models_are_left_out() -> None:
    found = origins_of([fakes.spec("mnist_lenet"), fakes.spec("net")])
    assert list(found) == ["mnist_lenet"]
    origin = found["mnist_lenet"]
    assert origin.file == "file-of-mnist_lenet"
    assert origin.preprocessing["input_type_train"] == "gray"
    assert origin.calibration == "first 300 of split calibration"
    assert origin.data == "mnist"
    assert origin.float_score == 0.9875


def test_an_environment_has_sources_stages_and_tools() -> None:
    found = environment([Settings()], "1")
    assert "engine/ops/core/derive.py" in found.sources
    assert "python" in found.tools
    assert "onnxruntime" in found.tools
    assert list(found.stages).index("optimize") < list(found.stages).index("quantize")
    assert "hb_mapper" not in found.tools
    both = environment([Settings(), Settings(engine=Engine.HB_MAPPER)], "1")
    assert "hb_mapper" in both.tools


def test_an_environment_is_kept_once(tmp_path: Path) -> None:
    assert kept_environment("0", tmp_path) is None
    keep_environment(Environment(version="1"), "0", tmp_path)
    keep_environment(Environment(version="2"), "0", tmp_path)
    found = kept_environment("0", tmp_path)
    assert found is not None
    assert found.version == "1"
    (tmp_path / "environments" / "0.json").write_text("{")
    assert kept_environment("0", tmp_path) is None
