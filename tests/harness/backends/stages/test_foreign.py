"""Stages of engines beside the bundled one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from engine.convert.items import QUANTIZED, THREADS
from harness.backends import engines, items
from harness.backends.stages import foreign
from harness.backends.stages.foreign import HB_MAPPER, ONNXRUNTIME
from harness.datasets import Samples
from harness.suites.settings import Engine, Settings
from tests.card_images import trained
from tests.harness import fakes
from tests.harness.backends.stages import work

IMAGES = np.arange(2 * 28 * 28, dtype=np.uint8).reshape(2, 28, 28, 1)


@pytest.mark.parametrize(("threads", "expected"), [(None, 0), (3, 3)])
def test_onnxruntime_runs_what_it_quantised_on_the_evaluation_images(
    threads: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, targets = fakes.spec(work.CARD.name, Settings(engine=Engine.ONNXRUNTIME)), []

    def quantize(card: object, settings: object, samples: Samples, target: Path) -> Path:
        assert (card, settings) == (work.CARD, trial.settings)
        np.testing.assert_array_equal(samples["image"], IMAGES)
        assert target.parent.is_dir()
        targets.append(target)
        return target

    def runner(path: Path, card: object, threads: int) -> Callable[[Samples], list[np.ndarray]]:
        assert (path, card, threads) == (targets[0], work.CARD, expected)
        return lambda samples: [samples["image"].reshape(len(samples["image"]), -1)[:, :2].astype(np.float64)]

    monkeypatch.setattr(engines, "quantize_with_onnxruntime", quantize)
    monkeypatch.setattr(foreign, "float_runner", runner)
    data = work.CARD.open_dataset()
    given: dict[Any, Any] = {
        items.CARD: work.CARD,
        items.TRIAL: trial,
        items.SAMPLES: {"image": IMAGES},
        items.DATASET: data,
        items.EVALUATION_SAMPLES: 5,
        items.FLOAT_OUTPUTS: [np.ones((5, 2))],
        THREADS: threads,
    }
    outputs, meter = work.given_by(ONNXRUNTIME, given)[items.OUTPUTS]
    np.testing.assert_array_equal(outputs[0], data.split("evaluation").images(0, 5).reshape(5, -1)[:, :2])
    assert meter.peak == np.abs(outputs[0] - 1.0).max()
    assert not targets[0].parent.exists()


def test_the_vendor_s_command_works_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "old").write_text("of another trial")
    model = ir.Model(ir.Graph([], [], nodes=[], name="g"), ir_version=8)

    def convert(card: object, spec: object, nodes: tuple[str, ...], inputs: dict[str, np.ndarray], where: Path) -> Path:
        assert (card, spec, nodes, where) == (work.CARD, trial, ("conv",), folder)
        assert not where.exists()
        np.testing.assert_array_equal(inputs["image"], trained(work.CARD, IMAGES))
        return tmp_path / "found.onnx"

    def load(path: Path) -> ir.Model:
        assert path == tmp_path / "found.onnx"
        return model

    monkeypatch.setattr(foreign, "convert_with_hb_mapper", convert)
    monkeypatch.setattr(foreign, "load_model", load)
    trial = fakes.spec(work.CARD.name)
    given: dict[Any, Any] = {
        items.CARD: work.CARD,
        items.TRIAL: trial,
        items.INT16_NODES: ("conv",),
        items.SAMPLES: {"image": IMAGES},
        items.FOLDER: folder,
    }
    assert work.given_by(HB_MAPPER, given)[QUANTIZED] is model
    assert items.TOOL in HB_MAPPER.reads  # another version of the command computes anew
