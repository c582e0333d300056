"""A recorded case converted by us: how it ended, what is left of one that did not end well."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.conformance import conversion
from engine.conformance.cases import find_cases
from engine.conformance.conversion import Ending, attempt, convert_case
from engine.errors import ConfigError
from engine.ir import save_model
from tests.engine.calibrate.models import residual
from tests.golden_cases import BUNDLED

(CASE,) = find_cases(BUNDLED / "cases" / "min_clip_bayes-e_max_rgb")


def test_a_value_or_an_exception_of_any_kind() -> None:
    assert (attempt(lambda: 3).value, attempt(lambda: 3).message) == (3, "")
    found = attempt(lambda: [][0])
    assert (found.value, type(found.error)) == (None, IndexError)
    assert isinstance(attempt(_exit).error, SystemExit)


def _exit() -> None:
    raise SystemExit(3)


def test_an_error_of_ours_is_its_text_in_one_line() -> None:
    assert attempt(lambda: _raise(ConfigError("a\n  b"))).message == "a b"


def test_another_error_has_its_kind_and_place() -> None:
    message = attempt(lambda: _raise(ValueError("a\nb"))).message
    assert message.startswith("ValueError: a b at test_conversion.py:")
    assert message.endswith(" in _raise")


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "outcome"), [(ConfigError("no"), Ending.REFUSED), (ValueError("no"), Ending.CRASHED)]
)
def test_what_was_written_before_the_end_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, outcome: Ending
) -> None:
    def convert(config: object, strict: bool) -> None:
        save_model(residual(), tmp_path / "out" / "net_calibrated_model.onnx")
        raise error

    monkeypatch.setattr(conversion, "convert", convert)
    found = convert_case(CASE, tmp_path)
    assert (found.outcome, found.quantized, dict(found.devices), found.latencies_us) == (outcome, None, {}, ())
    assert found.calibrated is not None
    assert "no" in found.message


def test_a_conversion_gives_models_devices_and_latencies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    done = SimpleNamespace(
        models={"calibrated": "c", "quantized": "q"},
        nodes=[SimpleNamespace(node="a", on="BPU"), SimpleNamespace(node="b", on="CPU")],
        performance=SimpleNamespace(subgraphs=[SimpleNamespace(latency_us=2.5), SimpleNamespace(latency_us=1.0)]),
    )
    monkeypatch.setattr(conversion, "convert", lambda config, strict: asked.append(config) or done)
    found = convert_case(CASE, tmp_path)
    assert (found.outcome, found.message) == (Ending.CONVERTED, "")
    assert (found.calibrated, found.quantized) == ("c", "q")
    assert (found.devices, found.latencies_us) == ({"a": "BPU", "b": "CPU"}, (2.5, 1.0))
    assert asked[0].model_parameters.working_dir == tmp_path / "out"
