"""Whether a container computes what the quantised model does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from engine.cli.vendor import hb_model_modifier, hb_verifier
from engine.compile import compile_model
from engine.debug.analysis.verify import count_mismatches
from engine.ir import load_model, save_model
from tests.engine.cli.vendor.board import IMAGE, QUANTIZED, run


def test_equal_models_pass(folder: Path) -> None:
    run(hb_verifier.model_app, "-q", str(IMAGE), "-b", "image.bin")
    shown = run(hb_verifier.app, "-m", f"{QUANTIZED},feature.bin", "-s", "True", "-r", "True")
    assert "Strict check PASSED" in shown
    assert shown.count(": PASSED") > 3


def test_a_changed_weight_is_counted(folder: Path) -> None:
    model = load_model(IMAGE)
    value = next(v for v in model.graph.initializers.values() if str(v.name).endswith("_w_quantized"))
    changed = np.asarray(value.const_value).copy()
    changed[..., 0] = -changed[..., 0]
    import onnx_ir as ir

    value.const_value = ir.tensor(changed, name=value.name)
    save_model(model, folder / "changed.onnx")
    shown = run(hb_verifier.model_app, "-q", "changed.onnx", "-b", "image.bin", code=1)
    for text in ("mismatch line num", "mismatch.line_diff num", "total line num", "mismatch rate", "check FAILED"):
        assert text in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-q", str(IMAGE), "-b", "none.bin"], "no such file"),
        (["-q", str(IMAGE), "-b", "image.bin", "-a", "10.0.0.1"], "cannot run boards"),
        (["-q", str(IMAGE), "-b", "image.bin", "-i", "missing.bin"], "no such file"),
        (["-q", str(QUANTIZED), "-b", "image.bin"], "different inputs"),
    ],
)
def test_mistakes(folder: Path, arguments: Sequence[str], message: str) -> None:
    assert message in run(hb_verifier.model_app, *arguments, code=255)


@pytest.mark.parametrize("removed", [["-a", "Dequantize"], ["-a", "Quantize"], ["-a", "Quantize", "-a", "Dequantize"]])
def test_nodes_removed_from_the_ends_change_no_verdict(folder: Path, removed: list[str]) -> None:
    run(hb_model_modifier.app, "feature.bin", *removed)
    assert "Strict check PASSED" in run(hb_verifier.app, "-m", f"{QUANTIZED},feature_modified.bin")


def test_every_tensor_is_saved_on_both_sides(folder: Path) -> None:
    run(hb_verifier.app, "-m", f"{QUANTIZED},feature.bin", "-r", "True")
    sides = [
        {path.name: np.load(path) for path in (folder / "hb_verifier_dump" / side).iterdir()}
        for side in ("quanti", "x86")
    ]
    assert sides[0].keys() == sides[1].keys()
    assert len(sides[0]) > 3
    for name, array in sides[0].items():
        np.testing.assert_array_equal(array, sides[1][name])


def test_an_output_that_one_model_lacks_is_a_mismatch(folder: Path) -> None:
    model = load_model(QUANTIZED)
    name = str(model.graph.outputs[0].name)
    value = model.graph.outputs[0].producer().inputs[0]
    inner = value.producer().inputs[0]
    model.graph.outputs.append(inner)
    save_model(model, folder / "two.onnx")
    compile_model(load_model(folder / "two.onnx"), "bayes-e", None, "two").save("two.bin")
    assert "Strict check PASSED" in run(hb_verifier.app, "-m", "two.onnx,two.bin")
    shown = run(hb_verifier.app, "-m", "two.onnx,feature.bin", code=1)
    assert f"{inner.name}: not the same number of values in both models" in shown
    assert name not in re.findall(r"(\S+): not the same", shown)


def test_counters() -> None:
    first, second = np.array([1.0, 2.0, np.nan, np.nan, np.inf]), np.array([1.000001, 2.1, np.nan, 3.0])
    found = count_mismatches(first, second, 5)
    assert (found.miss, found.diff, found.nan, found.total) == (1, 1, 1, 5)
    assert count_mismatches(first[:1], second[:1], 8).diff == 1
